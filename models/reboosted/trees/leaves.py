"""Leaves that go on learning: offsets beside the value of every leaf, moved by every event.

Each leaf learner keeps one offset a leaf. The first takes AdaGrad's steps (Duchi, Hazan, Singer
2011), three take steps of a constant rate, and the last keeps still: it is the structure as it was
grown. One row of eight float32 holds all of a leaf. AdaGrad's sums take the squared slopes of four
events at once, which costs a quarter and changes nothing that could be measured.
"""

from __future__ import annotations

import math
from typing import Any

from kaboost.models.kernels.jit import kernel
from kaboost.models.reboosted.state import LANES, ROOT, SQUARES, VALUE
from kaboost.models.types import Vec


@kernel
def sum_leaves(rows: Any, leaf: Any, y0: float, F: Vec, total: Vec) -> None:
    """Fill F (N+1,) with the partial sums from y0 of what the reached leaves said when they were
    grown, and total (5,) with the scores of the leaf learners.
    """
    a, b, c, d, e = y0, 0.0, 0.0, 0.0, 0.0
    F[0] = y0
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
def learn_leaves(rows: Any, leaf: Any, move: Any) -> None:
    """Move the offsets of every reached leaf.

    Parameters
    ----------
    rows : (N, M, 8) leaf rows.
    leaf : (N,) reached leaves.
    move : (8,) float32: AdaGrad's step before its root, then what is taken from other offsets.
    """
    push, c, d, e = move[1], move[2], move[3], move[4]
    for i in range(rows.shape[0]):
        row = rows[i, leaf[i] & 0xFFFF]
        v, w, x, y = row[1] - push * row[ROOT], row[2] - c, row[3] - d, row[4] - e
        row[1], row[2], row[3], row[4] = v, w, x, y


@kernel
def update_adagrad(rows: Any, leaf: Any, square: float) -> None:
    """Add a squared slope to AdaGrad's sum in every reached leaf."""
    for i in range(rows.shape[0]):
        row = rows[i, leaf[i] & 0xFFFF]
        squares = float(row[SQUARES]) + square
        row[SQUARES] = squares
        row[ROOT] = 1.0 / math.sqrt(1.0 + squares)


@kernel
def reset_leaves(rows: Any, i: int, values: Vec) -> None:
    """Give tree i the values (M,) of its leaves, and no offsets."""
    for n in range(values.shape[0]):
        for c in range(LANES):
            rows[i, n, c] = 0.0
        rows[i, n, VALUE], rows[i, n, ROOT] = values[n], 1.0
