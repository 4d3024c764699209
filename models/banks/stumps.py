"""Regression stumps: every learner keeps a line per feature, and predicts with the one of lowest
error so far.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from kaboost.models.kernels.jit import kernel
from kaboost.models.kernels.numeric import clear_learner, fill
from kaboost.models.kernels.random import State
from kaboost.models.types import LINEAR, Component, Mat, Mat3, Param, Vec
from kaboost.models.verbs import bank_scratch_rows, learn, learner_view, predict, reset_learner


class Stumps(NamedTuple):
    """N stumps in the manner of Beygelzimer et al. 2015 (specification, 7.2): q_j = w_j x_j + c_j
    by SGD for every feature j, and of those that are not 0 the one of lowest L_j / n_j predicts.

    L sums the square errors |q_j - target|^2 before each step, over all outputs, whatever the
    weight of the event. For a class u = +-1 the lines fit u as a number. For slopes g instead of
    targets there is no square error: L then sums <g, q_j>.
    """

    w: Mat3  # (m, d, N)
    c: Mat3  # (m, d, N)
    L: Mat  # (d, N)
    n: Mat  # (d, N) events in L
    lr: float
    decay: float  # of L and n, whenever the feature is learned
    use_zeros: bool  # whether features of 0 learn and predict as well


@bank_scratch_rows.register
def _(bank: Stumps) -> int:
    return 2  # lowest average error, and that of one feature


@learner_view.register
def _(bank: Stumps, i: int) -> Stumps:
    lane = slice(i, i + 1)
    w, c, L, n = bank.w[:, :, lane], bank.c[:, :, lane], bank.L[:, lane], bank.n[:, lane]
    return Stumps(w, c, L, n, bank.lr, bank.decay, bank.use_zeros)


@reset_learner.register
def _(bank: Stumps, i: int, state: State) -> None:
    clear_learner(bank.w, i)
    clear_learner(bank.c, i)
    for j in range(bank.L.shape[0]):
        bank.L[j, i] = 0.0
        bank.n[j, i] = 0.0


@predict.register
def _(bank: Stumps, x: Vec, h: Mat, bank_scratch: Mat) -> None:
    m, d, N = bank.w.shape
    lowest, average = bank_scratch[0], bank_scratch[1]
    fill(lowest, math.inf)
    for c in range(m):
        fill(h[c], 0.0)
    for j in range(d):
        if x[j] != 0.0 or bank.use_zeros:
            for i in range(N):  # a feature never met counts as 0, so that it gets tried
                average[i] = bank.L[j, i] / bank.n[j, i] if bank.n[j, i] > 0.0 else 0.0
            for c in range(m):
                for i in range(N):
                    q = bank.w[c, j, i] * x[j] + bank.c[c, j, i]
                    h[c, i] = q if average[i] < lowest[i] else h[c, i]
            for i in range(N):
                lowest[i] = average[i] if average[i] < lowest[i] else lowest[i]


@learn.register
def _(bank: Stumps, x: Vec, h: Mat, target: Mat, weight: Vec, mode: int, bank_scratch: Mat) -> None:
    for j in range(x.shape[0]):
        if x[j] != 0.0 or bank.use_zeros:
            add_error(bank, j, x[j], target, weight, mode)
            move_line(bank, j, x[j], target, weight, mode)


@kernel
def add_error(bank: Stumps, j: int, xj: float, target: Mat, weight: Vec, mode: int) -> None:
    """Count the event in L and n of feature j for every learner of positive weight."""
    m, _, N = bank.w.shape
    for i in range(N):
        bank.L[j, i] *= bank.decay if weight[i] > 0.0 else 1.0
        bank.n[j, i] *= bank.decay if weight[i] > 0.0 else 1.0
        bank.n[j, i] += 1.0 if weight[i] > 0.0 else 0.0
    for c in range(m):
        for i in range(N):
            q = bank.w[c, j, i] * xj + bank.c[c, j, i]
            error = q - target[c, i]
            cost = q * target[c, i] if mode == LINEAR else error * error
            bank.L[j, i] += cost if weight[i] > 0.0 else 0.0


@kernel
def move_line(bank: Stumps, j: int, xj: float, target: Mat, weight: Vec, mode: int) -> None:
    """Move the line of feature j of every learner of positive weight."""
    m, _, N = bank.w.shape
    for c in range(m):
        for i in range(N):
            q = bank.w[c, j, i] * xj + bank.c[c, j, i]
            slope = target[c, i] if mode == LINEAR else q - target[c, i]
            step = bank.lr * weight[i] * slope if weight[i] > 0.0 else 0.0
            bank.w[c, j, i] -= step * xj
            bank.c[c, j, i] -= step


def _make(params: Mapping[str, Any], d: int, m: int, seed: int) -> Stumps:
    N = params["n"]
    w, L = np.zeros((m, d, N)), np.zeros((d, N))
    options = (params["lr"], params["decay"], params["use_zeros"])
    return Stumps(w, np.zeros_like(w), L, np.zeros_like(L), *options)


STUMPS = Component(
    "stumps",
    "N learners of one line per feature, of which the best so far predicts",
    "specification, 7.2; Beygelzimer, Hazan, Kale, Luo 2015",
    (
        Param("n", 20, "weak learners", 1, 100_000, integer=True),
        Param("lr", 0.1, "learning rate of every line", 1e-12, 1e6),
        Param("use_zeros", False, "whether a feature of 0 learns and predicts"),
        Param("decay", 1.0, "what is kept of the errors at every step, such as .999", 0.5, 1.0),
    ),
    _make,
    gradient=False,
)
