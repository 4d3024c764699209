"""Linear weak learners moved by SGD with a rate that falls with the events each of them took."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from kaboost.models.banks.linear.walk import clear, nudge, pace, walk, weigh
from kaboost.models.kernels.numeric import residual
from kaboost.models.types import Mat, Mat3, Vec
from kaboost.models.verbs import learn, learner_view, learning_only, predict, reset_learner


class Scheduled(NamedTuple):
    """Linear learners moved by SGD with the rate lr / (1 + t/t0)^p, t = 1 at a learner's first
    event (specification, 7.1).
    """

    w: Mat3  # (m, rows, N)
    t: Vec  # (N,) events each learner took
    lr: float
    t0: float
    p: float
    cyclic: bool  # learner i sees only feature (first + i) mod d, and the bias
    first: int  # 0; the learner's own number in a bank of one


@learning_only.register
def _(bank: Scheduled) -> tuple[str, ...]:
    return ("t",)


@learner_view.register
def _(bank: Scheduled, i: int) -> Scheduled:
    w, t = bank.w[:, :, i : i + 1], bank.t[i : i + 1]
    return Scheduled(w, t, bank.lr, bank.t0, bank.p, bank.cyclic, bank.first + i)


@reset_learner.register
def _(bank: Scheduled, i: int, state: Any) -> None:
    clear(bank.w, i)
    bank.t[i] = 0.0


@predict.register
def _(bank: Scheduled, x: Vec, h: Mat, bank_scratch: Mat) -> None:
    weigh(bank.w, bank.cyclic, bank.first, x, h)


@nudge.register
def _(bank: Scheduled, c: int, j: int, i: int, g: float) -> None:
    bank.w[c, j, i] -= g


@learn.register
def _(
    bank: Scheduled, x: Vec, h: Mat, target: Mat, weight: Vec, mode: int, bank_scratch: Mat
) -> None:
    residual(h, target, weight, mode)
    for i in range(weight.shape[0]):
        if weight[i] > 0.0:
            bank.t[i] += 1.0
            weight[i] = bank.lr * math.exp(-bank.p * math.log1p(bank.t[i] / bank.t0))
    pace(target, weight)
    walk(bank, x, target)
