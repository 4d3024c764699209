"""Splitting a leaf: its rows, its sums, and which child's histogram is counted."""

from __future__ import annotations

from typing import NamedTuple

from kaboost.models.kernels.jit import kernel
from kaboost.models.reboosted.state import CLEAR_HISTOGRAM, StructureParams, TreeBuild
from kaboost.models.reboosted.trees.cost import CACHED_COLUMNS, PARTITION_FAR_NS, PARTITION_NS
from kaboost.models.reboosted.trees.histogram import HESSIAN_MASK, SplitTerms, left_sum


class SplitLimits(NamedTuple):
    """Which splits a structure allows."""

    depth: int
    min_hessian: float  # of a child
    l2: float  # added to hessians


@kernel
def split_limits(params: StructureParams, k: int) -> SplitLimits:
    """Return the limits of structure k."""
    return SplitLimits(params.depth[k], params.min_hessian[k], params.l2[k])


@kernel
def split_terms(build: TreeBuild, limits: SplitLimits) -> SplitTerms:
    """Return what gains in this tree depend on."""
    scale = build.scale[0]
    return SplitTerms(scale.gradient_unit, scale.hessian_unit, limits.l2, limits.min_hessian)


@kernel
def split_leaf(build: TreeBuild, limits: SplitLimits, p: int) -> float:
    """Split leaf p at its best cut, and set which child's histogram is counted next, if one is;
    return the ns it took.
    """
    parent, cursor = build.nodes[p], build.cursor[0]
    column, best = int(parent.column), int(parent.best_cut)
    first, b = int(build.first_bins[column]), 63 - (best & 63)
    missing = int(build.first_bins[column + 1]) - first - 1
    missing_left = (best & 64) > 0
    bins = build.histograms[parent.histogram][first:]
    left = left_sum(bins, b, missing if missing_left else -1)
    if bins[missing] == 0:  # of the rows nothing is missing: such events go to the heavier side
        missing_left = (left & HESSIAN_MASK) * 2 >= (int(parent.sums) & HESSIAN_MASK)
    middle = _partition_rows(build, p, b, missing if missing_left else -1)
    a = int(cursor.nodes)
    _init_child(build, a, p, int(parent.start), middle, left)
    _init_child(build, a + 1, p, middle, int(parent.stop), int(parent.sums) - left)
    parent.left, parent.bin, parent.missing_left = a, b, missing_left
    build.split_gain[column] += build.gains[p]
    build.gains[p], build.gains[a], build.gains[a + 1] = -1.0, -1.0, -1.0
    cursor.nodes += 2
    cursor.leaves += 1
    rows = float(parent.stop - parent.start)
    _assign_histograms(build, limits, p)
    return rows * (PARTITION_NS if cursor.columns <= CACHED_COLUMNS else PARTITION_FAR_NS)


@kernel
def _init_child(build: TreeBuild, i: int, p: int, start: int, stop: int, sums: int) -> None:
    child = build.nodes[i]
    child.start, child.stop, child.sums = start, stop, sums
    child.histogram, child.depth, child.left = -1, build.nodes[p].depth + 1, 0


@kernel
def _assign_histograms(build: TreeBuild, limits: SplitLimits, p: int) -> None:
    """Pass the parent's histogram on to its larger child, and start the smaller one's."""
    cursor, a = build.cursor[0], int(build.nodes[p].left)
    left, right = build.nodes[a], build.nodes[a + 1]
    smaller = left.stop - left.start <= right.stop - right.start
    small = a if smaller else a + 1
    large = a + 1 if smaller else a
    full = cursor.leaves >= (build.nodes.shape[0] + 1) // 2
    full = full or not (can_split(build, limits, a) or can_split(build, limits, a + 1))
    if full or left.depth >= limits.depth or cursor.histograms >= build.histograms.shape[0]:
        return
    build.nodes[large].histogram = build.nodes[p].histogram
    cursor.grow_step, cursor.progress = CLEAR_HISTOGRAM, 0
    cursor.small, cursor.large = small, large
    cursor.histogram = cursor.histograms
    cursor.histograms += 1


@kernel
def can_split(build: TreeBuild, limits: SplitLimits, i: int) -> bool:
    """Return whether leaf i has the rows and the hessian for two children."""
    node = build.nodes[i]
    h = float(int(node.sums) & HESSIAN_MASK) * build.scale[0].hessian_unit
    return bool(h >= 2.0 * limits.min_hessian and node.stop - node.start > 1)


@kernel
def _partition_rows(build: TreeBuild, p: int, b: int, missing: int) -> int:
    """Bring the rows of a node that go left before those that go right, in their order; return
    where the right ones begin. Codes up to b and the code `missing` go left.
    """
    node, columns = build.nodes[p], int(build.cursor[0].columns)
    column, start, stop = int(node.column), int(node.start), int(node.stop)
    left, right = start, 0
    for i in range(start, stop):
        r = build.order[i]
        code = int(build.codes[r * columns + column])
        goes = (code <= b) | (code == missing)
        build.order[left] = r
        build.spare[right] = r
        left += goes
        right += 1 - goes
    for i in range(right):
        build.order[left + i] = build.spare[i]
    return left
