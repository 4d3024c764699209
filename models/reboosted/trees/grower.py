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
    LOW,
    best_cut,
    clear,
    count_rows,
    gain_of,
    left_of,
    pure,
    subtract,
    total,
)
from kaboost.models.types import INT

# Places in Work.at from 8 on, while a tree grows.
TASK, NODES, LEAVES, TABLES, REACHED, SMALL, LARGE, TABLE, BINS = 8, 9, 10, 11, 12, 13, 14, 15, 16
PLACES = 17  # of a histogram that are looked at, or the time of so many
CHOOSING, COUNTING, CLEARING, LOOKING = range(4)  # at[REACHED] is how far the last three are
# Places in a node's row: rows, histogram (-1 for none), depth, sums, best cut, left child (0 for
# a leaf), what its cut is.
START, STOP, HELD, DEPTH, SUMS, BEST, LEFT, COLUMN, BIN, MISSED = range(10)
CELL, ADD, PART, LEAF = 1.6, 0.35, 18.0, 0.4  # ns of a scanned bin, an addition, a parted row
UNIT = 7  # in Work.scale: the size of a typical residual when the tree was begun
LEAST_GAIN = 1e-12  # of residuals of size 1; smaller ones gain as much less
NARROW = 256  # columns up to which a row's codes are soon at hand
PART_FAR = 35.0  # ns of a parted row of more
ZERO = 0.2  # ns of a cleared cell
NEAR, FAR = 1 << 12, 1 << 17  # cells that the first and the second cache hold
ADD_FAR, ADD_FARTHER = 1.2, 3.0  # ns of an addition beyond these
LEAST_CELLS, LEAST_ROWS, LEAST_COLUMNS = 4096, 8, 16  # of a piece, whatever room is left


@kernel
def plant(work: Any, n: int, columns: int) -> None:
    """Make the tree a single leaf of n rows whose histogram is to be counted."""
    node, at = work.nodes, work.at
    for i in range(n):
        work.order[i] = i
    for place in range(10):
        node[0, place] = 0
    node[0, STOP], node[0, HELD] = n, 0
    work.gains[0] = -1.0
    for j in range(columns):
        work.won[j] = 0.0
    at[NODES], at[LEAVES], at[TABLES] = 1, 1, 1
    at[TASK], at[REACHED], at[SMALL], at[LARGE], at[TABLE] = CLEARING, 0, 0, 0, 0


@kernel
def grow(work: Any, limits: Any, columns: int, room: float) -> Any:
    """Go on growing for about `room` ns; return what is left of them, and whether it is done.

    `limits` are the largest depth, the smallest hessian of a child, and lam.
    """
    while room > 0.0:
        if work.at[TASK] == CLEARING:
            room -= _clear(work, columns, room)
        elif work.at[TASK] == COUNTING:
            room -= _count(work, columns, room)
        elif work.at[TASK] == LOOKING:
            room -= _compare(work, limits, columns, room)
        else:
            best = _richest(work)
            room -= LEAF * work.at[NODES]
            if best < 0:
                return room, True
            room -= _split(work, limits, columns, best)
    return room, False


@kernel
def _richest(work: Any) -> int:
    """Return the leaf of largest gain, or -1 where none gains or no leaf is left to give."""
    best, unit = -1, float(work.scale[UNIT])
    gain = LEAST_GAIN * min(1.0, unit * unit)
    if work.at[LEAVES] >= (work.nodes.shape[0] + 1) // 2:
        return best
    for i in range(work.at[NODES]):
        if work.gains[i] > gain:
            best, gain = i, work.gains[i]
    return best


@kernel
def _clear(work: Any, columns: int, room: float) -> float:
    """Empty the smaller child's histogram; return the ns it took."""
    at, first = work.at, int(work.at[REACHED])
    cells = int(work.starts[columns])
    last = min(cells, first + LEAST_CELLS + int(room / ZERO))
    clear(work.tables[at[TABLE]][first:last])
    at[REACHED] = last
    if last == cells:
        at[TASK], at[REACHED] = COUNTING, 0
    return (last - first) * ZERO


@kernel
def _count(work: Any, columns: int, room: float) -> float:
    """Count rows of the smaller child; return the ns it took."""
    at, node = work.at, work.nodes
    small, large = int(at[SMALL]), int(at[LARGE])
    each = _adding(int(work.starts[columns])) * columns + 8.0
    first = int(at[REACHED]) + int(node[small, START])
    last = min(int(node[small, STOP]), first + LEAST_ROWS + int(room / each))
    count_rows(work.tables[at[TABLE]], work, (first, last), columns, int(at[BINS]))
    at[REACHED] += last - first
    if last == node[small, STOP]:
        at[TASK], at[REACHED] = LOOKING, 0
        node[small, HELD] = at[TABLE]
        node[small, BEST], node[large, BEST] = 0, 0
        if large == small:
            node[0, SUMS] = total(work.packed, int(node[0, STOP]))
    return (last - first) * each


@kernel
def _adding(cells: int) -> float:
    """Return the ns of an addition to a histogram of so many cells: it is in a cache, or not."""
    if cells <= NEAR:
        return ADD
    return ADD_FAR if cells <= FAR else ADD_FARTHER


@kernel
def _compare(work: Any, limits: Any, columns: int, room: float) -> float:
    """Look for the best cuts of both children in some columns; return the ns it took."""
    at, node = work.at, work.nodes
    small, large, first = int(at[SMALL]), int(at[LARGE]), int(at[REACHED])
    each = 3.0 * CELL * at[PLACES] / columns if columns > 0 else 1.0
    last = min(columns, first + LEAST_COLUMNS + int(room / each))
    if large != small:
        begin, end = work.starts[first], work.starts[last]
        subtract(work.tables[node[large, HELD]][begin:end], work.tables[at[TABLE]][begin:end])
        _look(work, limits, (first, last), large)
    _look(work, limits, (first, last), small)
    at[REACHED] = last
    if last == columns:
        at[TASK] = CHOOSING
        _settle(work, limits, small)
        _settle(work, limits, large)
    return (last - first) * each


@kernel
def _look(work: Any, limits: Any, span: Any, i: int) -> None:
    """Find the best cut of leaf i in some columns of its histogram."""
    node, table = work.nodes, work.tables[work.nodes[i, HELD]]
    _, least_h, lam = limits
    how = (work.scale[2], work.scale[3], lam, least_h)
    whole = int(node[i, SUMS])
    if not _can_split(work, least_h, i):
        return
    best, column = int(node[i, BEST]), int(node[i, COLUMN])
    for j in range(span[0], span[1]):
        first, missing = int(work.starts[j]), int(work.starts[j + 1] - work.starts[j]) - 1
        # Where much is missing, one child of any cut has no more than the rest: too little, maybe.
        here = whole - int(table[first + missing])
        if float(here & LOW) * work.scale[3] < least_h:
            continue
        found = best_cut(table[first : first + CODES], missing, whole, how, work.sums)
        if found > best:
            best, column = found, j
    node[i, BEST], node[i, COLUMN] = best, column


@kernel
def _settle(work: Any, limits: Any, i: int) -> None:
    """Note what leaf i gains by its best cut, -1 where it has none."""
    best = int(work.nodes[i, BEST])
    _, _, alone = pure(int(work.nodes[i, SUMS]), work.scale[2], work.scale[3], limits[2])
    work.gains[i] = gain_of(best) - alone if best > 0 else -1.0


@kernel
def _split(work: Any, limits: Any, columns: int, p: int) -> float:
    """Split leaf p at its best cut; say which child's histogram is to be counted, if one is."""
    node, at = work.nodes, work.at
    column, best = int(node[p, COLUMN]), int(node[p, BEST])
    first, b = int(work.starts[column]), 63 - (best & 63)
    missing = int(work.starts[column + 1]) - first - 1
    leftwards = (best & 64) > 0
    bins = work.tables[node[p, HELD]][first:]
    left = left_of(bins, b, missing if leftwards else -1)
    if bins[missing] == 0:
        leftwards = (left & LOW) * 2 >= (int(node[p, SUMS]) & LOW)
    middle = _part(work, node[p], (column, b, missing if leftwards else -1, columns))
    a = int(at[NODES])
    _child(node, a, p, (int(node[p, START]), middle, left))
    _child(node, a + 1, p, (middle, int(node[p, STOP]), int(node[p, SUMS]) - left))
    node[p, LEFT], node[p, BIN], node[p, MISSED] = a, b, leftwards
    work.won[column] += work.gains[p]
    work.gains[p], work.gains[a], work.gains[a + 1] = -1.0, -1.0, -1.0
    at[NODES] += 2
    at[LEAVES] += 1
    rows = float(node[p, STOP] - node[p, START])
    _arrange(work, limits, p)
    return rows * (PART if columns <= NARROW else PART_FAR)


@kernel
def _child(node: Any, i: int, p: int, what: Any) -> None:
    start, stop, sums = what
    node[i, START], node[i, STOP], node[i, SUMS] = start, stop, sums
    node[i, HELD], node[i, DEPTH], node[i, LEFT] = -1, node[p, DEPTH] + 1, 0


@kernel
def _arrange(work: Any, limits: Any, p: int) -> None:
    """Hand the parent's histogram to its larger child, and begin the smaller one's."""
    node, at, (depth, least_h, _) = work.nodes, work.at, limits
    a = int(node[p, LEFT])
    smaller = node[a, STOP] - node[a, START] <= node[a + 1, STOP] - node[a + 1, START]
    small = a if smaller else a + 1
    large = a + 1 if smaller else a
    full = at[LEAVES] >= (node.shape[0] + 1) // 2
    full = full or not (_can_split(work, least_h, a) or _can_split(work, least_h, a + 1))
    if full or node[a, DEPTH] >= depth or at[TABLES] >= work.tables.shape[0]:
        return
    node[large, HELD] = node[p, HELD]
    at[TASK], at[REACHED], at[SMALL], at[LARGE] = CLEARING, 0, small, large
    at[TABLE] = at[TABLES]
    at[TABLES] += 1


@kernel
def _can_split(work: Any, least_h: float, i: int) -> bool:
    """Return whether leaf i has the rows and the hessian for two children."""
    h = float(int(work.nodes[i, SUMS]) & LOW) * work.scale[3]
    return bool(h >= 2.0 * least_h and work.nodes[i, STOP] - work.nodes[i, START] > 1)


@kernel
def _part(work: Any, node: Any, cut: Any) -> int:
    """Bring the rows of a node that go left before those that go right, in their order; return
    where the right ones begin.
    """
    column, b, lost, columns = cut
    start, stop = int(node[START]), int(node[STOP])
    left, right = start, 0
    for i in range(start, stop):
        r = work.order[i]
        code = int(work.codes[r * columns + column])
        goes = (code <= b) | (code == lost)
        work.order[left] = r
        work.spare[right] = r
        left += goes
        right += 1 - goes
    for i in range(right):
        work.order[left + i] = work.spare[i]
    return left


@kernel
def finish(work: Any, lam: float, eta: float, edges: Any) -> None:
    """Write the tree down: as it will serve (keys, values), and as the window walks it (cuts)."""
    node = work.nodes
    d = work.columns.shape[0]
    leaf = 0
    for i in range(work.at[NODES]):
        if node[i, LEFT] == 0:
            G, H, _ = pure(int(node[i, SUMS]), work.scale[2], work.scale[3], lam)
            work.values[i] = -eta * G / (H + lam)
            work.keys[i] = (2147483647 << 32) + (leaf << 16) + i
            work.said[leaf] = work.values[i]
            leaf += 1
            work.cuts[i] = (127 << 40) + i
        else:
            j = INT(work.columns[node[i, COLUMN]])
            b = int(node[i, BIN])
            b = 2 * b + 1 if work.narrow[node[i, COLUMN]] > 0 else b
            b = min(b, 62)
            # beyond the last edge only what is missing is larger
            edge = min(int(edges[j, b]), 2147483646)
            missed, left = int(node[i, MISSED]), int(node[i, LEFT])
            work.values[i] = 0.0
            work.keys[i] = (edge << 32) + ((j + d * missed) << 16) + left
            work.cuts[i] = ((b + missed) << 40) + (missed << 32) + (j << 16) + left
