"""Rebuilding one tree of classes, in steps as one of a score is rebuilt: base scores, rows, growth,
values of the leaves, prefixes of the window.
"""

from __future__ import annotations

import math

from kaboost.models.kernels.jit import kernel
from kaboost.models.reboosted.classes.rows import draw_rows
from kaboost.models.reboosted.classes.state import FIT_LEAVES, AnyBuild, Singles
from kaboost.models.reboosted.config import PREFIX_BLOCK
from kaboost.models.reboosted.state import (
    ADD_TO_PREFIX,
    DRAW_ROWS,
    FIT_BASE_SCORE,
    GROW_TREE,
    GROWN,
    RESET_PREFIX,
    Codes,
    Reboosted,
    Window,
)
from kaboost.models.reboosted.trees.cost import (
    CACHED_COLUMNS,
    LABEL_NS,
    SLICE_NS,
    STEP_FAR_NS,
    STEP_NS,
)
from kaboost.models.reboosted.trees.grower import grow
from kaboost.models.reboosted.trees.nodes import store_tree
from kaboost.models.reboosted.trees.rebuild import finish_build, ring_span, start_growing
from kaboost.models.reboosted.trees.split import SplitLimits, split_limits
from kaboost.models.reboosted.trees.traverse import traverse_codes
from kaboost.models.types import DOUBLE, Vec

CLASS_SUM_NS, CLASS_ADD_NS = 2.0, 1.0  # a class of a row of a leaf; of an event's prefix


@kernel
def rebuild_tree(bank: Reboosted, build: AnyBuild, k: int, budget_ns: float) -> float:
    """Go on with the tree of structure k for about so many ns, on the window as it was when the
    tree was started; return the ns it took.

    It reads and writes nothing that events change meanwhile: another thread may do it.
    """
    cursor, prefix = build.cursor[0], bank.window.prefix[k]
    limits, left_ns = split_limits(bank.params, k), float(budget_ns)
    while left_ns > 0.0 and cursor.step != GROWN:
        if cursor.step == FIT_BASE_SCORE:
            left_ns -= _fit_base_scores(bank.window, build)
        elif cursor.step == RESET_PREFIX:
            left_ns -= _reset_prefix(prefix, build)
        elif cursor.step == DRAW_ROWS:
            spent = float(draw_rows(bank.window, prefix, build, left_ns))
            if cursor.drawn == cursor.rows:
                spent += start_growing(build)
            left_ns -= spent
        elif cursor.step == GROW_TREE:
            left_ns, done = grow(build, limits, left_ns)
            if done:
                store_tree(build, limits, float(bank.params.eta[k]), bank.bins.edges)
                cursor.step, cursor.progress = FIT_LEAVES, 0
        elif cursor.step == FIT_LEAVES:
            left_ns -= _fit_leaves(build, limits, float(bank.params.eta[k]), left_ns)
        else:
            left_ns -= add_tree_to_prefixes(
                bank.window.codes, prefix, build, int(cursor.end), int(limits.depth), left_ns
            )
            if cursor.done == cursor.end:
                finish_build(build)
    return float(budget_ns) - left_ns


@kernel
def _fit_base_scores(window: Window, build: AnyBuild) -> float:
    """Sum the labels of the window, and set the base scores at its end; return the ns it took."""
    cursor, scale, counts = build.cursor[0], build.scale[0], build.class_sums
    first, end, weight, C = (
        int(cursor.done),
        int(cursor.end),
        scale.weight_sum,
        len(build.direction),
    )
    s, last = ring_span(first, min(end, first + int(SLICE_NS / LABEL_NS)), window.labels.shape[0])
    if first == cursor.first:
        for c in range(C):
            counts[c] = 0.0
    for i in range(s, s + last - first):
        w = window.weights[i] / scale.mean_weight
        weight += w
        counts[int(window.labels[i])] += w
    scale.weight_sum, cursor.done = weight, last
    if last == end:
        fill_base_scores(counts, float(weight), build.class_base)
        cursor.step, cursor.done = RESET_PREFIX, cursor.first
    return float((last - first) * LABEL_NS)


@kernel
def fill_base_scores(counts: Vec, weight: float, base: Vec) -> None:
    """Fill base (C,) with the logits of classes of these counts, which have that sum."""
    C = base.shape[0]
    for c in range(C):
        base[c] = math.log((counts[c] + 1.0) / (weight + C))


@kernel
def _reset_prefix(prefix: Singles, build: AnyBuild) -> float:
    cursor, base = build.cursor[0], build.class_base
    first, end = int(cursor.done), int(cursor.end)
    s, last = ring_span(first, min(end, first + int(SLICE_NS / LABEL_NS)), prefix.shape[0])
    for i in range(s, s + last - first):
        for c in range(base.shape[0]):
            prefix[i, c] = base[c]
    cursor.done = last
    if last == end:
        cursor.step = DRAW_ROWS
    return float((last - first) * LABEL_NS * base.shape[0])


@kernel
def _fit_leaves(build: AnyBuild, limits: SplitLimits, eta: float, left_ns: float) -> float:
    """Fill the values of some leaves with Newton's steps of all classes; return the ns it took."""
    cursor, spent = build.cursor[0], 0.0
    C = build.direction.shape[0]
    while cursor.progress < cursor.nodes and spent < left_ns:
        i = int(cursor.progress)
        node = build.nodes[i]
        if node.left == 0:
            _sum_leaf(build, int(node.start), int(node.stop))
            for c in range(C):
                h = build.class_sums[C + c] + limits.l2
                build.class_values[i, c] = -eta * build.class_sums[c] / h
            spent += (node.stop - node.start) * C * CLASS_SUM_NS
        cursor.progress += 1
    if cursor.progress == cursor.nodes:
        cursor.step = ADD_TO_PREFIX
    return float(spent)


@kernel
def _sum_leaf(build: AnyBuild, start: int, stop: int) -> None:
    """Fill class_sums (2C,) with the sums over the rows order[start:stop], in their order."""
    C, sums = build.direction.shape[0], build.class_sums
    for c in range(2 * C):
        sums[c] = 0.0
    for i in range(start, stop):
        r = build.order[i]
        gradients, hessians = build.class_gradients[r], build.class_hessians[r]
        for c in range(C):
            sums[c] += DOUBLE(gradients[c])
        for c in range(C):
            sums[C + c] += DOUBLE(hessians[c])


@kernel
def add_tree_to_prefixes(
    codes: Codes, prefix: Singles, build: AnyBuild, end: int, D: int, left_ns: float
) -> float:
    """Add the tree of depth D to prefixes (R, C) of events before `end` with codes (R, d), oldest
    first, for about so many ns; return those it took.
    """
    cursor = build.cursor[0]
    event_ns = D * (STEP_NS if codes.shape[1] <= CACHED_COLUMNS else STEP_FAR_NS)
    event_ns += CLASS_ADD_NS * prefix.shape[1]
    first = int(cursor.done)
    s, last = ring_span(first, min(end, first + 64 + int(left_ns / event_ns)), prefix.shape[0])
    e = s + last - first
    _add_to_prefix(build, D, codes[s:e], prefix[s:e])
    cursor.done = last
    return float((last - first) * event_ns)


@kernel
def _add_to_prefix(build: AnyBuild, D: int, codes: Codes, prefix: Singles) -> None:
    """Add the values of the tree for codes (B, d) to prefix (B, C)."""
    for first in range(0, prefix.shape[0], PREFIX_BLOCK):
        last = min(first + PREFIX_BLOCK, prefix.shape[0])
        traverse_codes(build.code_nodes, D, codes[first:last], build.positions)
        for i in range(first, last):
            values = build.class_values[build.positions[i - first] & 0xFFFF]
            for c in range(prefix.shape[1]):
                prefix[i, c] += values[c]
