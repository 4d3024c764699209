"""One regression tree, grown leaf by leaf: always the leaf whose cut gains most (best first).

Growing is cut into steps that keep their place, so that a tree can be grown over several events.
Only the smaller child's histogram is counted; the larger child's is its parent's less that, in the
parent's place.
"""

from __future__ import annotations

from kaboost.models.kernels.jit import kernel
from kaboost.models.reboosted.config import MIN_GAIN
from kaboost.models.reboosted.state import (
    CHOOSE_LEAF,
    CLEAR_HISTOGRAM,
    CODES,
    COUNT_ROWS,
    FIND_CUTS,
    TreeBuild,
)
from kaboost.models.reboosted.trees.cost import (
    ADD_CACHE2_NS,
    ADD_MEMORY_NS,
    ADD_NS,
    CACHE1_CELLS,
    CACHE2_CELLS,
    CELL_NS,
    CLEAR_CELL_NS,
    COUNT_ROW_NS,
    LEAF_NS,
    MIN_CELLS,
    MIN_COLUMNS,
    MIN_ROWS,
)
from kaboost.models.reboosted.trees.histogram import (
    HESSIAN_MASK,
    best_cut,
    clear,
    count_rows,
    gain_of,
    leaf_statistics,
    subtract,
    sum_rows,
)
from kaboost.models.reboosted.trees.split import SplitLimits, can_split, split_leaf, split_terms


@kernel
def init_root(build: TreeBuild, n: int, columns: int) -> None:
    """Make the tree a single leaf of n rows whose histogram is to be counted."""
    cursor, root = build.cursor[0], build.nodes[0]
    for i in range(n):
        build.order[i] = i
    root.start, root.stop, root.histogram, root.depth, root.sums = 0, n, 0, 0, 0
    root.best_cut, root.left, root.column, root.bin, root.missing_left = 0, 0, 0, 0, 0
    build.gains[0] = -1.0
    for j in range(columns):
        build.split_gain[j] = 0.0
    cursor.nodes, cursor.leaves, cursor.histograms = 1, 1, 1
    cursor.grow_step, cursor.progress = CLEAR_HISTOGRAM, 0
    cursor.small, cursor.large, cursor.histogram = 0, 0, 0


@kernel
def grow(build: TreeBuild, limits: SplitLimits, left_ns: float) -> tuple[float, bool]:
    """Go on growing for about so many ns; return what is left of them, and whether it is done."""
    cursor = build.cursor[0]
    while left_ns > 0.0:
        if cursor.grow_step == CLEAR_HISTOGRAM:
            left_ns -= _clear_histogram(build, left_ns)
        elif cursor.grow_step == COUNT_ROWS:
            left_ns -= _count_rows(build, left_ns)
        elif cursor.grow_step == FIND_CUTS:
            left_ns -= _find_cuts(build, limits, left_ns)
        else:
            best = _best_leaf(build)
            left_ns -= LEAF_NS * cursor.nodes
            if best < 0:
                return left_ns, True
            left_ns -= split_leaf(build, limits, best)
    return left_ns, False


@kernel
def _best_leaf(build: TreeBuild) -> int:
    """Return the leaf of largest gain; -1 where none gains or the tree has all its leaves."""
    best, residual = -1, float(build.scale[0].residual)
    gain = MIN_GAIN * min(1.0, residual * residual)
    if build.cursor[0].leaves >= (build.nodes.shape[0] + 1) // 2:
        return best
    for i in range(build.cursor[0].nodes):
        if build.gains[i] > gain:
            best, gain = i, build.gains[i]
    return best


@kernel
def _clear_histogram(build: TreeBuild, left_ns: float) -> float:
    """Clear the smaller child's histogram; return the ns it took."""
    cursor = build.cursor[0]
    first, cells = int(cursor.progress), int(build.first_bins[cursor.columns])
    last = min(cells, first + MIN_CELLS + int(left_ns / CLEAR_CELL_NS))
    clear(build.histograms[cursor.histogram][first:last])
    cursor.progress = last
    if last == cells:
        cursor.grow_step, cursor.progress = COUNT_ROWS, 0
    return (last - first) * CLEAR_CELL_NS


@kernel
def _count_rows(build: TreeBuild, left_ns: float) -> float:
    """Count rows of the smaller child; return the ns it took."""
    cursor = build.cursor[0]
    small, columns = build.nodes[cursor.small], int(cursor.columns)
    row_ns = _add_ns(int(build.first_bins[columns])) * columns + COUNT_ROW_NS
    first = int(cursor.progress) + int(small.start)
    last = min(int(small.stop), first + MIN_ROWS + int(left_ns / row_ns))
    count_rows(build.histograms[cursor.histogram], build, first, last)
    cursor.progress += last - first
    if last == small.stop:
        cursor.grow_step, cursor.progress = FIND_CUTS, 0
        small.histogram = cursor.histogram
        small.best_cut, build.nodes[cursor.large].best_cut = 0, 0
        if cursor.large == cursor.small:
            small.sums = sum_rows(build.packed, int(small.stop))
    return (last - first) * row_ns


@kernel
def _add_ns(cells: int) -> float:
    """Return the ns of an addition to a histogram of so many cells, by the cache that holds it."""
    if cells <= CACHE1_CELLS:
        return ADD_NS
    return ADD_CACHE2_NS if cells <= CACHE2_CELLS else ADD_MEMORY_NS


@kernel
def _find_cuts(build: TreeBuild, limits: SplitLimits, left_ns: float) -> float:
    """Look for the best cuts of both children in some columns; return the ns it took."""
    cursor = build.cursor[0]
    small, large, first = int(cursor.small), int(cursor.large), int(cursor.progress)
    columns = int(cursor.columns)
    column_ns = 3.0 * CELL_NS * cursor.bins_scanned / columns if columns > 0 else 1.0
    last = min(columns, first + MIN_COLUMNS + int(left_ns / column_ns))
    if large != small:
        begin, end = build.first_bins[first], build.first_bins[last]
        subtract(
            build.histograms[build.nodes[large].histogram][begin:end],
            build.histograms[cursor.histogram][begin:end],
        )
        _best_cut_of_leaf(build, limits, large, first, last)
    _best_cut_of_leaf(build, limits, small, first, last)
    cursor.progress = last
    if last == columns:
        cursor.grow_step = CHOOSE_LEAF
        _set_leaf_gain(build, limits, small)
        _set_leaf_gain(build, limits, large)
    return (last - first) * column_ns


@kernel
def _best_cut_of_leaf(build: TreeBuild, limits: SplitLimits, i: int, first: int, last: int) -> None:
    """Find the best cut of leaf i in the columns [first, last) of its histogram."""
    node, starts, terms = build.nodes[i], build.first_bins, split_terms(build, limits)
    cells, total = build.histograms[node.histogram], int(node.sums)
    if not can_split(build, limits, i):
        return
    best, column = int(node.best_cut), int(node.column)
    for j in range(first, last):
        begin, missing = int(starts[j]), int(starts[j + 1] - starts[j]) - 1
        # Where much is missing, one child of any cut has no more than the rest, perhaps too little.
        present = total - int(cells[begin + missing])
        if float(present & HESSIAN_MASK) * terms.hessian_unit < terms.min_hessian:
            continue
        cut = best_cut(cells[begin : begin + CODES], missing, total, terms, build.sums)
        if cut > best:
            best, column = cut, j
    node.best_cut, node.column = best, column


@kernel
def _set_leaf_gain(build: TreeBuild, limits: SplitLimits, i: int) -> None:
    """Set the gain of leaf i's best cut, -1 where it has none."""
    best = int(build.nodes[i].best_cut)
    _, _, unsplit = leaf_statistics(int(build.nodes[i].sums), split_terms(build, limits))
    build.gains[i] = gain_of(best) - unsplit if best > 0 else -1.0
