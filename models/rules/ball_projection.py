"""Projection onto a ball of R^m, for arrays that keep their columns along the last axis."""

from __future__ import annotations

import math

from kaboost.models.kernels.jit import kernel
from kaboost.models.types import Mat


@kernel
def project_column(A: Mat, i: int, radius: float) -> None:
    """Project column i of A (m, columns) onto the ball of that radius around 0."""
    m = A.shape[0]
    if m == 1:
        A[0, i] = min(max(A[0, i], -radius), radius)
    else:
        top = 0.0
        for c in range(m):
            top = max(top, abs(A[c, i]))
        if top > 0.0:
            square = 0.0
            for c in range(m):  # in units of the largest: squares of large numbers overflow
                square += (A[c, i] / top) * (A[c, i] / top)
            root = math.sqrt(square)
            if top * root > radius:
                for c in range(m):
                    A[c, i] = A[c, i] / top * (radius / root)
