"""Linear weak learners for which one event of weight W is W events of weight 1, and no weight
overshoots.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from kaboost.models.banks.linear.walk import clear, nudge, pace, walk, weigh
from kaboost.models.kernels.jit import kernel
from kaboost.models.kernels.numeric import fill, residual
from kaboost.models.types import SQUARE, Mat, Mat3, Vec
from kaboost.models.verbs import learn, learner_view, predict, reset_learner


class Invariant(NamedTuple):
    """Linear learners moved by SGD with a weight W applied as infinitely many small steps:
    w -= x e (1 - exp(-W lr |x|^2)) / |x|^2 (Karampatziakis, Langford 2011; specification, 7.1).

    That is the closed form of the square loss. A given slope is constant, so its small steps add up
    to one of plain SGD; a logistic loss has no closed form and moves by plain SGD as well.
    """

    w: Mat3  # (m, rows, N)
    lr: float
    cyclic: bool  # learner i sees only feature (first + i) mod d, and the bias
    first: int  # 0; the learner's own number in a bank of one


@learner_view.register
def _(bank: Invariant, i: int) -> Invariant:
    return Invariant(bank.w[:, :, i : i + 1], bank.lr, bank.cyclic, bank.first + i)


@reset_learner.register
def _(bank: Invariant, i: int, state: Any) -> None:
    clear(bank.w, i)


@predict.register
def _(bank: Invariant, x: Vec, h: Mat, bank_scratch: Mat) -> None:
    weigh(bank.w, bank.cyclic, bank.first, x, h)


@nudge.register
def _(bank: Invariant, c: int, j: int, i: int, g: float) -> None:
    bank.w[c, j, i] -= g


@learn.register
def _(
    bank: Invariant, x: Vec, h: Mat, target: Mat, weight: Vec, mode: int, bank_scratch: Mat
) -> None:
    if mode == SQUARE:
        flow(bank, x, weight)
        residual(h, target, weight, mode)
    else:
        residual(h, target, weight, mode)
        fill(weight, bank.lr)
        pace(target, weight)
    walk(bank, x, target)


@kernel
def flow(bank: Invariant, x: Vec, weight: Vec) -> None:
    """Overwrite weight (N,) with (1 - exp(-weight lr |x|^2)) / |x|^2, x as each learner sees it."""
    d = x.shape[0]
    shared = 1.0 if bank.w.shape[1] > d else 0.0
    if not bank.cyclic:
        for j in range(d):
            shared += x[j] * x[j]
    for i in range(weight.shape[0]):
        own = x[(bank.first + i) % d] if bank.cyclic else 0.0
        length = shared + own * own
        whole = -math.expm1(-weight[i] * bank.lr * length)
        weight[i] = whole / length if length > 0.0 and weight[i] > 0.0 else 0.0
