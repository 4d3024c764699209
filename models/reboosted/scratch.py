"""Scratch of one event of reboosted trees, made once a batch: a whole one to learn, a small one to
predict, in few arrays.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from kaboost.models.kernels.jit import kernel
from kaboost.models.reboosted.linear import LINEAR_LEARNERS, blank_row
from kaboost.models.reboosted.state import LANES
from kaboost.models.reboosted.trees.traverse import BLOCK
from kaboost.models.types import UINT, Ints, Mat, Vec

MIN_BLOCK_EVENTS, MAX_BLOCK_COLUMNS = (
    6,
    1024,
)  # events from which on blocks are; columns up to which they fit the cache
LINEAR_SCORES = (
    LINEAR_LEARNERS + 1
)  # scores that come of no trees: the linear learners', and the last label


class LearnScratch(NamedTuple):
    """Scratch of one event, made once a batch."""

    row: Any  # (2d,) or more int32 keys, missing ones largest, and again with missing ones smallest
    columns: Any  # (2^i B,) int32, the same of a block of B events, column by column
    leaves: Any  # (B, K, N) int32, of the B events of a block
    label_means: Vec  # (5,) as they will be
    grown: Ints  # (K,) trees there were when the leaves were looked for
    F: Mat  # (K, N+1) prefixes
    tree_outputs: Vec  # (N+1,) differences of one structure's prefixes, losses, slopes, curvatures
    prefix_losses: Vec
    prefix_gradients: Vec
    prefix_hessians: Vec
    leaf_scores: Vec  # (8,)
    runs: Any  # what follows is a row of the linear learners: models/reboosted/linear.py
    values: Vec
    distances: Vec
    input_counts: Ints
    input_values: Vec
    input_places: Any
    contributions: Vec
    scores: Vec  # (n,) scores of all structures' leaf learners, then those of LINES
    score_losses: Vec  # (n,)
    score_gradients: Vec  # (n,)
    expert_scores: Vec  # (S+1,)
    expert_losses: Vec  # (S+1,) their losses
    weights: Vec  # (max(n, S+1),)
    kalman_gain: Vec  # (R,)
    filter_inputs: Vec  # (R,) scores as the filters see them
    tree_counts: Ints  # (K,) trees of each structure
    leaf_steps: Any  # (8,) float32


class PredictScratch(NamedTuple):
    """What of a desk a prediction needs; the fields are a desk's."""

    row: Any
    leaves: Any  # (K, N)
    F: Mat
    leaf_scores: Vec
    runs: Any
    values: Vec
    distances: Vec
    input_counts: Ints
    input_values: Vec
    input_places: Any
    scores: Vec
    expert_scores: Vec
    weights: Vec
    filter_inputs: Vec
    tree_counts: Ints


def allocate(bank: Any, filters: Any, d0: int, events: int = 1) -> LearnScratch:
    """Return scratch for a bank over d0 features and its stack, to learn so many events."""
    d = d0 + bank.label_means.size
    sizes = np.array([one.nodes.shape[0] for one in bank.structures], np.int64)
    K, N, n = len(sizes), int(sizes.max()), len(sizes) * len(bank.params.leaf_rates) + LINEAR_SCORES
    R, S = filters.weights.shape[1], len(filters.mixture_losses)
    leaves = max(
        one.rows.shape[1] for one in bank.structures
    )  # a leaf's number is read as a feature
    wide = 1 << (2 * d - 1).bit_length()
    B = BLOCK if events >= MIN_BLOCK_EVENTS and wide <= MAX_BLOCK_COLUMNS else 1
    return LearnScratch(
        row=np.zeros(max(2 * d, leaves), np.int32), leaves=np.zeros((B, K, N), np.int32),
        columns=np.zeros(wide * B if B > 1 else 0, np.int32), label_means=np.zeros(bank.label_means.size),
        grown=np.zeros(K, np.int64), F=np.zeros((K, N + 1)),
        tree_outputs=np.zeros(N + 1), prefix_losses=np.zeros(N + 1), prefix_gradients=np.zeros(N + 1), prefix_hessians=np.zeros(N + 1),
        leaf_scores=np.zeros(LANES), **blank_row(d0)._asdict(),
        scores=np.zeros(n), score_losses=np.zeros(n), score_gradients=np.zeros(n),
        expert_scores=np.zeros(S), expert_losses=np.zeros(S), weights=np.zeros(max(n, S)), kalman_gain=np.zeros(R),
        filter_inputs=np.zeros(R), tree_counts=sizes, leaf_steps=np.zeros(LANES, np.float32),
    )  # fmt: skip


def allocate_predict(bank: Any, filters: Any, d0: int) -> tuple[Any, Vec, Ints]:
    """Return the scratch of predictions in three arrays, for `slice_scratch` to cut: to make and hand
    over an array costs more than to walk a tree.
    """
    d, K, n = (
        d0 + bank.label_means.size,
        len(bank.structures),
        len(bank.structures) * len(bank.params.leaf_rates) + LINEAR_SCORES,
    )
    N = max(one.nodes.shape[0] for one in bank.structures)
    leaves = max(one.rows.shape[1] for one in bank.structures)
    R, S = filters.weights.shape[1], len(filters.mixture_losses)
    floats = K * (N + 1) + LANES + 4 * d0 + 1 + n + S + max(n, S) + R
    ints = max(2 * d, leaves) + K * N
    return np.zeros(ints, np.int32), np.zeros(floats), np.zeros(4 * d0 + 8 + K, np.int64)


@kernel
def slice_scratch(forest: Any, stack: Any, d0: int, room: Any) -> PredictScratch:
    """Cut the scratch of predictions over d0 features out of `allocate_predict`."""
    ints, floats, longs = room
    K, N = len(forest.structures), 0
    C, P, sizes = 2 * d0 + 1, 3 * d0 + 1, longs[4 * d0 + 8 :]
    for k in range(K):
        sizes[k] = forest.structures[k].nodes.shape[0]
        N = max(N, forest.structures[k].nodes.shape[0])
    n, S = K * forest.leaf_rates.shape[0] + LINEAR_SCORES, stack.mixture_losses.shape[0]
    wide = ints.shape[0] - K * N
    e = K * (N + 1)
    p = e + LANES
    q, u = p + 2 * d0, p + 2 * d0 + C
    v, w = u + n + S, u + n + S + max(n, S)
    places = longs[3 : 3 + P + d0 + 4].view(UINT)
    return PredictScratch(
        ints[:wide],
        ints[wide:].reshape(K, N),
        floats[:e].reshape(K, N + 1),
        floats[e:p],
        places[P:], floats[p : p + d0], floats[p + d0 : q], longs[:3], floats[q:u],
        places[:P],
        floats[u : u + n], floats[u + n : v], floats[v:w], floats[w:], sizes,
    )  # fmt: skip
