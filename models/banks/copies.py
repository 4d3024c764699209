"""One weak learner that stands for N of them, where all start alike and are always taught the same.

Under the deterministic reduction of Online Gradient Boosting N copies would stay equal bit for bit;
one of them answers for all, at the cost of one (specification, 3.5).
"""

from __future__ import annotations

from typing import Any, NamedTuple

from kaboost.models.types import Mat, Vec
from kaboost.models.verbs import one, predict, prepare, renew, rooms, update


class Copies(NamedTuple):
    """A bank of one learner whose answer counts for every place of h."""

    bank: Any  # one learner


@rooms.register
def _(bank: Copies) -> int:
    return rooms(bank.bank)


@one.register
def _(bank: Copies, i: int) -> Copies:
    return Copies(one(bank.bank, 0))


@prepare.register
def _(bank: Copies, x: Vec) -> None:
    prepare(bank.bank, x)


@renew.register
def _(bank: Copies, i: int, state: Any) -> None:
    renew(bank.bank, 0, state)


@predict.register
def _(bank: Copies, x: Vec, h: Mat, room: Mat) -> None:
    predict(bank.bank, x, h[:, :1], room[:, :1])
    for c in range(h.shape[0]):
        for i in range(1, h.shape[1]):
            h[c, i] = h[c, 0]


@update.register
def _(bank: Copies, x: Vec, h: Mat, target: Mat, weight: Vec, mode: int, room: Mat) -> None:
    update(bank.bank, x, h[:, :1], target[:, :1], weight[:1], mode, room[:, :1])
