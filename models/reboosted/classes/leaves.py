"""Leaves with a value per class that go on learning, as those of one score do.

One row holds all of a leaf, quantity by quantity: C values, four times C offsets, C roots and C
sums of AdaGrad, and the number of events. Loops go over rows as they lie in memory.
"""

from __future__ import annotations

import math

import numpy as np

from kaboost.models.kernels.jit import kernel
from kaboost.models.reboosted.classes.state import LEARNERS, Singles
from kaboost.models.reboosted.state import CLASS_LANES, CLASS_ROOTS, CLASS_SQUARES, Places, Rows
from kaboost.models.types import DOUBLE, Mat, Vec

ONE = np.float32(1.0)  # float32 throughout: AdaGrad's roots then fill vector lanes


@kernel
def sum_leaves(rows: Rows, leaf: Places, first: int, last: int, total: Vec) -> None:
    """Add the values and the offsets of the reached leaves of the trees [first, last) to total
    (5C,); rows are (N, leaves, 7C + 1), leaf is (N,).
    """
    for i in range(first, last):
        row = rows[i, leaf[i] & 0xFFFF]
        for j in range(total.shape[0]):
            total[j] += DOUBLE(row[j])


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
    pushes, moves = steps[C : 2 * C], steps[2 * C :]
    for i in range(rows.shape[0]):
        row = rows[i, leaf[i] & 0xFFFF]
        # Slices that are indexed from 0 on fill vector lanes.
        first, others = row[C : 2 * C], row[2 * C : LEARNERS * C]
        roots = row[CLASS_ROOTS * C : CLASS_SQUARES * C]
        for c in range(C):
            first[c] -= pushes[c] * roots[c]
        for j in range(moves.shape[0]):
            others[j] -= moves[j]


@kernel
def update_adagrad(rows: Rows, leaf: Places, squares: Singles) -> None:
    """Add squared gradients (C,) to AdaGrad's sums in every reached leaf (N,)."""
    C = squares.shape[0]
    for i in range(rows.shape[0]):
        row = rows[i, leaf[i] & 0xFFFF]
        roots = row[CLASS_ROOTS * C : CLASS_SQUARES * C]
        sums = row[CLASS_SQUARES * C : CLASS_LANES * C]
        for c in range(C):
            sums[c] += squares[c]
            roots[c] = math.sqrt(ONE + sums[c])
        for c in range(C):
            roots[c] = ONE / roots[c]


@kernel
def reset_leaves(rows: Rows, C: int) -> None:
    """Reset the leaves (leaves, 7C + 1) of a tree: no value, no offset, no event."""
    for n in range(rows.shape[0]):
        for j in range(rows.shape[1]):
            rows[n, j] = 0.0
        for c in range(C):
            rows[n, CLASS_ROOTS * C + c] = 1.0
