"""Restart after the first labels, where they show an outlier or a mean far from 0.

Labels that are numbers have no known scale. The first `FIRST_LABELS` are looked at together: if one
was an outlier, or their mean is large relative to their spread, all that learned from them starts
again; the window keeps the events with corrected labels.
"""

from __future__ import annotations

import math

import numpy as np

from kaboost.models.evaluation.progress import Progress
from kaboost.models.features.label_outliers import FIRST_LABELS, replace_outliers
from kaboost.models.reboosted.ensemble import ReboostedTrees, fresh_stack
from kaboost.models.reboosted.initial import reset_structure
from kaboost.models.reboosted.label_guard import label_offset
from kaboost.models.reboosted.label_scale import LabelScale
from kaboost.models.reboosted.linear import linear_filters
from kaboost.models.reboosted.state import NUMBERS, Reboosted
from kaboost.models.types import Loss, Mat, Vec
from kaboost.models.verbs import newton_curvature, value_gradient_hessian

MIN_SIZE, MAX_SIZE = 1e-6, 1e20  # median of the first labels that keep factor 1


def first_label_count(trees: Reboosted, W: Vec) -> int:
    """Return how many events of weights W (n,) there are up to the last of the first labels; 0
    where that is not among them.
    """
    seen = int(trees.schedule.time)
    if seen >= FIRST_LABELS or int(trees.params.link) != NUMBERS:
        return 0
    learned = np.flatnonzero(W > 0.0)[FIRST_LABELS - seen - 1 : FIRST_LABELS - seen]
    return int(learned[0]) + 1 if len(learned) else 0


def restart_from_first_labels(booster: ReboostedTrees) -> None:
    """Correct the first labels in the window, and start again from them where that is needed."""
    labels = booster.trees.window.labels[:FIRST_LABELS]
    replaced, factor = replace_outliers(labels), label_factor(labels)
    if replaced:
        _forget_losses(booster.progress)
    labels *= factor
    offset = label_offset(labels)
    if not replaced and factor == 1.0 and offset == 0.0:
        return
    labels -= offset
    booster.labels.factor[...] *= factor
    _reset_learners(booster)
    booster.trees.base_score[...] = float(labels.mean())
    _fill_scale(booster.labels, booster.loss, labels, offset)
    means, rates = booster.trees.label_means, booster.trees.params.label_mean_rates
    for y in labels:
        means[...] += rates * (y - means)


def _forget_losses(seen: Progress) -> None:
    """Begin the sums of losses again: the outlier's are in them."""
    for sums in (seen.weight_sum, seen.loss_sum, seen.prefix_loss_sum, seen.edge_total):
        sums[...] = np.where(np.isnan(sums), sums, 0.0)
    seen.edge_missed[...] = 0.0


def label_factor(labels: Vec) -> float:
    """Return the factor for the first labels (n,): a power of 2 that brings their median size near
    1 where it is extreme, else 1.
    """
    size = float(np.sort(abs(labels))[len(labels) // 2])
    return power_near(size) if size > 0.0 and not MIN_SIZE < size < MAX_SIZE else 1.0


def power_near(size: float) -> float:
    """Return the power of 2 that brings a size > 0 near 1."""
    return math.ldexp(1.0, min(-math.frexp(size)[1], 1000))


def set_first_factor(booster: ReboostedTrees, y: Mat, w: Vec) -> None:
    """Set the factor by the very first of labels y (n, 1) of importances w (n,) that is not 0, if
    it is huge: the sizes of the others are not known yet.
    """
    t, link = int(booster.trees.schedule.time), int(booster.trees.params.link)
    if t >= FIRST_LABELS or link != NUMBERS:
        return
    seen = booster.trees.window.labels[:t]
    first = np.flatnonzero((y[:, 0] != 0.0) & (w > 0.0))[:1]
    if len(first) and not seen.any() and abs(y[first[0], 0]) > MAX_SIZE:
        booster.labels.factor[...] = power_near(abs(float(y[first[0], 0])))


def _reset_learners(booster: ReboostedTrees) -> None:
    """Reset leaves, linear learners, stacking and running sums; categorical columns are kept."""
    trees, schedule = booster.trees, booster.trees.schedule
    lines = linear_filters(int(booster.shape[0]))._replace(categorical=booster.linear.categorical)
    fresh = (*lines, *fresh_stack(trees))
    for old, new in zip((*booster.linear, *booster.stack), fresh, strict=True):
        old[...] = new
    for sums in (
        schedule.structure_losses,
        schedule.mean_square_gradient,
        schedule.gradient_squares,
        schedule.loss_statistics,
        trees.label_means,
    ):
        sums[...] = 0.0
    for structure in trees.structures:
        reset_structure(structure)


def _fill_scale(scale: LabelScale, loss: Loss, labels: Vec, offset: float) -> None:
    """Set the running means to those of the labels (n,), predicted by their mean."""
    mean = float(labels.mean())
    deviation = abs(labels - mean).mean()
    losses = np.array([value_gradient_hessian(loss, mean, float(y)) for y in labels])
    curvatures = np.array(
        [newton_curvature(loss, mean, float(y), float(deviation)) for y in labels]
    )
    scale.mean[...] = mean
    scale.deviation[...] = scale.residual[...] = deviation
    scale.mean_loss[...] = losses[:, 0].mean()
    scale.squared_step[...] = ((losses[:, 1] / curvatures) ** 2).mean()
    scale.curvature[...] = curvatures.mean()
    scale.offset[...] = offset
    scale.shift[...] = 0.0
