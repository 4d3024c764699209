"""The trees of classes that grow in one event: started, continued and committed, within a budget.

The order of work is that of `kaboost.models.reboosted.growth`.
"""

from __future__ import annotations

from kaboost.models.kernels.jit import kernel
from kaboost.models.reboosted.classes.commit import commit_tree
from kaboost.models.reboosted.classes.rebuild import rebuild_tree
from kaboost.models.reboosted.classes.state import AnyBuild, ClassBuild
from kaboost.models.reboosted.growth import start_tree
from kaboost.models.reboosted.label_scale import LabelScale
from kaboost.models.reboosted.state import (
    BACKGROUND,
    GROWN,
    IDLE,
    INLINE,
    READY,
    UNASSIGNED,
    Reboosted,
)
from kaboost.models.reboosted.trees.cost import EVENT_BUDGET_NS, SLICE_NS

Builds = tuple[ClassBuild, ...]


@kernel
def grow_trees(bank: Reboosted, builds: Builds, scale: LabelScale, with_worker: bool) -> bool:
    """Do this event's part of growing trees, the structures in turn; return whether a tree was
    started in the background.
    """
    schedule, bins, t = bank.schedule, bank.bins, int(bank.schedule.time[()])
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
        left_ns -= spent + _work_on_tree(bank, builds[k], k, t, slice_ns - spent)
    schedule.spent_ns[()] += EVENT_BUDGET_NS - left_ns
    if not with_worker and left_ns >= EVENT_BUDGET_NS - SLICE_NS:  # there was little other work
        schedule.spent_ns[()] += _use_slice(bank, builds, t)
    return started


@kernel
def _use_slice(bank: Reboosted, builds: Builds, t: int) -> float:
    """Work on trees of the background for one slice, where there is no worker; return the ns it
    took.
    """
    K, left_ns = bank.schedule.status.shape[0], SLICE_NS
    for i in range(K):
        k = (t + i) % K
        if left_ns > 0.0 and bank.schedule.status[k] == BACKGROUND:
            left_ns -= _work_in_background(bank, builds[k], k, left_ns)
    return SLICE_NS - left_ns


@kernel
def _work_on_tree(bank: Reboosted, build: AnyBuild, k: int, t: int, budget_ns: float) -> float:
    """Do what event t needs of the tree of structure k, in about so many ns; return those used."""
    schedule, left_ns = bank.schedule, float(budget_ns)
    due = t >= schedule.commit_at[k]
    while schedule.status[k] == BACKGROUND and due:  # it must be grown now, however long it takes
        schedule.spent_ns[()] += _work_in_background(bank, build, k, SLICE_NS)
    if schedule.status[k] == INLINE:
        left_ns -= rebuild_tree(bank, build, k, left_ns)
    inline_grown = schedule.status[k] == INLINE and build.cursor[0].step == GROWN
    if inline_grown or (schedule.status[k] == READY and due):
        left_ns -= commit_tree(bank, build, k, t, max(left_ns, 0.0))
    return float(budget_ns) - left_ns


@kernel
def _work_in_background(bank: Reboosted, build: AnyBuild, k: int, budget_ns: float) -> float:
    """Work on a tree of the background for about so many ns; return those it took."""
    spent = float(rebuild_tree(bank, build, k, budget_ns))
    if build.cursor[0].step == GROWN:
        bank.schedule.status[k] = READY
    return spent
