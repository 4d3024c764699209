"""An even sample of the window, as keys, and the extremes of every feature: edges come from it."""

from __future__ import annotations

from kaboost.models.kernels.jit import inlined, kernel
from kaboost.models.reboosted.config import (
    FIRST_BINS_EVENTS,
    NEW_FEATURE_DIVISOR,
    NEW_FEATURE_ROWS,
)
from kaboost.models.reboosted.state import IDLE, Bins, Keys, Runs
from kaboost.models.reboosted.trees.binning import MISSING_KEY
from kaboost.models.types import UINT


@inlined
def observe_row(bins: Bins, t: int, keys: Keys, runs: Runs) -> None:
    """Update the extremes with the keys (d,) of event t, and the sample if it is due."""
    d = bins.lowest.shape[0]
    new, end, i = 0, UINT(0), 0
    while runs[i] < UINT(d):
        for j in range(end, runs[i]):
            bins.has_missing[j] = 1
        end = runs[i + 1]
        for j in range(runs[i], end):
            new += bins.lowest[j] == MISSING_KEY
            bins.lowest[j] = min(bins.lowest[j], keys[j])
            bins.highest[j] = max(bins.highest[j], keys[j])
        i += 2
    if new > 0 and t >= FIRST_BINS_EVENTS:
        _observe_new_feature(bins, t)
    recent = bins.recent[t % bins.recent.shape[0]]
    for j in range(d):
        recent[j] = keys[j]
    if t % bins.stride[()] == 0:
        row = _sample_row(bins, t)
        for j in range(d):
            bins.sample[row, j] = keys[j]


@kernel
def _observe_new_feature(bins: Bins, t: int) -> None:
    """Schedule re-binning: event t has the first value of a feature."""
    bins.new_feature_at[()] = t
    if bins.progress[0].step == IDLE:  # else bins are being made, and their end schedules it
        bins.rebin_at[()] = min(int(bins.rebin_at[()]), t + new_feature_delay(bins, t))


@kernel
def new_feature_delay(bins: Bins, t: int) -> int:
    """Return the events until a feature that comes up at t is in enough rows of the sample."""
    return max(NEW_FEATURE_ROWS * int(bins.stride[()]), t // NEW_FEATURE_DIVISOR)


@inlined
def thin_sample(bins: Bins, t: int, R: int) -> None:
    """Double the stride of a full sample that does not yet reach over the window of R events."""
    stride, S = int(bins.stride[()]), bins.sample.shape[0]
    if t == S * stride and S * stride < R:
        bins.stride[()] = 2 * stride


@kernel
def _sample_row(bins: Bins, t: int) -> int:
    """Return the row of the sample (S, d) that event t, a multiple of the stride, goes to.

    It is the number of the event in the sample, its bits rotated by as many as the stride has been
    doubled. So the events that stay when it doubles stay in their rows, and those to come take the
    rows of those that go: nothing is moved. (Where S is no power of 2 the sample is the window, and
    the stride 1.)
    """
    stride, S = int(bins.stride[()]), bins.sample.shape[0]
    rotated = t // stride % S * stride
    return int(rotated % S + rotated // S)


@kernel
def sample_rows(bins: Bins, t: int) -> int:
    """Return the row after the last that the sample may have filled after t events."""
    S = bins.sample.shape[0]
    return int(min(t, S) if bins.stride[()] == 1 else S)


@kernel
def collect_column(bins: Bins, j: int, t: int, rows: int) -> int:
    """Put the keys of feature j that are not missing into bins.column; return how many."""
    stride, S = int(bins.stride[()]), bins.sample.shape[0]
    n, filled, span, doubled = 0, min((t + stride - 1) // stride, S), S // stride, 0
    while 1 << doubled < stride:
        doubled += 1
    for i in range(rows):
        k = bins.sample[i, j]
        number = (i >> doubled) + (i & (stride - 1)) * span  # the inverse of `_sample_row`
        if k != MISSING_KEY and number < filled:
            bins.column[n] = k
            n += 1
    return n
