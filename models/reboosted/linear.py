"""State of two linear learners over raw columns: Kalman filters with a diagonal covariance.

Trees need many cuts for what is nearly a line; a line needs one weight. Every column has two
inputs: its standardised distance from its running mean, and its presence, which counts once it was
ever missing. In a categorical column every category is an input as well, whose weight counts
relative to the column's mean weight: a missing, unseen or unweighted category takes the mean.
There is no learning rate to choose: a weight moves by its variance, which falls with every event
that has its input. One learner is slow and precise, the other starts with a large variance and
forgets. They know nothing of the stacking of their scores.

The variances were tuned on the public streams of bench/README.md but poker, bikes, abalone and
MNIST.

Kalman, A new approach to linear filtering and prediction problems, 1960; with a diagonal
covariance for classes: Crammer, Kulesza, Dredze, Adaptive regularization of weight vectors, 2009.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kaboost.models.types import Mat, Vec
from kaboost.models.verbs import learning_only

LINEAR_LEARNERS = 2
INITIAL_VARIANCES = (1.0, 10.0)  # of a weight before its first event; drift raises it up to this
VARIANCE_DRIFTS = (1e-6, 3e-4)  # added to it with every event that has the input
CATEGORY_WEIGHTS = 64  # weights of a column's categories: the mean one, then the first 63
CONSTANT_VARIANCE = 10.0  # initial variance of the constants' weights
ENERGY_RATE = 1e-3  # lowest rate of mean squares and mean weights, an event


class LinearFilters(NamedTuple):
    """State over d columns; C = 66d + 1 inputs: distances, presences, the constant 1, categories.

    The first of a column's categories is none: its weight is the running mean of the others'.
    """

    weights: Mat  # (2, C)
    variances: Mat  # (2, C) of the weights
    mean: Vec  # (d,) running
    variance: Vec  # (d,) running
    counts: Vec  # (d,) events that had the column
    scaled: Vec  # (d,) of these, those that mean and variance are of
    energy: Mat  # (2, d) decayed sums of squares of a column's contribution, times `scale` then
    scale: Vec  # () factor on new terms of `energy`: it grows, so that old ones need no decay
    events: Vec  # ()
    mean_weights: Vec  # (2,) sums of all columns' mean category weights
    categorical: Vec  # (d,) 1 where numbers are categories: -1 is new, others in order of sight


@learning_only.register
def _(filters: LinearFilters) -> tuple[str, ...]:
    return ("variances",)


def linear_filters(d: int) -> LinearFilters:
    """Return learners over d columns before any event.

    Examples
    --------
    >>> linear_filters(54).mean.shape
    (54,)
    """
    C = (2 + CATEGORY_WEIGHTS) * d + 1
    variances = np.repeat(np.array(INITIAL_VARIANCES)[:, None], C, axis=1)
    variances[:, 2 * d] = CONSTANT_VARIANCE
    return LinearFilters(
        weights=np.zeros((LINEAR_LEARNERS, C)),
        variances=variances,
        mean=np.zeros(d),
        variance=np.zeros(d),
        counts=np.zeros(d),
        scaled=np.zeros(d),
        energy=np.zeros((LINEAR_LEARNERS, d)),
        scale=np.ones(()),
        events=np.zeros(()),
        mean_weights=np.zeros(LINEAR_LEARNERS),
        categorical=np.zeros(d),
    )


def state_bytes(d: int) -> int:
    """Return the bytes of the state over d columns."""
    return 8 * LINEAR_LEARNERS * (2 * ((2 + CATEGORY_WEIGHTS) * d + 1) + d) + 5 * d * 8


def with_features(old: LinearFilters, d: int) -> LinearFilters:
    """Return the learners over d columns, no fewer than before; new ones were missing so far."""
    before, made = len(old.mean), linear_filters(d)
    categories = 2 * d + 1 + np.arange(CATEGORY_WEIGHTS * before)
    inputs = np.r_[0:before, d : d + before, 2 * d, categories]  # old columns among the new
    made.weights[:, inputs], made.variances[:, inputs] = old.weights, old.variances
    made.energy[:, :before] = old.energy
    for name in ("mean", "variance", "counts", "scaled", "categorical"):
        getattr(made, name)[:before] = getattr(old, name)
    return made._replace(events=old.events, scale=old.scale, mean_weights=old.mean_weights)


def reset_column(filters: LinearFilters, j: int) -> None:
    """Reset mean, variance and the distance's weights of column j, as if its values began now."""
    filters.mean[j], filters.variance[j], filters.scaled[j] = 0.0, 0.0, 0.0
    # Of one score or of classes, which are the first axis then.
    filters.weights[..., j], filters.variances[..., j] = 0.0, INITIAL_VARIANCES
    filters.energy[..., j] = 0.0


def mean_energy(filters: LinearFilters) -> Mat:
    """Return the running mean square (2, d) of a column's contribution, over about 1,000 events."""
    rate = max(1.0 / max(float(filters.events), 1.0), ENERGY_RATE)
    return np.asarray(filters.energy * (rate / float(filters.scale)))


def base_scores(filters: LinearFilters) -> Vec:
    """Return both learners' scores (2,) of an event of which every column is missing."""
    return np.asarray(filters.weights[:, 2 * len(filters.mean)] + filters.mean_weights)
