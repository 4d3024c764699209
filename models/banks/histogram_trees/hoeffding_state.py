"""The state of the bank `hoeffding`: learners lie along the first axis, as in `trees`. Nodes are
numbered as they come; the children of a node are `left` and `left + 1`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kaboost.models.banks.histogram_trees.binning import Binning
from kaboost.models.banks.histogram_trees.histograms import Histograms, reset_histograms
from kaboost.models.kernels.random import State
from kaboost.models.types import Ints, Mat, Mat3
from kaboost.models.verbs import bank_scratch_rows, learner_view, learning_only, reset_learner

# Rows of the bank's scratch: leaves of the learners; then 2 C rows of class shares to predict, or
# the `SplitSums` of one learner (3 C rows, first column).
LEAF, CLASSES = 0, 1
MAJORITY, BAYES, ADAPTIVE = 0, 1, 2  # what a leaf predicts by


class HoeffdingParams(NamedTuple):
    """How leaves predict and when they split; all from the specification."""

    leaf: int
    measure: int  # of impurity
    grace: float  # weight between attempts to split
    delta: float
    tie: float
    max_depth: int


class Hoeffding(NamedTuple):
    """N classification trees of at most L leaves, M = 2L - 1 nodes, over C classes."""

    feat: NDArray[np.int32]  # (N, M) feature of the node's cut, -1 for a leaf
    cut: Mat  # (N, M) x[feat] <= cut goes left
    left: NDArray[np.int32]  # (N, M)
    counts: Mat3  # (N, M, C) class weights of the leaf, with those inherited from its parent
    right: Mat3  # (N, M, 2) weight that majority and naive Bayes predicted correctly there
    slot: NDArray[np.int32]  # (N, M) the leaf's place in the histograms
    binning: Binning
    histograms: Histograms  # (N, L, k, B+1, C) class weights
    c: Mat  # (N, M) weight since the last attempt to split
    depth: NDArray[np.int32]  # (N, M)
    nodes: Ints  # (N,) how many there are
    params: HoeffdingParams
    whole: bool  # False in a bank of one


@learning_only.register
def _(bank: Hoeffding) -> tuple[str, ...]:
    always = ("c", "depth", "nodes")
    return (*always, "right", "slot") if bank.params.leaf == MAJORITY else always


@bank_scratch_rows.register
def _(bank: Hoeffding) -> int:
    return 1 + 3 * int(bank.counts.shape[2])


@learner_view.register
def _(bank: Hoeffding, i: int) -> Hoeffding:
    return Hoeffding(
        bank.feat[i : i + 1],
        bank.cut[i : i + 1],
        bank.left[i : i + 1],
        bank.counts[i : i + 1],
        bank.right[i : i + 1],
        bank.slot[i : i + 1],
        bank.binning,
        learner_view(bank.histograms, i),
        bank.c[i : i + 1],
        bank.depth[i : i + 1],
        bank.nodes[i : i + 1],
        bank.params,
        False,
    )


@reset_learner.register
def _(bank: Hoeffding, i: int, state: State) -> None:
    bank.feat[i] = -1
    bank.cut[i] = 0.0
    bank.left[i] = 0
    bank.counts[i] = 0.0
    bank.right[i] = 0.0
    bank.slot[i] = 0
    bank.c[i] = 0.0
    bank.depth[i] = 0
    bank.nodes[i] = 1
    reset_histograms(bank.histograms, i, bank.binning.edges.shape[0], state)
