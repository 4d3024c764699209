"""One weak learner that represents N identical ones: same start, same targets.

Under the deterministic reduction of Online Gradient Boosting N copies would stay equal bit for bit;
one of them predicts for all, at the cost of one (specification, 3.5).
"""

from __future__ import annotations

from typing import NamedTuple

from kaboost.models.kernels.random import State
from kaboost.models.types import Bank, Mat, Vec
from kaboost.models.verbs import (
    bank_scratch_rows,
    learn,
    learner_view,
    predict,
    reset_learner,
    update_shared,
)


class Copies(NamedTuple):
    """A bank of one learner whose prediction fills every place of h."""

    bank: Bank  # one learner


@bank_scratch_rows.register
def _(bank: Copies) -> int:
    return bank_scratch_rows(bank.bank)


@learner_view.register
def _(bank: Copies, i: int) -> Copies:
    return Copies(learner_view(bank.bank, 0))


@update_shared.register
def _(bank: Copies, x: Vec) -> None:
    update_shared(bank.bank, x)


@reset_learner.register
def _(bank: Copies, i: int, state: State) -> None:
    reset_learner(bank.bank, 0, state)


@predict.register
def _(bank: Copies, x: Vec, h: Mat, bank_scratch: Mat) -> None:
    predict(bank.bank, x, h[:, :1], bank_scratch[:, :1])
    for c in range(h.shape[0]):
        for i in range(1, h.shape[1]):
            h[c, i] = h[c, 0]


@learn.register
def _(bank: Copies, x: Vec, h: Mat, target: Mat, weight: Vec, mode: int, bank_scratch: Mat) -> None:
    learn(bank.bank, x, h[:, :1], target[:, :1], weight[:1], mode, bank_scratch[:, :1])
