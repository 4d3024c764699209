"""How regression trees gather histograms at their leaves and grow (specification, 7.5)."""

from __future__ import annotations

import math
from typing import Any

from kaboost.models.banks.trees_split import (
    BEYOND,
    HOEFFDING,
    add_bins,
    best_cut,
    is_ahead,
    is_sure,
)
from kaboost.models.kernels.jit import kernel
from kaboost.models.types import LINEAR, Mat, Mat3, Vec


@kernel
def settle(n: Mat, q: Mat, S: Mat3, v: Mat3, place: Any, how: Any) -> None:
    """Fill v at a leaf: S / (n + lam), S shrunk by l1; in the linear mode D S / sqrt(q), no longer
    than D.
    """
    (i, leaf), (lam, l1, bound, mode) = place, how
    m = v.shape[2]
    if mode == LINEAR:
        scale = bound / math.sqrt(q[i, leaf] + 1e-12)
        size = 0.0
        for c in range(m):
            v[i, leaf, c] = scale * S[i, leaf, c]
            size += v[i, leaf, c] * v[i, leaf, c]
        if size > bound * bound:
            shrink = bound / math.sqrt(size)
            for c in range(m):
                v[i, leaf, c] *= shrink
        return
    for c in range(m):
        s = S[i, leaf, c]
        kept = abs(s) - l1 if abs(s) > l1 else 0.0
        v[i, leaf, c] = (kept if s > 0.0 else -kept) / (n[i, leaf] + lam)


@kernel
def slot_of(q: int, inner: int) -> int:
    """Return the histogram place of node q: the number of the leftmost deepest inner node below it,
    which no other open leaf has.
    """
    first = inner // 2
    while q < first:
        q = 2 * q + 1
    return q - first


@kernel
def fill_histograms(bank: Any, weight: Vec, bank_scratch: Mat) -> None:
    """Add the event to the histograms of every learner of positive weight whose leaf may split."""
    inner, K, k = bank.feat.shape[1] // 2, bank.tasks.shape[2], bank.subset.shape[1]
    for i in range(weight.shape[0]):
        q = int(bank_scratch[0, i])
        if weight[i] > 0.0 and q < inner:
            bank.c[i, q] += weight[i]
            slot = slot_of(q, inner)
            for f in range(k):
                code = bank.codes[bank.subset[i, f]]
                for s in range(K):
                    bank.H[i, slot, f, code, s] += bank_scratch[1 + s, i]


@kernel
def grow(bank: Any, weight: Vec, mode: int, bank_scratch: Mat) -> None:
    """Try to split the leaves that have waited for `grace`."""
    inner = bank.feat.shape[1] // 2
    for i in range(weight.shape[0]):
        q = int(bank_scratch[0, i])
        if weight[i] > 0.0 and q < inner and bank.c[i, q] >= bank.grace:
            bank.c[i, q] = 0.0
            attempt(bank, i, q, mode, bank_scratch)


@kernel
def attempt(bank: Any, i: int, q: int, mode: int, bank_scratch: Mat) -> None:
    """Split leaf q of tree i at its best cut if the test is sure; fade its histogram if it grew too
    heavy.
    """
    K, slot = bank.tasks.shape[2], slot_of(q, bank.feat.shape[1] // 2)
    H = bank.H[i, slot]
    total, left, right = (
        bank_scratch[1 + K : 1 + 2 * K, 0],
        bank_scratch[1 + 2 * K : 1 + 3 * K, 0],
        bank_scratch[1 + 3 * K : 1 + 4 * K, 0],
    )
    add_bins(H, 0, H.shape[1] - 1, total)
    limits = (bank.lam, bank.n_min)
    f, b, best, second = best_cut(H, bank.subset[i], bank.cuts, (total, left), limits)
    sure = False
    if f >= 0:
        add_bins(H, f, b, left)
        for s in range(K):
            right[s] = total[s] - left[s]
        if bank.test == HOEFFDING:
            sure = is_ahead(total, best, second, (bank.lam, bank.delta, bank.tie))
        else:
            sure = is_sure(total, left, right, bank.lam, bank.quantile)
    if sure:
        j = bank.subset[i, f]
        split(bank, (i, q), (j, bank.edges[j, b]), (left, right), mode)
        scale(H, 0.0)
    elif total[0] > bank.cap:
        scale(H, 0.5)


@kernel
def split(bank: Any, place: Any, where: Any, parts: Any, mode: int) -> None:
    """Give leaf q of tree i two children that go on from its histogram's sums."""
    i, q = place
    bank.feat[i, q], bank.cut[i, q] = where
    for side in range(2):
        child = 2 * q + 1 + side
        part = parts[side]
        bank.n[i, child] = part[0]
        bank.q[i, child] = part[2]
        for c in range(bank.v.shape[2]):
            bank.S[i, child, c] = part[BEYOND + c]
        how = (bank.lam, bank.l1, bank.bound, mode)
        settle(bank.n, bank.q, bank.S, bank.v, (i, child), how)


@kernel
def scale(H: Mat3, factor: float) -> None:
    """Multiply a histogram."""
    for f in range(H.shape[0]):
        for b in range(H.shape[1]):
            for s in range(H.shape[2]):
                H[f, b, s] *= factor
