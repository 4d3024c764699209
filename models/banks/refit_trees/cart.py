"""CART for regression: a tree that lowers the squared error most at every cut, limited in depth
alone (Breiman, Friedman, Olshen, Stone, Classification and Regression Trees, 1984).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kaboost.models.kernels.jit import kernel
from kaboost.models.types import Ints, Mat, Vec

# Of the energy: cuts that make the same partition differ in the last bits of their sums, and the
# first of them must win.
MARGIN = 1e-9


class Pairs(NamedTuple):
    """What a tree is fitted to."""

    X: Mat  # (Q, d)
    r: Mat  # (Q, m) targets
    w: Vec  # (Q,) weights


@kernel
def fit_cart(feat: NDArray[np.int32], cut: Vec, v: Mat, pairs: Pairs) -> None:
    """Fit the tree feat (M,), cut (M,), v (M, m) to pairs.

    Node q holds the rows order[bounds[q, 0] : bounds[q, 1]]; its children get its two parts.
    """
    M, m = v.shape
    Q = pairs.w.shape[0]
    order, sorted_rows = np.arange(Q), np.empty(Q, np.int64)
    bounds, sums = np.zeros((M, 2), np.int64), np.empty((2, m + 1))
    bounds[0, 1] = Q
    for q in range(M):
        feat[q] = -1
        cut[q] = 0.0
        rows = order[bounds[q, 0] : bounds[q, 1]]
        if rows.shape[0] == 0:
            continue
        add_rows(pairs, rows, sums[0])
        for c in range(m):
            v[q, c] = sums[0, 1 + c] / sums[0, 0]
        if q < M // 2:
            j, edge = best_cut(rows, sorted_rows[: rows.shape[0]], pairs, sums)
            if j >= 0:
                feat[q], cut[q] = j, edge
                middle = bounds[q, 0] + partition(pairs.X, rows, sorted_rows, j, edge)
                bounds[2 * q + 1, 0], bounds[2 * q + 1, 1] = bounds[q, 0], middle
                bounds[2 * q + 2, 0], bounds[2 * q + 2, 1] = middle, bounds[q, 1]


@kernel
def add_rows(pairs: Pairs, rows: Ints, total: Vec) -> None:
    """Fill total (1+m,) with the sums of w and w r over the rows."""
    r, w = pairs.r, pairs.w
    for s in range(total.shape[0]):
        total[s] = 0.0
    for row in rows:
        total[0] += w[row]
        for c in range(r.shape[1]):
            total[1 + c] += w[row] * r[row, c]


@kernel
def best_cut(rows: Ints, by_value: Ints, pairs: Pairs, sums: Mat) -> tuple[int, float]:
    """Return the feature and the midpoint of the cut that lowers the squared error most; -1 where
    none does.
    """
    X, r, w = pairs.X, pairs.r, pairs.w
    total, left = sums[0], sums[1]
    feature, edge = -1, 0.0
    best = total_score(total)
    margin = MARGIN * energy(pairs, rows)
    for j in range(X.shape[1]):
        sort_rows(X, rows, j, by_value)
        for s in range(left.shape[0]):
            left[s] = 0.0
        for k in range(rows.shape[0] - 1):
            row = by_value[k]
            left[0] += w[row]
            for c in range(r.shape[1]):
                left[1 + c] += w[row] * r[row, c]
            value, after = X[row, j], X[by_value[k + 1], j]
            if value < after:
                gain = score(total, left)
                if gain > best + margin:
                    middle = 0.5 * value + 0.5 * after  # halves first: no overflow
                    best, feature, edge = gain, j, middle if middle < after else value
    return feature, edge


@kernel
def total_score(total: Vec) -> float:
    """Return |S|^2 / n of the node."""
    size = 0.0
    for s in range(1, total.shape[0]):
        size += total[s] * total[s]
    return float(size / total[0])


@kernel
def score(total: Vec, left: Vec) -> float:
    """Return |S_L|^2 / n_L + |S_R|^2 / n_R."""
    low = 0.0
    high = 0.0
    for s in range(1, total.shape[0]):
        low += left[s] * left[s]
        high += (total[s] - left[s]) * (total[s] - left[s])
    other = total[0] - left[0]
    return float(low / left[0] + (high / other if other > 0.0 else 0.0))


@kernel
def energy(pairs: Pairs, rows: Ints) -> float:
    """Return the sum of w |r|^2."""
    r, w = pairs.r, pairs.w
    total = 0.0
    for row in rows:
        for c in range(r.shape[1]):
            total += w[row] * r[row, c] * r[row, c]
    return total


@kernel
def sort_rows(X: Mat, rows: Ints, j: int, by_value: Ints) -> None:
    """Fill by_value with the rows in ascending order of feature j, by Shell's method."""
    for k in range(rows.shape[0]):
        by_value[k] = rows[k]
    gap = rows.shape[0] // 2
    while gap > 0:
        for k in range(gap, rows.shape[0]):
            row, place = by_value[k], k
            while place >= gap and X[by_value[place - gap], j] > X[row, j]:
                by_value[place] = by_value[place - gap]
                place -= gap
            by_value[place] = row
        gap = gap // 2


@kernel
def partition(X: Mat, rows: Ints, spare: Ints, j: int, edge: float) -> int:
    """Put the rows up to the edge first, in their order; return how many they are."""
    low = 0
    high = 0
    for row in rows:
        if X[row, j] <= edge:
            rows[low] = row
            low += 1
        else:
            spare[high] = row
            high += 1
    for k in range(high):
        rows[low + k] = spare[k]
    return low
