"""AdaGrad: the rate of a weight falls with the gradients it has had (specification, 7.1).

Duchi, Hazan, Singer, Adaptive Subgradient Methods for Online Learning and Stochastic Optimization,
2011.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from kaboost.models.banks.linear.bank import (
    Linear,
    Step,
    learning_rate,
    move_each,
    move_weight,
    move_weights,
)
from kaboost.models.kernels.numeric import clear_learner, residual
from kaboost.models.kernels.random import State
from kaboost.models.kernels.simd import aligned
from kaboost.models.types import Mat, Mat3, Vec
from kaboost.models.verbs import learner_view, learning_only, reset_learner

EPSILON = 1e-8


class AdaGrad(NamedTuple):
    """w -= lr g / (sqrt(sum g^2) + 1e-8)."""

    S: Mat3  # (m, rows, N) sum of squared gradients
    lr: float


@learning_only.register
def _(step: AdaGrad) -> tuple[str, ...]:
    return ("S",)


@learner_view.register
def _(step: AdaGrad, i: int) -> AdaGrad:
    return AdaGrad(step.S[:, :, i : i + 1], step.lr)


@reset_learner.register
def _(step: AdaGrad, i: int, state: State) -> None:
    clear_learner(step.S, i)


@move_weights.register
def _(
    step: AdaGrad,
    bank: Linear,
    x: Vec,
    h: Mat,
    target: Mat,
    weight: Vec,
    mode: int,
    bank_scratch: Mat,
) -> None:
    residual(h, target, weight, mode)
    move_each(bank, x, target)


@move_weight.register
def _(step: AdaGrad, w: Mat3, c: int, j: int, i: int, g: float) -> None:
    step.S[c, j, i] += g * g
    w[c, j, i] -= step.lr * g / (math.sqrt(step.S[c, j, i]) + EPSILON)


def _make(options: Mapping[str, Any], w: Mat3, d: int) -> AdaGrad:
    return AdaGrad(aligned(w), options["lr"])


ADAGRAD = Step("adagrad", (learning_rate(0.5),), _make)
