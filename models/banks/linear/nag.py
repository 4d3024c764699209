"""Linear weak learners moved by the scale-free normalised adaptive step.

The weights are w (m, rows, N) with a row per feature and one more for the bias: learners lie along
the vector lanes, so sums over features stay strictly left to right and still fill whole vectors
(docs/adr/0009).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from kaboost.models.banks.linear.walk import clear
from kaboost.models.kernels.jit import kernel
from kaboost.models.kernels.numeric import add, fill, residual
from kaboost.models.kernels.simd import (
    Column,
    Dense,
    Lane,
    NewRow,
    Row,
    Sum,
    over_learners,
    sqrt,
    where,
)
from kaboost.models.types import Mat, Mat3, Vec
from kaboost.models.verbs import (
    learn,
    learner_view,
    learning_only,
    predict,
    reset_learner,
    update_shared,
)


class Nag(NamedTuple):
    """Linear learners moved by the normalised adaptive step, blind to the scale of each feature
    (specification, 7.1).
    """

    w: Mat3  # (m, rows, N), in the scale s of its row
    s: Vec  # (rows,) largest |x_j| learned so far
    S: Mat3  # (m, rows, N) sum of squared gradients
    t: Vec  # (N,) events each learner took
    n: Vec  # (N,) sum of (x_j / s_j)^2 over them
    lr: float
    cyclic: bool  # learner i sees only feature (first + i) mod d, and the bias
    first: int  # 0; the learner's own number in a bank of one


@learning_only.register
def _(bank: Nag) -> tuple[str, ...]:
    return ("S", "t", "n")


@learner_view.register
def _(bank: Nag, i: int) -> Nag:
    t, n = bank.t[i : i + 1], bank.n[i : i + 1]
    w, S = bank.w[:, :, i : i + 1], bank.S[:, :, i : i + 1]
    return Nag(w, bank.s, S, t, n, bank.lr, bank.cyclic, bank.first + i)


@update_shared.register
def _(bank: Nag, x: Vec) -> None:
    rescale(bank, x, False)


@kernel
def adapt_row(row: Vec, square: Vec, slope: Vec, rate: Vec, xj: float, scale: float) -> None:
    """Move one row of weights by rate * g / (scale sqrt(sum g^2)) with g = slope * xj, lane by
    lane.
    """
    for i in range(row.shape[0]):
        g = slope[i] * xj
        square[i] += g * g
        size = scale * math.sqrt(square[i])
        row[i] -= rate[i] * g / (size if size > 0.0 else 1.0)  # size is 0 only where g is


@over_learners
def dot_clipped(total: Sum, w: Row, x: Column, s: Dense) -> Sum:
    """Sum w x. A feature larger than ever is predicted as in its new scale; `learn` moves the
    weights there.
    """
    return total + w * where(abs(x) <= s, x, where(x > 0.0, s, -s))


@over_learners
def adapt(
    w: NewRow, S: NewRow, x: Column, s: Dense, slope: Lane, rate: Lane
) -> tuple[NewRow, NewRow]:
    """Move the weights by rate * g / (s sqrt(sum g^2)) with g = slope * x."""
    g = slope * x
    square = S + g * g
    size = s * sqrt(square)
    return w - rate * g / where(size > 0.0, size, 1.0), square  # size is 0 only where g is


@predict.register
def _(bank: Nag, x: Vec, h: Mat, bank_scratch: Mat) -> None:
    for c in range(bank.w.shape[0]):
        if not bank.cyclic:
            dot_clipped(bank.w[c], x, bank.s, h[c])
            continue
        dot_cyclic(bank, c, x, h[c], False)


@learn.register
def _(bank: Nag, x: Vec, h: Mat, target: Mat, weight: Vec, mode: int, bank_scratch: Mat) -> None:
    m, rows, _ = bank.w.shape
    d = x.shape[0]
    residual(h, target, weight, mode)
    rescale(bank, x, False)
    shares(bank, x, weight)
    for i in range(weight.shape[0]):
        weight[i] = bank.lr * math.sqrt(weight[i])
    for c in range(m):
        if not bank.cyclic:
            adapt(bank.w[c], bank.S[c], x, bank.s, target[c], weight)
            continue
        for j in range(d):
            lane = (j - bank.first) % d
            w, S = bank.w[c, j, lane::d], bank.S[c, j, lane::d]
            adapt_row(w, S, target[c, lane::d], weight[lane::d], x[j], bank.s[j])
        if rows > d:
            adapt_row(bank.w[c, d], bank.S[c, d], target[c], weight, 1.0, 1.0)


@kernel
def dot_cyclic(bank: Any, c: int, x: Vec, h: Vec, squared: bool) -> None:
    """Fill h (N,) with output c of learners that see one feature each. A feature larger than ever
    counts as it will after `rescale`.
    """
    rows, d = bank.w.shape[1], x.shape[0]
    fill(h, 0.0)
    for j in range(d):
        lane, xj, s = (j - bank.first) % d, x[j], bank.s[j]
        if abs(xj) > s:
            xj = s / xj * s if squared else (s if xj > 0.0 else -s)
        add(h[lane::d], bank.w[c, j, lane::d], xj)
    if rows > d:
        add(h, bank.w[c, d], 1.0)


@kernel
def rescale(bank: Any, x: Vec, squared: bool) -> None:
    """Carry the weights of every feature that is larger than ever before over to its new scale: by
    the ratio of the scales, or by its square.
    """
    m, rows, N = bank.w.shape
    for j in range(rows):
        size = abs(x[j]) if j < x.shape[0] else 1.0
        if size > bank.s[j]:
            shrink = bank.s[j] / size
            shrink *= shrink if squared else 1.0
            for c in range(m):
                for i in range(N):
                    bank.w[c, j, i] *= shrink
            bank.s[j] = size


@kernel
def shares(bank: Any, x: Vec, weight: Vec) -> None:
    """Count the event in t and n of every learner of positive weight; overwrite weight (N,) with
    t/n.
    """
    rows, N = bank.w.shape[1], weight.shape[0]
    d = x.shape[0]
    shared = 1.0 if rows > d else 0.0  # the bias: x = s = 1
    if not bank.cyclic:
        for j in range(d):
            if x[j] != 0.0:
                shared += (x[j] / bank.s[j]) * (x[j] / bank.s[j])
    for i in range(N):
        if weight[i] > 0.0:
            norm = shared
            j = (bank.first + i) % d
            if bank.cyclic and x[j] != 0.0:
                norm += (x[j] / bank.s[j]) * (x[j] / bank.s[j])
            bank.t[i] += 1.0
            bank.n[i] += norm
            weight[i] = bank.t[i] / bank.n[i] if bank.n[i] > 0.0 else 0.0


@reset_learner.register
def _(bank: Nag, i: int, state: Any) -> None:
    # The scales are shared: they stay.
    clear(bank.w, i)
    clear(bank.S, i)
    bank.t[i] = 0.0
    bank.n[i] = 0.0
