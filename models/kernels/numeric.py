"""Numerically stable functions that losses, rules and banks share; compiled and plain Python agree
bit for bit.
"""

from __future__ import annotations

import math

import numpy as np

from kaboost.models.kernels.jit import kernel
from kaboost.models.kernels.simd import (
    Column,
    Lane,
    NewLane,
    NewRow,
    Number,
    Row,
    Sum,
    over_learners,
    where,
)
from kaboost.models.types import LINEAR, SQUARE, Mat, Vec

# Cody-Waite halves of ln 2: k * LN2_HIGH is exact for every exponent k of a float.
LOG2_E, LN2_HIGH, LN2_LOW = (
    1.4426950408889634,
    6.93147180369123816490e-01,
    1.90821492927058770002e-10,
)
ROUNDER = 6755399441055744.0  # 1.5 * 2^52: adding it leaves the nearest integer in the low bits
# Of polynomials through the Chebyshev points: (e^r - 1 - r) / r^2 for |r| <= ln 2 / 2, and
# (artanh(q) / q - 1) / q^2 in q^2 for |q| <= (sqrt 2 - 1) / (sqrt 2 + 1); both to a tenth of a unit
# in the last place.
EXP = (
    0.5000000000000001,
    0.16666666666666669,
    0.04166666666662413,
    0.008333333333330062,
    0.0013888888917213717,
    0.00019841269863053618,
    2.4801521295954376e-05,
    2.7557268459997064e-06,
    2.7620088445409746e-07,
    2.510038549551032e-08,
)
LOG = (
    0.3333333333333335,
    0.19999999999949722,
    0.14285714313001635,
    0.11111105565129939,
    0.09091444727837474,
    0.07665855309105386,
    0.07308292712444311,
)
LN2, HALFWAY = 0.6931471805599453, 0.41421356237309503
EXPONENT_BIAS, MANTISSA_BITS = 1023, 52


@kernel
def exp_negative(a: float) -> float:
    """Return e^a for a <= 0, to 1.2 units in the last place and at least e^-708; nan stays nan.

    A polynomial instead of libm's exp, so that loops over prefixes fill vector lanes.
    """
    a = -708.0 if a < -708.0 else a
    z = a * LOG2_E + ROUNDER
    k = z - ROUNDER
    r = (a - k * LN2_HIGH) - k * LN2_LOW
    s = r * r
    # (e^r - 1 - r) / r^2 in Estrin's order: half as deep as Horner's
    low = (EXP[0] + EXP[1] * r) + s * (EXP[2] + EXP[3] * r)
    high = (EXP[4] + EXP[5] * r) + s * (EXP[6] + EXP[7] * r)
    p = 1.0 + (r + s * (low + s * s * (high + s * s * (EXP[8] + EXP[9] * r))))
    bits = (np.float64(z).view(np.int64) + EXPONENT_BIAS) << MANTISSA_BITS
    return p * np.int64(bits).view(np.float64)


@kernel
def bits_of(number: float) -> int:
    """Return the bits of a float as an integer; for positive floats they are in the same order."""
    return int(np.float64(number).view(np.int64))


@kernel
def log1p_unit(t: float) -> float:
    """Return ln(1 + t) for t in [0, 1], to three units in the last place; nan stays nan.

    2 artanh(q) with q = t / (2 + t); from sqrt(2) - 1 on ln 2 plus that of (1 + t) / 2.
    """
    far = t > HALFWAY
    q = (t - 1.0 if far else t) / (t + (3.0 if far else 2.0))
    w = q * q
    s = w * w
    low = (LOG[0] + LOG[1] * w) + s * (LOG[2] + LOG[3] * w)
    p = low + s * s * ((LOG[4] + LOG[5] * w) + s * LOG[6])
    return (LN2 if far else 0.0) + 2.0 * (q + q * (w * p))


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
def finite(X: Mat) -> bool:
    """Return whether every number is finite; in one pass, without a temporary array."""
    bad = 0
    for k in range(X.shape[0]):
        for j in range(X.shape[1]):
            bad += not abs(X[k, j]) < math.inf
    return bad == 0


@kernel
def fill(row: Vec, value: float) -> None:
    """Set every element to `value`; a loop, because a compiled slice assignment costs 50 ns."""
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


@over_learners
def dot(total: Sum, w: Row, x: Column) -> Sum:
    """Fill a vector (N,) with the sums over rows of w (rows, N) times x (d,), 1 for the bias."""
    return total + w * x


@over_learners
def retreat(w: NewRow, x: Column, step: Lane) -> NewRow:
    """w (rows, N) -= step (N,) times x (d,), 1 for the bias."""
    return w - step * x


@over_learners
def errors(target: NewLane, h: Lane, weight: Lane, lr: Number) -> NewLane:
    """Replace target by lr * weight * (h - target); by 0 for weight 0."""
    return where(weight > 0.0, weight * (h - target), 0.0) * lr


@over_learners
def slopes(target: NewLane, weight: Lane, lr: Number) -> NewLane:
    """Replace target by lr * weight * target; by 0 for weight 0."""
    return where(weight > 0.0, weight * target, 0.0) * lr


@kernel
def steps(h: Mat, target: Mat, weight: Vec, mode: int, lr: float) -> None:
    """Overwrite target (m, N) with lr * weight * e, where e is the derivative in h of the loss that
    the learner has under `mode` (specification, section 7).

    e = h - target (SQUARE), target (LINEAR), -u s(-u h) for a label u (LOGISTIC); 0 for weight 0.
    """
    m, N = h.shape
    for c in range(m):
        if mode == SQUARE:
            errors(target[c], h[c], weight, lr)
        elif mode == LINEAR:
            slopes(target[c], weight, lr)
        else:
            for i in range(N):
                u = target[c, i]
                e = -weight[i] * u * sigmoid(-u * h[c, i]) if weight[i] > 0.0 else 0.0
                target[c, i] = e * lr


@kernel
def residual(h: Mat, target: Mat, weight: Vec, mode: int) -> None:
    """Overwrite target (m, N) with weight * e: `steps` of learning rate 1."""
    steps(h, target, weight, mode, 1.0)


@kernel
def chosen(h: Mat, i: int) -> int:
    """Return the class of the largest score in column i of h (m, N); ties go to the first. For one
    row return 1 for a score >= 0, else 0.
    """
    if h.shape[0] == 1:
        return 1 if h[0, i] >= 0.0 else 0
    best = 0
    for c in range(1, h.shape[0]):
        best = c if h[c, i] > h[best, i] else best
    return best
