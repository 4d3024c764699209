"""Where a Hoeffding tree splits a leaf, and whether the bound allows it (specification, 7.6).

A histogram H (k, B+1, C) holds the weight of each of C classes for each of k features and each bin.
"""

from __future__ import annotations

import math
from typing import Any

from kaboost.models.kernels.jit import kernel
from kaboost.models.types import Ints, Mat3, Vec

GAIN, GINI = 0, 1
PER_BIT = 1.0 / math.log(2.0)


@kernel
def weight_of(part: Vec) -> float:
    """Return the weight of all classes."""
    total = 0.0
    for k in range(part.shape[0]):
        total += part[k]
    return total


@kernel
def impurity(part: Vec, measure: int) -> float:
    """Return entropy in bits, or Gini's 1 - sum p^2, of class weights (C,); 0 for none."""
    n = weight_of(part)
    if not n > 0.0:
        return 0.0
    total = 1.0 if measure == GINI else 0.0
    for k in range(part.shape[0]):
        p = part[k] / n
        if measure == GINI:
            total -= p * p
        elif p > 0.0:
            total -= p * math.log(p) * PER_BIT
    return total


@kernel
def add_bins(H: Mat3, f: int, last: int, total: Vec) -> None:
    """Fill total (C,) with the class weights of bins 0 to `last` of feature f."""
    for k in range(total.shape[0]):
        total[k] = 0.0
        for b in range(last + 1):
            total[k] += H[f, b, k]


@kernel
def best_bin(H: Mat3, f: int, cuts: int, sums: Any, measure: int) -> tuple[int, float]:
    """Return the first best cut of feature f and its gain; -1 where no cut has events on both
    sides.
    """
    total, left, right = sums
    before, n = impurity(total, measure), weight_of(total)
    found, best = -1, -math.inf
    for k in range(left.shape[0]):
        left[k] = 0.0
    for b in range(cuts):
        for k in range(left.shape[0]):
            left[k] += H[f, b, k]
            right[k] = total[k] - left[k] if total[k] > left[k] else 0.0
        low, high = weight_of(left), weight_of(right)
        if low > 0.0 and high > 0.0:
            after = (low * impurity(left, measure) + high * impurity(right, measure)) / n
            if before - after > best:
                found, best = b, before - after
    return found, best


@kernel
def best_cut(
    H: Mat3, features: Ints, cuts: Ints, sums: Any, measure: int
) -> tuple[int, int, float, float]:
    """Return place in `features` and bin of the first best cut, its gain, and the best gain of
    another feature or of no split, 0.
    """
    place, cut, best, second = -1, -1, 0.0, 0.0
    for f in range(features.shape[0]):
        b, gain = best_bin(H, f, cuts[features[f]], sums, measure)
        if b >= 0 and gain > best:
            place, cut, best, second = f, b, gain, best
        elif b >= 0 and gain > second:
            second = gain
    return place, cut, best, second


@kernel
def is_ahead(best: float, second: float, n: float, how: Any) -> bool:
    """Return whether the best gain leads by the Hoeffding bound for n events, or the bound is below
    `tie`.
    """
    width, delta, tie = how
    eps = math.sqrt(width * width * math.log(1.0 / delta) / (2.0 * n))
    return best - second > eps or eps < tie
