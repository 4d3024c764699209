"""Linear weak learners moved by the scale-free normalised step that is not adaptive."""

from __future__ import annotations

from typing import Any, NamedTuple

from kaboost.models.banks.linear.nag import dot_cyclic, rescale, shares
from kaboost.models.banks.linear.walk import clear
from kaboost.models.kernels.numeric import residual, shift
from kaboost.models.kernels.simd import Column, Dense, Lane, NewRow, Row, Sum, over_learners, where
from kaboost.models.types import Mat, Mat3, Vec
from kaboost.models.verbs import (
    learn,
    learner_view,
    learning_only,
    predict,
    reset_learner,
    update_shared,
)

LEAST = 1e-300  # features that were never larger teach nothing: 1/s would overflow


class Ng(NamedTuple):
    """Linear learners moved by w_j -= lr (t/n) g_j / s_j^2, blind to the scale of each feature
    (specification, 7.1: the non-adaptive form of nag).
    """

    w: Mat3  # (m, rows, N), in the scale s of its row
    s: Vec  # (rows,) largest |x_j| learned so far
    t: Vec  # (N,) events each learner took
    n: Vec  # (N,) sum of (x_j / s_j)^2 over them
    lr: float
    cyclic: bool  # learner i sees only feature (first + i) mod d, and the bias
    first: int  # 0; the learner's own number in a bank of one


@learning_only.register
def _(bank: Ng) -> tuple[str, ...]:
    return ("t", "n")


@learner_view.register
def _(bank: Ng, i: int) -> Ng:
    w, t, n = bank.w[:, :, i : i + 1], bank.t[i : i + 1], bank.n[i : i + 1]
    return Ng(w, bank.s, t, n, bank.lr, bank.cyclic, bank.first + i)


@update_shared.register
def _(bank: Ng, x: Vec) -> None:
    rescale(bank, x, True)


@over_learners
def dot_shrunk(total: Sum, w: Row, x: Column, s: Dense) -> Sum:
    """Sum w x. A feature larger than ever is predicted as in its new scale; `learn` moves the
    weights there.
    """
    return total + w * where(abs(x) <= s, x, s / x * s)


@over_learners
def move(w: NewRow, x: Column, s: Dense, slope: Lane, rate: Lane) -> NewRow:
    """Move the weights by rate * slope * x / s^2."""
    return w - rate * slope * where(s > LEAST, x / s / s, 0.0)


@predict.register
def _(bank: Ng, x: Vec, h: Mat, bank_scratch: Mat) -> None:
    for c in range(bank.w.shape[0]):
        if not bank.cyclic:
            dot_shrunk(bank.w[c], x, bank.s, h[c])
            continue
        dot_cyclic(bank, c, x, h[c], True)


@learn.register
def _(bank: Ng, x: Vec, h: Mat, target: Mat, weight: Vec, mode: int, bank_scratch: Mat) -> None:
    m, rows, N = bank.w.shape
    d = x.shape[0]
    residual(h, target, weight, mode)
    rescale(bank, x, True)
    shares(bank, x, weight)
    for i in range(N):
        weight[i] *= bank.lr
    for c in range(m):
        if not bank.cyclic:
            move(bank.w[c], x, bank.s, target[c], weight)
            continue
        for i in range(N):
            target[c, i] *= weight[i]
        for j in range(d):
            lane = (j - bank.first) % d
            if x[j] != 0.0:
                scaled = x[j] / bank.s[j] / bank.s[j] if bank.s[j] > LEAST else 0.0
                shift(bank.w[c, j, lane::d], target[c, lane::d], scaled)
        if rows > d:
            shift(bank.w[c, d], target[c], 1.0)


@reset_learner.register
def _(bank: Ng, i: int, state: Any) -> None:
    # The scales are shared: they stay.
    clear(bank.w, i)
    bank.t[i] = 0.0
    bank.n[i] = 0.0
