"""Features that move: bins and scales that follow at once where values come into a new range.

Every feature is checked once in `CHECK_EVENTS` events, a few features an event. Where one bin holds
most of the last values, new bins are asked for, and the linear learners' scale of the column is
that of its last values, if they lie far off.
"""

from __future__ import annotations

import math

from kaboost.models.kernels.jit import kernel
from kaboost.models.reboosted.config import (
    CHECK_EVENTS,
    CHECKED_PER_EVENT,
    GAP_DIVISOR,
    MIN_CHECK_GAP,
    MOVED_BINS_NS,
)
from kaboost.models.reboosted.drift import commit_soon
from kaboost.models.reboosted.linear import LinearFilters
from kaboost.models.reboosted.state import IDLE, REQUESTED, Bins, Codes, Schedule
from kaboost.models.reboosted.trees.binning import MISSING_KEY, from_key
from kaboost.models.reboosted.trees.cost import RECODE_NS
from kaboost.models.reboosted.trees.recent import is_crowded

EARLIEST = 400  # events before bins of their own for moved features: until then all are made again
JUMP_DEVIATIONS = 4.0  # of the last values' mean from the running one, from which on scales jump
JUMP_VALUES = 32  # last values that they jump to


@kernel
def follow_features(
    bins: Bins, codes: Codes, schedule: Schedule, filters: LinearFilters, t: int
) -> bool:
    """Check this event's part of the features after t events in codes (R, d); return whether trees
    in the background are committed sooner: bins are asked for, or the last event was a drift.
    """
    d0, before = filters.mean.shape[0], int(bins.progress[0].step)
    cycle = max(CHECK_EVENTS, -(-d0 // CHECKED_PER_EVENT))
    phase = t % cycle
    for j in range(phase * d0 // cycle, (phase + 1) * d0 // cycle):
        if t >= bins.check_at[j] and is_crowded(bins, codes, j, t):
            _jump(filters, bins, j, t)
            free = t >= EARLIEST and bins.progress[0].step <= REQUESTED
            if free and _is_affordable(bins, codes, schedule, t):
                _ask_for_bins(bins, j, t)
    if before != IDLE or bins.progress[0].step == IDLE:
        return bool(schedule.drift_at[()] == t - 1)
    schedule.moved_at[1], schedule.moved_at[0] = schedule.moved_at[0], t
    commit_soon(schedule, t)
    return True


@kernel
def _is_affordable(bins: Bins, codes: Codes, schedule: Schedule, t: int) -> bool:
    """Return whether bins for moved features were made long enough ago for their cost, at most
    twice in a row, or before the last warning.
    """
    R, d = codes.shape
    pause = min(t, R) * d * RECODE_NS / MOVED_BINS_NS
    pending = bins.progress[0].step == REQUESTED
    due = schedule.moved_at[1] == 0 or t >= schedule.moved_at[1] + 2.0 * pause
    return bool(pending or due or schedule.warning_at[()] > schedule.moved_at[0])


@kernel
def _ask_for_bins(bins: Bins, j: int, t: int) -> None:
    """Ask for bins of feature j, and set when it may ask again: later, if it asks at once."""
    gap = int(bins.check_gap[j])
    quiet = t - int(bins.check_at[j])
    gap = min(2 * gap, t // GAP_DIVISOR) if quiet < gap else gap // 2
    bins.check_gap[j] = max(gap, MIN_CHECK_GAP)
    bins.check_at[j] = t + bins.check_gap[j]
    bins.moved[j] = 1
    if bins.progress[0].step == IDLE:
        bins.progress[0].step, bins.progress[0].moved = REQUESTED, 1


@kernel
def _jump(filters: LinearFilters, bins: Bins, j: int, t: int) -> None:
    """Set mean and variance of column j to those of its last values, if these lie far off."""
    Q, n, total, i = bins.recent.shape[0], 0, 0.0, t
    while n < JUMP_VALUES and i > t - CHECK_EVENTS:
        i -= 1
        k = int(bins.recent[i % Q, j])
        if k != MISSING_KEY:
            total += from_key(k)
            n += 1
    off = total / max(n, 1) - filters.mean[j]
    far = abs(off) > JUMP_DEVIATIONS * math.sqrt(filters.variance[j])
    if n < JUMP_VALUES or not far or filters.categorical[j] > 0.0:
        return
    mean, squares = total / n, 0.0
    for s in range(i, t):
        k = int(bins.recent[s % Q, j])
        distance = from_key(k) - mean if k != MISSING_KEY else 0.0
        squares += distance * distance
    filters.mean[j], filters.variance[j], filters.scaled[j] = mean, squares / n, float(n)
