"""Explanations of reboosted trees: the linear part of their score, and its trees as plain values.

The served score is a mixture of averages of scores: of the structures, two linear learners, and the
last label. Its linear part weights every score by the weights that filters and average give it,
times their share of the mixture. It is a sum of trees, explained by SHAP values, and of lines,
whose terms are their explanation. For numbers it is the whole score, but for rows so extreme that a
score is clipped; for log-odds, mixing of probabilities, clipping and calibration add a rest, which
is spread over base and contributions in proportion to their sizes (docs/adr/0033).
A leaf learner whose mean score is beyond the clipping limit has diverged: its score is a constant
(docs/adr/0014).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from kaboost.models.booster import score_many
from kaboost.models.explain.interface import Explanation, deviations, explain_many
from kaboost.models.kernels.jit import kernel
from kaboost.models.reboosted.booster import ReboostedTrees, likely_rows, to_rows
from kaboost.models.reboosted.ensemble import LINEAR_SCORES
from kaboost.models.reboosted.feature_scale import FeatureScale, with_features
from kaboost.models.reboosted.imputation import SAMPLED
from kaboost.models.reboosted.label_scale import score_bounds
from kaboost.models.reboosted.linear import (
    LINEAR_LEARNERS,
    LinearFilters,
    base_scores,
)
from kaboost.models.reboosted.linear_inputs import InputRow, blank_row
from kaboost.models.reboosted.linear_learners import attribute
from kaboost.models.reboosted.predict import fill_row, last_label, read_columns
from kaboost.models.reboosted.rescale import real_values
from kaboost.models.reboosted.stacking import exponential_weights
from kaboost.models.reboosted.state import LOG_ODDS, NUMBERS, Keys, Reboosted, Rows
from kaboost.models.reboosted.trees.binning import MAX_NUMBER, to_key
from kaboost.models.reboosted.trees.binning import MISSING_KEY as MISSING_KEY
from kaboost.models.reboosted.trees.shap import (
    ShapScratch,
    explain_trees,
    mean_scores,
    shap_scratch,
    tree_statistics,
)
from kaboost.models.types import Ints, Mat, Vec

EXPLAINED = 16  # of the likely rows of a row with an unknown value
BETWEEN_DRAWS = 25  # labels between two draws of label means
MAX_DRAWN_COUNT = 1e15
NORMAL_DEVIATION = 1.2533  # standard deviation of a normal variable of mean absolute deviation 1


class LinearPart(NamedTuple):
    """The linear part: constant + sum over k, e of weights[k, e] times the score of the trees of k
    with leaf learner e + sum over i of lines[i] times the score of line i.
    """

    weights: Mat  # (K, 5)
    lines: Vec  # (3,) of the linear learners and the last label
    constant: float


def linear_part(booster: ReboostedTrees) -> LinearPart:
    """Return the linear part of the served score."""
    bank, scale = booster.trees, booster.labels
    n = bank.params.leaf_rates.size * len(bank.structures)
    weights, constant = _mixture_weights(booster)
    if bank.params.link == NUMBERS:
        usual_step = math.sqrt(float(scale.squared_step))
        constant = constant * usual_step + float(scale.mean) * (1.0 - float(weights.sum()))
    weights, lines = weights[:n], weights[n:]
    if bank.params.link != NUMBERS:
        scores = _mean_scores(bank)
        least, most = score_bounds(scale, int(bank.params.link))
        finite = (scores > least) & (scores < most)
        constant += float(weights[~finite] @ np.clip(scores[~finite], least, most))
        weights = np.where(finite, weights, 0.0)
    weights = weights.reshape(len(bank.structures), -1)
    constant += float(scale.offset) + float(weights.sum(axis=1) @ bank.base_score)
    return LinearPart(weights, lines, constant)


def _mixture_weights(booster: ReboostedTrees) -> tuple[Vec, float]:
    """Return the weights (n,) of the scores in the mixture, and that of the filters' constant."""
    s, bank = booster.stack, booster.trees
    n = bank.params.leaf_rates.size * len(bank.structures) + LINEAR_SCORES
    S = len(s.weights)
    average, mix = np.empty(n), np.empty(S + 1)
    exponential_weights(s.score_losses, n, average)
    exponential_weights(s.mixture_losses, S + 1, mix)
    return mix[:S] @ s.weights[:, :n] + mix[S] * average, float(mix[:S] @ s.weights[:, n])


def explain_linear(booster: ReboostedTrees, X: ArrayLike) -> tuple[float, Mat]:
    """Return base and contributions (B, d + 5) of the linear learners and the last label.

    A column contributes its weight times its distance from its mean, the weight of its presence,
    and its category's weight less the mean category's; the base is the score of an event whose
    columns are all missing. The last label contributes, as the first label mean, its distance from
    the mean label.
    """
    lines = linear_part(booster).lines / float(booster.labels.factor)
    keys = to_rows(booster, X)
    return _explain_linear(booster, lines, keys, _last(booster, len(keys)))


def _last(booster: ReboostedTrees, count: int) -> Vec:
    """Return the first label mean, by default the last label, for so many events (count,)."""
    return np.full(count, float(booster.trees.label_means[0]))


def _explain_linear(
    booster: ReboostedTrees, lines: Vec, keys: Keys, last_labels: Vec
) -> tuple[float, Mat]:
    filters, d = booster.linear, int(booster.shape[0])
    phi = np.zeros((len(keys), d + booster.trees.label_means.size))
    _linear_contributions(filters, lines, keys, blank_row(d), phi)
    link = int(booster.trees.params.link)
    mean = last_label(filters, float(booster.labels.mean), link)
    last = [last_label(filters, label, link) for label in last_labels.tolist()]
    phi[:, d] += lines[-1] * (np.array(last) - mean)
    return float(lines[:-1] @ base_scores(filters) + lines[-1] * mean), phi


def _mean_scores(bank: Reboosted) -> Vec:
    """Return the mean score (n,) of every structure's leaf learners."""
    scores = np.repeat(bank.base_score[:, None], bank.params.leaf_rates.size, axis=1)
    for trees, totals in zip(bank.structures, scores, strict=True):
        mean_scores(trees.rows, totals)
    return scores.ravel()


@explain_many.register
def _(booster: ReboostedTrees, X: ArrayLike) -> Explanation:
    rows = np.asarray(X, np.float64)
    scores = score_many(booster, rows)
    base, phi, total = explain_linear_part(booster, rows)
    bases, phi = spread(np.full(len(rows), base), phi, scores[:, 0] - total)
    return Explanation(bases[:, None], phi[:, None], scores)


def explain_linear_part(booster: ReboostedTrees, X: Mat) -> tuple[float, Mat, Vec]:
    """Return base, contributions (B, d + 5) and scores (B,) of the linear part for X (B, d)."""
    base, phi, total = explain_rows(booster, X, _last(booster, len(X)))
    for k, likely in likely_rows(booster, X):
        # As in the score, an unknown value is the mean over likely ones.
        known = likely[:EXPLAINED]
        _, likely_phi, likely_total = explain_rows(booster, known, _last(booster, len(known)))
        phi[k], total[k] = likely_phi.mean(axis=0), likely_total.mean()
    return base, phi, total


def spread(base: Vec, phi: Mat, rest: Vec) -> tuple[Vec, Mat]:
    """Return base (B,) and contributions (B, n) with the rest (B,) of the score spread over them in
    proportion to their sizes. It has the sign of what is too small or too large together: where an
    expert that is sure counts little, all that made it sure counts less.
    """
    sizes = np.abs(base) + np.abs(phi).sum(axis=1)
    part = rest / np.where(sizes > 0.0, sizes, 1.0)
    base = base + np.where(sizes > 0.0, part * np.abs(base), rest)
    return base, phi + part[:, None] * np.abs(phi)


def explain_rows(
    booster: ReboostedTrees, X: Mat, last_labels: Vec, label_means: Mat | None = None
) -> tuple[float, Mat, Vec]:
    """Return base, contributions (B, d + 5) and scores (B,) of the linear part for X (B, d), with
    the last labels (B,) and the label means (B, 5), which are those of now unless given.
    """
    keys, now = to_rows(booster, X), booster.trees.label_means
    means = np.tile(now, (len(keys), 1)) if label_means is None else label_means
    B, d = len(keys), keys.shape[1] + booster.trees.label_means.size
    part, s = linear_part(booster), _shap_scratch(booster)
    rows = np.empty((B, 2 * d), np.int32)
    _fill_rows(means, keys, rows)
    phi, total, base = np.zeros((B, d)), np.full(B, part.constant), part.constant
    for trees, weights in zip(booster.trees.structures, part.weights, strict=True):
        base += explain_trees(trees, weights, rows, s, phi, total)
    line_base, line_phi = _explain_linear(booster, part.lines, keys, last_labels)
    base, phi, total = base + line_base, phi + line_phi, total + line_base + line_phi.sum(axis=1)
    factor = float(booster.labels.factor)
    return base / factor, phi / factor, total / factor


@deviations.register
def _(booster: ReboostedTrees) -> Mat:
    d, count = int(booster.shape[0]), min(int(booster.imputation.sampled), SAMPLED)
    rows = booster.imputation.rows[:count]
    if count == 0:
        return np.zeros((1, d + booster.trees.label_means.size))
    phi = explain_many(booster, rows).contributions[:, 0]
    # All were explained with the label lags of now, which would seem to have no importance.
    drawn = _draw_label_means(booster, count)
    _, with_drawn, _ = explain_rows(booster, rows, drawn[:, 0], drawn)
    phi[:, d:] = with_drawn[:, d:]
    return np.asarray((phi - phi.mean(axis=0)) / math.sqrt(count))


def _draw_label_means(booster: ReboostedTrees, count: int) -> Mat:
    """Return label means (count, 5) as they are where labels are independent, with the mean and the
    deviation of recent ones.
    """
    scale, link, means = booster.labels, int(booster.trees.params.link), booster.trees.label_means
    if not means.any():  # nothing learned, or labels come so late that they are not followed
        return np.zeros((count, means.size))
    r, mean, n = np.random.default_rng(0), float(scale.mean), BETWEEN_DRAWS * (count + 10)
    if link == LOG_ODDS:
        labels = (r.random(n) < mean).astype(np.float64)
    elif link == NUMBERS:
        labels = r.normal(mean, NORMAL_DEVIATION * float(scale.deviation), n)
    else:
        labels = r.poisson(min(mean, MAX_DRAWN_COUNT), n).astype(np.float64)
    drawn, now = np.empty((n, means.size)), np.full(means.size, mean)
    for k, label in enumerate(labels.tolist()):
        now = now + booster.trees.params.label_mean_rates * (label - now)
        drawn[k] = now
    return drawn[10 * BETWEEN_DRAWS :: BETWEEN_DRAWS]


def export_trees(booster: ReboostedTrees) -> dict[str, Any]:
    """Return the trees of the linear part as plain values: `base`, and `trees` whose values add up;
    the lines are `explain_linear`'s.

    Columns are those of X, then the label means less `booster.labels.offset`, all as float32,
    those of X less `booster.features.offset`; thresholds are in the units of X. A tree is lists
    over its nodes, as SHAP's TreeExplainer takes them: at a cut x <= threshold goes left, and so
    does a missing x where `missing_left` is true; a leaf has no children, -1.

    Examples
    --------
    >>> import kaboost
    >>> booster = kaboost.build({"bank": "reboosted_trees", "loss": "squared"}, 2)
    >>> exported = export_trees(booster)
    >>> exported["base"], len(exported["trees"]), exported["trees"][0]["children_left"]
    (0.0, 308, [-1])
    """
    part, factor = linear_part(booster), float(booster.labels.factor)
    s, d = _shap_scratch(booster), int(booster.shape[0]) + booster.trees.label_means.size
    scale = with_features(booster.features, d)  # the label means have none
    trees = [
        _tree_lists(nodes, rows, weights, scale, s)
        for structure, weights in zip(booster.trees.structures, part.weights / factor, strict=True)
        for nodes, rows in zip(structure.nodes, structure.rows, strict=True)
    ]
    return {"base": part.constant / factor, "trees": trees}


def _tree_lists(
    nodes: Ints, rows: Rows, weights: Vec, scale: FeatureScale, s: ShapScratch
) -> dict[str, list[Any]]:
    d = len(scale.offset)
    count = tree_statistics(nodes, rows, weights, d, s)
    used, numbers = nodes[:count], np.arange(count)
    left, features, cuts = used & 0xFFFF, used >> 16 & 0xFFFF, used >> 32
    leaf = left == numbers
    cuts = np.minimum(cuts, to_key(MAX_NUMBER))  # beyond it only missing values go right
    thresholds = real_values(scale, cuts, features % d)
    return {
        "children_left": np.where(leaf, -1, left).tolist(),
        "children_right": np.where(leaf, -1, left + 1).tolist(),
        "features": np.where(leaf, -1, features % d).tolist(),
        "thresholds": np.where(leaf, 0.0, thresholds).tolist(),
        "missing_left": (~leaf & (features >= d)).tolist(),
        "values": s.value[:count].tolist(),
        "covers": s.cover[:count].tolist(),
    }


def _shap_scratch(booster: ReboostedTrees) -> ShapScratch:
    return shap_scratch(max(structure.nodes.shape[1] for structure in booster.trees.structures))


@kernel
def _linear_contributions(
    filters: LinearFilters, weights: Vec, keys: Keys, row: InputRow, phi: Mat
) -> None:
    """Add to phi (B, d or more) the linear learners' contributions, times their weights."""
    for r in range(keys.shape[0]):
        read_columns(filters, keys[r], row)
        for i in range(LINEAR_LEARNERS):
            attribute(filters, i, row)
            for j in range(keys.shape[1]):
                phi[r, j] += weights[i] * row.contributions[j] if keys[r, j] != MISSING_KEY else 0.0


@kernel
def _fill_rows(label_means: Mat, keys: Keys, rows: Keys) -> None:
    for r in range(keys.shape[0]):
        fill_row(label_means[r], keys[r], rows[r])
