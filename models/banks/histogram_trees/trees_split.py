"""Where a leaf of a regression tree splits, and whether it should (specification, 7.5)."""

from __future__ import annotations

import math
from typing import NamedTuple

from kaboost.models.banks.histogram_trees.histograms import Cut, SplitSums, best_bin
from kaboost.models.banks.histogram_trees.trees_state import (
    ENERGY,
    OUTPUTS,
    WEIGHT,
    WEIGHT_SQUARES,
    TreeParams,
)
from kaboost.models.kernels.jit import kernel
from kaboost.models.types import Mat3, Vec

NORMAL, HOEFFDING = 0, 1
NO_CUT = -math.inf  # gain of not splitting: the tests compare with the parent


class ErrorReduction(NamedTuple):
    """The criterion: |S_L|^2 / (n_L + lam) + |S_R|^2 / (n_R + lam)."""

    lam: float
    n_min: float  # effective events on both sides


@kernel
def effective(part: Vec) -> float:
    """Return the effective sample size (sum w)^2 / sum w^2."""
    n, squares = part[WEIGHT], part[WEIGHT_SQUARES]
    return n * n / squares if squares > 0.0 else 0.0


@kernel
def score(total: Vec, left: Vec, lam: float) -> float:
    """Return |S_L|^2 / (n_L + lam) + |S_R|^2 / (n_R + lam)."""
    low = 0.0
    high = 0.0
    for s in range(OUTPUTS, total.shape[0]):
        low += left[s] * left[s]
        high += (total[s] - left[s]) * (total[s] - left[s])
    return float(low / (left[0] + lam) + high / (total[0] - left[0] + lam))


@kernel
def enough(n: float, squares: float, n_min: float) -> bool:
    """Return whether the effective size n^2 / squares is at least n_min."""
    return n > 0.0 and squares > 0.0 and n * n >= n_min * squares


@best_bin.register
def _(criterion: ErrorReduction, H: Mat3, f: int, cuts: int, sums: SplitSums) -> tuple[int, float]:
    return best_reduction(criterion, H, f, cuts, sums)


@kernel
def best_reduction(
    criterion: ErrorReduction, H: Mat3, f: int, cuts: int, sums: SplitSums
) -> tuple[int, float]:
    """Do what `best_bin` does; a cut is allowed where both sides have enough events."""
    total, left, n_min = sums.total, sums.left, criterion.n_min
    best, best_cut = -math.inf, -1
    for s in range(left.shape[0]):
        left[s] = 0.0
    for b in range(cuts):
        for s in range(left.shape[0]):
            left[s] += H[f, b, s]
        if enough(left[0], left[1], n_min) and enough(
            total[0] - left[0], total[1] - left[1], n_min
        ):
            gain = score(total, left, criterion.lam)
            if gain > best:
                best, best_cut = gain, b
    return best_cut, best


@kernel
def passes_test(sums: SplitSums, cut: Cut, params: TreeParams) -> bool:
    """Return whether the test of the bank lets the leaf split at its best cut."""
    if params.test == HOEFFDING:
        return is_ahead(sums.total, cut, params)
    return is_significant(sums, params.lam, params.quantile)


@kernel
def improvement(part: Vec, total: Vec, lam: float) -> tuple[float, float]:
    """Return the mean improvement z of one child's events and its variance within the child."""
    n, inner, squares, before, after, step = part[WEIGHT], 0.0, 0.0, 0.0, 0.0, 0.0
    for s in range(OUTPUTS, part.shape[0]):
        mean = part[s] / n
        v = part[s] / (n + lam)
        p = total[s] / (total[WEIGHT] + lam)
        inner += (v - p) * mean
        squares += mean * mean
        after += v * v
        before += p * p
        step += (v - p) * (v - p)
    variance_within = part[ENERGY] / n - squares
    return inner - 0.5 * (after - before), (
        variance_within if variance_within > 0.0 else 0.0
    ) * step


@kernel
def is_significant(sums: SplitSums, lam: float, quantile: float) -> bool:
    """Return whether the mean improvement is above 0 by `quantile` standard errors.

    Stochastic Gradient Trees' test for unit Hessian, with the variance that its published code gets
    wrong (specification, E14).
    """
    total, left = sums.total, sums.left
    low, low_variance = improvement(left, total, lam)
    high, high_variance = improvement(sums.right, total, lam)
    share = left[WEIGHT] / total[WEIGHT]
    mean = share * low + (1.0 - share) * high
    between = share * (low - mean) * (low - mean) + (1.0 - share) * (high - mean) * (high - mean)
    variance = share * low_variance + (1.0 - share) * high_variance + between
    return bool(mean > 0.0 and mean * math.sqrt(effective(total)) > quantile * math.sqrt(variance))


@kernel
def is_ahead(total: Vec, cut: Cut, params: TreeParams) -> bool:
    """Return whether the best feature's gain leads the second's by the Hoeffding bound, or the
    bound is below `tie` (FIMT: Ikonomovska et al. 2011).
    """
    parent = 0.0
    for s in range(OUTPUTS, total.shape[0]):
        parent += total[s] * total[s]
    parent = parent / (total[WEIGHT] + params.lam)
    first = cut.gain - parent
    other = cut.second - parent if cut.second > parent else 0.0
    eps = math.sqrt(math.log(1.0 / params.delta) / (2.0 * effective(total)))
    return bool(first > 0.0 and (other < first * (1.0 - eps) or eps < params.tie))
