"""Two-layer nets as weak learners: h = W2 act(W1 x + b1) + b2, learned by SGD or Adam
(specification, 7.3).

The biases are the last rows of the weights they belong to; learners lie along the vector lanes
(docs/adr/0009).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from models.numeric import add, fill, residual, shift, sigmoid
from models.rng import uniforms
from models.types import Mat, Mat3, Param, Part, Vec
from models.verbs import kernel, learning_only, predict, rooms, update

SIGMOID, LEAKY, TANH = 0, 1, 2
ACTIVATIONS = {"sigmoid": SIGMOID, "leaky_relu": LEAKY, "tanh": TANH}
LEAK = 0.01
BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8


class SgdNets(NamedTuple):
    """N nets of H hidden units moved by plain SGD."""

    W1: Mat3  # (H, d+1, N)
    W2: Mat3  # (m, H+1, N)
    lr: float
    activation: int


class AdamNets(NamedTuple):
    """N nets of H hidden units moved by Adam: two moments beside every weight, a step count per
    learner.
    """

    W1: Mat3  # (H, d+1, N)
    W2: Mat3  # (m, H+1, N)
    lr: float
    activation: int
    decayed: Mat  # (2, N) beta1^t and beta2^t
    M1: Mat3  # moments of W1
    V1: Mat3
    M2: Mat3  # moments of W2
    V2: Mat3


@learning_only.register
def _(bank: AdamNets) -> tuple[str, ...]:
    return ("decayed", "M1", "V1", "M2", "V2")


@rooms.register(SgdNets)
@rooms.register(AdamNets)
def _(bank: SgdNets | AdamNets) -> int:
    # hidden units z, their derivatives, a row of slopes, Adam's rates and roots
    return 2 * int(bank.W1.shape[0]) + 3


@kernel
def activate(a: float, activation: int) -> float:
    """Return act(a)."""
    if activation == SIGMOID:
        return sigmoid(a)
    if activation == LEAKY:
        return a if a > 0.0 else LEAK * a
    return math.tanh(a)


@kernel
def derivative(z: float, activation: int) -> float:
    """Return act'(a) from z = act(a); the leaky unit has LEAK at 0."""
    if activation == SIGMOID:
        return z * (1.0 - z)
    if activation == LEAKY:
        return 1.0 if z > 0.0 else LEAK
    return 1.0 - z * z


@kernel
def think(W1: Mat3, W2: Mat3, activation: int, x: Vec, h: Mat, room: Mat) -> None:
    """Fill h (m, N) and the hidden units in the first H rows of room."""
    H, rows, N = W1.shape
    for k in range(H):
        fill(room[k], 0.0)
        for j in range(rows - 1):
            if x[j] != 0.0:
                add(room[k], W1[k, j], x[j])
        for i in range(N):
            room[k, i] = activate(room[k, i] + W1[k, rows - 1, i], activation)
    for c in range(W2.shape[0]):
        fill(h[c], 0.0)
        for k in range(H):
            for i in range(N):
                h[c, i] += W2[c, k, i] * room[k, i]
        add(h[c], W2[c, H], 1.0)


@kernel
def backward(W2: Mat3, activation: int, e: Mat, room: Mat) -> None:
    """Fill the next H rows of room with d loss / d a from e (m, N), the derivative in h."""
    m, rows, N = W2.shape
    H = rows - 1
    for k in range(H):
        fill(room[H + k], 0.0)
        for c in range(m):
            for i in range(N):
                room[H + k, i] += W2[c, k, i] * e[c, i]
        for i in range(N):
            room[H + k, i] *= derivative(room[k, i], activation)


@predict.register
def _(bank: SgdNets, x: Vec, h: Mat, room: Mat) -> None:
    think(bank.W1, bank.W2, bank.activation, x, h, room)


@predict.register
def _(bank: AdamNets, x: Vec, h: Mat, room: Mat) -> None:
    think(bank.W1, bank.W2, bank.activation, x, h, room)


@update.register
def _(bank: SgdNets, x: Vec, h: Mat, target: Mat, weight: Vec, mode: int, room: Mat) -> None:
    H, rows, N = bank.W1.shape
    residual(h, target, weight, mode)
    backward(bank.W2, bank.activation, target, room)
    for c in range(bank.W2.shape[0]):
        for k in range(H + 1):
            slopes(target[c], room, k, H)
            shift(bank.W2[c, k], room[2 * H], bank.lr)
    for k in range(H):
        for i in range(N):
            room[H + k, i] *= bank.lr
        for j in range(rows - 1):
            shift(bank.W1[k, j], room[H + k], x[j])
        shift(bank.W1[k, rows - 1], room[H + k], 1.0)


@update.register
def _(bank: AdamNets, x: Vec, h: Mat, target: Mat, weight: Vec, mode: int, room: Mat) -> None:
    H, rows, _ = bank.W1.shape
    residual(h, target, weight, mode)
    backward(bank.W2, bank.activation, target, room)
    rate, root = room[2 * H + 1], room[2 * H + 2]
    tick(bank.decayed, bank.lr, weight, rate, root)
    for c in range(bank.W2.shape[0]):
        for k in range(H + 1):
            slopes(target[c], room, k, H)
            adam(bank.W2[c, k], bank.M2[c, k], bank.V2[c, k], (room[2 * H], 1.0, rate, root))
    for k in range(H):
        for j in range(rows - 1):
            adam(bank.W1[k, j], bank.M1[k, j], bank.V1[k, j], (room[H + k], x[j], rate, root))
        last = rows - 1
        adam(bank.W1[k, last], bank.M1[k, last], bank.V1[k, last], (room[H + k], 1.0, rate, root))


@kernel
def slopes(e: Vec, room: Mat, k: int, H: int) -> None:
    """Fill row 2H of room with e * z_k, the gradient of a row of W2; the bias (k = H) has z = 1."""
    for i in range(e.shape[0]):
        room[2 * H, i] = e[i] * room[k, i] if k < H else e[i]


@kernel
def tick(decayed: Mat, lr: float, weight: Vec, rate: Vec, root: Vec) -> None:
    """Count the event for learners of positive weight; fill their step lr / (1 - beta1^t) and 1 /
    sqrt(1 - beta2^t).
    """
    for i in range(weight.shape[0]):
        rate[i] = 0.0
        root[i] = 1.0
        if weight[i] > 0.0:
            decayed[0, i] *= BETA1
            decayed[1, i] *= BETA2
            rate[i] = lr / (1.0 - decayed[0, i])
            root[i] = 1.0 / math.sqrt(1.0 - decayed[1, i])


@kernel
def adam(w: Vec, M: Vec, V: Vec, how: Any) -> None:
    """Move one row of weights by an Adam step for the gradient slope * factor (specification, 7.1).

    `how` is slope (N,), factor, rate (N,), root (N,); a learner of rate 0 keeps its weights and
    moments.
    """
    slope, factor, rate, root = how
    for i in range(w.shape[0]):
        g = slope[i] * factor
        mean = BETA1 * M[i] + (1.0 - BETA1) * g
        square = BETA2 * V[i] + (1.0 - BETA2) * g * g
        M[i] = mean if rate[i] > 0.0 else M[i]
        V[i] = square if rate[i] > 0.0 else V[i]
        w[i] -= rate[i] * M[i] / (math.sqrt(V[i]) * root[i] + EPSILON)


def draw(seed: int, N: int, sizes: tuple[tuple[int, int], ...]) -> list[Mat3]:
    """Return weights of every layer, U(+-1/sqrt(fan in)); drawn W1 of all learners, b1, W2, b2, one
    generator.
    """
    layers, skip = [], 0
    for units, inputs in sizes:
        bound = 1.0 / math.sqrt(inputs)
        count = N * units * inputs
        weights = uniforms(seed, count, skip).reshape(N, units, inputs)
        biases = uniforms(seed, N * units, skip + count).reshape(N, units, 1)
        skip += count + N * units
        both = np.concatenate([weights, biases], axis=2)
        layers.append(np.ascontiguousarray(((2.0 * both - 1.0) * bound).transpose(1, 2, 0)))
    return layers


def _make(params: Mapping[str, Any], d: int, m: int, seed: int) -> SgdNets | AdamNets:
    N, H, activation = params["n"], params["hidden"], ACTIVATIONS[params["activation"]]
    W1, W2 = draw(seed, N, ((H, d), (m, H)))
    if params["optimiser"] == "sgd":
        return SgdNets(W1, W2, params["lr"], activation)
    moments = [np.zeros_like(w) for w in (W1, W1, W2, W2)]
    return AdamNets(W1, W2, params["lr"], activation, np.ones((2, N)), *moments)


NETS = Part(
    "nets",
    "N two-layer nets",
    "specification, 7.3",
    (
        Param("n", 20, "weak learners", 1, 100_000, integer=True),
        Param("hidden", 2, "hidden units of each net", 1, 10_000, integer=True),
        Param("activation", "sigmoid", "of the hidden units", choices=tuple(ACTIVATIONS)),
        Param("optimiser", "adam", "how weights move", choices=("adam", "sgd")),
        Param("lr", None, "learning rate; .001 for adam, .3 for sgd", 1e-12, 1e6),
    ),
    _make,
)
