"""The trees that grow in one event: started, continued and committed, within a budget."""

from __future__ import annotations

from kaboost.models.kernels.jit import kernel
from kaboost.models.kernels.random import reseed
from kaboost.models.reboosted.config import ALL_FEATURES_EVERY, FIRST_BINS_EVENTS
from kaboost.models.reboosted.label_scale import TINY, LabelScale, residual_unit
from kaboost.models.reboosted.memory import events_ahead
from kaboost.models.reboosted.schedule import window_events
from kaboost.models.reboosted.state import (
    BACKGROUND,
    DRAW_ROWS,
    FIT_BASE_SCORE,
    GROWN,
    IDLE,
    INLINE,
    LOG_ODDS,
    READY,
    UNASSIGNED,
    Reboosted,
    Schedule,
    StructureParams,
    TreeBuild,
)
from kaboost.models.reboosted.trees.commit import commit_tree
from kaboost.models.reboosted.trees.cost import (
    CHOOSE_FEATURE_NS,
    EVENT_BUDGET_NS,
    SLACK,
    SLICE_NS,
    sample_size,
    tree_bins,
    tree_cost,
)
from kaboost.models.reboosted.trees.rebuild import best_constant, rebuild_tree
from kaboost.models.reboosted.trees.screening import choose_columns
from kaboost.models.types import Loss

Builds = tuple[TreeBuild, ...]


@kernel
def grow_trees(
    bank: Reboosted, builds: Builds, loss: Loss, scale: LabelScale, with_worker: bool
) -> bool:
    """Do this event's part of growing trees, the structures in turn; before there are bins, set
    every base score instead. Return whether a tree was started in the background.

    Parameters
    ----------
    scale : typical residual and mean of the labels.
    with_worker : whether a worker thread grows the trees of the background.
    """
    schedule, bins, t = bank.schedule, bank.bins, int(bank.schedule.time[()])
    if bins.rebin_at[()] == FIRST_BINS_EVENTS:
        _set_base_scores(bank, t, float(scale.mean[()]))
        return False
    K, left_ns, started = schedule.status.shape[0], EVENT_BUDGET_NS, False
    for i in range(K):
        k, spent = (t + i) % K, 0.0
        slice_ns = min(SLICE_NS, left_ns)
        if left_ns <= 0.0 or (schedule.status[k] > INLINE and t < schedule.commit_at[k]):
            continue
        if schedule.status[k] == UNASSIGNED:
            if bins.progress[0].step != IDLE or schedule.credit[k] < 1.0:
                continue
            spent = float(start_tree(bank, builds[k], k, t, scale))
            started = started or schedule.status[k] == BACKGROUND
        left_ns -= spent + _work_on_tree(bank, builds[k], loss, k, t, slice_ns - spent)
    schedule.spent_ns[()] += EVENT_BUDGET_NS - left_ns
    if not with_worker and left_ns >= EVENT_BUDGET_NS - SLICE_NS:  # there was little other work
        schedule.spent_ns[()] += _use_slice(bank, builds, loss, t)
    return started


@kernel
def _set_base_scores(bank: Reboosted, t: int, mean: float) -> None:
    """Set every base score to the best constant for the labels so far."""
    link, R = int(bank.params.link[()]), bank.window.labels.shape[0]
    total = t * (2.0 * mean - 1.0 if link == LOG_ODDS else mean)
    for k in range(bank.base_score.shape[0]):
        bank.base_score[k] = best_constant(link, float(t), total)
        bank.window.prefix[k, (t - 1) % R] = bank.base_score[k]


@kernel
def _use_slice(bank: Reboosted, builds: Builds, loss: Loss, t: int) -> float:
    """Work on trees of the background for one slice, where there is no worker; return the ns it
    took.
    """
    K, left_ns = bank.schedule.status.shape[0], SLICE_NS
    for i in range(K):
        k = (t + i) % K
        if left_ns > 0.0 and bank.schedule.status[k] == BACKGROUND:
            left_ns -= work_in_background(bank, builds[k], loss, k, left_ns)
    return SLICE_NS - left_ns


@kernel
def start_tree(bank: Reboosted, build: TreeBuild, k: int, t: int, labels: LabelScale) -> float:
    """Start the next tree of structure k after t events; return the ns it took."""
    params, schedule, cursor = bank.params, bank.schedule, build.cursor[0]
    m = window_events(params, schedule, k, t, bank.window.labels.shape[0])
    cursor.first, cursor.done, cursor.drawn, cursor.end = t - m, t - m, 0, t
    cursor.rows, cursor.events = sample_size(params, k, m), m
    cursor.bins = tree_bins(params, k, int(cursor.rows))
    cursor.all_features = schedule.grown[k] % ALL_FEATURES_EVERY == 0
    cursor.columns = choose_columns(
        schedule.feature_gains[k, : params.features[k]], schedule.generator, bank.bins, build
    )
    schedule.columns_used[k], schedule.bins_scanned[k] = cursor.columns, cursor.bins_scanned
    schedule.credit[k] -= 1.0
    _reset_scale(build, residual_unit(labels), max(float(labels.mean_weight[()]), TINY))
    reseed(build.generator, schedule.generator)
    cursor.step = FIT_BASE_SCORE if schedule.cursor[k] == 0 else DRAW_ROWS
    _assign(params, schedule, k, m, t, events_ahead(bank.window.labels.shape[0]))
    return CHOOSE_FEATURE_NS * int(params.features[k])


@kernel
def _reset_scale(build: TreeBuild, residual: float, mean_weight: float) -> None:
    scale = build.scale[0]
    scale.max_gradient, scale.max_hessian = 0.0, 0.0
    scale.gradient_unit, scale.hessian_unit = 0.0, 0.0
    scale.weight_sum, scale.label_sum, scale.base_score = 0.0, 0.0, 0.0
    scale.residual, scale.mean_weight = residual, mean_weight


@kernel
def _assign(
    params: StructureParams, schedule: Schedule, k: int, m: int, t: int, ahead: int
) -> None:
    """Set whether a tree on m events is grown inline or in the background, and when it is committed
    then: at most `ahead` events after t.

    That is when the budget of each event since has paid for it, and for the trees before it: until
    then any thread may grow it at any time. It is not before slices of the events, of all
    structures in turn, would have grown it some times over.
    """
    cost, last = tree_cost(params, schedule, k, m), t
    for other in range(schedule.commit_at.shape[0]):
        last = max(last, int(schedule.commit_at[other]))
    earliest = t + 1 + int(SLACK * schedule.commit_at.shape[0] * cost / SLICE_NS)
    schedule.status[k] = INLINE
    if cost >= params.background_min_ns[()] and earliest <= t + ahead:
        schedule.status[k], schedule.earliest_commit[k] = BACKGROUND, earliest
        due = last + 1 + int(cost / schedule.budget_ns[()])
        schedule.commit_at[k] = max(min(due, t + ahead), earliest)


@kernel
def _work_on_tree(
    bank: Reboosted, build: TreeBuild, loss: Loss, k: int, t: int, budget_ns: float
) -> float:
    """Do what event t needs of the tree of structure k, in about so many ns; return those used."""
    schedule, left_ns = bank.schedule, float(budget_ns)
    due = t >= schedule.commit_at[k]
    while schedule.status[k] == BACKGROUND and due:  # it must be grown now, however long it takes
        schedule.spent_ns[()] += work_in_background(bank, build, loss, k, SLICE_NS)
    if schedule.status[k] == INLINE:
        left_ns -= rebuild_tree(bank, build, loss, k, left_ns)
    inline_grown = schedule.status[k] == INLINE and build.cursor[0].step == GROWN
    if inline_grown or (schedule.status[k] == READY and due):
        left_ns -= commit_tree(bank, build, k, t, max(left_ns, 0.0))
    return float(budget_ns) - left_ns


@kernel
def work_in_background(
    bank: Reboosted, build: TreeBuild, loss: Loss, k: int, budget_ns: float
) -> float:
    """Work on a tree of the background for about so many ns; return those it took.

    No result depends on which thread does it and in which event.
    """
    spent = float(rebuild_tree(bank, build, loss, k, budget_ns))
    if build.cursor[0].step == GROWN:
        bank.schedule.status[k] = READY
    return spent
