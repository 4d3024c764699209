"""Stable scalar pieces that losses, rules and banks share, written so that compiled and plain
Python agree bit for bit.
"""

from __future__ import annotations

import math

from models.types import LINEAR, SQUARE, Mat, Vec
from models.verbs import kernel


@kernel
def sigmoid(a: float) -> float:
    """Return 1 / (1 + e^-a) without overflow."""
    if a >= 0.0:
        return 1.0 / (1.0 + math.exp(-a))
    t = math.exp(a)
    return t / (1.0 + t)


@kernel
def log1pexp(a: float) -> float:
    """Return ln(1 + e^a) without overflow: max(a, 0) + log1p(e^-|a|)."""
    return max(a, 0.0) + math.log1p(math.exp(-abs(a)))


@kernel
def fill(row: Vec, value: float) -> None:
    """Put `value` in every place; a loop, because a slice assignment costs 50 ns when compiled."""
    for i in range(row.shape[0]):
        row[i] = value


@kernel
def add(total: Vec, row: Vec, factor: float) -> None:
    """total += row * factor, lane by lane."""
    for i in range(total.shape[0]):
        total[i] += row[i] * factor


@kernel
def shift(row: Vec, step: Vec, factor: float) -> None:
    """row -= step * factor, lane by lane."""
    for i in range(row.shape[0]):
        row[i] -= step[i] * factor


@kernel
def residual(h: Mat, target: Mat, weight: Vec, mode: int) -> None:
    """Overwrite target (m, N) with weight * e, the derivative of the fed loss in h (specification,
    section 7).

    e = h - target (SQUARE), the given slope (LINEAR), -u s(-u h) for a label u (LOGISTIC); 0 for
    weight 0.
    """
    m, N = h.shape
    for c in range(m):
        if mode == SQUARE:
            for i in range(N):
                target[c, i] = weight[i] * (h[c, i] - target[c, i]) if weight[i] > 0.0 else 0.0
        elif mode == LINEAR:
            for i in range(N):
                target[c, i] = weight[i] * target[c, i] if weight[i] > 0.0 else 0.0
        else:
            for i in range(N):
                u = target[c, i]
                target[c, i] = -weight[i] * u * sigmoid(-u * h[c, i]) if weight[i] > 0.0 else 0.0
