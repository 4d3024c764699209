"""What linear weak learners share whatever step moves them: h = w x, and the walk over the weights
that an event touches.

Weights are w (m, rows, N) with a row per feature and one more for the bias; learners lie along the
vector lanes (docs/adr/0009). A step registers `nudge`, the move of a single weight.
"""

from __future__ import annotations

from typing import Any

from kaboost.models.kernels.jit import kernel, unregistered, verb
from kaboost.models.kernels.numeric import add, fill
from kaboost.models.types import Mat, Mat3, Vec


@verb
def nudge(bank: Any, c: int, j: int, i: int, g: float) -> None:
    """Move weight w[c, j, i] for its gradient g = weight * e * x_j; g = 0 must move nothing."""
    raise unregistered("nudge", bank)


@kernel
def weigh(w: Mat3, cyclic: bool, first: int, x: Vec, h: Mat) -> None:
    """Fill h (m, N) with w x; learner i of a cyclic bank sees feature (first + i) mod d alone."""
    m, rows, N = w.shape
    d = x.shape[0]
    for c in range(m):
        fill(h[c], 0.0)
        if cyclic:
            for i in range(N):
                j = (first + i) % d
                h[c, i] += w[c, j, i] * x[j]
        else:
            for j in range(d):
                if x[j] != 0.0:  # one-hot features cost what they hold
                    add(h[c], w[c, j], x[j])
        if rows > d:
            add(h[c], w[c, d], 1.0)


@kernel
def walk(bank: Any, x: Vec, e: Mat) -> None:
    """Nudge every weight that x (d,) touches, with e (m, N) as `residual` leaves it."""
    m, rows, N = bank.w.shape
    d = x.shape[0]
    for c in range(m):
        if bank.cyclic:
            for i in range(N):
                j = (bank.first + i) % d
                nudge(bank, c, j, i, e[c, i] * x[j])
        else:
            for j in range(d):
                if x[j] != 0.0:
                    for i in range(N):
                        nudge(bank, c, j, i, e[c, i] * x[j])
        if rows > d:
            for i in range(N):
                nudge(bank, c, d, i, e[c, i])


@kernel
def pace(e: Mat, rate: Vec) -> None:
    """Multiply e (m, N) by the rate (N,) of each learner."""
    for c in range(e.shape[0]):
        for i in range(e.shape[1]):
            e[c, i] *= rate[i]


@kernel
def clear(A: Mat3, i: int) -> None:
    """Put 0 into all that A (m, rows, N) holds for learner i."""
    for c in range(A.shape[0]):
        for j in range(A.shape[1]):
            A[c, j, i] = 0.0
