"""Histograms of gradients and hessians, and the cut of largest gain in one.

A row's gradient and hessian are one int64: the gradient in the upper half, the hessian, never
negative, in the lower. Sums of them are exact, so they depend neither on the order of rows nor on
how a sum is made; and the histogram of one child is its parent's less its sibling's.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kaboost.models.kernels.jit import kernel
from kaboost.models.kernels.numeric import bits_of
from kaboost.models.reboosted.state import CODES, TreeBuild
from kaboost.models.types import UINT, Ints

HESSIAN_MASK = 0xFFFFFFFF
SUM_BITS = 30  # bits that the sum over all rows may fill in either half
FEW_CODES = 8  # codes up to which each is examined by itself
CUT_MASK = 127  # the low bits of a gain hold its bin and direction


class SplitTerms(NamedTuple):
    """What a gain depends on beside the sums."""

    gradient_unit: float  # of one packed
    hessian_unit: float
    l2: float
    min_hessian: float  # of a child


@kernel
def pack(build: TreeBuild, n: int) -> None:
    """Pack gradients and hessians of n rows as finely as their sums allow; keep the units."""
    fine, scale = float((1 << SUM_BITS) // max(n, 1)), build.scale[0]
    max_g, max_h = scale.max_gradient, scale.max_hessian
    per_g = fine / max_g if max_g > 0.0 else 0.0
    per_h = fine / max_h if max_h > 0.0 else 0.0
    for i in range(n):
        g = int(build.gradients[i] * per_g + (0.5 if build.gradients[i] >= 0.0 else -0.5))
        h = int(build.hessians[i] * per_h + 0.5)
        build.packed[i] = (g << 32) + h
    scale.gradient_unit = max_g / fine
    scale.hessian_unit = max_h / fine


@kernel
def count_rows(cells: Ints, build: TreeBuild, first: int, last: int) -> None:
    """Add the rows order[first:last] to a histogram (cells,) of all columns."""
    starts, columns, bins = build.first_bins, int(build.cursor[0].columns), build.cursor[0].bins
    same = int(bins) if int(starts[columns]) == columns * int(bins) else 0
    for i in range(first, last):
        r = build.order[i]
        codes, packed = build.codes[r * columns : (r + 1) * columns], build.packed[r]
        if same == CODES:  # no first bins to look up: a sixth faster
            for j in range(columns):
                cells[UINT(CODES) * UINT(j) + codes[j]] += packed
        elif same == CODES // 2:
            for j in range(columns):
                cells[UINT(CODES // 2) * UINT(j) + codes[j]] += packed
        else:
            for j in range(columns):
                cells[starts[j] + codes[j]] += packed


@kernel
def clear(cells: Ints) -> None:
    """Put 0 in the cells of a histogram, or of part of one."""
    for i in range(cells.shape[0]):
        cells[i] = 0


@kernel
def subtract(cells: Ints, child: Ints) -> None:
    """Take a child's cells from its parent's: its sibling's are left."""
    for i in range(cells.shape[0]):
        cells[i] -= child[i]


@kernel
def sum_rows(packed: Ints, n: int) -> int:
    """Return the sum of n rows."""
    total = 0
    for i in range(n):
        total += packed[i]
    return total


@kernel
def left_sum(bins: Ints, b: int, missing: int) -> int:
    """Return the sum of one feature's bins up to b, and of the bin `missing` (-1 for none)."""
    total = 0
    for c in range(b + 1):
        total += bins[c]
    return total + (bins[missing] if missing >= 0 else 0)


@kernel
def best_cut(bins: Ints, missing: int, total: int, terms: SplitTerms, sums: Ints) -> int:
    """Return gain, bin and direction of the best cut of one feature, in one number; 0 for none.

    The gain G_l^2 / (H_l + l2) + G_r^2 / (H_r + l2) is a positive float, whose bits order as those
    of integers; its last seven are 63 less the bin, and 64 more where missing values go left.

    Parameters
    ----------
    bins : (64,) sums of one feature, and of those after it.
    missing : the bin of missing values; all before it are of numbers.
    total : the sum of all bins.
    terms : units, penalty and smallest hessian.
    sums : (64,) scratch.
    """
    if missing <= FEW_CODES:
        return int(_best_cut_of_few_codes(bins, missing, total, terms))
    running = 0
    for b in range(64):  # a constant number is unrolled; sums beyond `missing` are not used
        running += bins[b]
        sums[b] = running
    lost = bins[missing]
    best = int(_best_cut_of_sums(sums, missing, total, terms, 0))
    if lost != 0:
        for b in range(64):
            sums[b] += lost
        best = max(best, int(_best_cut_of_sums(sums, missing, total, terms, 64)))
    return best


@kernel
def _best_cut_of_few_codes(bins: Ints, missing: int, total: int, terms: SplitTerms) -> int:
    """Return the same for few codes, one by one."""
    G = float(total >> 32) * terms.gradient_unit
    H = float(total & HESSIAN_MASK) * terms.hessian_unit
    running, best = 0, 0
    for b in range(missing):
        running += bins[b]
        best = max(best, int(_gain_bits(running, G, H, terms)) + (63 - b))
        if bins[missing] != 0:
            best = max(best, int(_gain_bits(running + bins[missing], G, H, terms)) + (63 - b) + 64)
    return best if best > CUT_MASK else 0


@kernel
def _best_cut_of_sums(
    sums: Ints, missing: int, total: int, terms: SplitTerms, direction: int
) -> int:
    G = float(total >> 32) * terms.gradient_unit
    H = float(total & HESSIAN_MASK) * terms.hessian_unit
    best = 0
    # The last place leaves the right child nothing and is refused; it makes the vectors full.
    for b in range(missing + 1):
        best = max(best, int(_gain_bits(sums[b], G, H, terms)) + (63 - b) + direction)
    return best if best > CUT_MASK else 0


@kernel
def _gain_bits(left_sum: int, G: float, H: float, terms: SplitTerms) -> int:
    """Return the gain, as an integer, of separating rows of this sum from the rest."""
    g = float(left_sum >> 32) * terms.gradient_unit
    h = float(left_sum & HESSIAN_MASK) * terms.hessian_unit
    rest_g, rest_h = G - g, H - h
    left, right = h + terms.l2, rest_h + terms.l2
    gain = (g * g * right + rest_g * rest_g * left) / (left * right)
    gain = gain if h >= terms.min_hessian and rest_h >= terms.min_hessian else 0.0
    return int(bits_of(gain)) & ~CUT_MASK


@kernel
def gain_of(best: int) -> float:
    """Return the gain in the number of `best_cut`."""
    return float(np.int64(best & ~CUT_MASK).view(np.float64))


@kernel
def leaf_statistics(total: int, terms: SplitTerms) -> tuple[float, float, float]:
    """Return gradient, hessian and gain of a leaf of this sum that is not split."""
    G = float(total >> 32) * terms.gradient_unit
    H = float(total & HESSIAN_MASK) * terms.hessian_unit
    return G, H, G * G / (H + terms.l2)
