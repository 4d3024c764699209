"""Where a Hoeffding tree splits a leaf, and whether the bound allows it (specification, 7.6)."""

from __future__ import annotations

import math
from typing import NamedTuple

from kaboost.models.banks.histogram_trees.histograms import Cut, SplitSums, best_bin
from kaboost.models.banks.histogram_trees.hoeffding_state import HoeffdingParams
from kaboost.models.kernels.jit import kernel
from kaboost.models.types import Mat3, Vec

GAIN, GINI = 0, 1
PER_BIT = 1.0 / math.log(2.0)
NO_CUT = 0.0  # gain of not splitting, which a cut must exceed


class ImpurityReduction(NamedTuple):
    """The criterion: how much a cut lowers the mean impurity."""

    measure: int


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


@best_bin.register
def _(
    criterion: ImpurityReduction, H: Mat3, f: int, cuts: int, sums: SplitSums
) -> tuple[int, float]:
    return best_reduction(criterion.measure, H, f, cuts, sums)


@kernel
def best_reduction(measure: int, H: Mat3, f: int, cuts: int, sums: SplitSums) -> tuple[int, float]:
    """Do what `best_bin` does; a cut is allowed where both sides have events."""
    total, left, right = sums.total, sums.left, sums.right
    before, n = impurity(total, measure), weight_of(total)
    best_cut, best = -1, -math.inf
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
                best_cut, best = b, before - after
    return best_cut, best


@kernel
def is_ahead(cut: Cut, total: Vec, params: HoeffdingParams) -> bool:
    """Return whether the best gain leads by the Hoeffding bound, or the bound is below `tie`
    (Domingos, Hulten 2000).
    """
    C = total.shape[0]
    width = 1.0 if params.measure == GINI else math.log(float(C)) / math.log(2.0)
    eps = math.sqrt(width * width * math.log(1.0 / params.delta) / (2.0 * weight_of(total)))
    return cut.gain - cut.second > eps or eps < params.tie
