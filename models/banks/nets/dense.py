"""Two-layer nets as weak learners: h = W2 act(W1 x + b1) + b2, learned by SGD or Adam
(specification, 7.3).

Biases are the last rows of the weights; learners are the last axis (docs/adr/0009).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from kaboost.models.banks.nets.layers import draw_layer, draw_layers
from kaboost.models.kernels.adam import adam_inputs, adam_rates, adam_units, reset_decay
from kaboost.models.kernels.jit import kernel
from kaboost.models.kernels.numeric import clear_learner, dot, fill, residual, retreat, sigmoid
from kaboost.models.kernels.random import State
from kaboost.models.kernels.simd import (
    Lane,
    NewLane,
    NewRow,
    Number,
    Row,
    Sum,
    aligned,
    over_learners,
)
from kaboost.models.types import Component, Loss, Mat, Mat3, Param, Vec
from kaboost.models.verbs import (
    bank_scratch_rows,
    learn,
    learner_view,
    learning_only,
    predict,
    reset_learner,
)

SIGMOID, LEAKY, TANH = 0, 1, 2
ACTIVATIONS = {"sigmoid": SIGMOID, "leaky_relu": LEAKY, "tanh": TANH}
LEAK = 0.01


# Rows of the bank's scratch: H hidden units and a 1 for the bias, H gradients in the hidden units,
# then Adam's rates and roots.


class SgdNets(NamedTuple):
    """N nets of H hidden units, learned by SGD."""

    W1: Mat3  # (H, d+1, N)
    W2: Mat3  # (m, H+1, N)
    lr: float
    activation: int


class AdamNets(NamedTuple):
    """N nets of H hidden units, learned by Adam: two moments for every weight, a step count for
    every learner.
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


@bank_scratch_rows.register(SgdNets)
@bank_scratch_rows.register(AdamNets)
def _(bank: SgdNets | AdamNets) -> int:
    return 2 * int(bank.W1.shape[0]) + 3


@learner_view.register
def _(bank: SgdNets, i: int) -> SgdNets:
    lane = slice(i, i + 1)
    return SgdNets(bank.W1[:, :, lane], bank.W2[:, :, lane], bank.lr, bank.activation)


@learner_view.register
def _(bank: AdamNets, i: int) -> AdamNets:
    lane = slice(i, i + 1)
    return AdamNets(
        bank.W1[:, :, lane],
        bank.W2[:, :, lane],
        bank.lr,
        bank.activation,
        bank.decayed[:, lane],
        bank.M1[:, :, lane],
        bank.V1[:, :, lane],
        bank.M2[:, :, lane],
        bank.V2[:, :, lane],
    )


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
    """Return act'(a) from z = act(a); LEAK for the leaky unit at 0."""
    if activation == SIGMOID:
        return z * (1.0 - z)
    if activation == LEAKY:
        return 1.0 if z > 0.0 else LEAK
    return 1.0 - z * z


@over_learners
def sum_units(total: Sum, w: Row, z: Row) -> Sum:
    """Sum weights times hidden units."""
    return total + w * z


@over_learners
def add_gradient(gradient: NewLane, w: Lane, e: Lane) -> NewLane:
    """Add the gradient of one output in a hidden unit."""
    return gradient + w * e


@over_learners
def descend(w: NewRow, z: Row, e: Lane, lr: Number) -> NewRow:
    """Update weights of the second layer by SGD."""
    return w - e * z * lr


@kernel
def forward(W1: Mat3, W2: Mat3, activation: int, x: Vec, h: Mat, bank_scratch: Mat) -> None:
    """Fill h (m, N) and, in the first H + 1 rows of scratch, the hidden units and a row of 1."""
    H, _, N = W1.shape
    for k in range(H):
        dot(W1[k], x, bank_scratch[k])
        for i in range(N):
            bank_scratch[k, i] = activate(bank_scratch[k, i], activation)
    fill(bank_scratch[H], 1.0)
    for c in range(W2.shape[0]):
        sum_units(W2[c], bank_scratch, h[c])


@kernel
def backward(W2: Mat3, activation: int, e: Mat, bank_scratch: Mat) -> None:
    """Fill the next H rows of scratch with d loss / d a from e (m, N), the derivative in h."""
    m, rows, N = W2.shape
    H = rows - 1
    for k in range(H):
        gradient = bank_scratch[rows + k]
        fill(gradient, 0.0)
        for c in range(m):
            add_gradient(gradient, W2[c, k], e[c])
        for i in range(N):
            gradient[i] *= derivative(bank_scratch[k, i], activation)


@predict.register
def _(bank: SgdNets, x: Vec, h: Mat, bank_scratch: Mat) -> None:
    forward(bank.W1, bank.W2, bank.activation, x, h, bank_scratch)


@predict.register
def _(bank: AdamNets, x: Vec, h: Mat, bank_scratch: Mat) -> None:
    forward(bank.W1, bank.W2, bank.activation, x, h, bank_scratch)


@learn.register
def _(
    bank: SgdNets, x: Vec, h: Mat, target: Mat, weight: Vec, mode: int, bank_scratch: Mat
) -> None:
    H, _, N = bank.W1.shape
    residual(h, target, weight, mode)
    backward(bank.W2, bank.activation, target, bank_scratch)
    for c in range(bank.W2.shape[0]):
        descend(bank.W2[c], bank_scratch, target[c], bank.lr)
    for k in range(H):
        gradient = bank_scratch[H + 1 + k]
        for i in range(N):
            gradient[i] *= bank.lr
        retreat(bank.W1[k], x, gradient)


@learn.register
def _(
    bank: AdamNets, x: Vec, h: Mat, target: Mat, weight: Vec, mode: int, bank_scratch: Mat
) -> None:
    H = bank.W1.shape[0]
    residual(h, target, weight, mode)
    backward(bank.W2, bank.activation, target, bank_scratch)
    rate, root = bank_scratch[2 * H + 1], bank_scratch[2 * H + 2]
    adam_rates(bank.decayed, bank.lr, weight, rate, root)
    for c in range(bank.W2.shape[0]):
        adam_units(bank.W2[c], bank.M2[c], bank.V2[c], bank_scratch, target[c], rate, root)
    for k in range(H):
        adam_inputs(bank.W1[k], bank.M1[k], bank.V1[k], x, bank_scratch[H + 1 + k], rate, root)


@reset_learner.register
def _(bank: SgdNets, i: int, state: State) -> None:
    draw_layer(bank.W1, i, state)
    draw_layer(bank.W2, i, state)


@reset_learner.register
def _(bank: AdamNets, i: int, state: State) -> None:
    draw_layer(bank.W1, i, state)
    draw_layer(bank.W2, i, state)
    for moments in (bank.M1, bank.V1, bank.M2, bank.V2):
        clear_learner(moments, i)
    reset_decay(bank.decayed, i)


RATES = {"adam": 0.001, "sgd": 0.3}


def _fill_defaults(net: dict[str, Any], loss: Loss, full: dict[str, Any]) -> None:
    net["lr"] = RATES[net["optimiser"]] if net["lr"] is None else net["lr"]


def _make(params: Mapping[str, Any], d: int, m: int, seed: int) -> SgdNets | AdamNets:
    N, H, activation = params["n"], params["hidden"], ACTIVATIONS[params["activation"]]
    W1, W2 = draw_layers(seed, N, ((H, d), (m, H)))
    if params["optimiser"] == "sgd":
        return SgdNets(W1, W2, params["lr"], activation)
    moments = [aligned(np.zeros_like(w)) for w in (W1, W1, W2, W2)]
    return AdamNets(W1, W2, params["lr"], activation, np.ones((2, N)), *moments)


NETS = Component(
    "nets",
    "N two-layer nets",
    "specification, 7.3",
    (
        Param("n", 20, "weak learners", 1, 100_000, integer=True),
        Param("hidden", 2, "hidden units of a net", 1, 10_000, integer=True),
        Param("activation", "sigmoid", "of the hidden units", choices=tuple(ACTIVATIONS)),
        Param("optimiser", "adam", "of the weights", choices=("adam", "sgd")),
        Param("lr", None, "learning rate; .001 for adam, .3 for sgd", 1e-12, 1e6),
    ),
    _make,
    fill_defaults=_fill_defaults,
    has_random_learners=lambda net: True,
    initial_draws=lambda net, d, m: net["n"] * (net["hidden"] * (d + 1 + m) + m),
)
