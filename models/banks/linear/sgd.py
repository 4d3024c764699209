"""Stochastic gradient descent, w -= rate * weight * e * x: the rate is constant, or falls with the
events of each learner (specification, 7.1).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from kaboost.models.banks.linear.bank import (
    Linear,
    Step,
    descend,
    dot_features,
    dot_rows,
    learning_rate,
    move_weights,
    multiply_rates,
)
from kaboost.models.kernels.numeric import dot, residual, retreat, steps
from kaboost.models.kernels.random import State
from kaboost.models.types import Mat, Mat3, Param, Vec
from kaboost.models.verbs import learner_view, learning_only, reset_learner


class Sgd(NamedTuple):
    """SGD at a constant rate."""

    lr: float


class ScheduledSgd(NamedTuple):
    """SGD at the rate lr / (1 + t/t0)^p, t = 1 at a learner's first event."""

    t: Vec  # (N,) events of each learner
    lr: float
    t0: float
    p: float


@learning_only.register
def _(step: ScheduledSgd) -> tuple[str, ...]:
    return ("t",)


@learner_view.register
def _(step: Sgd, i: int) -> Sgd:
    return step


@learner_view.register
def _(step: ScheduledSgd, i: int) -> ScheduledSgd:
    return ScheduledSgd(step.t[i : i + 1], step.lr, step.t0, step.p)


@reset_learner.register
def _(step: Sgd, i: int, state: State) -> None:
    pass


@reset_learner.register
def _(step: ScheduledSgd, i: int, state: State) -> None:
    step.t[i] = 0.0


@dot_features.register
def _(step: Sgd, w: Mat, x: Vec, cyclic: bool, first: int, h: Vec) -> None:
    if cyclic:
        dot_rows(w, x, cyclic, first, h)
    else:
        dot(w, x, h)


@move_weights.register
def _(
    step: Sgd,
    bank: Linear,
    x: Vec,
    h: Mat,
    target: Mat,
    weight: Vec,
    mode: int,
    bank_scratch: Mat,
) -> None:
    steps(h, target, weight, mode, step.lr)
    if bank.cyclic:
        descend(bank, x, target)
    else:
        for c in range(target.shape[0]):
            retreat(bank.w[c], x, target[c])


@move_weights.register
def _(
    step: ScheduledSgd,
    bank: Linear,
    x: Vec,
    h: Mat,
    target: Mat,
    weight: Vec,
    mode: int,
    bank_scratch: Mat,
) -> None:
    residual(h, target, weight, mode)
    for i in range(weight.shape[0]):
        if weight[i] > 0.0:
            step.t[i] += 1.0
            weight[i] = step.lr * math.exp(-step.p * math.log1p(step.t[i] / step.t0))
    multiply_rates(target, weight)
    descend(bank, x, target)


def _make(options: Mapping[str, Any], w: Mat3, d: int) -> Sgd | ScheduledSgd:
    lr, p = options["lr"], options["p"]
    if p == 0.0:
        return Sgd(lr)
    return ScheduledSgd(np.zeros(w.shape[2]), lr, options["t0"], p)


SGD = Step(
    "sgd",
    (
        learning_rate(0.05),
        Param("p", 0.0, "the rate is lr / (1 + t/t0)^p; 0 keeps it constant", 0.0, 10.0),
        Param("t0", 1.0, "events after which the rate begins to fall", 1e-6, 1e12),
    ),
    _make,
)
