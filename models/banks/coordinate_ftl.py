"""Follow the regularised leader over single coordinates: the exact best fit a x_j so far, for tests
and theory plots.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from kaboost.models.kernels.numeric import clear_learner, fill
from kaboost.models.kernels.random import State
from kaboost.models.types import SQUARE, Component, Mat, Mat3, Param, Vec
from kaboost.models.verbs import bank_scratch_rows, learn, learner_view, predict, reset_learner


class CoordinateFtl(NamedTuple):
    """N learners over the class {a x_j} (specification, 7.1, last item): each predicts
    b_j / S_j x_j for the coordinate j of highest |b_j|^2 / S_j; ties go to the first.
    """

    S: Mat  # (d, N) ridge + sum of weight x_j^2
    b: Mat3  # (m, d, N) sum of weight target x_j
    ridge: float


@bank_scratch_rows.register
def _(bank: CoordinateFtl) -> int:
    return 2  # highest gain, and the gain of one coordinate


@learner_view.register
def _(bank: CoordinateFtl, i: int) -> CoordinateFtl:
    return CoordinateFtl(bank.S[:, i : i + 1], bank.b[:, :, i : i + 1], bank.ridge)


@reset_learner.register
def _(bank: CoordinateFtl, i: int, state: State) -> None:
    clear_learner(bank.b, i)
    for j in range(bank.S.shape[0]):
        bank.S[j, i] = bank.ridge


@predict.register
def _(bank: CoordinateFtl, x: Vec, h: Mat, bank_scratch: Mat) -> None:
    m, d, N = bank.b.shape
    highest, gain = bank_scratch[0], bank_scratch[1]
    fill(highest, 0.0)
    for c in range(m):
        fill(h[c], 0.0)
    for j in range(d):
        fill(gain, 0.0)
        for c in range(m):
            for i in range(N):
                gain[i] += bank.b[c, j, i] * bank.b[c, j, i] / bank.S[j, i]
        for c in range(m):
            for i in range(N):
                prediction = bank.b[c, j, i] / bank.S[j, i] * x[j]
                h[c, i] = prediction if gain[i] > highest[i] else h[c, i]
        for i in range(N):
            highest[i] = gain[i] if gain[i] > highest[i] else highest[i]


@learn.register
def _(
    bank: CoordinateFtl, x: Vec, h: Mat, target: Mat, weight: Vec, mode: int, bank_scratch: Mat
) -> None:
    m, d, N = bank.b.shape
    for j in range(d):
        if x[j] != 0.0:
            for i in range(N):
                bank.S[j, i] += weight[i] * x[j] * x[j]
            for c in range(m):
                for i in range(N):
                    # a weight of 0 may come with a target that is not finite
                    move = weight[i] * target[c, i] * x[j]
                    bank.b[c, j, i] += move if weight[i] > 0.0 else 0.0


def _make(params: Mapping[str, Any], d: int, m: int, seed: int) -> CoordinateFtl:
    N, ridge = params["n"], params["ridge"]
    return CoordinateFtl(np.full((d, N), ridge), np.zeros((m, d, N)), ridge)


COORDINATE_FTL = Component(
    "coordinate_ftl",
    "N exact fits of one feature, for tests and theory plots",
    "specification, 7.1 and 7.7",
    (
        Param("n", 20, "weak learners", 1, 100_000, integer=True),
        Param("ridge", 1.0, "weight of the penalty on a", 1e-6, 1e6),
    ),
    _make,
    modes=(SQUARE,),
    gradient=False,
)
