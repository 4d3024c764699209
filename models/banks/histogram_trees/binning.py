"""Bins that all trees of a bank share: edges are made of warm-up events, and never move
(specification, 7.5).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kaboost.models.kernels.jit import kernel
from kaboost.models.types import Ints, Mat, Vec
from kaboost.models.verbs import learning_only


class Binning(NamedTuple):
    """B bins of each of d features, and one more for what is missing."""

    edges: Mat  # (d, B-1) ascending, infinite where a feature has fewer
    cuts: Ints  # (d,) edges of each feature
    codes: NDArray[np.uint8]  # (d,) bins of the event that is learned
    held: Mat  # (n0, d) values of the warm-up events
    filled: Ints  # () events held
    ready: Ints  # () 1 once there are edges
    served: bool  # whether predictions read the edges


@learning_only.register
def _(binning: Binning) -> tuple[str, ...]:
    always = ("codes", "held", "filled")
    return always if binning.served else (*always, "edges", "cuts", "ready")


def new_binning(d: int, bins: int, warmup: int, served: bool) -> Binning:
    """Return the bins of a bank that has seen nothing."""
    return Binning(
        edges=np.full((d, bins - 1), np.inf),
        cuts=np.zeros(d, np.int64),
        codes=np.zeros(d, np.uint8),
        held=np.zeros((warmup, d)),
        filled=np.zeros((), np.int64),
        ready=np.zeros((), np.int64),
        served=served,
    )


@kernel
def hold(binning: Binning, x: Vec) -> None:
    """Put x (d,) into the warm-up buffer."""
    for j in range(x.shape[0]):
        binning.held[binning.filled[()], j] = x[j] + 0.0  # -0 is 0: edges are the same bytes
    binning.filled[()] += 1


@kernel
def encode(binning: Binning, x: Vec) -> None:
    """Fill codes (d,) with the bins of x (d,)."""
    for j in range(x.shape[0]):
        binning.codes[j] = bin_of(binning.edges, binning.cuts, j, x[j])


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
    """Sort in place by Shell's method: it runs once in the life of a bank, and compiles sooner than
    NumPy's.
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
