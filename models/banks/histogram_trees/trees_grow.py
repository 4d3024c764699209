"""How regression trees gather histograms at their leaves and grow (specification, 7.5)."""

from __future__ import annotations

from kaboost.models.banks.histogram_trees.histograms import (
    SplitSums,
    add_bins,
    best_cut,
    scale_histogram,
    split_sums,
)
from kaboost.models.banks.histogram_trees.trees_leaves import update_value
from kaboost.models.banks.histogram_trees.trees_split import (
    NO_CUT,
    ErrorReduction,
    passes_test,
)
from kaboost.models.banks.histogram_trees.trees_state import (
    ENERGY,
    EVENT,
    LEAF,
    OUTPUTS,
    WEIGHT,
    Trees,
)
from kaboost.models.kernels.jit import kernel
from kaboost.models.types import Mat, Vec


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
def hold_statistics(bank: Trees, bank_scratch: Mat) -> None:
    """Add the event's statistics of every learner to the warm-up buffer.

    A learner that learns an event several times adds them several times.
    """
    warmup = bank.histograms.warmup
    N, _, K = warmup.shape
    r = bank.binning.filled[()] - 1
    for i in range(N):
        if bank_scratch[EVENT + WEIGHT, i] > 0.0:
            for s in range(K):
                warmup[i, r, s] += bank_scratch[EVENT + s, i]


@kernel
def fill_histograms(bank: Trees, weight: Vec, bank_scratch: Mat) -> None:
    """Add the event to the histograms of every learner of positive weight whose leaf may split."""
    histograms, inner = bank.histograms, bank.feat.shape[1] // 2
    K, k = histograms.warmup.shape[2], histograms.features.shape[1]
    for i in range(weight.shape[0]):
        q = int(bank_scratch[LEAF, i])
        if weight[i] > 0.0 and q < inner:
            bank.c[i, q] += weight[i]
            slot = slot_of(q, inner)
            for f in range(k):
                code = bank.binning.codes[histograms.features[i, f]]
                for s in range(K):
                    histograms.sums[i, slot, f, code, s] += bank_scratch[EVENT + s, i]


@kernel
def grow(bank: Trees, weight: Vec, mode: int, bank_scratch: Mat) -> None:
    """Try to split the leaves that have waited for `grace`."""
    inner = bank.feat.shape[1] // 2
    for i in range(weight.shape[0]):
        q = int(bank_scratch[LEAF, i])
        if weight[i] > 0.0 and q < inner and bank.c[i, q] >= bank.params.grace:
            bank.c[i, q] = 0.0
            try_split(bank, i, q, mode, bank_scratch)


@kernel
def try_split(bank: Trees, i: int, q: int, mode: int, bank_scratch: Mat) -> None:
    """Split leaf q of tree i at its best cut if the test passes; halve its histogram if it grew too
    heavy.
    """
    histograms, params = bank.histograms, bank.params
    K, slot = histograms.warmup.shape[2], slot_of(q, bank.feat.shape[1] // 2)
    H = histograms.sums[i, slot]
    sums = split_sums(bank_scratch[EVENT + K :], K)
    add_bins(H, 0, H.shape[1] - 1, sums.total)
    criterion = ErrorReduction(params.lam, params.n_min)
    cut = best_cut(criterion, H, histograms.features[i], bank.binning.cuts, sums, NO_CUT)
    passed = False
    if cut.place >= 0:
        add_bins(H, cut.place, cut.bin, sums.left)
        for s in range(K):
            sums.right[s] = sums.total[s] - sums.left[s]
        passed = passes_test(sums, cut, params)
    if passed:
        j = histograms.features[i, cut.place]
        bank.feat[i, q], bank.cut[i, q] = j, bank.binning.edges[j, cut.bin]
        start_children(bank, i, q, sums, mode)
        scale_histogram(H, 0.0)
    elif sums.total[WEIGHT] > params.cap:
        scale_histogram(H, 0.5)


@kernel
def start_children(bank: Trees, i: int, q: int, sums: SplitSums, mode: int) -> None:
    """Start the children of node q of tree i with the statistics of their sides."""
    start_leaf(bank, i, 2 * q + 1, sums.left, mode)
    start_leaf(bank, i, 2 * q + 2, sums.right, mode)


@kernel
def start_leaf(bank: Trees, i: int, q: int, part: Vec, mode: int) -> None:
    """Make node q of tree i a leaf with the statistics `part` (K,)."""
    bank.n[i, q] = part[WEIGHT]
    bank.q[i, q] = part[ENERGY]
    for c in range(bank.v.shape[2]):
        bank.S[i, q, c] = part[OUTPUTS + c]
    update_value(bank, i, q, mode)
