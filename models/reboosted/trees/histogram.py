"""Histograms of slopes and hessians, and the cut of largest gain in one.

A row's slope and hessian are one int64: the slope in the upper half, the hessian, never negative,
in the lower. Sums of them are exact, so neither the order of rows nor how a sum is made shows in
the result; and the histogram of one child is its parent's less its sibling's.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kaboost.models.kernels.jit import kernel
from kaboost.models.kernels.numeric import bits_of
from kaboost.models.reboosted.state import CODES
from kaboost.models.types import UINT, Ints

HESSIAN_MASK = 0xFFFFFFFF
SUM_BITS = 30  # bits that the sum over all rows may fill in either half
FEW_CODES = 8  # codes up to which each is looked at by itself
CUT_MASK = 127  # the low bits of a gain hold the place it was found at


@kernel
def pack(build: Any, n: int) -> None:
    """Pack slopes and bends of n rows as finely as their sum allows; keep the units in scale."""
    fine = float((1 << SUM_BITS) // max(n, 1))
    top, bent = build.scale[0], build.scale[1]
    up = fine / top if top > 0.0 else 0.0
    down = fine / bent if bent > 0.0 else 0.0
    for i in range(n):
        g = int(build.gradients[i] * up + (0.5 if build.gradients[i] >= 0.0 else -0.5))
        h = int(build.hessians[i] * down + 0.5)
        build.packed[i] = (g << 32) + h
    build.scale[2] = top / fine
    build.scale[3] = bent / fine


@kernel
def count_rows(table: Any, build: Any, span: Any, columns: int, bins: int) -> None:
    """Add the rows order[first:last] to a histogram, a table (cells,) of all columns, none of which
    has more places than `bins`.
    """
    (first, last), starts = span, build.first_bins
    same = bins if int(starts[columns]) == columns * bins else 0
    for i in range(first, last):
        r = build.order[i]
        codes, packed = build.codes[r * columns : (r + 1) * columns], build.packed[r]
        if same == CODES:  # no places to look up: a sixth faster
            for j in range(columns):
                table[UINT(CODES) * UINT(j) + codes[j]] += packed
        elif same == CODES // 2:
            for j in range(columns):
                table[UINT(CODES // 2) * UINT(j) + codes[j]] += packed
        else:
            for j in range(columns):
                table[starts[j] + codes[j]] += packed


@kernel
def clear(cells: Any) -> None:
    """Put 0 in the cells of a histogram, or of part of one."""
    for i in range(cells.shape[0]):
        cells[i] = 0


@kernel
def subtract(cells: Any, other: Any) -> None:
    """Take a child's cells from its parent's: its sibling's are left."""
    for i in range(cells.shape[0]):
        cells[i] -= other[i]


@kernel
def sum_rows(packed: Ints, n: int) -> int:
    """Return the sum of n rows."""
    found = 0
    for i in range(n):
        found += packed[i]
    return found


@kernel
def left_sum(bins: Any, b: int, missing: int) -> int:
    """Return the sum of one feature's bins up to b, and of those missing (-1 for none)."""
    found = 0
    for c in range(b + 1):
        found += bins[c]
    return found + (bins[missing] if missing >= 0 else 0)


@kernel
def best_cut(bins: Any, missing: int, whole: int, how: Any, sums: Ints) -> int:
    """Return gain, bin and direction of the best cut of one feature, in one number; 0 for none.

    The gain G_l^2 / (H_l + lam) + G_r^2 / (H_r + lam) is a positive float, whose bits order as a
    whole number's; its last seven are 63 less the bin, and 64 more where missing goes left.

    Parameters
    ----------
    bins : (64,) sums of one feature, and of those after it.
    missing : the place of what is missing; all before it are codes of numbers.
    whole : the sum of all places.
    how : units of slope and hessian, lam, smallest hessian of a child.
    sums : (64,) scratch.
    """
    if missing <= FEW_CODES:
        return int(_best_cut_of_few_codes(bins, missing, whole, how))
    running = 0
    for b in range(64):  # a fixed number is unrolled; sums beyond `missing` are another's
        running += bins[b]
        sums[b] = running
    lost = bins[missing]
    best = int(_best_cut_of_sums(sums, missing, whole, how, 0))
    if lost != 0:
        for b in range(64):
            sums[b] += lost
        best = max(best, int(_best_cut_of_sums(sums, missing, whole, how, 64)))
    return best


@kernel
def _best_cut_of_few_codes(bins: Any, missing: int, whole: int, how: Any) -> int:
    """Do the same for few codes, one by one."""
    G, H = float(whole >> 32) * how[0], float(whole & HESSIAN_MASK) * how[1]
    running, best = 0, 0
    for b in range(missing):
        running += bins[b]
        best = max(best, int(_gain_bits(running, G, H, how)) + (63 - b))
        if bins[missing] != 0:
            best = max(best, int(_gain_bits(running + bins[missing], G, H, how)) + (63 - b) + 64)
    return best if best > CUT_MASK else 0


@kernel
def _best_cut_of_sums(sums: Ints, missing: int, whole: int, how: Any, direction: int) -> int:
    G, H = float(whole >> 32) * how[0], float(whole & HESSIAN_MASK) * how[1]
    best = 0
    # The last place leaves the right child nothing and is refused; it makes the vectors full.
    for b in range(missing + 1):
        best = max(best, int(_gain_bits(sums[b], G, H, how)) + (63 - b) + direction)
    return best if best > CUT_MASK else 0


@kernel
def _gain_bits(left_sum: int, G: float, H: float, how: Any) -> int:
    """Return the gain, as a whole number, of parting what sums up to `left_sum` from the rest."""
    unit_g, unit_h, lam, least = how
    g, h = float(left_sum >> 32) * unit_g, float(left_sum & HESSIAN_MASK) * unit_h
    rest_g, rest_h = G - g, H - h
    left, right = h + lam, rest_h + lam
    gain = (g * g * right + rest_g * rest_g * left) / (left * right)
    gain = gain if h >= least and rest_h >= least else 0.0
    return int(bits_of(gain)) & ~CUT_MASK


@kernel
def gain_of(best: int) -> float:
    """Return the gain in what `best_cut` found."""
    return float(np.int64(best & ~CUT_MASK).view(np.float64))


@kernel
def leaf_statistics(whole: int, unit_g: float, unit_h: float, lam: float) -> Any:
    """Return slope, hessian and gain of a leaf of sums `whole` that is not split."""
    G, H = float(whole >> 32) * unit_g, float(whole & HESSIAN_MASK) * unit_h
    return G, H, G * G / (H + lam)
