"""One regression tree, grown leaf by leaf: always the leaf whose cut gains most (best first).

Growing is cut into steps that remember where they are, so that a tree can be grown over several
events. Only the smaller child's histogram is counted; the larger child's is what is left of its
parent's, in its parent's place.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from models.banks.reboosted_hist import (
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
from models.banks.reboosted_state import CODES
from models.verbs import kernel

# Places in Work.at from 8 on, while a tree grows.
TASK, NODES, LEAVES, TABLES, COUNTED, SMALL, LARGE, TABLE, BINS = 8, 9, 10, 11, 12, 13, 14, 15, 16
PLACES = 17  # of a histogram that are looked at, or the time of so many
CHOOSING, COUNTING = 0, 1
# Places in a node's row: rows, histogram (-1 for none), depth, sums, best cut, left child (0 for
# a leaf), what its cut is.
START, STOP, HELD, DEPTH, SUMS, BEST, LEFT, COLUMN, BIN, MISSED = range(10)
CELL, ADD, PART, LEAF = 1.6, 0.35, 3.0, 0.4  # ns of a scanned bin, an addition, a parted row


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
    clear(work.tables[0], int(work.starts[columns]))
    at[TASK], at[COUNTED], at[SMALL], at[LARGE], at[TABLE] = COUNTING, 0, 0, 0, 0


@kernel
def grow(work: Any, limits: Any, columns: int, room: float) -> Any:
    """Go on growing for about `room` ns; return what is left of them, and whether it is done.

    `limits` are the largest depth, the smallest hessian of a child, and lam.
    """
    while room > 0.0:
        if work.at[TASK] == COUNTING:
            room -= _count(work, limits, columns, room)
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
    best = -1
    gain = 1e-12
    if work.at[LEAVES] >= (work.nodes.shape[0] + 1) // 2:
        return best
    for i in range(work.at[NODES]):
        if work.gains[i] > gain:
            best, gain = i, work.gains[i]
    return best


@kernel
def _count(work: Any, limits: Any, columns: int, room: float) -> float:
    """Count rows of the smaller child; when all are, look for the cuts of both children."""
    at, node = work.at, work.nodes
    small, large = int(at[SMALL]), int(at[LARGE])
    first = int(at[COUNTED]) + int(node[small, START])
    last = min(int(node[small, STOP]), first + 64 + int(room / (ADD * columns + 8.0)))
    table = work.tables[at[TABLE]]
    count_rows(table, work, (first, last), columns)
    at[COUNTED] += last - first
    spent = (last - first) * (ADD * columns + 8.0)
    if last == node[small, STOP]:
        at[TASK] = CHOOSING
        if large != small:
            subtract(work.tables[node[large, HELD]], table, int(work.starts[columns]))
            node[small, HELD] = at[TABLE]
            _look(work, limits, columns, large)
        else:
            node[0, SUMS] = total(work.packed, int(node[0, STOP]))
        _look(work, limits, columns, small)
        spent += 3.0 * CELL * at[PLACES]
    return spent


@kernel
def _look(work: Any, limits: Any, columns: int, i: int) -> None:
    """Find the best cut of leaf i in its histogram."""
    node, table = work.nodes, work.tables[work.nodes[i, HELD]]
    _, least_h, lam = limits
    how = (work.scale[2], work.scale[3], lam, least_h)
    whole = int(node[i, SUMS])
    work.gains[i] = -1.0
    if not _can_split(work, least_h, i):
        return
    best, column = 0, 0
    for j in range(columns):
        first, missing = int(work.starts[j]), int(work.starts[j + 1] - work.starts[j]) - 1
        found = best_cut(table[first : first + CODES], missing, whole, how, work.sums)
        if found > best:
            best, column = found, j
    node[i, BEST], node[i, COLUMN] = best, column
    _, _, alone = pure(whole, how[0], how[1], how[2])
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
    _arrange(work, limits, columns, p)
    return PART * rows


@kernel
def _child(node: Any, i: int, p: int, what: Any) -> None:
    start, stop, sums = what
    node[i, START], node[i, STOP], node[i, SUMS] = start, stop, sums
    node[i, HELD], node[i, DEPTH], node[i, LEFT] = -1, node[p, DEPTH] + 1, 0


@kernel
def _arrange(work: Any, limits: Any, columns: int, p: int) -> None:
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
    at[TASK], at[COUNTED], at[SMALL], at[LARGE] = COUNTING, 0, small, large
    at[TABLE] = at[TABLES]
    at[TABLES] += 1
    clear(work.tables[at[TABLE]], int(work.starts[columns]))


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
            j = np.int64(work.columns[node[i, COLUMN]])
            b = int(node[i, BIN])
            b = 2 * b + 1 if work.narrow[node[i, COLUMN]] > 0 else b
            b = min(b, 62)
            # beyond the last edge only what is missing is larger
            edge = min(int(edges[j, b]), 2147483646)
            missed, left = int(node[i, MISSED]), int(node[i, LEFT])
            work.values[i] = 0.0
            work.keys[i] = (edge << 32) + ((j + d * missed) << 16) + left
            work.cuts[i] = ((b + missed) << 40) + (missed << 32) + (j << 16) + left
