"""When which structure's next tree is rebuilt; specification of reboosted trees, 2.6.

Each structure earns credit with every event; when it has one, its next tree is started. The rate
follows from a budget in nanoseconds and the cost model, never from a clock: runs repeat bit for
bit.
"""

from __future__ import annotations

import math

from kaboost.models.kernels.jit import inlined, kernel
from kaboost.models.reboosted.config import (
    BASE_SHARE,
    BUDGET_COLUMNS,
    EVENTS_BEFORE_DRIFT,
    FIRST_BINS_EVENTS,
    MAX_CREDIT,
    MIN_EVENTS,
    MOVED_DRIFT_EVENTS,
    SCHEDULE_ALWAYS_BEFORE,
    SCHEDULE_EVERY,
    SHARE_TEMPERATURE,
    SHORT_WINDOW_SPEEDUP,
    START_BOOST,
    START_EVENTS,
    START_SPEEDUP,
)
from kaboost.models.reboosted.memory import events_ahead
from kaboost.models.reboosted.state import (
    BACKGROUND,
    IDLE,
    INLINE,
    REQUESTED,
    UNASSIGNED,
    Bins,
    Schedule,
    StructureParams,
    Window,
)
from kaboost.models.reboosted.trees.cost import tree_cost
from kaboost.models.reboosted.trees.rebinning import update_bins
from kaboost.models.types import Ints


@inlined
def advance_schedule(
    params: StructureParams,
    schedule: Schedule,
    window: Window,
    bins: Bins,
    tree_counts: Ints,
    with_worker: bool,
) -> bool:
    """Update the schedule and do this event's part of making bins; return whether trees are due.

    Parameters
    ----------
    tree_counts : (K,) trees of each structure.
    with_worker : whether a worker thread grows the trees of the background.
    """
    t = int(schedule.time[()])
    if t % SCHEDULE_EVERY == 0 or t < SCHEDULE_ALWAYS_BEFORE:
        share_budget(params, schedule)
        update_schedule(params, schedule, tree_counts, t, window.labels.shape[0])
    making = bins.progress[0].step > REQUESTED
    schedule.spent_ns[()] = 0.0
    if bins.progress[0].step != IDLE or t >= bins.rebin_at[()]:
        schedule.spent_ns[()] = update_bins(bins, window.codes, t, schedule.status)
    due = earn_credit(schedule, bins.rebin_at[()] == FIRST_BINS_EVENTS, t, with_worker)
    return due and not (making and bins.progress[0].step == IDLE)  # the last re-coding is enough


@kernel
def earn_credit(schedule: Schedule, unbinned: bool, t: int, with_worker: bool) -> bool:
    """Add an event's credit to every structure; return whether any has work in this event."""
    if unbinned:
        return True
    due = False
    for k in range(schedule.credit.shape[0]):
        schedule.credit[k] = min(schedule.credit[k] + schedule.credit_per_event[k], MAX_CREDIT)
        status = schedule.status[k]
        due = due or status == INLINE or (status == UNASSIGNED and schedule.credit[k] >= 1.0)
        due = due or (status >= BACKGROUND and t >= schedule.commit_at[k])
        due = due or (status == BACKGROUND and not with_worker)
    return due


@kernel
def window_events(params: StructureParams, schedule: Schedule, k: int, t: int, R: int) -> int:
    """Return the events in structure k's window after t events.

    The first structure looks back no further than a little before the last drift: where the stream
    has changed for good it drops the past, and where it has not the others still have it.
    """
    m, drift_at = min(t, R, int(params.window[k])), int(schedule.drift_at[()])
    if k == 0 and drift_at > 0:
        m = min(m, t - drift_at + EVENTS_BEFORE_DRIFT)
    moved_at = int(schedule.moved_at[0])
    moved = moved_at > 0 and abs(drift_at - moved_at) < MOVED_DRIFT_EVENTS
    if moved and params.window[k] < R - events_ahead(R):
        m = min(m, t - drift_at + EVENTS_BEFORE_DRIFT)
    return m


@kernel
def update_schedule(
    params: StructureParams, schedule: Schedule, tree_counts: Ints, t: int, R: int
) -> None:
    """Set the credit of an event: a sweep over all trees (K,) of a structure takes so many events
    that its work fits its share of the budget, and a window at least, part of one at the start.
    """
    since = t - int(schedule.drift_at[()])
    start = min(1.0, START_EVENTS / (since + 1.0))
    # An event of many columns costs as much more to learn.
    columns = float(schedule.mean_columns[()])
    budget_ns = float(params.budget_ns[()]) * max(1.0, columns / BUDGET_COLUMNS)
    budget_ns *= 1.0 + START_BOOST * start * math.sqrt(start)
    schedule.budget_ns[()] = budget_ns
    for k in range(params.window.shape[0]):
        m = window_events(params, schedule, k, t, R)
        trees, longest = float(tree_counts[k]), int(params.window[k]) >= R - events_ahead(R)
        speedup = START_SPEEDUP if longest else SHORT_WINDOW_SPEEDUP
        cost = trees * tree_cost(params, schedule, k, m)
        sweep = max((1.0 - speedup * start) * m, cost / (budget_ns * schedule.share[k]))
        schedule.credit_per_event[k] = trees / max(sweep, 1.0) if m >= MIN_EVENTS else 0.0


@kernel
def share_budget(params: StructureParams, schedule: Schedule) -> None:
    """Share half of the budget by the settings, and half by the losses of the structures."""
    K, total, least = schedule.share.shape[0], 0.0, math.inf
    for k in range(K):
        least = min(least, _best_loss(schedule, k))
    for k in range(K):
        schedule.share[k] = math.exp(SHARE_TEMPERATURE * (_best_loss(schedule, k) - least))
        total += schedule.share[k]
    for k in range(K):
        by_loss = (1.0 - BASE_SHARE) * schedule.share[k] / total
        schedule.share[k] = BASE_SHARE * params.share[k] + by_loss


@kernel
def _best_loss(schedule: Schedule, k: int) -> float:
    """Return the smallest decayed loss of structure k's leaf learners."""
    best = math.inf
    for e in range(schedule.structure_losses.shape[1]):
        best = min(best, schedule.structure_losses[k, e])
    return best
