"""One regression tree, grown leaf by leaf: always the leaf whose cut gains most (best first).

Growing is cut into steps that remember where they are, so that a tree can be grown over several
events. Only the smaller child's histogram is counted; the larger child's is what is left of its
parent's, in its parent's place.
"""

from __future__ import annotations

from typing import Any

from kaboost.models.kernels.jit import kernel
from kaboost.models.reboosted.state import CODES
from kaboost.models.reboosted.trees.histogram import (
    HESSIAN_MASK,
    best_cut,
    clear,
    count_rows,
    gain_of,
    leaf_statistics,
    left_sum,
    subtract,
    sum_rows,
)
from kaboost.models.types import INT

# Places in Work.at from 8 on, while a tree grows.
GROW_STEP, NODES, LEAVES, HISTOGRAMS, PROGRESS, SMALL, LARGE, CURRENT_HISTOGRAM, BINS = (
    8,
    9,
    10,
    11,
    12,
    13,
    14,
    15,
    16,
)
BINS_SCANNED = 17  # of a histogram that are looked at, or the time of so many
CHOOSE_LEAF, COUNT_ROWS, CLEAR_HISTOGRAM, FIND_CUTS = range(
    4
)  # at[REACHED] is how far the last three are
# Places in a node's row: rows, histogram (-1 for none), depth, sums, best cut, left child (0 for
# a leaf), what its cut is.
START, STOP, HISTOGRAM, DEPTH, SUMS, BEST_CUT, LEFT_CHILD, COLUMN, BIN, MISSING_LEFT = range(10)
CELL_NS, ADD_NS, PARTITION_NS, LEAF_NS = (
    1.6,
    0.35,
    18.0,
    0.4,
)  # ns of a scanned bin, an addition, a parted row
RESIDUAL_UNIT = 7  # in Work.scale: the size of a typical residual when the tree was begun
MIN_GAIN = 1e-12  # of residuals of size 1; smaller ones gain as much less
CACHED_COLUMNS = 256  # columns up to which a row's codes are soon at hand
PARTITION_FAR_NS = 35.0  # ns of a parted row of more
CLEAR_CELL_NS = 0.2  # ns of a cleared cell
CACHE1_CELLS, CACHE2_CELLS = 1 << 12, 1 << 17  # cells that the first and the second cache hold
ADD_CACHE2_NS, ADD_MEMORY_NS = 1.2, 3.0  # ns of an addition beyond these
MIN_CELLS, MIN_ROWS, MIN_COLUMNS = 4096, 8, 16  # of a piece, whatever room is left


@kernel
def init_root(build: Any, n: int, columns: int) -> None:
    """Make the tree a single leaf of n rows whose histogram is to be counted."""
    node, at = build.nodes, build.cursor
    for i in range(n):
        build.order[i] = i
    for place in range(10):
        node[0, place] = 0
    node[0, STOP], node[0, HISTOGRAM] = n, 0
    build.gains[0] = -1.0
    for j in range(columns):
        build.split_gain[j] = 0.0
    at[NODES], at[LEAVES], at[HISTOGRAMS] = 1, 1, 1
    at[GROW_STEP], at[PROGRESS], at[SMALL], at[LARGE], at[CURRENT_HISTOGRAM] = (
        CLEAR_HISTOGRAM,
        0,
        0,
        0,
        0,
    )


@kernel
def grow(build: Any, limits: Any, columns: int, room: float) -> Any:
    """Go on growing for about `room` ns; return what is left of them, and whether it is done.

    `limits` are the largest depth, the smallest hessian of a child, and lam.
    """
    while room > 0.0:
        if build.cursor[GROW_STEP] == CLEAR_HISTOGRAM:
            room -= _clear_histogram(build, columns, room)
        elif build.cursor[GROW_STEP] == COUNT_ROWS:
            room -= _count_rows(build, columns, room)
        elif build.cursor[GROW_STEP] == FIND_CUTS:
            room -= _find_cuts(build, limits, columns, room)
        else:
            best = _best_leaf(build)
            room -= LEAF_NS * build.cursor[NODES]
            if best < 0:
                return room, True
            room -= _split_leaf(build, limits, columns, best)
    return room, False


@kernel
def _best_leaf(build: Any) -> int:
    """Return the leaf of largest gain, or -1 where none gains or no leaf is left to give."""
    best, unit = -1, float(build.scale[RESIDUAL_UNIT])
    gain = MIN_GAIN * min(1.0, unit * unit)
    if build.cursor[LEAVES] >= (build.nodes.shape[0] + 1) // 2:
        return best
    for i in range(build.cursor[NODES]):
        if build.gains[i] > gain:
            best, gain = i, build.gains[i]
    return best


@kernel
def _clear_histogram(build: Any, columns: int, room: float) -> float:
    """Empty the smaller child's histogram; return the ns it took."""
    at, first = build.cursor, int(build.cursor[PROGRESS])
    cells = int(build.first_bins[columns])
    last = min(cells, first + MIN_CELLS + int(room / CLEAR_CELL_NS))
    clear(build.histograms[at[CURRENT_HISTOGRAM]][first:last])
    at[PROGRESS] = last
    if last == cells:
        at[GROW_STEP], at[PROGRESS] = COUNT_ROWS, 0
    return (last - first) * CLEAR_CELL_NS


@kernel
def _count_rows(build: Any, columns: int, room: float) -> float:
    """Count rows of the smaller child; return the ns it took."""
    at, node = build.cursor, build.nodes
    small, large = int(at[SMALL]), int(at[LARGE])
    each = _add_ns(int(build.first_bins[columns])) * columns + 8.0
    first = int(at[PROGRESS]) + int(node[small, START])
    last = min(int(node[small, STOP]), first + MIN_ROWS + int(room / each))
    count_rows(
        build.histograms[at[CURRENT_HISTOGRAM]], build, (first, last), columns, int(at[BINS])
    )
    at[PROGRESS] += last - first
    if last == node[small, STOP]:
        at[GROW_STEP], at[PROGRESS] = FIND_CUTS, 0
        node[small, HISTOGRAM] = at[CURRENT_HISTOGRAM]
        node[small, BEST_CUT], node[large, BEST_CUT] = 0, 0
        if large == small:
            node[0, SUMS] = sum_rows(build.packed, int(node[0, STOP]))
    return (last - first) * each


@kernel
def _add_ns(cells: int) -> float:
    """Return the ns of an addition to a histogram of so many cells: it is in a cache, or not."""
    if cells <= CACHE1_CELLS:
        return ADD_NS
    return ADD_CACHE2_NS if cells <= CACHE2_CELLS else ADD_MEMORY_NS


@kernel
def _find_cuts(build: Any, limits: Any, columns: int, room: float) -> float:
    """Look for the best cuts of both children in some columns; return the ns it took."""
    at, node = build.cursor, build.nodes
    small, large, first = int(at[SMALL]), int(at[LARGE]), int(at[PROGRESS])
    each = 3.0 * CELL_NS * at[BINS_SCANNED] / columns if columns > 0 else 1.0
    last = min(columns, first + MIN_COLUMNS + int(room / each))
    if large != small:
        begin, end = build.first_bins[first], build.first_bins[last]
        subtract(
            build.histograms[node[large, HISTOGRAM]][begin:end],
            build.histograms[at[CURRENT_HISTOGRAM]][begin:end],
        )
        _best_cut_of_leaf(build, limits, (first, last), large)
    _best_cut_of_leaf(build, limits, (first, last), small)
    at[PROGRESS] = last
    if last == columns:
        at[GROW_STEP] = CHOOSE_LEAF
        _set_leaf_gain(build, limits, small)
        _set_leaf_gain(build, limits, large)
    return (last - first) * each


@kernel
def _best_cut_of_leaf(build: Any, limits: Any, span: Any, i: int) -> None:
    """Find the best cut of leaf i in some columns of its histogram."""
    node, table = build.nodes, build.histograms[build.nodes[i, HISTOGRAM]]
    _, least_h, lam = limits
    how = (build.scale[2], build.scale[3], lam, least_h)
    whole = int(node[i, SUMS])
    if not _can_split(build, least_h, i):
        return
    best, column = int(node[i, BEST_CUT]), int(node[i, COLUMN])
    for j in range(span[0], span[1]):
        first, missing = (
            int(build.first_bins[j]),
            int(build.first_bins[j + 1] - build.first_bins[j]) - 1,
        )
        # Where much is missing, one child of any cut has no more than the rest: too little, maybe.
        here = whole - int(table[first + missing])
        if float(here & HESSIAN_MASK) * build.scale[3] < least_h:
            continue
        found = best_cut(table[first : first + CODES], missing, whole, how, build.sums)
        if found > best:
            best, column = found, j
    node[i, BEST_CUT], node[i, COLUMN] = best, column


@kernel
def _set_leaf_gain(build: Any, limits: Any, i: int) -> None:
    """Note what leaf i gains by its best cut, -1 where it has none."""
    best = int(build.nodes[i, BEST_CUT])
    _, _, alone = leaf_statistics(
        int(build.nodes[i, SUMS]), build.scale[2], build.scale[3], limits[2]
    )
    build.gains[i] = gain_of(best) - alone if best > 0 else -1.0


@kernel
def _split_leaf(build: Any, limits: Any, columns: int, p: int) -> float:
    """Split leaf p at its best cut; say which child's histogram is to be counted, if one is."""
    node, at = build.nodes, build.cursor
    column, best = int(node[p, COLUMN]), int(node[p, BEST_CUT])
    first, b = int(build.first_bins[column]), 63 - (best & 63)
    missing = int(build.first_bins[column + 1]) - first - 1
    leftwards = (best & 64) > 0
    bins = build.histograms[node[p, HISTOGRAM]][first:]
    left = left_sum(bins, b, missing if leftwards else -1)
    if bins[missing] == 0:
        leftwards = (left & HESSIAN_MASK) * 2 >= (int(node[p, SUMS]) & HESSIAN_MASK)
    middle = _partition_rows(build, node[p], (column, b, missing if leftwards else -1, columns))
    a = int(at[NODES])
    _init_child(node, a, p, (int(node[p, START]), middle, left))
    _init_child(node, a + 1, p, (middle, int(node[p, STOP]), int(node[p, SUMS]) - left))
    node[p, LEFT_CHILD], node[p, BIN], node[p, MISSING_LEFT] = a, b, leftwards
    build.split_gain[column] += build.gains[p]
    build.gains[p], build.gains[a], build.gains[a + 1] = -1.0, -1.0, -1.0
    at[NODES] += 2
    at[LEAVES] += 1
    rows = float(node[p, STOP] - node[p, START])
    _assign_histograms(build, limits, p)
    return rows * (PARTITION_NS if columns <= CACHED_COLUMNS else PARTITION_FAR_NS)


@kernel
def _init_child(node: Any, i: int, p: int, what: Any) -> None:
    start, stop, sums = what
    node[i, START], node[i, STOP], node[i, SUMS] = start, stop, sums
    node[i, HISTOGRAM], node[i, DEPTH], node[i, LEFT_CHILD] = -1, node[p, DEPTH] + 1, 0


@kernel
def _assign_histograms(build: Any, limits: Any, p: int) -> None:
    """Hand the parent's histogram to its larger child, and begin the smaller one's."""
    node, at, (depth, least_h, _) = build.nodes, build.cursor, limits
    a = int(node[p, LEFT_CHILD])
    smaller = node[a, STOP] - node[a, START] <= node[a + 1, STOP] - node[a + 1, START]
    small = a if smaller else a + 1
    large = a + 1 if smaller else a
    full = at[LEAVES] >= (node.shape[0] + 1) // 2
    full = full or not (_can_split(build, least_h, a) or _can_split(build, least_h, a + 1))
    if full or node[a, DEPTH] >= depth or at[HISTOGRAMS] >= build.histograms.shape[0]:
        return
    node[large, HISTOGRAM] = node[p, HISTOGRAM]
    at[GROW_STEP], at[PROGRESS], at[SMALL], at[LARGE] = CLEAR_HISTOGRAM, 0, small, large
    at[CURRENT_HISTOGRAM] = at[HISTOGRAMS]
    at[HISTOGRAMS] += 1


@kernel
def _can_split(build: Any, least_h: float, i: int) -> bool:
    """Return whether leaf i has the rows and the hessian for two children."""
    h = float(int(build.nodes[i, SUMS]) & HESSIAN_MASK) * build.scale[3]
    return bool(h >= 2.0 * least_h and build.nodes[i, STOP] - build.nodes[i, START] > 1)


@kernel
def _partition_rows(build: Any, node: Any, cut: Any) -> int:
    """Bring the rows of a node that go left before those that go right, in their order; return
    where the right ones begin.
    """
    column, b, lost, columns = cut
    start, stop = int(node[START]), int(node[STOP])
    left, right = start, 0
    for i in range(start, stop):
        r = build.order[i]
        code = int(build.codes[r * columns + column])
        goes = (code <= b) | (code == lost)
        build.order[left] = r
        build.spare[right] = r
        left += goes
        right += 1 - goes
    for i in range(right):
        build.order[left + i] = build.spare[i]
    return left


@kernel
def store_tree(build: Any, lam: float, eta: float, edges: Any) -> None:
    """Write the tree down: as it will serve (keys, values), and as the window walks it (cuts)."""
    node = build.nodes
    d = build.columns.shape[0]
    leaf = 0
    for i in range(build.cursor[NODES]):
        if node[i, LEFT_CHILD] == 0:
            G, H, _ = leaf_statistics(int(node[i, SUMS]), build.scale[2], build.scale[3], lam)
            build.node_values[i] = -eta * G / (H + lam)
            build.served_nodes[i] = (2147483647 << 32) + (leaf << 16) + i
            build.leaf_values[leaf] = build.node_values[i]
            leaf += 1
            build.code_nodes[i] = (127 << 40) + i
        else:
            j = INT(build.columns[node[i, COLUMN]])
            b = int(node[i, BIN])
            b = 2 * b + 1 if build.half_bins[node[i, COLUMN]] > 0 else b
            b = min(b, 62)
            # beyond the last edge only what is missing is larger
            edge = min(int(edges[j, b]), 2147483646)
            missed, left = int(node[i, MISSING_LEFT]), int(node[i, LEFT_CHILD])
            build.node_values[i] = 0.0
            build.served_nodes[i] = (edge << 32) + ((j + d * missed) << 16) + left
            build.code_nodes[i] = ((b + missed) << 40) + (missed << 32) + (j << 16) + left
