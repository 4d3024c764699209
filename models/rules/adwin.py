"""ADWIN: an adaptive window that drops its oldest values when its mean has changed; one detector
for each weak learner.

Bifet, Gavalda, Learning from Time-Changing Data with Adaptive Windowing, SDM 2007; specification,
6.7. The window is an exponential histogram: row r holds at most 5 buckets of 2^r values, the
oldest first, with their sum and their sum of squared deviations.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from kaboost.models.kernels.jit import kernel
from kaboost.models.types import Ints, Mat3, Vec
from kaboost.models.verbs import learning_only

BUCKETS = 5  # in a row; the two oldest merge into the next row when there is one more
ROWS = 48  # 10^15 values
CHECK_EVERY = 32  # values between two tests for a change
MIN_WINDOW = 10  # values in the window before the first test
MIN_PART = 5.0  # values on both sides of a cut


class Adwin(NamedTuple):
    """N detectors."""

    delta: float  # chance of a false alarm
    totals: Mat3  # (N, ROWS, BUCKETS+1) sum of each bucket
    spreads: Mat3  # (N, ROWS, BUCKETS+1) sum of squared deviations of each bucket
    held: Ints  # (N, ROWS) number of buckets in each row
    width: Vec  # (N,) values in the window
    total: Vec  # (N,) their sum
    spread: Vec  # (N,) their sum of squared deviations
    ticks: Ints  # (N,) values since the last reset
    changed: Ints  # (N,) 1 where the last value revealed a change


@learning_only.register
def _(a: Adwin) -> tuple[str, ...]:
    return a._fields


def adwin(N: int, delta: float) -> Adwin:
    """Return N detectors that have seen nothing."""
    size = (N, ROWS, BUCKETS + 1)
    return Adwin(
        delta,
        np.zeros(size),
        np.zeros(size),
        np.zeros((N, ROWS), np.int64),
        np.zeros(N),
        np.zeros(N),
        np.zeros(N),
        np.zeros(N, np.int64),
        np.zeros(N, np.int64),
    )


@kernel
def update(a: Adwin, i: int, value: float) -> bool:
    """Add a value to detector i; return whether the mean of its window changed.

    After a change the detector is reset before the next value.
    """
    if a.changed[i] == 1:
        reset(a, i)
    add_value(a, i, value)
    a.ticks[i] += 1
    if a.ticks[i] % CHECK_EVERY == 0 and a.width[i] > MIN_WINDOW:
        while has_change(a, i):
            drop_oldest(a, i)
            a.changed[i] = 1
    return bool(a.changed[i] == 1)


@kernel
def window_mean(a: Adwin, i: int) -> float:
    """Return the mean of detector i's window, 0 before any value."""
    return a.total[i] / a.width[i] if a.width[i] > 0.0 else 0.0


@kernel
def reset(a: Adwin, i: int) -> None:
    """Reset detector i to its initial state."""
    for r in range(ROWS):
        a.held[i, r] = 0
        for k in range(BUCKETS + 1):
            a.totals[i, r, k] = 0.0
            a.spreads[i, r, k] = 0.0
    a.width[i] = 0.0
    a.total[i] = 0.0
    a.spread[i] = 0.0
    a.ticks[i] = 0
    a.changed[i] = 0


@kernel
def add_value(a: Adwin, i: int, value: float) -> None:
    """Add a value at the new end of window i; merge buckets where a row has too many."""
    if a.width[i] > 0.0:
        a.spread[i] += between_deviation(1.0, value, a.width[i], a.total[i])
    a.width[i] += 1.0
    a.total[i] += value
    append_bucket(a, i, 0, value, 0.0)
    r = 0
    while a.held[i, r] > BUCKETS:
        size = 2.0**r
        first, second = a.totals[i, r, 0], a.totals[i, r, 1]
        spread = (
            a.spreads[i, r, 0] + a.spreads[i, r, 1] + between_deviation(size, first, size, second)
        )
        remove_bucket(a, i, r)
        remove_bucket(a, i, r)
        append_bucket(a, i, r + 1, first + second, spread)
        r += 1


@kernel
def append_bucket(a: Adwin, i: int, r: int, total: float, spread: float) -> None:
    """Add a bucket at the new end of row r."""
    k = a.held[i, r]
    a.totals[i, r, k] = total
    a.spreads[i, r, k] = spread
    a.held[i, r] = k + 1


@kernel
def remove_bucket(a: Adwin, i: int, r: int) -> None:
    """Remove the oldest bucket of row r."""
    for k in range(BUCKETS):
        a.totals[i, r, k] = a.totals[i, r, k + 1]
        a.spreads[i, r, k] = a.spreads[i, r, k + 1]
    a.totals[i, r, BUCKETS] = 0.0
    a.spreads[i, r, BUCKETS] = 0.0
    a.held[i, r] -= 1


@kernel
def drop_oldest(a: Adwin, i: int) -> None:
    """Remove the oldest bucket of window i."""
    r = oldest_row(a, i)
    size, total, spread = 2.0**r, a.totals[i, r, 0], a.spreads[i, r, 0]
    remove_bucket(a, i, r)
    a.width[i] -= size
    a.total[i] -= total
    a.spread[i] -= spread + between_deviation(size, total, a.width[i], a.total[i])


@kernel
def oldest_row(a: Adwin, i: int) -> int:
    """Return the row of the oldest bucket."""
    r = ROWS - 1
    while r > 0 and a.held[i, r] == 0:
        r -= 1
    return r


@kernel
def has_change(a: Adwin, i: int) -> bool:
    """Return whether any cut leaves two parts whose means differ significantly."""
    before, total = 0.0, 0.0  # values before the cut, and their sum
    for r in range(oldest_row(a, i), -1, -1):
        for k in range(a.held[i, r]):
            before += 2.0**r
            total += a.totals[i, r, k]
            after = a.width[i] - before
            if before >= MIN_PART and after >= MIN_PART:
                gap = abs(total / before - (a.total[i] - total) / after)
                if gap > cut_threshold(a, i, before, after):
                    return True
    return False


@kernel
def cut_threshold(a: Adwin, i: int, before: float, after: float) -> float:
    """Return epsilon_cut: by how much two means may differ by chance."""
    log = math.log(2.0 * math.log(a.width[i]) / a.delta)
    variance = max(a.spread[i], 0.0) / a.width[i]  # rounding may leave it just below 0
    share = 1.0 / (before - MIN_PART + 1.0) + 1.0 / (after - MIN_PART + 1.0)
    return math.sqrt(2.0 * share * variance * log) + 2.0 / 3.0 * log * share


@kernel
def between_deviation(n: float, total: float, other_n: float, other: float) -> float:
    """Return what the difference of two means adds to the sum of squared deviations."""
    gap = total / n - other / other_n
    return n * other_n / (n + other_n) * gap * gap
