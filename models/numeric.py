"""Stable scalar pieces that losses, rules and banks share, written so that compiled and plain
Python agree bit for bit.
"""

from __future__ import annotations

import numpy as np

from models.types import LINEAR, SQUARE, Mat, Vec
from models.verbs import kernel

# Cody-Waite halves of ln 2: k * LN2_HIGH is exact for every exponent k of a float.
LOG2_E, LN2_HIGH, LN2_LOW = (
    1.4426950408889634,
    6.93147180369123816490e-01,
    1.90821492927058770002e-10,
)
ROUNDER = 6755399441055744.0  # 1.5 * 2^52: adding it leaves the nearest integer in the low bits
EXPONENT_BIAS, MANTISSA_BITS = 1023, 52


@kernel
def exp_negative(a: float) -> float:
    """Return e^a for a <= 0, to one unit in the last place and at least e^-708; nan stays nan.

    A polynomial instead of libm's exp, so that loops over prefixes fill vector lanes.
    """
    a = -708.0 if a < -708.0 else a
    z = a * LOG2_E + ROUNDER
    k = z - ROUNDER
    r = (a - k * LN2_HIGH) - k * LN2_LOW
    p = 1.0 / 6227020800.0
    p = p * r + 1.0 / 479001600.0
    p = p * r + 1.0 / 39916800.0
    p = p * r + 1.0 / 3628800.0
    p = p * r + 1.0 / 362880.0
    p = p * r + 1.0 / 40320.0
    p = p * r + 1.0 / 5040.0
    p = p * r + 1.0 / 720.0
    p = p * r + 1.0 / 120.0
    p = p * r + 1.0 / 24.0
    p = p * r + 1.0 / 6.0
    p = p * r + 0.5
    p = p * r + 1.0
    p = p * r + 1.0
    bits = (np.float64(z).view(np.int64) + EXPONENT_BIAS) << MANTISSA_BITS
    return p * np.int64(bits).view(np.float64)


@kernel
def log1p_unit(t: float) -> float:
    """Return ln(1 + t) for t in [0, 1] by the series of 2 artanh(t / (2 + t)); nan stays nan."""
    q = t / (2.0 + t)
    w = q * q
    p = 1.0 / 33.0
    p = p * w + 1.0 / 31.0
    p = p * w + 1.0 / 29.0
    p = p * w + 1.0 / 27.0
    p = p * w + 1.0 / 25.0
    p = p * w + 1.0 / 23.0
    p = p * w + 1.0 / 21.0
    p = p * w + 1.0 / 19.0
    p = p * w + 1.0 / 17.0
    p = p * w + 1.0 / 15.0
    p = p * w + 1.0 / 13.0
    p = p * w + 1.0 / 11.0
    p = p * w + 1.0 / 9.0
    p = p * w + 1.0 / 7.0
    p = p * w + 1.0 / 5.0
    p = p * w + 1.0 / 3.0
    p = p * w + 1.0
    return 2.0 * q * p


@kernel
def sigmoid(a: float) -> float:
    """Return 1 / (1 + e^-a) without overflow."""
    t = exp_negative(-abs(a))
    return (1.0 if a >= 0.0 else t) / (1.0 + t)


@kernel
def log1pexp(a: float) -> float:
    """Return ln(1 + e^a) without overflow: max(a, 0) + ln(1 + e^-|a|)."""
    return (a if a > 0.0 else 0.0) + log1p_unit(exp_negative(-abs(a)))


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
