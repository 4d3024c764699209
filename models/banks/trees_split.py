"""Where a leaf of a regression tree splits, and whether it should (specification, 7.5).

A histogram H (k, B+1, K) holds K = 3+m sums for each of k features and each bin: of w, w^2, w|r|^2
and w r.
"""

from __future__ import annotations

import math
from typing import Any

from kaboost.models.kernels.jit import kernel
from kaboost.models.types import Ints, Mat3, Vec

NORMAL, HOEFFDING = 0, 1
BEYOND = 3  # statistics before those of the outputs: w, w^2, w|r|^2


@kernel
def effective(part: Vec) -> float:
    """Return the effective sample size (sum w)^2 / sum w^2."""
    return part[0] * part[0] / part[1] if part[1] > 0.0 else 0.0


@kernel
def add_bins(H: Mat3, f: int, last: int, total: Vec) -> None:
    """Fill total (K,) with the sums of bins 0 to `last` of feature f."""
    for s in range(total.shape[0]):
        total[s] = 0.0
        for b in range(last + 1):
            total[s] += H[f, b, s]


@kernel
def score(total: Vec, left: Vec, lam: float) -> float:
    """Return |S_L|^2 / (n_L + lam) + |S_R|^2 / (n_R + lam)."""
    low = 0.0
    high = 0.0
    for s in range(BEYOND, total.shape[0]):
        low += left[s] * left[s]
        high += (total[s] - left[s]) * (total[s] - left[s])
    return float(low / (left[0] + lam) + high / (total[0] - left[0] + lam))


@kernel
def enough(n: float, squares: float, n_min: float) -> bool:
    """Return whether the effective size n^2 / squares is at least n_min."""
    return n > 0.0 and squares > 0.0 and n * n >= n_min * squares


@kernel
def best_bin(H: Mat3, f: int, cuts: int, sums: Any, limits: Any) -> tuple[int, float]:
    """Return the first best cut of feature f and its score; -1 where no cut leaves enough on both
    sides.
    """
    (total, left), (lam, n_min) = sums, limits
    best, found = -math.inf, -1
    for s in range(left.shape[0]):
        left[s] = 0.0
    for b in range(cuts):
        for s in range(left.shape[0]):
            left[s] += H[f, b, s]
        if enough(left[0], left[1], n_min) and enough(
            total[0] - left[0], total[1] - left[1], n_min
        ):
            now = score(total, left, lam)
            if now > best:
                best, found = now, b
    return found, best


@kernel
def best_cut(
    H: Mat3, features: Ints, cuts: Ints, sums: Any, limits: Any
) -> tuple[int, int, float, float]:
    """Return place in `features` and bin of the first best cut, its score, and the best score of
    another feature.
    """
    place, cut, best, second = -1, -1, -math.inf, -math.inf
    for f in range(features.shape[0]):
        b, now = best_bin(H, f, cuts[features[f]], sums, limits)
        if b >= 0 and now > best:
            place, cut, best, second = f, b, now, best
        elif b >= 0 and now > second:
            second = now
    return place, cut, best, second


@kernel
def improvement(part: Vec, total: Vec, lam: float) -> tuple[float, float]:
    """Return the mean improvement z of one child's events and its variance within the child."""
    n, inner, squares, before, after, step = part[0], 0.0, 0.0, 0.0, 0.0, 0.0
    for s in range(BEYOND, part.shape[0]):
        mean = part[s] / n
        v = part[s] / (n + lam)
        p = total[s] / (total[0] + lam)
        inner += (v - p) * mean
        squares += mean * mean
        after += v * v
        before += p * p
        step += (v - p) * (v - p)
    spread = part[2] / n - squares
    return inner - 0.5 * (after - before), (spread if spread > 0.0 else 0.0) * step


@kernel
def is_sure(total: Vec, left: Vec, right: Vec, lam: float, quantile: float) -> bool:
    """Return whether the mean improvement is above 0 by `quantile` standard errors.

    Stochastic Gradient Trees' test for unit Hessian, with the variance that its published code gets
    wrong (specification, E14).
    """
    low, low_spread = improvement(left, total, lam)
    high, high_spread = improvement(right, total, lam)
    share = left[0] / total[0]
    mean = share * low + (1.0 - share) * high
    between = share * (low - mean) * (low - mean) + (1.0 - share) * (high - mean) * (high - mean)
    variance = share * low_spread + (1.0 - share) * high_spread + between
    return bool(mean > 0.0 and mean * math.sqrt(effective(total)) > quantile * math.sqrt(variance))


@kernel
def is_ahead(total: Vec, best: float, second: float, how: Any) -> bool:
    """Return whether the best feature's gain leads the second's by the Hoeffding bound, or the
    bound is below `tie` (FIMT).
    """
    lam, delta, tie = how
    parent = 0.0
    for s in range(BEYOND, total.shape[0]):
        parent += total[s] * total[s]
    parent = parent / (total[0] + lam)
    first = best - parent
    other = second - parent if second > parent else 0.0
    eps = math.sqrt(math.log(1.0 / delta) / (2.0 * effective(total)))
    return bool(first > 0.0 and (other < first * (1.0 - eps) or eps < tie))
