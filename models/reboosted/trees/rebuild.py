"""Rebuilding one tree, in steps: base score, rows, growth, prefixes of the window.

Every step is cut into pieces of about the time there is (to partition a leaf's rows is one piece,
however many they are), and its place is part of the state: a checkpoint in the middle of a rebuild
goes on bit for bit. Specification of reboosted trees, 2.6.
"""

from __future__ import annotations

import math

from kaboost.models.kernels.jit import kernel
from kaboost.models.reboosted.state import (
    ADD_TO_PREFIX,
    DRAW_ROWS,
    FIT_BASE_SCORE,
    GROW_TREE,
    GROWN,
    LOG_ODDS,
    LOGARITHMS,
    RESET_PREFIX,
    Codes,
    Reboosted,
    TreeBuild,
    Window,
)
from kaboost.models.reboosted.trees.cost import (
    CACHED_COLUMNS,
    LABEL_NS,
    PACK_NS,
    SLICE_NS,
    STEP_FAR_NS,
    STEP_NS,
)
from kaboost.models.reboosted.trees.grower import grow, init_root
from kaboost.models.reboosted.trees.histogram import pack
from kaboost.models.reboosted.trees.nodes import store_tree
from kaboost.models.reboosted.trees.rows import draw_rows
from kaboost.models.reboosted.trees.split import split_limits
from kaboost.models.reboosted.trees.traverse import add_to_prefix
from kaboost.models.types import Loss, Vec


@kernel
def rebuild_tree(bank: Reboosted, build: TreeBuild, loss: Loss, k: int, budget_ns: float) -> float:
    """Go on with the tree of structure k for about so many ns, on the window as it was when the
    tree was started; return the ns it took.

    It reads and writes nothing that events change meanwhile: another thread may do it.
    """
    cursor, prefix, link = build.cursor[0], bank.window.prefix[k], int(bank.params.link[()])
    limits, left_ns = split_limits(bank.params, k), float(budget_ns)
    while left_ns > 0.0 and cursor.step != GROWN:
        if cursor.step == FIT_BASE_SCORE:
            left_ns -= _fit_base_score(bank.window, build, link)
        elif cursor.step == RESET_PREFIX:
            left_ns -= _reset_prefix(prefix, build)
        elif cursor.step == DRAW_ROWS:
            spent = float(draw_rows(bank.window, prefix, build, loss, link, left_ns))
            if cursor.drawn == cursor.rows:
                spent += start_growing(build)
            left_ns -= spent
        elif cursor.step == GROW_TREE:
            left_ns, done = grow(build, limits, left_ns)
            if done:
                store_tree(build, limits, float(bank.params.eta[k]), bank.bins.edges)
                cursor.step = ADD_TO_PREFIX
        else:
            left_ns -= add_tree_to_prefixes(
                bank.window.codes, prefix, build, int(cursor.end), int(limits.depth), left_ns
            )
            if cursor.done == cursor.end:
                finish_build(build)
    return float(budget_ns) - left_ns


@kernel
def start_growing(build: TreeBuild) -> float:
    """Start to grow a tree over the rows that were drawn; return the ns it took."""
    cursor = build.cursor[0]
    pack(build, int(cursor.rows))
    init_root(build, int(cursor.rows), int(cursor.columns))
    cursor.step, cursor.done = GROW_TREE, cursor.first
    return float(cursor.rows * PACK_NS)


@kernel
def finish_build(build: TreeBuild) -> None:
    """End the build: its tree can be committed."""
    build.cursor[0].step = GROWN
    for i in range(build.positions.shape[0]):
        build.positions[i] = 0  # else the state would depend on how the work was cut into pieces


@kernel
def _fit_base_score(window: Window, build: TreeBuild, link: int) -> float:
    """Sum labels of the window, and set the base score at its end; return the ns it took."""
    cursor, scale = build.cursor[0], build.scale[0]
    first, end, weight, total = int(cursor.done), int(cursor.end), scale.weight_sum, scale.label_sum
    s, last = ring_span(first, min(end, first + int(SLICE_NS / LABEL_NS)), window.labels.shape[0])
    for i in range(s, s + last - first):
        w = window.weights[i] / scale.mean_weight
        weight += w
        total += w * window.labels[i]
    scale.weight_sum, scale.label_sum, cursor.done = weight, total, last
    if last == end:
        scale.base_score = best_constant(link, float(weight), float(total))
        cursor.step, cursor.done = RESET_PREFIX, cursor.first
    return float((last - first) * LABEL_NS)


@kernel
def best_constant(link: int, weight: float, total: float) -> float:
    """Return the base score for labels of that sum and weight: mean, log-odds or logarithm."""
    if link == LOG_ODDS:  # labels -1 and 1
        positive = 0.5 * (weight + total)
        return math.log((positive + 1.0) / (weight - positive + 1.0))
    if link == LOGARITHMS:
        return math.log((total + 1.0) / (weight + 1.0))
    return total / weight if weight > 0.0 else 0.0


@kernel
def ring_span(first: int, last: int, R: int) -> tuple[int, int]:
    """Return the place of event `first` in a ring of R, and the end of [first, last) or of the
    ring, whichever comes first.
    """
    s = first % R
    return s, min(last, first + R - s)


@kernel
def _reset_prefix(prefix: Vec, build: TreeBuild) -> float:
    cursor, base_score = build.cursor[0], build.scale[0].base_score
    first, end = int(cursor.done), int(cursor.end)
    s, last = ring_span(first, min(end, first + int(SLICE_NS / LABEL_NS)), prefix.shape[0])
    for i in range(s, s + last - first):
        prefix[i] = base_score
    cursor.done = last
    if last == end:
        cursor.step = DRAW_ROWS
    return float((last - first) * LABEL_NS)


@kernel
def add_tree_to_prefixes(
    codes: Codes, prefix: Vec, build: TreeBuild, end: int, D: int, left_ns: float
) -> float:
    """Add the tree of depth D to prefixes (R,) of events before `end` with codes (R, d), oldest
    first, for about so many ns; return those it took.
    """
    cursor = build.cursor[0]
    event_ns = D * (STEP_NS if codes.shape[1] <= CACHED_COLUMNS else STEP_FAR_NS)
    first = int(cursor.done)
    s, last = ring_span(first, min(end, first + 64 + int(left_ns / event_ns)), prefix.shape[0])
    e = s + last - first
    add_to_prefix(build, D, codes[s:e], prefix[s:e])
    cursor.done = last
    return float((last - first) * event_ns)
