"""Deterministic Hedge over the functions +x_j and -x_j as weak learners, for the theory's tests
(specification, 7.7 and 10.4).

Freund, Schapire, A Decision-Theoretic Generalization of On-Line Learning, 1997. The two functions
of a feature have opposite losses, so one sum serves both; learners lie along the vector lanes
(docs/adr/0009).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from kaboost.models.kernels.numeric import clear_learner, exp_negative, fill, residual
from kaboost.models.kernels.random import State
from kaboost.models.types import Component, Mat, Mat3, Param, Vec
from kaboost.models.verbs import bank_scratch_rows, learn, learner_view, predict, reset_learner

LIMIT = 1e300  # of a sum of losses: differences stay finite


class Hedge(NamedTuple):
    """N learners that predict the mean of all 2d functions, weighted by e^(-rate * loss so far)."""

    C: Mat3  # (m, d, N) sum of slope * x_j: the loss of +x_j so far
    rate: float


@bank_scratch_rows.register
def _(bank: Hedge) -> int:
    return 2  # per learner: the largest exponent, the sum of weights


@learner_view.register
def _(bank: Hedge, i: int) -> Hedge:
    return Hedge(bank.C[:, :, i : i + 1], bank.rate)


@reset_learner.register
def _(bank: Hedge, i: int, state: State) -> None:
    clear_learner(bank.C, i)


@predict.register
def _(bank: Hedge, x: Vec, h: Mat, bank_scratch: Mat) -> None:
    m, d, N = bank.C.shape
    top, total = bank_scratch[0], bank_scratch[1]
    for c in range(m):
        fill(top, 0.0)
        fill(total, 0.0)
        fill(h[c], 0.0)
        for j in range(d):
            for i in range(N):
                top[i] = max(top[i], abs(bank.rate * bank.C[c, j, i]))
        for j in range(d):
            for i in range(N):
                a = bank.rate * bank.C[c, j, i]
                plus, minus = exp_negative(-a - top[i]), exp_negative(a - top[i])
                total[i] += plus + minus
                h[c, i] += (plus - minus) * x[j]
        for i in range(N):
            h[c, i] /= total[i]


@learn.register
def _(bank: Hedge, x: Vec, h: Mat, target: Mat, weight: Vec, mode: int, bank_scratch: Mat) -> None:
    m, d, N = bank.C.shape
    residual(h, target, weight, mode)
    for c in range(m):
        for j in range(d):
            for i in range(N):
                moved = bank.C[c, j, i] + target[c, i] * x[j]
                bank.C[c, j, i] = min(max(moved, -LIMIT), LIMIT)


def _make(params: Mapping[str, Any], d: int, m: int, seed: int) -> Hedge:
    rate = params["rate"]
    if rate is None:
        rate = math.sqrt(2.0 * math.log(2.0 * d) / params["horizon"])
    return Hedge(np.zeros((m, d, params["n"])), rate)


HEDGE = Component(
    "hedge",
    "N deterministic Hedge learners over the features and their negatives, for theory",
    "Freund, Schapire 1997; specification, 7.7",
    (
        Param("n", 20, "weak learners", 1, 100_000, integer=True),
        Param("rate", None, "of the weights; sqrt(2 ln(2d) / horizon)", 1e-12, 1e6),
        Param("horizon", 4000, "events the default rate is meant for", 1, 2**53, integer=True),
    ),
    _make,
)
