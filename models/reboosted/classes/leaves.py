"""Leaves with a value per class that go on learning, as those of one score do.

One row holds all of a leaf, quantity by quantity: C values, four times C offsets, C roots and C
sums of AdaGrad, and the number of events. Loops go over rows as they lie in memory.
"""

from __future__ import annotations

import math

from kaboost.models.kernels.jit import kernel
from kaboost.models.reboosted.classes.state import LEARNERS, Singles
from kaboost.models.reboosted.state import CLASS_ROOTS, CLASS_SQUARES, Places, Rows
from kaboost.models.types import Mat, Vec


@kernel
def sum_leaves(rows: Rows, leaf: Places, first: int, last: int, total: Vec) -> None:
    """Add the values and the offsets of the reached leaves of the trees [first, last) to total
    (5C,); rows are (N, leaves, 7C + 1), leaf is (N,).
    """
    for i in range(first, last):
        row = rows[i, leaf[i] & 0xFFFF]
        for j in range(total.shape[0]):
            total[j] += float(row[j])


@kernel
def learner_logits(total: Vec, base: Vec, logits: Mat) -> None:
    """Fill logits (5, C) of the leaf learners from sums (5C,) of values and offsets; the last one
    does not learn.
    """
    C = base.shape[0]
    for c in range(C):
        value = base[c] + total[c]
        for e in range(LEARNERS - 1):
            logits[e, c] = value + total[(1 + e) * C + c]
        logits[LEARNERS - 1, c] = value


@kernel
def learn_leaves(rows: Rows, leaf: Places, steps: Singles) -> None:
    """Move the offsets of every reached leaf (N,) against the gradients; steps (5C,) begin with C
    unused ones and AdaGrad's, before they are multiplied by its roots.
    """
    C = steps.shape[0] // LEARNERS
    for i in range(rows.shape[0]):
        row = rows[i, leaf[i] & 0xFFFF]
        for c in range(C):
            row[C + c] -= steps[C + c] * row[CLASS_ROOTS * C + c]
        for j in range(2 * C, LEARNERS * C):
            row[j] -= steps[j]


@kernel
def update_adagrad(rows: Rows, leaf: Places, squares: Vec) -> None:
    """Add squared gradients (C,) to AdaGrad's sums in every reached leaf (N,)."""
    C = squares.shape[0]
    for i in range(rows.shape[0]):
        row = rows[i, leaf[i] & 0xFFFF]
        for c in range(C):
            total = float(row[CLASS_SQUARES * C + c]) + squares[c]
            row[CLASS_SQUARES * C + c] = total
            row[CLASS_ROOTS * C + c] = 1.0 / math.sqrt(1.0 + total)


@kernel
def reset_leaves(rows: Rows, C: int) -> None:
    """Reset the leaves (leaves, 7C + 1) of a tree: no value, no offset, no event."""
    for n in range(rows.shape[0]):
        for j in range(rows.shape[1]):
            rows[n, j] = 0.0
        for c in range(C):
            rows[n, CLASS_ROOTS * C + c] = 1.0
