"""Histograms of the leaves that may split, and the search for the best cut in one (specification,
7.5 and 7.6).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from kaboost.models.banks.histogram_trees.binning import Binning, bin_of, encode, fit_edges, hold
from kaboost.models.kernels.jit import inlined, kernel, unregistered, verb
from kaboost.models.kernels.random import State, generator, uniform
from kaboost.models.types import Ints, Mat, Mat3, Vec
from kaboost.models.verbs import learner_view, learning_only


class Histograms(NamedTuple):
    """N learners that look at k of d features; K statistics a bin, P histograms a learner."""

    sums: NDArray[np.float64]  # (N, P, k, B+1, K); the root has the first of P places
    features: Ints  # (N, k) features of the learners, ascending
    warmup: Mat3  # (N, n0, K) what the learners will add for the warm-up events
    served: bool  # whether predictions read the sums


class SplitSums(NamedTuple):
    """Scratch of a split: statistics (K,) of a leaf and of the sides of a cut."""

    total: Vec
    left: Vec
    right: Vec


class Criterion(Protocol):
    """What a tree splits by: a NamedTuple of its limits, by whose type verbs are dispatched."""

    def _asdict(self) -> dict[str, Any]:
        """Return the limits by name."""
        ...


class Cut(NamedTuple):
    """The best cut of a histogram."""

    place: int  # of its feature in `Histograms.features`; -1 where there is none
    bin: int  # the last one on the left
    gain: float
    second: float  # the best gain of another feature


@learning_only.register
def _(histograms: Histograms) -> tuple[str, ...]:
    return ("warmup",) if histograms.served else ("sums", "features", "warmup")


@learner_view.register
def _(histograms: Histograms, i: int) -> Histograms:
    sums, features = histograms.sums[i : i + 1], histograms.features[i : i + 1]
    return Histograms(sums, features, histograms.warmup[i : i + 1], histograms.served)


@kernel
def reset_histograms(histograms: Histograms, i: int, d: int, state: State) -> None:
    """Empty the histograms of learner i, which draws its features of d again."""
    histograms.sums[i] = 0.0
    histograms.warmup[i] = 0.0
    choose_features(histograms.features[i], d, state)


def new_histograms(
    shape: tuple[int, int, int, int, int], d: int, warmup: int, seed: int, served: bool
) -> Histograms:
    """Return empty histograms of shape (N, P, k, B+1, K); every learner has k features of d."""
    N, _, k, _, K = shape
    features, state = np.zeros((N, k), np.int64), generator(seed)
    for i in range(N):
        choose_features(features[i], d, state)
    return Histograms(np.zeros(shape), features, np.zeros((N, warmup, K)), served)


def seen_features(share: str | float, d: int) -> int:
    """Return how many features a tree uses: "all", "sqrt", or a fraction of d."""
    if share == "all":
        return d
    return math.ceil(math.sqrt(d)) if share == "sqrt" else max(1, math.ceil(float(share) * d))


@kernel
def choose_features(features: Ints, d: int, state: State) -> None:
    """Fill features (k,) with k of d numbers, ascending, by selection sampling; all d need no draw.

    Knuth, The Art of Computer Programming, volume 2, algorithm S.
    """
    k, taken = features.shape[0], 0
    for j in range(d):
        if taken < k and (k == d or uniform(state) * (d - j) < k - taken):
            features[taken] = j
            taken += 1


@kernel
def observe(binning: Binning, histograms: Histograms, x: Vec) -> None:
    """Put x (d,) into the warm-up buffer; once it is full, make bins, and encode x from then on.

    Bins are made at the first event after the buffer is full: by then every learner has added its
    statistics of the last one.
    """
    if binning.ready[()] == 0 and binning.filled[()] == binning.held.shape[0]:
        fit_edges(binning.held, binning.edges, binning.cuts)
        replay(binning, histograms)
        binning.ready[()] = 1
    if binning.ready[()] == 0:
        hold(binning, x)
    else:
        encode(binning, x)


@kernel
def replay(binning: Binning, histograms: Histograms) -> None:
    """Fill the root's histograms from the warm-up buffer."""
    N, n0, K = histograms.warmup.shape
    for i in range(N):
        for r in range(n0):
            for f in range(histograms.features.shape[1]):
                j = histograms.features[i, f]
                b = bin_of(binning.edges, binning.cuts, j, binning.held[r, j])
                for s in range(K):
                    histograms.sums[i, 0, f, b, s] += histograms.warmup[i, r, s]


@inlined
def split_sums(rows: Mat, K: int) -> SplitSums:
    """Return the first column of 3 K scratch rows as vectors."""
    return SplitSums(rows[:K, 0], rows[K : 2 * K, 0], rows[2 * K : 3 * K, 0])


@kernel
def add_bins(H: Mat3, f: int, last: int, total: Vec) -> None:
    """Fill total (K,) with the sums of bins 0 to `last` of feature f of H (k, B+1, K)."""
    for s in range(total.shape[0]):
        total[s] = 0.0
        for b in range(last + 1):
            total[s] += H[f, b, s]


@kernel
def scale_histogram(H: Mat3, factor: float) -> None:
    """Multiply H (k, B+1, K)."""
    for f in range(H.shape[0]):
        for b in range(H.shape[1]):
            for s in range(H.shape[2]):
                H[f, b, s] *= factor


@verb
def best_bin(
    criterion: Criterion, H: Mat3, f: int, cuts: int, sums: SplitSums
) -> tuple[int, float]:
    """Return the first best cut of feature f and its gain; -1 where no cut is allowed.

    sums.total holds the statistics of the leaf; the other two may be overwritten.
    """
    raise unregistered("best_bin", criterion)


@kernel
def best_cut(
    criterion: Criterion, H: Mat3, features: Ints, cuts: Ints, sums: SplitSums, floor: float
) -> Cut:
    """Return the best cut of gain above `floor`; ties go to the first."""
    place, cut, best, second = -1, -1, floor, floor
    for f in range(features.shape[0]):
        b, gain = best_bin(criterion, H, f, cuts[features[f]], sums)
        if b >= 0 and gain > best:
            place, cut, best, second = f, b, gain, best
        elif b >= 0 and gain > second:
            second = gain
    return Cut(place, cut, best, second)
