"""Projected online gradient descent, for tests of regret bounds (specification, 7.1).

Zinkevich, Online Convex Programming and Generalized Infinitesimal Gradient Ascent, 2003.
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
    move_weights,
    multiply_rates,
)
from kaboost.models.kernels.jit import kernel
from kaboost.models.kernels.numeric import fill, residual
from kaboost.models.kernels.random import State
from kaboost.models.types import Mat, Mat3, Param, Vec
from kaboost.models.verbs import bank_scratch_rows, learner_view, learning_only, reset_learner


class Ogd(NamedTuple):
    """Gradient descent at the rate W / (X sqrt(t)), projected onto a ball of radius W: regret at
    most 1.5 W X sqrt(T) for slopes up to 1 and |x| <= X.

    The ball holds all weights of a learner: every output, and the bias, which is one of the
    features that X bounds.
    """

    t: Vec  # (N,) events of each learner
    radius: float  # W
    norm: float  # X
    t_max: float  # events after which the rate stays constant


@learning_only.register
def _(step: Ogd) -> tuple[str, ...]:
    return ("t",)


@bank_scratch_rows.register
def _(step: Ogd) -> int:
    return 1  # the squared length of every learner's weights


@learner_view.register
def _(step: Ogd, i: int) -> Ogd:
    return Ogd(step.t[i : i + 1], step.radius, step.norm, step.t_max)


@reset_learner.register
def _(step: Ogd, i: int, state: State) -> None:
    step.t[i] = 0.0


@move_weights.register
def _(
    step: Ogd,
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
            weight[i] = step.radius / (step.norm * math.sqrt(min(step.t[i], step.t_max)))
    multiply_rates(target, weight)
    descend(bank, x, target)
    project(bank.w, step.radius, weight, bank_scratch[0])


@kernel
def project(w: Mat3, radius: float, weight: Vec, factor: Vec) -> None:
    """Scale the weights of every learner of positive weight that left its ball back onto it;
    `factor` (N,) is scratch.
    """
    m, rows, N = w.shape
    fill(factor, 0.0)
    for c in range(m):
        for j in range(rows):
            for i in range(N):
                factor[i] += w[c, j, i] * w[c, j, i]
    outside = 0
    for i in range(N):
        left_ball = weight[i] > 0.0 and factor[i] > radius * radius
        factor[i] = radius / math.sqrt(factor[i]) if left_ball else 1.0
        outside += left_ball
    if outside > 0:
        for c in range(m):
            for j in range(rows):
                for i in range(N):
                    w[c, j, i] *= factor[i]


def _make(options: Mapping[str, Any], w: Mat3, d: int) -> Ogd:
    t_max = options.get("t_max", math.inf)
    return Ogd(np.zeros(w.shape[2]), options["radius"], options["norm"], t_max)


OGD = Step(
    "ogd",
    (
        Param("radius", 1.0, "W, the largest length of a learner's weights", 1e-6, 1e6),
        Param("norm", 1.0, "X, the largest length of features, bias included", 1e-6, 1e6),
        Param("t_max", None, "events after which the rate stays constant", 1.0, 1e18),
    ),
    _make,
)
