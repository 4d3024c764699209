"""Scores and updates of the two linear learners, and the running statistics of their columns."""

from __future__ import annotations

import math

from kaboost.models.kernels.jit import kernel
from kaboost.models.reboosted.linear import (
    ENERGY_RATE,
    INITIAL_VARIANCES,
    LINEAR_LEARNERS,
    VARIANCE_DRIFTS,
    LinearFilters,
)
from kaboost.models.reboosted.linear_inputs import (
    CONSTANT_COLUMN_RATIO,
    NEW,
    NONZERO,
    STATISTICS_RATE,
    TINY,
    WEIGHTED,
    InputRow,
    category_place,
    has_weight,
    list_inputs,
    mean_weight_place,
)
from kaboost.models.types import UINT

# A value counts as at most so many deviations from the mean, once a column had so many values.
OUTLIER_DEVIATIONS, OUTLIER_MIN_VALUES = 30.0, 100.0
RESCALE_ABOVE = 1e100  # of `LinearFilters.scale`: energies are then divided by it


@kernel
def scores(filters: LinearFilters, row: InputRow) -> tuple[float, float]:
    """Return both learners' scores of the inputs."""
    slow, fast = float(filters.mean_weights[0]), float(filters.mean_weights[1])
    end = row.input_places.shape[0]
    for i in range(row.input_counts[NONZERO]):  # two sums at once: neither waits for the other
        slow += filters.weights[0, row.input_places[i]] * row.input_values[i]
        fast += filters.weights[1, row.input_places[i]] * row.input_values[i]
    for i in range(end - row.input_counts[WEIGHTED], end):
        slow -= filters.weights[0, row.input_places[i]]
        fast -= filters.weights[1, row.input_places[i]]
    return slow, fast


@kernel
def init_new_categories(filters: LinearFilters, row: InputRow) -> None:
    """Initialise the weights of categories that are seen for the second time with the column's mean
    weight, which changes no score; at first sight they have no number.
    """
    if row.input_counts[NEW] == 0:
        return
    init_category_weights(filters, row)
    list_inputs(filters, row)


@kernel
def init_category_weights(filters: LinearFilters, row: InputRow) -> None:
    """Set the weights of the row's categories that have a number and no weight."""
    d, r = UINT(row.values.shape[0]), 0
    while row.runs[r] < d:
        for j in range(row.runs[r], row.runs[r + 1]):
            known = filters.categorical[j] > 0.0
            place = category_place(filters, j, row.values[j]) if known else 0
            if place > 0 and not has_weight(filters, place):
                for i in range(LINEAR_LEARNERS):
                    mean = filters.weights[i, mean_weight_place(filters, j)]
                    filters.weights[i, place] = mean if mean != 0.0 else TINY  # 0 means: none
        r += 2


@kernel
def learn_line(filters: LinearFilters, i: int, row: InputRow, error: float, noise: float) -> None:
    """Take a Kalman step: learner i's score is off by `error`, of variance `noise` > 0."""
    w, P = filters.weights[i], filters.variances[i]
    drift, most = VARIANCE_DRIFTS[i], INITIAL_VARIANCES[i]
    total = noise
    for n in range(row.input_counts[NONZERO]):
        total += P[row.input_places[n]] * row.input_values[n] * row.input_values[n]
    part = 1.0 / total
    step = error * part
    for n in range(row.input_counts[NONZERO]):
        j = row.input_places[n]
        gain = P[j] * row.input_values[n]
        w[j] += gain * step
        left = P[j] - gain * gain * part
        P[j] = left + (drift if left < most else 0.0)


@kernel
def attribute(filters: LinearFilters, i: int, row: InputRow) -> None:
    """Fill row.contributions, where the runs are, with each column's contribution to learner i's
    score; a missing column contributes 0.
    """
    w, events = filters.weights[i], float(filters.events[()])
    d, r = UINT(row.values.shape[0]), 0
    while row.runs[r] < d:
        for j in range(row.runs[r], row.runs[r + 1]):
            row.contributions[j] = w[j] * row.distances[j]
            if filters.counts[j] < events:
                row.contributions[j] += w[d + j]
            row.contributions[j] += _category_effect(filters, i, j, row.values[j])
        r += 2


@kernel
def _category_effect(filters: LinearFilters, i: int, j: int, x: float) -> float:
    """Return learner i's weight of category x less the column's mean weight; 0 for a number."""
    place = category_place(filters, j, x) if filters.categorical[j] > 0.0 else 0
    weighted = has_weight(filters, place)
    w = filters.weights[i]
    return float(w[place] - w[mean_weight_place(filters, j)]) if weighted else 0.0


@kernel
def learn_columns(filters: LinearFilters, row: InputRow) -> None:
    """Move energies, mean weights, means and variances of present columns towards row.values."""
    _rescale(filters)
    update_energies(filters, row)
    update_statistics(filters, row)
    filters.events[()] += 1.0


@kernel
def update_energies(filters: LinearFilters, row: InputRow) -> None:
    """Move energies and mean weights of present columns towards row.values."""
    for i in range(LINEAR_LEARNERS):
        attribute(filters, i, row)
        _update_energy(filters, i, row)


@kernel
def _update_energy(filters: LinearFilters, i: int, row: InputRow) -> None:
    d, r, scale = UINT(row.values.shape[0]), 0, float(filters.scale[()])
    while row.runs[r] < d:
        for j in range(row.runs[r], row.runs[r + 1]):
            filters.energy[i, j] += scale * row.contributions[j] * row.contributions[j]
            if filters.categorical[j] > 0.0:
                rate = max(1.0 / (filters.counts[j] + 1.0), ENERGY_RATE)
                move = rate * _category_effect(filters, i, j, row.values[j])
                filters.weights[i, mean_weight_place(filters, j)] += move
                filters.mean_weights[i] += move
        r += 2


@kernel
def update_statistics(filters: LinearFilters, row: InputRow) -> None:
    """Move means and variances of present columns towards row.values."""
    d, r = UINT(row.values.shape[0]), 0
    while row.runs[r] < d:
        for j in range(row.runs[r], row.runs[r + 1]):
            filters.counts[j] += 1.0
            filters.scaled[j] += 1.0
            rate = max(1.0 / filters.scaled[j], STATISTICS_RATE)
            mean, variance = filters.mean[j], filters.variance[j]
            off = row.values[j] - mean
            # A column that was constant so far has no scale.
            if filters.counts[j] > OUTLIER_MIN_VALUES and variance > 0.0:
                most = OUTLIER_DEVIATIONS * math.sqrt(variance) + CONSTANT_COLUMN_RATIO * abs(mean)
                off = min(max(off, -most), most)
            filters.mean[j] = mean + rate * off
            filters.variance[j] = variance + rate * ((1.0 - rate) * off * off - variance)
        r += 2


@kernel
def _rescale(filters: LinearFilters) -> None:
    """Grow the factor on new energies, instead of decaying all old ones."""
    if (filters.events[()] + 1.0) * ENERGY_RATE > 1.0:
        filters.scale[()] /= 1.0 - ENERGY_RATE
    if filters.scale[()] > RESCALE_ABOVE:
        for i in range(LINEAR_LEARNERS):
            for j in range(filters.energy.shape[1]):
                filters.energy[i, j] /= RESCALE_ABOVE
        filters.scale[()] /= RESCALE_ABOVE


@kernel
def rescale_energy(filters: LinearFilters) -> None:
    """Grow the factor on new energies of all classes (C, 2, d), as `_rescale` does."""
    if (filters.events[()] + 1.0) * ENERGY_RATE > 1.0:
        filters.scale[()] /= 1.0 - ENERGY_RATE
    if filters.scale[()] > RESCALE_ABOVE:
        for c in range(filters.energy.shape[0]):
            for i in range(LINEAR_LEARNERS):
                for j in range(filters.energy.shape[2]):
                    filters.energy[c, i, j] /= RESCALE_ABOVE
        filters.scale[()] /= RESCALE_ABOVE
