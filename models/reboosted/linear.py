"""Two linear learners over columns as they are: Kalman filters with a diagonal covariance.

Trees need many cuts for what is nearly a line; a line needs one weight. Every column is two
inputs: its distance from its running mean in running deviations, and whether it is there at all,
which counts once it was ever missing. Where numbers stand for names, every name is an input of its
own, and says what its weight is beyond that of the column's usual name: what is missing, or a name
that nothing was learned of, is taken for a usual one. There is no rate to choose: a weight moves by
its variance, which falls with what its input has told. One learner is slow and sure, the other
starts bold and forgets. They know nothing of who stacks their scores.

Kalman, A new approach to linear filtering and prediction problems, 1960; with a diagonal
covariance for classes: Crammer, Kulesza, Dredze, Adaptive regularization of weight vectors, 2009.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from kaboost.models.kernels.jit import kernel
from kaboost.models.types import UINT, Ints, Mat, Vec
from kaboost.models.verbs import learning_only

LINEAR_LEARNERS = 2
INITIAL_VARIANCES = (
    1.0,
    10.0,
)  # variance of a weight before its input has told anything; drift ends there
VARIANCE_DRIFTS = (1e-6, 3e-4)  # added to it with every event that has the input
CATEGORY_WEIGHTS = 64  # weights of a column's names: the usual one, and those of the first 63 names
CONSTANT_VARIANCE = 10.0  # variance of the constants' weights at the start
STATISTICS_RATE = 1e-4  # rate of the running means, once a column has been seen often enough
ENERGY_RATE = 1e-3  # rate of the mean squares
MAX_DEVIATIONS = 10.0  # deviations from its mean that count, in a score
OUTLIER_DEVIATIONS, OUTLIER_MIN_VALUES = (
    30.0,
    100.0,
)  # deviations that move the running means, after so many values
TINY = 1e-300  # so that nothing is divided by 0
RESCALE_ABOVE = 1e100  # from which on sums that fade are written in a larger unit
NEWS_DEVIATIONS, NEWS_VARIANCE = (
    5.0,
    1.0 / 64.0,
)  # deviations, and variance of what it adds, that tell it is new
CONSTANT_COLUMN_RATIO = 1e-6  # a deviation smaller than this share of the mean is rounding


class LinearFilters(NamedTuple):
    """State over d columns; C = 66d + 1 inputs: distances, presences, the constant 1, names.

    The first of a column's names is none: its weight is the running mean of what names weigh.
    """

    weights: Mat  # (2, C)
    variances: Mat  # (2, C) variances of the weights
    mean: Vec  # (d,) running
    variance: Vec  # (d,) running
    counts: Vec  # (d,) how often the column was there
    energy: Mat  # (2, d) sums of squares of what a column added, each times `fresh` at its event
    scale: Vec  # () what an event counts for in them now: sums that fade touch what is there alone
    events: Vec  # () events
    mean_weights: Vec  # (2,) sums of all columns' usual names' weights
    categorical: (
        Vec  # (d,) 1 where numbers stand for names: -1 for a new one, then in order of sight
    )


class Row(NamedTuple):
    """One event of d columns, and scratch; whatever has these fields will do.

    What is missing costs nothing: loops go over runs of columns that are there, or over the inputs
    that are not 0, and nothing else of a row is ever looked at. Places are unsigned: what cannot be
    negative makes faster loops.
    """

    runs: Any  # (d + 4,) uint64, where each run of columns begins and ends; then d or more
    values: Vec  # (d,) numbers
    distances: Vec  # (d,) from the mean; of names 0
    input_counts: Ints  # (3,) inputs not 0; columns of known categories; of new categories
    input_values: Vec  # (2d + 1,) these inputs
    input_places: Any  # (3d + 1,) uint64, which of the C; from the end, mean weights to subtract
    contributions: Vec  # (d,) what columns add


@learning_only.register
def _(filters: LinearFilters) -> tuple[str, ...]:
    return ("variances",)


def linear_filters(d: int) -> LinearFilters:
    """Return learners that have seen nothing.

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
        energy=np.zeros((LINEAR_LEARNERS, d)),
        scale=np.ones(()),
        events=np.zeros(()),
        mean_weights=np.zeros(LINEAR_LEARNERS),
        categorical=np.zeros(d),
    )


def blank_row(d: int) -> Row:
    """Return scratch for an event of d columns."""
    return Row(
        runs=np.zeros(d + 4, np.uint64),
        values=np.zeros(d),
        distances=np.zeros(d),
        input_counts=np.zeros(3, np.int64),
        input_values=np.zeros(2 * d + 1),
        input_places=np.zeros(3 * d + 1, np.uint64),
        contributions=np.zeros(d),
    )


def state_bytes(d: int) -> int:
    """Return the bytes of the state over d columns."""
    return 8 * LINEAR_LEARNERS * (2 * ((2 + CATEGORY_WEIGHTS) * d + 1) + d) + 4 * d * 8


def with_features(old: LinearFilters, d: int) -> LinearFilters:
    """Return the learners over d columns, no fewer than before; new ones were missing so far."""
    before, made = len(old.mean), linear_filters(d)
    names = 2 * d + 1 + np.arange(CATEGORY_WEIGHTS * before)
    inputs = np.r_[0:before, d : d + before, 2 * d, names]  # of the old columns among the new
    made.weights[:, inputs], made.variances[:, inputs] = old.weights, old.variances
    made.energy[:, :before] = old.energy
    for name in ("mean", "variance", "counts", "categorical"):
        getattr(made, name)[:before] = getattr(old, name)
    return made._replace(events=old.events, scale=old.scale, mean_weights=old.mean_weights)


def mean_energy(filters: LinearFilters) -> Mat:
    """Return the running mean square (2, d) of what a column adds, of some 1,000 events."""
    rate = max(1.0 / max(float(filters.events), 1.0), ENERGY_RATE)
    return np.asarray(filters.energy * (rate / float(filters.scale)))


@kernel
def fill_inputs(filters: LinearFilters, row: Row) -> None:
    """Fill the row from row.values where the runs are.

    Means and deviations are as this event leaves them, so that few events give no far distances.
    """
    x, z, d = row.values, row.distances, UINT(row.values.shape[0])
    i = 0
    while row.runs[i] < d:
        for j in range(row.runs[i], row.runs[i + 1]):
            mean, seen = filters.mean[j], filters.counts[j]
            off = x[j] - mean if seen > 0.0 and filters.categorical[j] == 0.0 else 0.0
            rate = max(1.0 / (seen + 1.0), STATISTICS_RATE)
            square = filters.variance[j] + rate * off * off
            far = off * math.sqrt(max(1.0 - rate, 0.5) / (square + TINY))
            flat = square <= CONSTANT_COLUMN_RATIO * CONSTANT_COLUMN_RATIO * mean * mean + TINY
            z[j] = 0.0 if flat else min(max(far, -MAX_DEVIATIONS), MAX_DEVIATIONS)
        i += 2
    _list_inputs(filters, row)


@kernel
def _list_inputs(filters: LinearFilters, row: Row) -> None:
    """List the inputs that are not 0."""
    d, age = UINT(row.values.shape[0]), float(filters.events[()])
    n, known, met, i, last = 0, 0, 0, 0, row.input_places.shape[0] - 1
    while row.runs[i] < d:
        for j in range(row.runs[i], row.runs[i + 1]):
            row.input_places[n], row.input_values[n] = j, row.distances[j]
            n += row.distances[j] != 0.0
            if filters.counts[j] < age:
                row.input_places[n], row.input_values[n] = d + j, 1.0
                n += 1
            if filters.categorical[j] > 0.0:
                own = _category_place(filters, j, row.values[j])
                if _has_weight(filters, own):
                    row.input_places[n], row.input_values[n] = own, 1.0
                    n += 1
                    row.input_places[last - known] = _mean_weight_place(filters, j)
                    known += 1
                elif own > 0:
                    met += 1
        i += 2
    row.input_places[n], row.input_values[n] = d + d, 1.0
    row.input_counts[0], row.input_counts[1], row.input_counts[2] = n + 1, known, met


@kernel
def _mean_weight_place(filters: LinearFilters, j: int) -> int:
    """Return the place of the weight of column j's usual name."""
    return int(2 * filters.mean.shape[0] + 1 + CATEGORY_WEIGHTS * int(j))


@kernel
def _category_place(filters: LinearFilters, j: int, x: float) -> int:
    """Return the place of the weight of name x of column j; 0 where it has none."""
    named = 0.0 <= x < CATEGORY_WEIGHTS - 1.0
    return _mean_weight_place(filters, j) + 1 + int(x) if named else 0


@kernel
def _has_weight(filters: LinearFilters, own: int) -> bool:
    """Return whether there is a name's weight, and it is begun."""
    begun = filters.weights[0, own] != 0.0 or filters.weights[1, own] != 0.0
    return bool(own > 0 and begun)


@kernel
def scores(filters: LinearFilters, row: Row) -> tuple[float, float]:
    """Return what both learners say of the inputs."""
    slow, bold, C = (
        float(filters.mean_weights[0]),
        float(filters.mean_weights[1]),
        row.input_places.shape[0],
    )
    for i in range(row.input_counts[0]):  # two sums at once: neither waits for the other
        slow += filters.weights[0, row.input_places[i]] * row.input_values[i]
        bold += filters.weights[1, row.input_places[i]] * row.input_values[i]
    for i in range(C - row.input_counts[1], C):
        slow -= filters.weights[0, row.input_places[i]]
        bold -= filters.weights[1, row.input_places[i]]
    return slow, bold


@kernel
def has_news(filters: LinearFilters, row: Row) -> bool:
    """Return whether little is known of an input: a name met some sixty times at most, or never; a
    column that was missing, or one and the same number, until then.
    """
    d, variance, i = UINT(row.values.shape[0]), filters.variances[0], 0
    for n in range(row.input_counts[0]):
        j, x = row.input_places[n], float(row.input_values[n])
        if (
            j != d + d
            and (j >= d or abs(x) >= NEWS_DEVIATIONS)
            and variance[j] * x * x > NEWS_VARIANCE
        ):
            return True
    while row.runs[i] < d:
        for j in range(row.runs[i], row.runs[i + 1]):
            first = filters.categorical[j] > 0.0 and row.values[j] < 0.0
            if first and _has_weight(
                filters, _category_place(filters, j, 0.0)
            ):  # others have come again
                return True
        i += 2
    return bool(row.input_counts[2] > 0)


@kernel
def init_new_categories(filters: LinearFilters, row: Row) -> None:
    """Begin the weights of names that are met for the second time, which change nothing yet: when
    met for the first time they have no number.
    """
    if row.input_counts[2] == 0:
        return
    d, r = UINT(row.values.shape[0]), 0
    while row.runs[r] < d:
        for j in range(row.runs[r], row.runs[r + 1]):
            own = _category_place(filters, j, row.values[j]) if filters.categorical[j] > 0.0 else 0
            if own > 0 and not _has_weight(filters, own):
                for i in range(LINEAR_LEARNERS):
                    usual = filters.weights[i, _mean_weight_place(filters, j)]
                    filters.weights[i, own] = usual if usual != 0.0 else TINY  # 0 is not begun
        r += 2
    _list_inputs(filters, row)


@kernel
def learn_line(filters: LinearFilters, i: int, row: Row, error: float, noise: float) -> None:
    """Let learner i learn from the inputs that what it said is off by `error`, which is known with
    variance `noise` > 0.
    """
    w, P, drift, most = (
        filters.weights[i],
        filters.variances[i],
        VARIANCE_DRIFTS[i],
        INITIAL_VARIANCES[i],
    )
    total = noise
    for n in range(row.input_counts[0]):
        total += P[row.input_places[n]] * row.input_values[n] * row.input_values[n]
    part = 1.0 / total
    step = error * part
    for n in range(row.input_counts[0]):
        j = row.input_places[n]
        gain = P[j] * row.input_values[n]
        w[j] += gain * step
        left = P[j] - gain * gain * part
        P[j] = left + (drift if left < most else 0.0)


@kernel
def attribute(filters: LinearFilters, i: int, row: Row) -> None:
    """Fill row.contributions, where the runs are, with what each column adds to what learner i says; what
    is missing adds nothing.
    """
    w, age = filters.weights[i], float(filters.events[()])
    d, r = UINT(row.values.shape[0]), 0
    while row.runs[r] < d:
        for j in range(row.runs[r], row.runs[r + 1]):
            row.contributions[j] = w[j] * row.distances[j]
            if filters.counts[j] < age:
                row.contributions[j] += w[d + j]
            row.contributions[j] += _category_effect(filters, i, j, row.values[j])
        r += 2


@kernel
def _category_effect(filters: LinearFilters, i: int, j: int, x: float) -> float:
    """Return what learner i says of a name beyond what it says of a usual one; 0 of a number."""
    own = _category_place(filters, j, x) if filters.categorical[j] > 0.0 else 0
    known = _has_weight(filters, own)
    w = filters.weights[i]
    return float(w[own] - w[_mean_weight_place(filters, j)]) if known else 0.0


def base_scores(filters: LinearFilters) -> Vec:
    """Return what both learners say (2,) of an event of which nothing is known."""
    return np.asarray(filters.weights[:, 2 * len(filters.mean)] + filters.mean_weights)


@kernel
def learn_columns(filters: LinearFilters, row: Row) -> None:
    """Move what is known of the columns that are there towards row.values."""
    _rescale(filters)
    d, fresh = UINT(row.values.shape[0]), float(filters.scale[()])
    for i in range(LINEAR_LEARNERS):
        attribute(filters, i, row)
        r = 0
        while row.runs[r] < d:
            for j in range(row.runs[r], row.runs[r + 1]):
                filters.energy[i, j] += fresh * row.contributions[j] * row.contributions[j]
                if filters.categorical[j] > 0.0:
                    rate = max(1.0 / (filters.counts[j] + 1.0), ENERGY_RATE)
                    move = rate * _category_effect(filters, i, j, row.values[j])
                    filters.weights[i, _mean_weight_place(filters, j)] += move
                    filters.mean_weights[i] += move
            r += 2
    r = 0
    while row.runs[r] < d:
        for j in range(row.runs[r], row.runs[r + 1]):
            filters.counts[j] += 1.0
            rate = max(1.0 / filters.counts[j], STATISTICS_RATE)
            mean, variance = filters.mean[j], filters.variance[j]
            off = row.values[j] - mean
            if (
                filters.counts[j] > OUTLIER_MIN_VALUES and variance > 0.0
            ):  # what was 0 so far tells no size
                most = OUTLIER_DEVIATIONS * math.sqrt(variance) + CONSTANT_COLUMN_RATIO * abs(mean)
                off = min(max(off, -most), most)
            filters.mean[j] = mean + rate * off
            filters.variance[j] = variance + rate * ((1.0 - rate) * off * off - variance)
        r += 2
    filters.events[()] += 1.0


@kernel
def _rescale(filters: LinearFilters) -> None:
    """Let the next event count for more than those before in sums that fade."""
    if (filters.events[()] + 1.0) * ENERGY_RATE > 1.0:
        filters.scale[()] /= 1.0 - ENERGY_RATE
    if filters.scale[()] > RESCALE_ABOVE:
        for i in range(LINEAR_LEARNERS):
            for j in range(filters.energy.shape[1]):
                filters.energy[i, j] /= RESCALE_ABOVE
        filters.scale[()] /= RESCALE_ABOVE
