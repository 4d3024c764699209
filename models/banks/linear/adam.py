"""Linear weak learners moved by Adam: two moments beside every weight."""

from __future__ import annotations

from typing import Any, NamedTuple

from kaboost.models.banks.linear.walk import clear, weigh
from kaboost.models.banks.nets import adam, tick
from kaboost.models.kernels.numeric import residual
from kaboost.models.types import Mat, Mat3, Vec
from kaboost.models.verbs import (
    bank_scratch_rows,
    learn,
    learner_view,
    learning_only,
    predict,
    reset_learner,
)


class Adam(NamedTuple):
    """Linear learners moved by Adam (Kingma, Ba 2015; specification, 7.1), a step count for
    each.

    Moments fade for features of 0 as well, so no feature is skipped.
    """

    w: Mat3  # (m, rows, N)
    M: Mat3  # (m, rows, N) mean of gradients
    V: Mat3  # (m, rows, N) mean of their squares
    decayed: Mat  # (2, N) beta1^t and beta2^t
    lr: float
    cyclic: bool  # learner i sees only feature (first + i) mod d, and the bias
    first: int  # 0; the learner's own number in a bank of one


@learning_only.register
def _(bank: Adam) -> tuple[str, ...]:
    return ("M", "V", "decayed")


@bank_scratch_rows.register
def _(bank: Adam) -> int:
    return 2  # rates and roots


@learner_view.register
def _(bank: Adam, i: int) -> Adam:
    lane = slice(i, i + 1)
    return Adam(
        bank.w[:, :, lane],
        bank.M[:, :, lane],
        bank.V[:, :, lane],
        bank.decayed[:, lane],
        bank.lr,
        bank.cyclic,
        bank.first + i,
    )


@reset_learner.register
def _(bank: Adam, i: int, state: Any) -> None:
    clear(bank.w, i)
    clear(bank.M, i)
    clear(bank.V, i)
    bank.decayed[0, i] = 1.0
    bank.decayed[1, i] = 1.0


@predict.register
def _(bank: Adam, x: Vec, h: Mat, bank_scratch: Mat) -> None:
    weigh(bank.w, bank.cyclic, bank.first, x, h)


@learn.register
def _(bank: Adam, x: Vec, h: Mat, target: Mat, weight: Vec, mode: int, bank_scratch: Mat) -> None:
    m, rows, _ = bank.w.shape
    d = x.shape[0]
    rate, root = bank_scratch[0], bank_scratch[1]
    residual(h, target, weight, mode)
    tick(bank.decayed, bank.lr, weight, rate, root)
    for c in range(m):
        for j in range(rows):
            w, M, V = bank.w[c, j], bank.M[c, j], bank.V[c, j]
            if j == d:
                adam(w, M, V, (target[c], 1.0, rate, root))
            elif not bank.cyclic:
                adam(w, M, V, (target[c], x[j], rate, root))
            else:
                lane = (j - bank.first) % d
                task = (target[c, lane::d], x[j], rate[lane::d], root[lane::d])
                adam(w[lane::d], M[lane::d], V[lane::d], task)
