"""Reboosted trees explained: the linear part of their score, and its trees as plain values.

What is served is a mixture of averages of scores: the structures', two linear learners', the last
label's. Its linear part weighs every score by what the filters and the average give it, each times
its share of the mixture. It is a sum of trees, which is explained by features, and of lines, which
are explained as they are. For numbers it is all there is, but for rows so far off that a score is
clipped; for log-odds, mixing by probability, clipping and calibration come on top. A score whose
mean is beyond where scores are clipped, because its leaf learner has diverged, is the same for all
events and no part of the sum.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from kaboost.models.booster import score_many
from kaboost.models.explain.interface import Explanation, explain_many, gains
from kaboost.models.kernels.jit import kernel
from kaboost.models.reboosted.booster import ReboostedTrees, to_rows
from kaboost.models.reboosted.learn import fill_row, last_label, read_columns
from kaboost.models.reboosted.linear import LINEAR_LEARNERS, attribute, mean_energy
from kaboost.models.reboosted.linear import base_scores as base_lines
from kaboost.models.reboosted.scratch import LINEAR_SCORES, allocate
from kaboost.models.reboosted.stacking import MAX_LOG_ODDS, exponential_weights
from kaboost.models.reboosted.state import NUMBERS, Reboosted
from kaboost.models.reboosted.trees.binning import MAX_NUMBER, from_key, to_key
from kaboost.models.reboosted.trees.binning import MISSING_KEY as MISSING_KEY
from kaboost.models.reboosted.trees.shap import (
    ShapScratch,
    cut_variances,
    explain_trees,
    mean_scores,
    shap_scratch,
    tree_statistics,
)
from kaboost.models.types import Mat, Vec


class LinearPart(NamedTuple):
    """The linear part: constant + sum over k, e of weights times what the trees of k say to e, and
    over i of lines times what line i says.
    """

    weights: Mat  # (K, 5)
    lines: Vec  # (3,) of the linear learners and the last label
    constant: float


def linear_part(booster: ReboostedTrees) -> LinearPart:
    """Return the linear part of the served score."""
    s, bank = booster.stack, booster.trees
    n, S = bank.params.leaf_rates.size * len(bank.structures), len(s.weights)
    average, mix = np.empty(n + LINEAR_SCORES), np.empty(S + 1)
    exponential_weights(s.score_losses, n + LINEAR_SCORES, average)
    exponential_weights(s.mixture_losses, S + 1, mix)
    weights = mix[:S] @ s.weights[:, : n + LINEAR_SCORES] + mix[S] * average
    constant = float(mix[:S] @ s.weights[:, n + LINEAR_SCORES])
    if bank.params.link == NUMBERS:
        mean, typical = float(booster.labels.mean), math.sqrt(float(booster.labels.squared_step))
        constant = constant * typical + mean * (1.0 - float(weights.sum()))
    weights, lines = weights[:n], weights[n:]
    if bank.params.link != NUMBERS:
        scores = _mean_scores(bank)
        kept = abs(scores) < MAX_LOG_ODDS
        constant += MAX_LOG_ODDS * float(weights[~kept] @ np.sign(scores[~kept]))
        weights = np.where(kept, weights, 0.0)
    weights = weights.reshape(len(bank.structures), -1)
    constant += float(booster.labels.offset) + float(weights.sum(axis=1) @ bank.base_score)
    return LinearPart(weights, lines, constant)


def explain_linear(booster: ReboostedTrees, X: ArrayLike) -> tuple[float, Mat]:
    """Return base and contributions (B, d + 5) of the linear learners and the last label.

    A column adds its weight times its distance from its mean, what its presence is worth, and its
    name beyond a usual one; the base is an event of which nothing is known. The last label adds, as
    the first label lag, its distance from the mean label.
    """
    return _explain_linear(booster, linear_part(booster).lines, to_rows(booster, X))


def _explain_linear(booster: ReboostedTrees, own: Vec, keys: Any) -> tuple[float, Mat]:
    filters, d = booster.linear, int(booster.shape[0])
    phi = np.zeros((len(keys), d + booster.trees.label_means.size))
    _linear_contributions(filters, own, keys, allocate(booster.trees, booster.stack, d), phi)
    link = int(booster.trees.params.link)
    usual = last_label(filters, float(booster.labels.mean), link)
    phi[:, d] += own[-1] * (last_label(filters, float(booster.trees.label_means[0]), link) - usual)
    return float(own[:-1] @ base_lines(filters) + own[-1] * usual), phi


def _mean_scores(bank: Reboosted) -> Vec:
    """Return the mean score (n,) of every structure's leaf learners."""
    scores = np.repeat(bank.base_score[:, None], bank.params.leaf_rates.size, axis=1)
    for trees, own in zip(bank.structures, scores, strict=True):
        mean_scores(trees.rows, own)
    return scores.ravel()


@explain_many.register
def _(booster: ReboostedTrees, X: ArrayLike) -> Explanation:
    keys = to_rows(booster, X)
    B, d = len(keys), keys.shape[1] + booster.trees.label_means.size
    weights, own_lines, constant = linear_part(booster)
    laid = np.empty((B, 2 * d), np.int32)
    _fill_rows(booster.trees.label_means, keys, laid)
    phi, said, base, s = np.zeros((B, d)), np.full(B, constant), constant, _shap_scratch(booster)
    for trees, own in zip(booster.trees.structures, weights, strict=True):
        base += explain_trees(trees, own, laid, s, phi, said)
    straight, lines = _explain_linear(booster, own_lines, keys)
    base, phi, said = base + straight, phi + lines, said + straight + lines.sum(axis=1)
    scores = score_many(booster, np.asarray(X, np.float64))
    return Explanation(np.full((B, 1), base), phi[:, None], scores - said[:, None], scores)


@gains.register
def _(booster: ReboostedTrees) -> Vec:
    found, s = (
        np.zeros(int(booster.shape[0]) + booster.trees.label_means.size),
        _shap_scratch(booster),
    )
    part = linear_part(booster)
    for trees, own in zip(booster.trees.structures, part.weights, strict=True):
        cut_variances(trees, own, s, found)
    found[: int(booster.shape[0])] += (part.lines[:-1] @ np.sqrt(mean_energy(booster.linear))) ** 2
    return found


def export_trees(booster: ReboostedTrees) -> dict[str, Any]:
    """Return the trees of the linear part as plain values: `base_scores` and `trees`, whose answers it
    sums up; the lines beside them are those of `explain_linear`.

    Columns are those of X, then the label lags less `booster.labels.offset`, all as float32. A tree
    is lists over its nodes, as SHAP's TreeExplainer takes them: at a cut x <= threshold goes left,
    and so does a missing x where `missing_left` says so; a leaf has no children, -1.

    Examples
    --------
    >>> import kaboost
    >>> booster = kaboost.build({"bank": "reboosted_trees", "loss": "squared"}, 2)
    >>> exported = export_trees(booster)
    >>> exported["base"], len(exported["trees"]), exported["trees"][0]["children_left"]
    (0.0, 308, [-1])
    """
    weights, _, base = linear_part(booster)
    s, d = _shap_scratch(booster), int(booster.shape[0]) + booster.trees.label_means.size
    trees = [
        _tree_lists(nodes, rows, own, d, s)
        for structure, own in zip(booster.trees.structures, weights, strict=True)
        for nodes, rows in zip(structure.nodes, structure.rows, strict=True)
    ]
    return {"base": base, "trees": trees}


def _tree_lists(
    nodes: Any, rows: Any, weights: Vec, d: int, s: ShapScratch
) -> dict[str, list[Any]]:
    count = tree_statistics(nodes, rows, weights, d, s)
    used, own = nodes[:count], np.arange(count)
    left, features, cuts = used & 0xFFFF, used >> 16 & 0xFFFF, used >> 32
    leaf = left == own
    cuts = np.minimum(cuts, to_key(MAX_NUMBER))  # beyond it only what is missing goes right
    return {
        "children_left": np.where(leaf, -1, left).tolist(),
        "children_right": np.where(leaf, -1, left + 1).tolist(),
        "features": np.where(leaf, -1, features % d).tolist(),
        "thresholds": [0.0 if end else from_key(cut) for end, cut in zip(leaf, cuts, strict=True)],
        "missing_left": (~leaf & (features >= d)).tolist(),
        "values": s.value[:count].tolist(),
        "covers": s.cover[:count].tolist(),
    }


def _shap_scratch(booster: ReboostedTrees) -> ShapScratch:
    return shap_scratch(max(structure.nodes.shape[1] for structure in booster.trees.structures))


@kernel
def _linear_contributions(filters: Any, weights: Vec, keys: Any, a: Any, phi: Mat) -> None:
    for r in range(keys.shape[0]):
        read_columns(filters, keys[r], a)
        for i in range(LINEAR_LEARNERS):
            attribute(filters, i, a)
            for j in range(keys.shape[1]):
                phi[r, j] += weights[i] * a.contributions[j] if keys[r, j] != MISSING_KEY else 0.0


@kernel
def _fill_rows(lags: Vec, keys: Any, laid: Any) -> None:
    for r in range(keys.shape[0]):
        fill_row(lags, keys[r], laid[r])
