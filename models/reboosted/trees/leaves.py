"""Leaves that go on learning: offsets to the value of every leaf, moved by every event.

Each leaf learner has one offset a leaf. The first takes AdaGrad's steps (Duchi, Hazan, Singer
2011), three take steps of a constant rate, and the last does not learn: it is the structure as it
was grown. One row of eight float32 holds all of a leaf. AdaGrad's sums take the squared gradients
of four events at once, which costs a quarter and made no measurable difference.
"""

from __future__ import annotations

import math

from kaboost.models.kernels.jit import kernel
from kaboost.models.reboosted.state import LANES, ROOT, SQUARES, VALUE, Places, Rows
from kaboost.models.types import Vec


@kernel
def sum_leaves(rows: Rows, leaf: Places, base_score: float, F: Vec, total: Vec) -> None:
    """Fill F (N+1,) with the partial sums of the reached leaves' values from the base score on, and
    total (5,) with the scores of the leaf learners; rows are (N, leaves, 8), leaf is (N,).
    """
    a, b, c, d, e = base_score, 0.0, 0.0, 0.0, 0.0
    F[0] = base_score
    for i in range(rows.shape[0]):
        row = rows[i, leaf[i] & 0xFFFF]
        a += float(row[0])
        F[i + 1] = a
        b += float(row[1])
        c += float(row[2])
        d += float(row[3])
        e += float(row[4])
    total[0], total[1], total[2], total[3], total[4] = a + b, a + c, a + d, a + e, a


@kernel
def learn_leaves(rows: Rows, leaf: Places, steps: Rows) -> None:
    """Move the offsets of every reached leaf against the gradient.

    Parameters
    ----------
    rows : (N, leaves, 8) leaf rows.
    leaf : (N,) reached leaves.
    steps : (8,) AdaGrad's step before it is divided by its root at 1, others' at 2 to 4.
    """
    push, c, d, e = steps[1], steps[2], steps[3], steps[4]
    for i in range(rows.shape[0]):
        row = rows[i, leaf[i] & 0xFFFF]
        v, w, x, y = row[1] - push * row[ROOT], row[2] - c, row[3] - d, row[4] - e
        row[1], row[2], row[3], row[4] = v, w, x, y


@kernel
def update_adagrad(rows: Rows, leaf: Places, square: float) -> None:
    """Add a squared gradient to AdaGrad's sum in every reached leaf (N,)."""
    for i in range(rows.shape[0]):
        row = rows[i, leaf[i] & 0xFFFF]
        squares = float(row[SQUARES]) + square
        row[SQUARES] = squares
        row[ROOT] = 1.0 / math.sqrt(1.0 + squares)


@kernel
def reset_leaves(rows: Rows, i: int, values: Vec) -> None:
    """Set the leaves of tree i to values (leaves,), without offsets."""
    for n in range(values.shape[0]):
        for c in range(LANES):
            rows[i, n, c] = 0.0
        rows[i, n, VALUE], rows[i, n, ROOT] = values[n], 1.0
