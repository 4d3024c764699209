"""Bins that all trees of a bank share: a warm-up buffer, then edges that never move (specification,
7.5).

A bank with bins has these fields, N learners that look at k of d features each, B bins and one more
for what is missing, K statistics a learner adds to a bin:

    edges (d, B-1)  ascending, infinite where a feature has fewer
    cuts (d,)       edges of each feature
    codes (d,)      bins of the event that is learned
    held (n0, d)    values of the warm-up events
    tasks (N, n0, K)  what each learner will add for them
    filled, ready   () events held; 1 once there are bins
    subset (N, k)   features of each learner, ascending
    H (N, P, k, B+1, K)  histograms; the root has the first of P places
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from kaboost.models.kernels.jit import kernel
from kaboost.models.kernels.random import uniform
from kaboost.models.types import Ints, Mat, Vec

LIMIT = 2 * 2**30  # bytes: a larger state is refused


@kernel
def note(bank: Any, x: Vec) -> None:
    """Put x (d,) into the warm-up buffer; once it is full, make bins, and code x from then on.

    Bins come with the first event after the buffer: by then every learner has told its task for the
    last one.
    """
    d = x.shape[0]
    if bank.ready[()] == 0 and bank.filled[()] == bank.held.shape[0]:
        fit_edges(bank.held, bank.edges, bank.cuts)
        replay(bank)
        bank.ready[()] = 1
    if bank.ready[()] == 0:
        for j in range(d):
            bank.held[bank.filled[()], j] = x[j] + 0.0  # -0 is 0: edges are the same bytes
        bank.filled[()] += 1
    else:
        for j in range(d):
            bank.codes[j] = bin_of(bank.edges, bank.cuts, j, x[j])


@kernel
def bin_of(edges: Mat, cuts: Ints, j: int, value: float) -> int:
    """Return the bin of feature j: how many of its edges are below the value; B for nan."""
    if value != value:
        return int(edges.shape[1]) + 1
    low, high = 0, int(cuts[j])
    while low < high:
        middle = (low + high) // 2
        if edges[j, middle] < value:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def fit_edges(X: Mat, edges: Mat, cuts: Ints) -> None:
    """Fill edges (d, B-1) with the empirical quantiles 1/B, 2/B, ... of X (rows, d), and cuts (d,)
    with how many of them differ.
    """
    rows, d = X.shape
    B = edges.shape[1] + 1
    column = np.empty(rows)
    for j in range(d):
        for r in range(rows):
            column[r] = X[r, j]
        sort(column)
        cuts[j] = 0
        for b in range(B - 1):
            edges[j, b] = math.inf
            edge = column[((b + 1) * rows + B - 1) // B - 1]  # the smallest with a share >= (b+1)/B
            if cuts[j] == 0 or edge > edges[j, cuts[j] - 1]:
                edges[j, cuts[j]] = edge
                cuts[j] += 1


@kernel
def sort(values: Vec) -> None:
    """Sort in place by Shell's method: once in the life of a bank, without another library's
    compile time.
    """
    gap = values.shape[0] // 2
    while gap > 0:
        for r in range(gap, values.shape[0]):
            value, place = values[r], r
            while place >= gap and values[place - gap] > value:
                values[place] = values[place - gap]
                place -= gap
            values[place] = value
        gap = gap // 2


@kernel
def replay(bank: Any) -> None:
    """Fill the root's histograms from the warm-up buffer."""
    N, n0, K = bank.tasks.shape
    for i in range(N):
        for r in range(n0):
            for f in range(bank.subset.shape[1]):
                j = bank.subset[i, f]
                b = bin_of(bank.edges, bank.cuts, j, bank.held[r, j])
                for s in range(K):
                    bank.H[i, 0, f, b, s] += bank.tasks[i, r, s]


@kernel
def choose(features: Ints, d: int, state: Any) -> None:
    """Fill features (k,) with k of d numbers, ascending, by selection sampling; all d need no draw.

    Knuth, The Art of Computer Programming, volume 2, algorithm S.
    """
    k, taken = features.shape[0], 0
    for j in range(d):
        if taken < k and (k == d or uniform(state) * (d - j) < k - taken):
            features[taken] = j
            taken += 1


def seen_features(share: str | float, d: int) -> int:
    """Return how many features each tree sees: "all", "sqrt", or a fraction of d."""
    if share == "all":
        return d
    return math.ceil(math.sqrt(d)) if share == "sqrt" else max(1, math.ceil(float(share) * d))


def too_large(size: int, formula: str, remedy: str) -> str | None:
    """Return why a state of `size` bytes is refused, or None where it is not."""
    if size <= LIMIT:
        return None
    return (
        f"its state would take {formula} = {size / 2**30:.1f} GiB, more than "
        f"{LIMIT // 2**30}; take {remedy}"
    )
