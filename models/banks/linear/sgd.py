"""Linear weak learners: N (m, d) matrices, learned by plain SGD.

The weights are w (m, rows, N) with a row per feature and one more for the bias: learners lie along
the vector lanes, so sums over features stay strictly left to right and still fill whole vectors
(docs/adr/0009).
"""

from __future__ import annotations

from typing import Any, NamedTuple

from kaboost.models.banks.linear.walk import clear
from kaboost.models.kernels.numeric import add, dot, fill, retreat, shift, steps
from kaboost.models.types import Mat, Mat3, Vec
from kaboost.models.verbs import learn, learner_view, predict, reset_learner


class Sgd(NamedTuple):
    """Linear learners moved by w -= lr * weight * e * x (specification, 7.1)."""

    w: Mat3  # (m, rows, N)
    lr: float
    cyclic: bool  # learner i sees only feature (first + i) mod d, and the bias
    first: int  # 0; the learner's own number in a bank of one


@learner_view.register
def _(bank: Sgd, i: int) -> Sgd:
    return Sgd(bank.w[:, :, i : i + 1], bank.lr, bank.cyclic, bank.first + i)


@predict.register
def _(bank: Sgd, x: Vec, h: Mat, bank_scratch: Mat) -> None:
    m, rows, _ = bank.w.shape
    d = x.shape[0]
    for c in range(m):
        if not bank.cyclic:
            dot(bank.w[c], x, h[c])
            continue
        fill(h[c], 0.0)
        for j in range(d):
            lane = (j - bank.first) % d
            add(h[c, lane::d], bank.w[c, j, lane::d], x[j])
        if rows > d:
            add(h[c], bank.w[c, d], 1.0)


@learn.register
def _(bank: Sgd, x: Vec, h: Mat, target: Mat, weight: Vec, mode: int, bank_scratch: Mat) -> None:
    m, rows, _ = bank.w.shape
    d = x.shape[0]
    steps(h, target, weight, mode, bank.lr)
    for c in range(m):
        if not bank.cyclic:
            retreat(bank.w[c], x, target[c])
            continue
        for j in range(d):
            lane = (j - bank.first) % d
            shift(bank.w[c, j, lane::d], target[c, lane::d], x[j])
        if rows > d:
            shift(bank.w[c, d], target[c], 1.0)


@reset_learner.register
def _(bank: Sgd, i: int, state: Any) -> None:
    clear(bank.w, i)
