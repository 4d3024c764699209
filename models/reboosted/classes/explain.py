"""Explanations of trees of classes: every class is explained as a binary booster of its own.

The log-odds of class c are f_c - ln(sum over others of e^f). That logarithm is the mean of the
others' logits by their probabilities q, which sum to 1, and the entropy of q. So the score of c is
explained as trees whose leaves hold the value of c less the mean of the others' values by q, where
q is that of the event; the entropy is part of the rest that is spread. For the importance, q is the
share of the classes.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from kaboost.models.explain.interface import Explanation, deviations, explain_many
from kaboost.models.reboosted.booster import likely_rows, score_events
from kaboost.models.reboosted.classes.changes import class_view
from kaboost.models.reboosted.classes.ensemble import SHARED_COLUMNS, ClassTrees
from kaboost.models.reboosted.ensemble import ReboostedTrees
from kaboost.models.reboosted.explain import EXPLAINED, explain_rows, spread
from kaboost.models.reboosted.imputation import SAMPLED
from kaboost.models.reboosted.state import (
    CLASS_LANES,
    CLASS_ROOTS,
    COVER,
    LANES,
    ROOT,
    Reboosted,
    Trees,
)
from kaboost.models.types import Mat, Vec


def class_booster(booster: ClassTrees, c: int, others: Vec) -> ReboostedTrees:
    """Return class c against the rest as a booster of its own that explains its log-odds.

    Parameters
    ----------
    others : (C,) weights of the other classes, which sum to 1; 0 for c.
    """
    direction = -np.asarray(others)
    direction[c] = 1.0
    labels = booster.labels._replace(mean=np.array(booster.sums.means[c]))
    linear = class_view(booster.linear, c, SHARED_COLUMNS)
    parts = {"labels": labels, "linear": linear, "trees": _class_bank(booster.trees, direction)}
    for name in ("stack", "calibration", "late"):
        parts[name] = class_view(getattr(booster, name), c)
    for name in ("loss", "progress", "shape", "calibrated", "features", "imputation"):
        parts[name] = getattr(booster, name)
    return ReboostedTrees(builds=(), **parts)


def _class_bank(bank: Reboosted, direction: Vec) -> Reboosted:
    return bank._replace(
        structures=tuple(_class_trees(one, direction) for one in bank.structures),
        base_score=bank.base_score @ direction,
    )


def _class_trees(trees: Trees, direction: Vec) -> Trees:
    """Return trees of one value a leaf: that along the direction (C,) of the logits."""
    N, leaves, _ = trees.rows.shape
    lanes = trees.rows[:, :, :-1].reshape(N, leaves, CLASS_LANES, len(direction))
    rows = np.zeros((N, leaves, LANES), np.float32)
    rows[:, :, :CLASS_ROOTS] = lanes[:, :, :CLASS_ROOTS] @ direction
    rows[:, :, COVER], rows[:, :, ROOT] = trees.rows[:, :, -1], 1.0
    return trees._replace(rows=rows)


def others_of(probabilities: Vec, c: int) -> Vec:
    """Return the probabilities (C,) of classes other than c, so that they sum to 1; 0 for c."""
    q = np.array(probabilities)
    q[c] = 0.0
    total = q.sum()
    return np.asarray(q / total) if total > 0.0 else q


@explain_many.register
def _(booster: ClassTrees, X: ArrayLike) -> Explanation:
    rows = np.asarray(X, np.float64)
    scores = score_events(booster, rows, np.empty((len(rows), 0)))
    probabilities = 1.0 / (1.0 + np.exp(-scores))
    C, B = max(booster.outputs, 0), len(rows)
    width = int(booster.shape[0]) + booster.trees.label_means.size
    base, phi, total = np.empty((B, C)), np.empty((B, C, width)), np.empty((B, C))
    likely = dict(likely_rows(booster, rows))
    for r in range(B):
        known = likely[r][:EXPLAINED] if r in likely else rows[r : r + 1]
        for c in range(C):
            one = class_booster(booster, c, others_of(probabilities[r], c))
            part = explain_rows(one, known, np.full(len(known), float(booster.sums.last[c])))
            base[r, c], phi[r, c], total[r, c] = part[0], part[1].mean(axis=0), part[2].mean()
    scores = np.ascontiguousarray(scores[:, :C])
    for c in range(C):
        base[:, c], phi[:, c] = spread(base[:, c], phi[:, c], scores[:, c] - total[:, c])
    return Explanation(base, phi, scores)


@deviations.register
def _(booster: ClassTrees) -> Mat:
    count, means = min(int(booster.imputation.sampled), SAMPLED), booster.sums.means
    width = int(booster.shape[0]) + booster.trees.label_means.size
    if count == 0:
        return np.zeros((1, width))
    found, r = [], np.random.default_rng(0)
    for c in range(max(booster.outputs, 1)):
        one = class_booster(booster, c, others_of(means, c))
        last = (r.random(count) < float(means[c])).astype(np.float64)
        _, phi, _ = explain_rows(one, booster.imputation.rows[:count], last)
        found.append((phi - phi.mean(axis=0)) / np.sqrt(count))
    return np.concatenate(found)
