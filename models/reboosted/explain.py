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
from kaboost.models.reboosted.booster import ReboostedTrees, rows_of
from kaboost.models.reboosted.learn import last_label, lay_row, look
from kaboost.models.reboosted.linear import LEARNERS, attribute, mean_power
from kaboost.models.reboosted.linear import base as base_lines
from kaboost.models.reboosted.scratch import LINES, desk
from kaboost.models.reboosted.stacking import LARGEST, favour
from kaboost.models.reboosted.state import NUMBERS, Reboosted
from kaboost.models.reboosted.trees.binning import BIGGEST, key, number
from kaboost.models.reboosted.trees.binning import LARGEST as MISSING_KEY
from kaboost.models.reboosted.trees.shap import (
    Sheet,
    explain_trees,
    mean_scores,
    sheet,
    survey,
    weigh_cuts,
)
from kaboost.models.types import Mat, Vec


class Linear(NamedTuple):
    """The linear part: constant + sum over k, e of weights times what the trees of k say to e, and
    over i of lines times what line i says.
    """

    weights: Mat  # (K, 5)
    lines: Vec  # (3,) of the linear learners and the last label
    constant: float


def linear(booster: ReboostedTrees) -> Linear:
    """Return the linear part of the served score."""
    s, bank = booster.stack, booster.bank
    n, S = bank.plan.rates.size * len(bank.trees), len(s.weights)
    average, mix = np.empty(n + LINES), np.empty(S + 1)
    favour(s.score_losses, n + LINES, average)
    favour(s.mix_losses, S + 1, mix)
    weights = mix[:S] @ s.weights[:, : n + LINES] + mix[S] * average
    constant = float(mix[:S] @ s.weights[:, n + LINES])
    if bank.plan.link == NUMBERS:
        mean, typical = float(booster.scale.mean), math.sqrt(float(booster.scale.noise))
        constant = constant * typical + mean * (1.0 - float(weights.sum()))
    weights, lines = weights[:n], weights[n:]
    if bank.plan.link != NUMBERS:
        scores = _mean_scores(bank)
        kept = abs(scores) < LARGEST
        constant += LARGEST * float(weights[~kept] @ np.sign(scores[~kept]))
        weights = np.where(kept, weights, 0.0)
    weights = weights.reshape(len(bank.trees), -1)
    constant += float(booster.scale.origin) + float(weights.sum(axis=1) @ bank.y0)
    return Linear(weights, lines, constant)


def explain_lines(booster: ReboostedTrees, X: ArrayLike) -> tuple[float, Mat]:
    """Return base and contributions (B, d + 5) of the linear learners and the last label.

    A column adds its weight times its distance from its mean, what its presence is worth, and its
    name beyond a usual one; the base is an event of which nothing is known. The last label adds, as
    the first label lag, its distance from the mean label.
    """
    return _explain_lines(booster, linear(booster).lines, rows_of(booster, X))


def _explain_lines(booster: ReboostedTrees, own: Vec, keys: Any) -> tuple[float, Mat]:
    filters, d = booster.linear, int(booster.shape[0])
    phi = np.zeros((len(keys), d + booster.bank.lags.size))
    _line_parts(filters, own, keys, desk(booster.bank, booster.stack, d), phi)
    link = int(booster.bank.plan.link)
    usual = last_label(filters, float(booster.scale.mean), link)
    phi[:, d] += own[-1] * (last_label(filters, float(booster.bank.lags[0]), link) - usual)
    return float(own[:-1] @ base_lines(filters) + own[-1] * usual), phi


def _mean_scores(bank: Reboosted) -> Vec:
    """Return the mean score (n,) of every structure's leaf learners."""
    scores = np.repeat(bank.y0[:, None], bank.plan.rates.size, axis=1)
    for trees, own in zip(bank.trees, scores, strict=True):
        mean_scores(trees.rows, own)
    return scores.ravel()


@explain_many.register
def _(booster: ReboostedTrees, X: ArrayLike) -> Explanation:
    keys = rows_of(booster, X)
    B, d = len(keys), keys.shape[1] + booster.bank.lags.size
    weights, own_lines, constant = linear(booster)
    laid = np.empty((B, 2 * d), np.int32)
    _lay(booster.bank.lags, keys, laid)
    phi, said, base, s = np.zeros((B, d)), np.full(B, constant), constant, _sheet(booster)
    for trees, own in zip(booster.bank.trees, weights, strict=True):
        base += explain_trees(trees, own, laid, s, (phi, said))
    straight, lines = _explain_lines(booster, own_lines, keys)
    base, phi, said = base + straight, phi + lines, said + straight + lines.sum(axis=1)
    scores = score_many(booster, np.asarray(X, np.float64))
    return Explanation(np.full((B, 1), base), phi[:, None], scores - said[:, None], scores)


@gains.register
def _(booster: ReboostedTrees) -> Vec:
    found, s = np.zeros(int(booster.shape[0]) + booster.bank.lags.size), _sheet(booster)
    part = linear(booster)
    for trees, own in zip(booster.bank.trees, part.weights, strict=True):
        weigh_cuts(trees, own, s, found)
    found[: int(booster.shape[0])] += (part.lines[:-1] @ np.sqrt(mean_power(booster.linear))) ** 2
    return found


def export_trees(booster: ReboostedTrees) -> dict[str, Any]:
    """Return the trees of the linear part as plain values: `base` and `trees`, whose answers it
    sums up; the lines beside them are those of `explain_lines`.

    Columns are those of X, then the label lags less `booster.scale.origin`, all as float32. A tree
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
    weights, _, base = linear(booster)
    s, d = _sheet(booster), int(booster.shape[0]) + booster.bank.lags.size
    trees = [
        _plain(nodes, rows, own, d, s)
        for structure, own in zip(booster.bank.trees, weights, strict=True)
        for nodes, rows in zip(structure.nodes, structure.rows, strict=True)
    ]
    return {"base": base, "trees": trees}


def _plain(nodes: Any, rows: Any, weights: Vec, d: int, s: Sheet) -> dict[str, list[Any]]:
    count = survey(nodes, rows, weights, d, s)
    used, own = nodes[:count], np.arange(count)
    left, features, cuts = used & 0xFFFF, used >> 16 & 0xFFFF, used >> 32
    leaf = left == own
    cuts = np.minimum(cuts, key(BIGGEST))  # beyond it only what is missing goes right
    return {
        "children_left": np.where(leaf, -1, left).tolist(),
        "children_right": np.where(leaf, -1, left + 1).tolist(),
        "features": np.where(leaf, -1, features % d).tolist(),
        "thresholds": [0.0 if end else number(cut) for end, cut in zip(leaf, cuts, strict=True)],
        "missing_left": (~leaf & (features >= d)).tolist(),
        "values": s.value[:count].tolist(),
        "covers": s.cover[:count].tolist(),
    }


def _sheet(booster: ReboostedTrees) -> Sheet:
    return sheet(max(structure.nodes.shape[1] for structure in booster.bank.trees))


@kernel
def _line_parts(filters: Any, weights: Vec, keys: Any, a: Any, phi: Mat) -> None:
    for r in range(keys.shape[0]):
        look(filters, keys[r], a)
        for i in range(LEARNERS):
            attribute(filters, i, a)
            for j in range(keys.shape[1]):
                phi[r, j] += weights[i] * a.parts[j] if keys[r, j] != MISSING_KEY else 0.0


@kernel
def _lay(lags: Vec, keys: Any, laid: Any) -> None:
    for r in range(keys.shape[0]):
        lay_row(lags, keys[r], laid[r])
