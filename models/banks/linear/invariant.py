"""SGD whose event of weight W is W events of weight 1, so that no weight overshoots
(specification, 7.1).

Karampatziakis, Langford, Online Importance Weight Aware Updates, 2011.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from kaboost.models.banks.linear.bank import Linear, Step, descend, learning_rate, move_weights
from kaboost.models.kernels.jit import kernel
from kaboost.models.kernels.numeric import residual, steps
from kaboost.models.kernels.random import State
from kaboost.models.types import SQUARE, Mat, Mat3, Vec
from kaboost.models.verbs import learner_view, reset_learner


class Invariant(NamedTuple):
    """SGD with a weight W applied as infinitely many small steps:
    w -= x e (1 - exp(-W lr |x|^2)) / |x|^2.

    That is the closed form of the square loss. In mode LINEAR the gradient is constant, so small
    steps add up to one step of SGD; a logistic loss has no closed form and uses SGD as well.
    """

    lr: float


@learner_view.register
def _(step: Invariant, i: int) -> Invariant:
    return step


@reset_learner.register
def _(step: Invariant, i: int, state: State) -> None:
    pass


@move_weights.register
def _(
    step: Invariant,
    bank: Linear,
    x: Vec,
    h: Mat,
    target: Mat,
    weight: Vec,
    mode: int,
    bank_scratch: Mat,
) -> None:
    if mode == SQUARE:
        integrate_steps(bank, x, weight)
        residual(h, target, weight, mode)
    else:
        steps(h, target, weight, mode, step.lr)
    descend(bank, x, target)


@kernel
def integrate_steps(bank: Linear, x: Vec, weight: Vec) -> None:
    """Overwrite weight (N,) with (1 - exp(-weight lr |x|^2)) / |x|^2; |x| differs by learner."""
    d = x.shape[0]
    shared = 1.0 if bank.w.shape[1] > d else 0.0
    if not bank.cyclic:
        for j in range(d):
            shared += x[j] * x[j]
    for i in range(weight.shape[0]):
        single = x[(bank.first + i) % d] if bank.cyclic else 0.0
        length = shared + single * single
        whole = -math.expm1(-weight[i] * bank.step.lr * length)
        weight[i] = whole / length if length > 0.0 and weight[i] > 0.0 else 0.0


def _make(options: Mapping[str, Any], w: Mat3, d: int) -> Invariant:
    return Invariant(options["lr"])


INVARIANT = Step("invariant", (learning_rate(0.05),), _make)
