"""How Hoeffding trees learn at their leaves and grow (specification, 7.6)."""

from __future__ import annotations

from kaboost.models.banks.histogram_trees.histograms import (
    SplitSums,
    add_bins,
    best_cut,
    scale_histogram,
    split_sums,
)
from kaboost.models.banks.histogram_trees.hoeffding_leaves import (
    bayes,
    majority,
    predicted_class,
    target_class,
)
from kaboost.models.banks.histogram_trees.hoeffding_split import (
    NO_CUT,
    ImpurityReduction,
    is_ahead,
)
from kaboost.models.banks.histogram_trees.hoeffding_state import (
    ADAPTIVE,
    CLASSES,
    LEAF,
    Hoeffding,
)
from kaboost.models.kernels.jit import kernel
from kaboost.models.types import Mat, Vec


@kernel
def learn_classes(bank: Hoeffding, x: Vec, target: Mat, weight: Vec, bank_scratch: Mat) -> None:
    """Add the event to the leaf of every learner of positive weight.

    A separate kernel: where numba inlines it together with `learner_view`, it takes the writes for
    dead code.
    """
    warmup = bank.histograms.warmup
    for i in range(weight.shape[0]):
        if weight[i] > 0.0:
            q, k = int(bank_scratch[LEAF, i]), target_class(target, i)
            if bank.binning.ready[()] == 0:
                warmup[i, bank.binning.filled[()] - 1, k] += weight[i]
                bank.counts[i, q, k] += weight[i]
            else:
                if bank.params.leaf == ADAPTIVE:
                    score_predictors(bank, i, k, weight[i], x, target.shape[0], bank_scratch)
                add_event(bank, i, q, k, weight[i])
                grow(bank, i, q, bank_scratch)


@kernel
def score_predictors(
    bank: Hoeffding, i: int, k: int, w: float, x: Vec, m: int, bank_scratch: Mat
) -> None:
    """Add w to `right` of majority and of naive Bayes where they predict class k at the leaf of
    tree i.
    """
    q, C, p = int(bank_scratch[LEAF, i]), bank.counts.shape[2], bank_scratch[CLASSES:]
    majority(bank, i, q, p)
    bank.right[i, q, 0] += w if predicted_class(p, i, C, m) == k else 0.0
    bayes(bank, i, q, x, p)
    bank.right[i, q, 1] += w if predicted_class(p, i, C, m) == k else 0.0


@kernel
def add_event(bank: Hoeffding, i: int, q: int, k: int, w: float) -> None:
    """Add an event of class k to leaf q of tree i."""
    features, codes = bank.histograms.features, bank.binning.codes
    bank.counts[i, q, k] += w
    bank.c[i, q] += w
    slot = bank.slot[i, q]
    for f in range(features.shape[1]):
        bank.histograms.sums[i, slot, f, codes[features[i, f]], k] += w


@kernel
def grow(bank: Hoeffding, i: int, q: int, bank_scratch: Mat) -> None:
    """Try to split leaf q of tree i once it has waited for `grace`."""
    params, histograms = bank.params, bank.histograms
    if bank.c[i, q] < params.grace:
        return
    bank.c[i, q] = 0.0
    if bank.depth[i, q] >= params.max_depth or bank.nodes[i] + 2 > bank.feat.shape[1]:
        return
    C, H = bank.counts.shape[2], histograms.sums[i, bank.slot[i, q]]
    sums = split_sums(bank_scratch[CLASSES:], C)
    add_bins(H, 0, H.shape[1] - 1, sums.total)
    criterion = ImpurityReduction(params.measure)
    cut = best_cut(criterion, H, histograms.features[i], bank.binning.cuts, sums, NO_CUT)
    if cut.place >= 0 and is_ahead(cut, sums.total, params):
        add_bins(H, cut.place, cut.bin, sums.left)
        for k in range(C):
            above = sums.total[k] > sums.left[k]
            sums.right[k] = sums.total[k] - sums.left[k] if above else 0.0
        j = histograms.features[i, cut.place]
        bank.feat[i, q], bank.cut[i, q] = j, bank.binning.edges[j, cut.bin]
        start_children(bank, i, q, sums)
        scale_histogram(H, 0.0)


@kernel
def start_children(bank: Hoeffding, i: int, q: int, sums: SplitSums) -> None:
    """Start two children of node q of tree i with the class weights of their sides.

    The left child takes over the histogram's place.
    """
    child, leaves = bank.nodes[i], (bank.nodes[i] + 1) // 2
    bank.left[i, q] = child
    bank.nodes[i] += 2
    bank.slot[i, child], bank.slot[i, child + 1] = bank.slot[i, q], leaves
    bank.depth[i, child] = bank.depth[i, q] + 1
    bank.depth[i, child + 1] = bank.depth[i, q] + 1
    for k in range(sums.left.shape[0]):
        bank.counts[i, child, k] = sums.left[k]
        bank.counts[i, child + 1, k] = sums.right[k]
