"""The state of the bank `trees`: learners lie along the first axis, unlike in other banks, because
a learner reads one path, not all nodes. A tree is a heap: the children of node q are 2q+1 and 2q+2.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kaboost.models.banks.histogram_trees.binning import Binning
from kaboost.models.banks.histogram_trees.histograms import Histograms, reset_histograms
from kaboost.models.kernels.random import State
from kaboost.models.types import Mat, Mat3
from kaboost.models.verbs import bank_scratch_rows, learner_view, learning_only, reset_learner

# Rows of the bank's scratch: the leaf of every learner, its statistics of the event (K rows), and
# the `SplitSums` of one learner (3 K rows, first column).
LEAF, EVENT = 0, 1
# Statistics of a leaf or bin: weight, sum of squared weights, sum of w |r|^2, then w r per output.
WEIGHT, WEIGHT_SQUARES, ENERGY, OUTPUTS = 0, 1, 2, 3


class TreeParams(NamedTuple):
    """How leaves learn and when they split; all from the specification."""

    rho: float  # what a leaf keeps of its past at every visit
    lam: float  # L2 of a leaf's value
    l1: float
    bound: float  # D of the linear mode: no leaf value is larger
    grace: float  # weight between attempts to split
    n_min: float  # effective events on both sides of a cut
    test: int
    delta: float
    quantile: float  # of the normal test: delta shared by all candidates
    tie: float
    cap: float  # weight of a histogram, above which it is halved; inf for never


class Trees(NamedTuple):
    """N trees of depth D with M = 2^(D+1) - 1 places for nodes; K = 3 + m statistics."""

    feat: NDArray[np.int32]  # (N, M) feature of the node's cut, -1 for a leaf
    cut: Mat  # (N, M) x[feat] <= cut goes left
    v: Mat3  # (N, M, m) leaf values
    n: Mat  # (N, M) weight of the leaf's events
    q: Mat  # (N, M) sum of w |r|^2
    S: Mat3  # (N, M, m) sum of w r
    c: Mat  # (N, M) weight since the last attempt to split
    binning: Binning
    histograms: Histograms  # (N, 2^(D-1), k, B+1, K) of the leaves that may split
    params: TreeParams
    whole: bool  # False in a bank of one


@learning_only.register
def _(bank: Trees) -> tuple[str, ...]:
    return ("n", "q", "S", "c")


@bank_scratch_rows.register
def _(bank: Trees) -> int:
    return 1 + 4 * int(bank.histograms.warmup.shape[2])


@learner_view.register
def _(bank: Trees, i: int) -> Trees:
    return Trees(
        bank.feat[i : i + 1],
        bank.cut[i : i + 1],
        bank.v[i : i + 1],
        bank.n[i : i + 1],
        bank.q[i : i + 1],
        bank.S[i : i + 1],
        bank.c[i : i + 1],
        bank.binning,
        learner_view(bank.histograms, i),
        bank.params,
        False,
    )


@reset_learner.register
def _(bank: Trees, i: int, state: State) -> None:
    bank.feat[i] = -1
    bank.cut[i] = 0.0
    bank.v[i] = 0.0
    bank.n[i] = 0.0
    bank.q[i] = 0.0
    bank.S[i] = 0.0
    bank.c[i] = 0.0
    reset_histograms(bank.histograms, i, bank.binning.edges.shape[0], state)
