"""Predict an event: scores of all learners, their mixture, and its calibration.

The learning pass uses the same functions, before it looks at the label.
"""

from __future__ import annotations

import math
from typing import Any

from numpy.typing import NDArray

from kaboost.models.features.label_outliers import OUTLIER_SPREADS
from kaboost.models.kernels.jit import inlined, kernel
from kaboost.models.reboosted.calibration import Calibration, served_log_odds
from kaboost.models.reboosted.ensemble import LINEAR_SCORES, ServedModel, ServedTrees
from kaboost.models.reboosted.label_scale import LabelScale, score_bounds
from kaboost.models.reboosted.linear import LinearFilters
from kaboost.models.reboosted.linear_inputs import InputRow, fill_inputs
from kaboost.models.reboosted.linear_learners import scores as line_scores
from kaboost.models.reboosted.scratch import LearnScratch, PredictArrays, Scratch, slice_scratch
from kaboost.models.reboosted.stacking import (
    Stack,
    expert_scores,
    filter_inputs,
    mixture,
)
from kaboost.models.reboosted.state import LOG_ODDS, LOGARITHMS, NUMBERS, Keys
from kaboost.models.reboosted.trees.binning import MISSING_KEY as MISSING_KEY
from kaboost.models.reboosted.trees.binning import column_runs, from_keys, to_key
from kaboost.models.reboosted.trees.leaves import sum_leaves
from kaboost.models.reboosted.trees.traverse import traverse
from kaboost.models.types import UINT, Mat, Mat3, Vec

LAST_LABEL_SHRINKAGE = 0.9  # share of the way from probability 1/2 to the last of two labels
MIN_COUNT = 0.5  # a last label of 0 counts as this before its logarithm is taken


@kernel
def predict_rows(
    model: ServedModel, keys: Keys, arrays: PredictArrays, scores: Mat, captured: Mat
) -> None:
    """Fill scores (n, 1) for the keys (n, d0) of events, and captured (n, 5 + S + 3), if it has
    columns, with what learning needs later: label means, scores of the S learners, and twice the
    score to serve, of which `score_late` may replace the last. The last column stays.
    """
    trees, filters, stack, scale = model.trees, model.linear, model.stack, model.labels
    link = model.link
    a = slice_scratch(trees, stack, keys.shape[1], arrays)
    for k in range(keys.shape[0]):
        tree_scores(trees, keys[k], a.leaves, a)
        linear_scores(filters, keys[k], trees.label_means, link, scale, a)
        mixed = stacked_score(link, stack, scale, a)
        mixed = calibrated_score(link, model.calibration, mixed, model.calibrated)
        scores[k, 0] = mixed + scale.offset[()]
        if captured.shape[1] > 0:
            _capture(trees.label_means, a.scores, float(scale.offset[()]), captured[k])
            captured[k, captured.shape[1] - 3] = scores[k, 0]
            captured[k, captured.shape[1] - 2] = scores[k, 0]


@inlined
def _capture(label_means: Vec, scores: Vec, offset: float, out: Vec) -> None:
    for j in range(label_means.shape[0]):
        out[j] = label_means[j]
    for i in range(scores.shape[0]):
        out[label_means.shape[0] + i] = scores[i] + offset


@kernel
def prefix_rows(trees: ServedTrees, keys: Keys, a: LearnScratch, sums: Mat3) -> None:
    """Fill sums (n, N+1, K) with the scores of all prefixes of all structures."""
    N = sums.shape[1] - 1
    for r in range(keys.shape[0]):
        tree_scores(trees, keys[r], a.leaves[0], a)
        for k in range(a.tree_counts.shape[0]):
            for i in range(N + 1):
                sums[r, i, k] = a.F[k, min(i, a.tree_counts[k])]


@kernel
def fill_row(label_means: Vec, keys: Keys, x: Keys) -> None:
    """Fill x (2d,) with the keys of an event's features (d0,) and of the label means (5,), missing
    ones largest, then with the same keys, missing ones smallest.
    """
    d0, d = keys.shape[0], keys.shape[0] + label_means.shape[0]
    again = x[d:]
    for j in range(UINT(d0)):
        x[j] = keys[j]
        again[j] = keys[j] if keys[j] != MISSING_KEY else -MISSING_KEY
    for j in range(d0, d):
        x[j] = to_key(float(label_means[j - d0]))
        x[d + j] = x[j]


@inlined
def tree_scores(trees: ServedTrees, keys: Keys, leaves: NDArray[Any], a: Scratch) -> None:
    """Fill the first of a.scores (n,) with the scores of all structures' leaf learners, and
    leaves (K, N), for the keys (d0,) of an event.
    """
    fill_row(trees.label_means, keys, a.row)
    for k in range(a.tree_counts.shape[0]):
        traverse(trees.structures[k].nodes, trees.depth[k], a.row, leaves[k])
    leaf_scores(trees, leaves, a)


@inlined
def leaf_scores(trees: ServedTrees, leaves: NDArray[Any], a: Scratch) -> None:
    """Fill the first of a.scores (n,) with the scores of all structures' leaf learners in the
    leaves (K, N).
    """
    E = trees.leaf_rates.shape[0]
    for k in range(a.tree_counts.shape[0]):
        base = float(trees.base_score[k])
        sum_leaves(trees.structures[k].rows, leaves[k], base, a.F[k], a.leaf_scores)
        for e in range(E):
            a.scores[k * E + e] = a.leaf_scores[e]


@inlined
def linear_scores(
    filters: LinearFilters, keys: Keys, label_means: Vec, link: int, scale: LabelScale, a: Scratch
) -> None:
    """Fill the last of a.scores (n,) for the keys (d0,): scores of the linear learners, and of the
    first label mean, by default the last label, alone.
    """
    first = a.scores.shape[0] - LINEAR_SCORES
    read_columns(filters, keys, a.inputs)
    slow, fast = line_scores(filters, a.inputs)
    if link == NUMBERS:
        mean, most = float(scale.mean[()]), OUTLIER_SPREADS * float(scale.deviation[()])
        slow = min(max(slow, mean - most), mean + most)
        fast = min(max(fast, mean - most), mean + most)
    a.scores[first], a.scores[first + 1] = slow, fast
    a.scores[first + 2] = last_label(filters, float(label_means[0]), link)


@kernel
def read_columns(filters: LinearFilters, keys: Keys, row: InputRow) -> None:
    """Fill the row with the linear learners' inputs for the keys (d0,)."""
    column_runs(keys, row.runs)
    from_keys(keys, row.runs, row.values)
    fill_inputs(filters, row)


@kernel
def last_label(filters: LinearFilters, label: float, link: int) -> float:
    """Return the score that predicts `label`, the last one; 0 before there was one."""
    if filters.events[()] == 0.0:
        return 0.0
    if link == NUMBERS:
        return label
    if link == LOGARITHMS:
        return math.log(max(label, MIN_COUNT))
    p = 0.5 + LAST_LABEL_SHRINKAGE * (label - 0.5)
    return math.log(p / (1.0 - p))


@inlined
def stacked_score(link: int, stack: Stack, scale: LabelScale, a: Scratch) -> float:
    """Return the mixture of the scores a.scores (n,), and fill a.expert_scores and a.filter_inputs;
    log-odds and logarithms are clipped in place.
    """
    n = a.scores.shape[0]
    if link == NUMBERS:
        centre, constant = float(scale.mean[()]), math.sqrt(float(scale.squared_step[()]))
    else:
        centre, constant = 0.0, 1.0
        least, most = score_bounds(scale, link)
        for i in range(n):
            a.scores[i] = min(max(a.scores[i], least), most)
    filter_inputs(a.scores, n, centre, constant, a.filter_inputs)
    expert_scores(stack, a.filter_inputs, n, centre, a.weights, a.expert_scores)
    clip_to_labels(link, scale, a.expert_scores)
    return mixture(stack, a.expert_scores, a.weights, link == LOG_ODDS)


@kernel
def clip_to_labels(link: int, scale: LabelScale, z: Vec) -> None:
    """Clip the experts' scores z (S + 1,) to where labels can be: a score far off would raise the
    noise that the next update assumes, and filters would diverge together.
    """
    if link == LOG_ODDS:
        return
    if link == NUMBERS:
        middle, most = float(scale.mean[()]), OUTLIER_SPREADS * float(scale.deviation[()])
        low, high = middle - most, middle + most
    else:
        low, high = score_bounds(scale, link)
    for j in range(z.shape[0]):
        z[j] = min(max(z[j], low), high)


@inlined
def calibrated_score(link: int, calibration: Calibration, score: float, calibrated: bool) -> float:
    """Return the score to serve for the mixture's: calibrated if it is log-odds."""
    return served_log_odds(calibration, score) if link == LOG_ODDS and calibrated else score
