"""Paired comparison: which of two models has the lower loss on the same events, with confidence.

Losses of neighbouring events are correlated, so sums over blocks of events are compared (batch
means). A round of events is judged a few times, as more of them come; each time may err with an
equal part of the probability of error, so that all of them together keep to it (Bonferroni). Then a
new round begins: old events do not count for long.

Schmeiser, Batch Size Effects in the Analysis of Simulation Output, 1982.
Abramowitz, Stegun, Handbook of Mathematical Functions, 26.7.5: quantiles of Student's t.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from kaboost.models.types import Ints, Mat, Vec

LOOKS = (1, 2, 4, 8)  # a round is judged after so many times its first number of events
FEWEST_BLOCKS, MOST_BLOCKS = 16, 64  # up to the first look
FEWEST_SHOWN = 8  # blocks, below which no estimate is shown
FIRST, SECOND = range(2)  # columns of `sums`
AFTER, EVENTS, BETTER = range(3)  # places of `counts`


class PairedLosses(NamedTuple):
    """The losses of two models in one round; rows of blocks that are not complete count later."""

    sums: Mat  # (8 K, 2) weighted losses of the first and the second model by block
    counts: Ints  # (3,) events of the first look, events of the round, 1 if the second is better


class Estimate(NamedTuple):
    """How much lower the loss of the second model is, as a part of the first one's."""

    events: int  # of complete blocks
    improvement: float  # negative where the second model is worse
    low: float  # of the interval at the confidence that was asked for
    high: float


def paired_losses(after: int) -> PairedLosses:
    """Return an empty round that is judged first after so many events, rounded up to blocks."""
    blocks, _ = _layout(after)
    return PairedLosses(np.zeros((LOOKS[-1] * blocks, 2)), np.array([after, 0, 0], np.int64))


def restart(pair: PairedLosses) -> None:
    """Begin a new round, without a verdict."""
    pair.sums[:] = 0.0
    pair.counts[EVENTS:] = 0


def is_better(pair: PairedLosses) -> bool:
    """Return whether the second model was better by the margin at the last look."""
    return bool(pair.counts[BETTER])


def parts(pair: PairedLosses, w: Vec, skipped: int) -> Iterator[tuple[slice, int]]:
    """Yield events (B,) in parts that end where a block ends, each with how many of them count.

    Parameters
    ----------
    pair
        The round, to which `add` must add each part before the next is taken.
    w
        Importances, (B,); events of importance 0 do not count.
    skipped
        How many of the first events do not count, since a model is cold; they are one part.

    Examples
    --------
    >>> pair = paired_losses(100)
    >>> [(span.start, span.stop, n) for span, n in parts(pair, np.ones(11), 3)]
    [(0, 3, 0), (3, 10, 7), (10, 11, 1)]
    """
    _, length = _layout(int(pair.counts[AFTER]))
    counted = np.cumsum(w > 0.0)
    begin, total = 0, int(counted[-1]) if len(w) else 0
    known = min(skipped, total)
    if known:
        begin = int(np.searchsorted(counted, known)) + 1
        yield slice(0, begin), 0
    to_end = length - int(pair.counts[EVENTS]) % length
    while known + to_end <= total:
        known += to_end
        end = int(np.searchsorted(counted, known)) + 1
        yield slice(begin, end), to_end
        begin, to_end = end, length
    if begin < len(w):
        yield slice(begin, len(w)), total - known


def add(pair: PairedLosses, events: int, losses: tuple[float, float]) -> bool:
    """Add the weighted losses of a part of a block; return whether the round is to be judged."""
    blocks, length = _layout(int(pair.counts[AFTER]))
    pair.sums[int(pair.counts[EVENTS]) // length] += losses
    pair.counts[EVENTS] += events
    complete, rest = divmod(int(pair.counts[EVENTS]), length)
    return events > 0 and not rest and complete in [look * blocks for look in LOOKS]


def judge(pair: PairedLosses, margin: float, confidence: float) -> bool:
    """Note whether the loss of the second model is lower by a part `margin` of the first one's; a
    full round ends. The probability to note it wrongly once in a round is at most 1 - confidence,
    where blocks are independent and their sums close to normal.
    """
    sums = _complete(pair)
    better = _low((1.0 - margin) * sums[:, FIRST] - sums[:, SECOND], confidence, len(LOOKS)) > 0.0
    if len(sums) == len(pair.sums):
        restart(pair)
    pair.counts[BETTER] = better
    return better


def estimate(pair: PairedLosses, confidence: float) -> Estimate | None:
    """Return how much better the second model is in this round so far; None for few events."""
    sums = _complete(pair)
    total = float(sums[:, FIRST].sum())
    if len(sums) < FEWEST_SHOWN or not 0.0 < total < math.inf:
        return None
    gains, sides = sums[:, FIRST] - sums[:, SECOND], 2
    mean, n = float(gains.mean()), len(gains)
    off = mean - _low(gains, confidence, sides)
    low, high = ((mean + end) * n / total for end in (-off, off))
    _, length = _layout(int(pair.counts[AFTER]))
    return Estimate(n * length, mean * n / total, low, high)


def student_quantile(error: float, freedom: int) -> float:
    """Return the value that Student's t exceeds with probability `error`.

    Examples
    --------
    >>> round(student_quantile(0.025, 20), 2)
    2.09
    """
    z = -NormalDist().inv_cdf(error)
    first = (z**3 + z) / 4.0
    second = (5.0 * z**5 + 16.0 * z**3 + 3.0 * z) / 96.0
    third = (3.0 * z**7 + 19.0 * z**5 + 17.0 * z**3 - 15.0 * z) / 384.0
    return z + first / freedom + second / freedom**2 + third / freedom**3


def _low(values: Vec, confidence: float, tests: int) -> float:
    """Return the lower bound of the mean of blocks, whose error is one of so many equal parts."""
    n = len(values)
    if n < 2:
        return -math.inf
    with np.errstate(over="ignore", invalid="ignore"):  # a model has diverged
        spread = float(values.std(ddof=1)) / math.sqrt(n)
    quantile = student_quantile((1.0 - confidence) / tests, n - 1)
    return float(values.mean()) - quantile * spread


def _complete(pair: PairedLosses) -> Mat:
    """Return the rows of the complete blocks."""
    _, length = _layout(int(pair.counts[AFTER]))
    return pair.sums[: int(pair.counts[EVENTS]) // length]


def _layout(after: int) -> tuple[int, int]:
    """Return the blocks of so many events, and the length of one: long blocks depend little on one
    another, however their events do.
    """
    blocks = min(max(round(math.sqrt(after)), FEWEST_BLOCKS), MOST_BLOCKS)
    return blocks, -(-after // blocks)
