"""Linear weak learners moved by gradient descent inside a ball, for tests of regret bounds."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from kaboost.models.banks.linear.walk import clear, nudge, pace, walk, weigh
from kaboost.models.kernels.jit import kernel
from kaboost.models.kernels.numeric import fill, residual
from kaboost.models.types import Mat, Mat3, Vec
from kaboost.models.verbs import (
    bank_scratch_rows,
    learn,
    learner_view,
    learning_only,
    predict,
    reset_learner,
)


class Ogd(NamedTuple):
    """Linear learners moved by projected gradient descent, rate W / (X sqrt(t)): regret at most
    1.5 W X sqrt(T) for slopes up to 1 and |x| <= X (specification, 7.1).

    The ball holds all weights of a learner: every output, and the bias, which is one of the
    features that X bounds.
    """

    w: Mat3  # (m, rows, N)
    t: Vec  # (N,) events each learner took
    radius: float  # W
    norm: float  # X
    t_max: float  # events after which the rate falls no more
    cyclic: bool  # learner i sees only feature (first + i) mod d, and the bias
    first: int  # 0; the learner's own number in a bank of one


@learning_only.register
def _(bank: Ogd) -> tuple[str, ...]:
    return ("t",)


@bank_scratch_rows.register
def _(bank: Ogd) -> int:
    return 1  # the squared length of every learner's weights


@learner_view.register
def _(bank: Ogd, i: int) -> Ogd:
    w, t = bank.w[:, :, i : i + 1], bank.t[i : i + 1]
    return Ogd(w, t, bank.radius, bank.norm, bank.t_max, bank.cyclic, bank.first + i)


@reset_learner.register
def _(bank: Ogd, i: int, state: Any) -> None:
    clear(bank.w, i)
    bank.t[i] = 0.0


@predict.register
def _(bank: Ogd, x: Vec, h: Mat, bank_scratch: Mat) -> None:
    weigh(bank.w, bank.cyclic, bank.first, x, h)


@nudge.register
def _(bank: Ogd, c: int, j: int, i: int, g: float) -> None:
    bank.w[c, j, i] -= g


@learn.register
def _(bank: Ogd, x: Vec, h: Mat, target: Mat, weight: Vec, mode: int, bank_scratch: Mat) -> None:
    residual(h, target, weight, mode)
    for i in range(weight.shape[0]):
        if weight[i] > 0.0:
            bank.t[i] += 1.0
            weight[i] = bank.radius / (bank.norm * math.sqrt(min(bank.t[i], bank.t_max)))
    pace(target, weight)
    walk(bank, x, target)
    project(bank, weight, bank_scratch[0])


@kernel
def project(bank: Ogd, weight: Vec, shrink: Vec) -> None:
    """Scale the weights of every learner of positive weight that left its ball back onto it."""
    m, rows, N = bank.w.shape
    fill(shrink, 0.0)
    for c in range(m):
        for j in range(rows):
            for i in range(N):
                shrink[i] += bank.w[c, j, i] * bank.w[c, j, i]
    outside = 0
    for i in range(N):
        far = weight[i] > 0.0 and shrink[i] > bank.radius * bank.radius
        shrink[i] = bank.radius / math.sqrt(shrink[i]) if far else 1.0
        outside += far
    if outside > 0:
        for c in range(m):
            for j in range(rows):
                for i in range(N):
                    bank.w[c, j, i] *= shrink[i]
