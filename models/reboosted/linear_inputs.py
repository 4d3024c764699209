"""Inputs of the linear learners: one event's columns, standardised, as a sparse list."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kaboost.models.kernels.jit import kernel
from kaboost.models.reboosted.linear import CATEGORY_WEIGHTS, LinearFilters
from kaboost.models.types import UINT, Ints, Vec

STATISTICS_RATE = 1e-4  # lowest rate of a column's running mean and variance, an event that has it
MAX_DEVIATIONS = 10.0  # a distance counts as at most so many deviations
CONSTANT_COLUMN_RATIO = 1e-6  # a deviation below this share of the mean is rounding
TINY = 1e-300  # keeps divisors positive
# An input is new where its weight's variance is above this, a distance only if it is large.
NEWS_VARIANCE, NEWS_DEVIATIONS = 1.0 / 64.0, 5.0
NONZERO, WEIGHTED, NEW = 0, 1, 2  # places in `InputRow.input_counts`


class InputRow(NamedTuple):
    """One event of d columns, as inputs of the linear learners; scratch.

    Missing columns cost nothing: loops go over runs of present columns, or over nonzero inputs, and
    the rest of a row is never read. Places are unsigned: that makes loops faster.
    """

    runs: NDArray[np.uint64]  # (d + 4,) first and end of every run of columns; then d or more
    values: Vec  # (d,) numbers
    distances: Vec  # (d,) from the mean, in deviations; 0 for categories
    input_counts: Ints  # (3,) nonzero inputs; columns of weighted categories; of new ones
    input_values: Vec  # (2d + 1,) nonzero inputs
    input_places: NDArray[np.uint64]  # (3d + 1,) theirs among C; from the end, of mean weights off
    contributions: Vec  # (d,) of columns to a score


def blank_row(d: int) -> InputRow:
    """Return scratch for an event of d columns."""
    return InputRow(
        runs=np.zeros(d + 4, np.uint64),
        values=np.zeros(d),
        distances=np.zeros(d),
        input_counts=np.zeros(3, np.int64),
        input_values=np.zeros(2 * d + 1),
        input_places=np.zeros(3 * d + 1, np.uint64),
        contributions=np.zeros(d),
    )


@kernel
def fill_inputs(filters: LinearFilters, row: InputRow) -> None:
    """Fill the row from row.values where the runs are.

    Means and deviations are as this event leaves them, so that few events give no large distances.
    """
    x, z, d = row.values, row.distances, UINT(row.values.shape[0])
    i = 0
    while row.runs[i] < d:
        for j in range(row.runs[i], row.runs[i + 1]):
            mean, seen = filters.mean[j], filters.scaled[j]
            off = x[j] - mean if seen > 0.0 and filters.categorical[j] == 0.0 else 0.0
            rate = max(1.0 / (seen + 1.0), STATISTICS_RATE)
            square = filters.variance[j] + rate * off * off
            distance = off * math.sqrt(max(1.0 - rate, 0.5) / (square + TINY))
            flat = square <= CONSTANT_COLUMN_RATIO * CONSTANT_COLUMN_RATIO * mean * mean + TINY
            z[j] = 0.0 if flat else min(max(distance, -MAX_DEVIATIONS), MAX_DEVIATIONS)
        i += 2
    list_inputs(filters, row)


@kernel
def list_inputs(filters: LinearFilters, row: InputRow) -> None:
    """List the nonzero inputs."""
    d, events = UINT(row.values.shape[0]), float(filters.events[()])
    n, weighted, new, i, last = 0, 0, 0, 0, row.input_places.shape[0] - 1
    while row.runs[i] < d:
        for j in range(row.runs[i], row.runs[i + 1]):
            row.input_places[n], row.input_values[n] = j, row.distances[j]
            n += row.distances[j] != 0.0
            if filters.counts[j] < events:
                row.input_places[n], row.input_values[n] = d + j, 1.0
                n += 1
            if filters.categorical[j] > 0.0:
                place = category_place(filters, j, row.values[j])
                if has_weight(filters, place):
                    row.input_places[n], row.input_values[n] = place, 1.0
                    n += 1
                    row.input_places[last - weighted] = mean_weight_place(filters, j)
                    weighted += 1
                elif place > 0:
                    new += 1
        i += 2
    row.input_places[n], row.input_values[n] = d + d, 1.0
    counts = row.input_counts
    counts[NONZERO], counts[WEIGHTED], counts[NEW] = n + 1, weighted, new


@kernel
def mean_weight_place(filters: LinearFilters, j: int) -> int:
    """Return the place of the mean category weight of column j."""
    return int(2 * filters.mean.shape[0] + 1 + CATEGORY_WEIGHTS * int(j))


@kernel
def category_place(filters: LinearFilters, j: int, x: float) -> int:
    """Return the place of the weight of category x of column j; 0 where it has none."""
    placed = 0.0 <= x < CATEGORY_WEIGHTS - 1.0
    return mean_weight_place(filters, j) + 1 + int(x) if placed else 0


@kernel
def has_weight(filters: LinearFilters, place: int) -> bool:
    """Return whether there is a category's weight, and it was initialised."""
    nonzero = filters.weights[0, place] != 0.0 or filters.weights[1, place] != 0.0
    return bool(place > 0 and nonzero)


@kernel
def has_news(filters: LinearFilters, row: InputRow) -> bool:
    """Return whether little is known of an input: a category seen at most about 60 times, or never;
    a column that was missing, or constant, so far.
    """
    d, variance, i = UINT(row.values.shape[0]), filters.variances[0], 0
    for n in range(row.input_counts[NONZERO]):
        j, x = row.input_places[n], float(row.input_values[n])
        relevant = j != d + d and (j >= d or abs(x) >= NEWS_DEVIATIONS)
        if relevant and variance[j] * x * x > NEWS_VARIANCE:
            return True
    while row.runs[i] < d:
        for j in range(row.runs[i], row.runs[i + 1]):
            first = filters.categorical[j] > 0.0 and row.values[j] < 0.0
            # Where no category of the column came twice, a new one is no news.
            if first and has_weight(filters, category_place(filters, j, 0.0)):
                return True
        i += 2
    return bool(row.input_counts[NEW] > 0)
