"""Predictions of the leaf of a Hoeffding tree: majority, naive Bayes over the bins, or the better
of the two at that leaf (specification, 7.6).
"""

from __future__ import annotations

from kaboost.models.banks.histogram_trees.binning import bin_of
from kaboost.models.banks.histogram_trees.hoeffding_state import Hoeffding
from kaboost.models.kernels.jit import kernel
from kaboost.models.types import Mat, Vec

TINY = 1e-200  # smaller products are multiplied by its inverse


@kernel
def majority(bank: Hoeffding, i: int, q: int, p: Mat) -> None:
    """Fill p (C, N) at i with the shares of the classes at leaf q; uniform before any event."""
    C = bank.counts.shape[2]
    for k in range(C):
        p[k, i] = bank.counts[i, q, k]
    normalise(p, i, C)


@kernel
def bayes(bank: Hoeffding, i: int, q: int, x: Vec, p: Mat) -> None:
    """Fill p (C, N) at i with the prediction of naive Bayes for x (d,): the share of the class
    times, for every feature, its share in the bin of x, with one event added to every bin
    (Laplace).
    """
    C, slot, H = bank.counts.shape[2], bank.slot[i, q], bank.histograms.sums
    features, binning = bank.histograms.features, bank.binning
    for k in range(C):
        p[k, i] = bank.counts[i, q, k]
        p[C + k, i] = 0.0
        for b in range(H.shape[3]):
            p[C + k, i] += H[i, slot, 0, b, k]
    for f in range(features.shape[1]):
        j = features[i, f]
        b = bin_of(binning.edges, binning.cuts, j, x[j])
        top = 0.0
        for k in range(C):
            share = (H[i, slot, f, b, k] + 1.0) / (p[C + k, i] + binning.cuts[j] + 1.0)
            p[k, i] *= share
            top = p[k, i] if p[k, i] > top else top
        if top < TINY:
            for k in range(C):
                p[k, i] *= 1.0 / TINY
    normalise(p, i, C)


@kernel
def normalise(p: Mat, i: int, C: int) -> None:
    """Divide p[:C, i] by its sum; equal shares where that is 0."""
    total = 0.0
    for k in range(C):
        total += p[k, i]
    for k in range(C):
        p[k, i] = p[k, i] / total if total > 0.0 else 1.0 / C


@kernel
def predicted_class(p: Mat, i: int, C: int, m: int) -> int:
    """Return the class of the largest share: the positive one of two where they tie, the first of
    many."""
    if m == 1:
        return 1 if p[1, i] >= p[0, i] else 0
    best = 0
    for k in range(1, C):
        best = k if p[k, i] > p[best, i] else best
    return best


@kernel
def target_class(target: Mat, i: int) -> int:
    """Return the class of targets (m, N) of +-1 for learner i."""
    if target.shape[0] == 1:
        return 1 if target[0, i] > 0.0 else 0
    best = 0
    for c in range(1, target.shape[0]):
        best = c if target[c, i] > target[best, i] else best
    return best
