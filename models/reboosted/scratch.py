"""Scratch of one event, allocated once a batch: a full set to learn, a small one to predict."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kaboost.models.kernels.jit import kernel
from kaboost.models.reboosted.ensemble import LINEAR_SCORES, ServedTrees
from kaboost.models.reboosted.linear_inputs import InputRow, blank_row
from kaboost.models.reboosted.stacking import Stack
from kaboost.models.reboosted.state import LANES, Keys, Reboosted
from kaboost.models.reboosted.trees.traverse import BLOCK
from kaboost.models.types import UINT, Ints, Mat, Vec

# Leaves are found for a block of events if a batch has so many, and so few columns fit the cache.
MIN_BLOCK_EVENTS, MAX_BLOCK_COLUMNS = 6, 1024


class LearnScratch(NamedTuple):
    """Scratch to learn one event; n scores, S experts, R filter inputs, B events of a block."""

    row: Keys  # (2d,) or more keys, missing ones largest, then again with missing ones smallest
    columns: Keys  # (2^i B,) the same of a block of events, column by column
    leaves: NDArray[np.int32]  # (B, K, N) of the events of a block
    label_means: Vec  # (5,) as they will be after the events of the block so far
    event_means: Vec  # (5,) label means as they were when the event was predicted
    grown: Ints  # (K,) trees grown when the leaves were found
    F: Mat  # (K, N+1) scores of prefixes
    tree_outputs: Vec  # (N+1,) of one structure: differences of its prefixes' scores ...
    prefix_losses: Vec  # ... their losses
    prefix_gradients: Vec
    prefix_hessians: Vec
    leaf_scores: Vec  # (8,) of one structure's leaf learners
    inputs: InputRow  # of the linear learners
    scores: Vec  # (n,)
    score_losses: Vec  # (n,)
    score_gradients: Vec  # (n,)
    expert_scores: Vec  # (S,) of every filter, then of the average
    expert_losses: Vec  # (S,)
    weights: Vec  # (max(n, S),)
    kalman_gain: Vec  # (R,)
    filter_inputs: Vec  # (R,)
    tree_counts: Ints  # (K,) trees of each structure
    leaf_steps: NDArray[np.float32]  # (8,)


class PredictScratch(NamedTuple):
    """Scratch to predict one event; fields as in `LearnScratch`."""

    row: Keys
    leaves: NDArray[np.int32]  # (K, N)
    F: Mat
    leaf_scores: Vec
    inputs: InputRow
    scores: Vec
    expert_scores: Vec
    weights: Vec
    filter_inputs: Vec
    tree_counts: Ints


Scratch = LearnScratch | PredictScratch


class PredictArrays(NamedTuple):
    """The memory of a `PredictScratch`: allocating an array costs more than traversing a tree."""

    ints: NDArray[np.int32]
    floats: Vec
    longs: Ints


def allocate(trees: Reboosted, stack: Stack, d0: int, events: int = 1) -> LearnScratch:
    """Return scratch to learn a batch of so many events of d0 features."""
    d = d0 + trees.label_means.size
    counts = np.array([one.nodes.shape[0] for one in trees.structures], np.int64)
    K, N, n = len(counts), int(counts.max()), score_count(trees)
    R, S = stack.weights.shape[1], len(stack.mixture_losses)
    wide = 1 << (2 * d - 1).bit_length()
    B = BLOCK if events >= MIN_BLOCK_EVENTS and wide <= MAX_BLOCK_COLUMNS else 1
    return LearnScratch(
        row=np.zeros(_row_length(trees, d), np.int32), leaves=np.zeros((B, K, N), np.int32),
        columns=np.zeros(wide * B if B > 1 else 0, np.int32),
        label_means=np.zeros(trees.label_means.size),
        event_means=np.zeros(trees.label_means.size), grown=np.zeros(K, np.int64),
        F=np.zeros((K, N + 1)), tree_outputs=np.zeros(N + 1), prefix_losses=np.zeros(N + 1),
        prefix_gradients=np.zeros(N + 1), prefix_hessians=np.zeros(N + 1),
        leaf_scores=np.zeros(LANES), inputs=blank_row(d0),
        scores=np.zeros(n), score_losses=np.zeros(n), score_gradients=np.zeros(n),
        expert_scores=np.zeros(S), expert_losses=np.zeros(S), weights=np.zeros(max(n, S)),
        kalman_gain=np.zeros(R), filter_inputs=np.zeros(R), tree_counts=counts,
        leaf_steps=np.zeros(LANES, np.float32),
    )  # fmt: skip


def score_count(trees: Reboosted) -> int:
    """Return how many scores are stacked, n."""
    return len(trees.structures) * len(trees.params.leaf_rates) + LINEAR_SCORES


def _row_length(trees: Reboosted, d: int) -> int:
    """Return the length of a row: a leaf's number is read as a feature."""
    leaves: int = max(one.rows.shape[1] for one in trees.structures)
    return max(2 * d, leaves)


def allocate_predict(trees: Reboosted, stack: Stack, d0: int) -> PredictArrays:
    """Return the memory to predict events of d0 features, for `slice_scratch`."""
    K, n = len(trees.structures), score_count(trees)
    N = max(one.nodes.shape[0] for one in trees.structures)
    R, S = stack.weights.shape[1], len(stack.mixture_losses)
    floats = K * (N + 1) + LANES + 4 * d0 + 1 + n + S + max(n, S) + R
    ints = _row_length(trees, d0 + trees.label_means.size) + K * N
    return PredictArrays(
        np.zeros(ints, np.int32), np.zeros(floats), np.zeros(4 * d0 + 8 + K, np.int64)
    )


@kernel
def slice_scratch(
    trees: ServedTrees, stack: Stack, d0: int, arrays: PredictArrays
) -> PredictScratch:
    """Slice scratch to predict events of d0 features out of `allocate_predict`."""
    ints, floats, longs = arrays.ints, arrays.floats, arrays.longs
    K, N, counts = len(trees.structures), 0, longs[4 * d0 + 8 :]
    for k in range(K):
        counts[k] = trees.structures[k].nodes.shape[0]
        N = max(N, trees.structures[k].nodes.shape[0])
    n, S = K * trees.leaf_rates.shape[0] + LINEAR_SCORES, stack.mixture_losses.shape[0]
    wide = ints.shape[0] - K * N
    leaf_scores = K * (N + 1)  # where slices of `floats` begin
    inputs = leaf_scores + LANES
    scores = inputs + 4 * d0 + 1
    experts = scores + n
    weights = experts + S
    filters = weights + max(n, S)
    row, P = floats[inputs:scores], 3 * d0 + 1
    places = longs[3 : 3 + P + d0 + 4].view(UINT)
    # Predictions attribute nothing, so `contributions` is empty.
    input_row = InputRow(
        places[P:], row[:d0], row[d0 : 2 * d0], longs[:3], row[2 * d0 :], places[:P], row[:0]
    )
    return PredictScratch(
        ints[:wide], ints[wide:].reshape(K, N), floats[:leaf_scores].reshape(K, N + 1),
        floats[leaf_scores:inputs], input_row,
        floats[scores:experts], floats[experts:weights], floats[weights:filters],
        floats[filters:], counts,
    )  # fmt: skip
