"""Convolution nets for pictures of 28 x 28 pixels as weak learners (specification, 7.4)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from kaboost.models.banks.nets.layers import draw_layer, draw_layers
from kaboost.models.kernels.adam import adam_lanes, adam_rates, reset_decay
from kaboost.models.kernels.jit import kernel
from kaboost.models.kernels.numeric import add, clear_learner, fill, residual, sigmoid
from kaboost.models.kernels.random import State
from kaboost.models.types import Component, Mat, Mat3, Param, Vec
from kaboost.models.verbs import (
    bank_scratch_rows,
    learn,
    learner_view,
    learning_only,
    predict,
    reset_learner,
)

SIDE, KERNEL, STRIDE = 28, 5, 2
OUT = (SIDE - KERNEL) // STRIDE + 1  # 12: no padding
PLACES, TAPS = OUT * OUT, KERNEL * KERNEL
ROWS = TAPS + 1  # of a kernel and its bias


class Conv(NamedTuple):
    """N nets: C kernels of 5 x 5 with stride 2, sigmoids, one dense layer; moved by Adam
    (Hu, Sun, Venkatraman, Hebert, Bagnell 2017).

    The biases are the last rows of the weights they belong to.
    """

    K: Mat3  # (C, ROWS, N)
    V: Mat3  # (m, 144 C + 1, N)
    lr: float
    decayed: Mat  # (2, N) beta1^t and beta2^t
    MK: Mat3  # moments of K
    VK: Mat3
    MV: Mat3  # moments of V
    VV: Mat3


@learning_only.register
def _(bank: Conv) -> tuple[str, ...]:
    return ("decayed", "MK", "VK", "MV", "VV")


@bank_scratch_rows.register
def _(bank: Conv) -> int:
    # hidden units z, their derivatives, those of K, a row of slopes, Adam's rates and roots
    return 2 * int(bank.V.shape[1] - 1) + ROWS * int(bank.K.shape[0]) + 3


@learner_view.register
def _(bank: Conv, i: int) -> Conv:
    lane = slice(i, i + 1)
    return Conv(
        bank.K[:, :, lane],
        bank.V[:, :, lane],
        bank.lr,
        bank.decayed[:, lane],
        bank.MK[:, :, lane],
        bank.VK[:, :, lane],
        bank.MV[:, :, lane],
        bank.VV[:, :, lane],
    )


@reset_learner.register
def _(bank: Conv, i: int, state: State) -> None:
    draw_layer(bank.K, i, state)
    draw_layer(bank.V, i, state)
    for moments in (bank.MK, bank.VK, bank.MV, bank.VV):
        clear_learner(moments, i)
    reset_decay(bank.decayed, i)


@kernel
def pixel(place: int, tap: int) -> int:
    """Return which pixel a tap of the kernel sees at a place of the picture, all counted in rows.

    Examples
    --------
    >>> pixel(13, 6)
    87
    """
    row = STRIDE * (place // OUT) + tap // KERNEL
    return SIDE * row + STRIDE * (place % OUT) + tap % KERNEL


@predict.register
def _(bank: Conv, x: Vec, h: Mat, bank_scratch: Mat) -> None:
    m, rows, N = bank.V.shape
    convolve(bank.K, x, bank_scratch)
    for c in range(m):
        fill(h[c], 0.0)
        for q in range(rows - 1):
            for i in range(N):
                h[c, i] += bank.V[c, q, i] * bank_scratch[q, i]
        add(h[c], bank.V[c, rows - 1], 1.0)


@kernel
def convolve(K: Mat3, x: Vec, z: Mat) -> None:
    """Fill the first 144 C rows of z with the hidden units, kernel by kernel."""
    C, _, N = K.shape
    for p in range(PLACES):
        for k in range(C):
            fill(z[k * PLACES + p], 0.0)
        for tap in range(TAPS):
            shade = x[pixel(p, tap)]
            if shade != 0.0:  # pictures are mostly dark
                for k in range(C):
                    add(z[k * PLACES + p], K[k, tap], shade)
    for k in range(C):
        for p in range(PLACES):
            for i in range(N):
                z[k * PLACES + p, i] = sigmoid(z[k * PLACES + p, i] + K[k, TAPS, i])


@learn.register
def _(bank: Conv, x: Vec, h: Mat, target: Mat, weight: Vec, mode: int, bank_scratch: Mat) -> None:
    residual(h, target, weight, mode)
    last, C = bank.V.shape[1] - 1, bank.K.shape[0]
    backward(bank.V, target, bank_scratch)
    kernel_slopes(x, bank_scratch, last, C)
    end = 2 * last + ROWS * C
    slope, rate, root = bank_scratch[end], bank_scratch[end + 1], bank_scratch[end + 2]
    adam_rates(bank.decayed, bank.lr, weight, rate, root)
    for c in range(target.shape[0]):
        for q in range(last):
            for i in range(slope.shape[0]):
                slope[i] = target[c, i] * bank_scratch[q, i]
            adam_lanes(bank.V[c, q], bank.MV[c, q], bank.VV[c, q], slope, 1.0, rate, root)
        V, MV, VV = bank.V[c, last], bank.MV[c, last], bank.VV[c, last]
        adam_lanes(V, MV, VV, target[c], 1.0, rate, root)
    for k in range(C):
        for tap in range(ROWS):
            K, MK, VK = bank.K[k, tap], bank.MK[k, tap], bank.VK[k, tap]
            adam_lanes(K, MK, VK, bank_scratch[2 * last + ROWS * k + tap], 1.0, rate, root)


@kernel
def backward(V: Mat3, e: Mat, bank_scratch: Mat) -> None:
    """Fill the next 144 C rows of scratch with d loss / d a from e (m, N), the derivative in h."""
    m, rows, N = V.shape
    last = rows - 1
    for q in range(last):
        fill(bank_scratch[last + q], 0.0)
        for c in range(m):
            for i in range(N):
                bank_scratch[last + q, i] += V[c, q, i] * e[c, i]
        for i in range(N):
            bank_scratch[last + q, i] *= bank_scratch[q, i] * (1.0 - bank_scratch[q, i])


@kernel
def kernel_slopes(x: Vec, bank_scratch: Mat, last: int, C: int) -> None:
    """Fill the ROWS C rows of scratch after that with d loss / d K."""
    for row in range(2 * last, 2 * last + ROWS * C):
        fill(bank_scratch[row], 0.0)
    for p in range(PLACES):
        for tap in range(ROWS):
            shade = x[pixel(p, tap)] if tap < TAPS else 1.0
            if shade != 0.0:
                for k in range(C):
                    add(
                        bank_scratch[2 * last + ROWS * k + tap],
                        bank_scratch[last + k * PLACES + p],
                        shade,
                    )


def _reject_reason(context: Mapping[str, Any]) -> str | None:
    if context["d"] == SIDE * SIDE:
        return None
    return (
        f"conv reads pictures of 28 x 28 = 784 pixels, not {context['d']} features; take bank nets"
    )


def _make(params: Mapping[str, Any], d: int, m: int, seed: int) -> Conv:
    C, N = params["channels"], params["n"]
    K, V = draw_layers(seed, N, ((C, TAPS), (m, C * PLACES)))
    moments = [np.zeros_like(A) for A in (K, K, V, V)]
    return Conv(K, V, params["lr"], np.ones((2, N)), *moments)


CONV = Component(
    "conv",
    "N convolution nets for pictures of 28 x 28",
    "specification, 7.4; Hu, Sun, Venkatraman, Hebert, Bagnell 2017",
    (
        Param("n", 20, "weak learners", 1, 100_000, integer=True),
        Param("channels", 5, "kernels of a net", 1, 1_000, integer=True),
        Param("lr", 0.001, "learning rate of Adam", 1e-12, 1e6),
    ),
    _make,
    _reject_reason,
    initial_draws=lambda net, d, m: (
        net["n"] * (net["channels"] * (TAPS + 1) + m * (net["channels"] * PLACES + 1))
    ),
    has_random_learners=lambda net: True,
)
