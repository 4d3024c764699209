"""Rows with a value of which nothing is known: their prediction is the mean over likely values.

Where a column was hardly ever missing, or a category hardly ever new, no tree has learned where
such a row belongs: which way it goes is an accident, and the answer would be as sure as for a known
value. So it is answered as the mean of the predictions for the values of 64 sampled events, the
marginal expectation of Friedman, Greedy Function Approximation, 2001, section 8.2 (partial
dependence). For classes probabilities are averaged, so that a row of which nothing is known is
answered with the base rate.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kaboost.models.kernels.jit import kernel
from kaboost.models.reboosted.state import LOG_ODDS, LOGARITHMS
from kaboost.models.types import Mat, Vec

SAMPLED = 64  # rows: a mean of probabilities is off by at most 1/16 in standard deviation
MIN_SEEN = 20.0  # events of a kind from which on the model knows what they mean
HALVE_EVERY = 8_192  # events: older ones count half, so a value must have been seen lately
MAX_STRIDE = 512  # events for one sampled row, at most: the sample follows a drift
NO_VALUE, NEW_CATEGORY = 0, 1  # rows of `Imputation.seen`
MIN_PROBABILITY = 1e-12  # an averaged probability is at least this far from 0 and 1


class Imputation(NamedTuple):
    """Sampled rows, and how often every column had no value or a category never seen before."""

    rows: Mat  # (64, d) of X; NaN where missing
    sampled: Vec  # () rows sampled so far
    seen: Mat  # (2, d) events that had no value, or a new category; older ones count less


def imputation(d: int) -> Imputation:
    """Return the imputation of d columns before any event."""
    return Imputation(np.full((SAMPLED, d), np.nan), np.zeros(()), np.zeros((2, d)))


def state_bytes(d: int) -> int:
    """Return the bytes of the imputation of d columns."""
    return 8 * d * (SAMPLED + 2)


def with_features(old: Imputation, d: int) -> Imputation:
    """Return the imputation of d columns, no fewer than before; events so far lack the new ones."""
    made, before = imputation(d), old.rows.shape[1]
    made.rows[:, :before], made.seen[:, :before] = old.rows, old.seen
    made.seen[NO_VALUE, before:] = MIN_SEEN if old.sampled > 0.0 else 0.0
    return made._replace(sampled=old.sampled)


@kernel
def observe_until_unknown(
    imputation: Imputation, categorical: Vec, X: Mat, W: Vec, place: tuple[int, int, bool]
) -> int:
    """Observe rows of X (B, d), of importances W (B,), up to one of which a value is unknown;
    return its number, or B.

    `place` is the first row, how many events came before it, and whether it is observed whatever
    is unknown of it. `categorical` (d,) is 1 for columns of categories in order of first sight.
    """
    first, t, anyway = place
    for k in range(first, X.shape[0]):
        if has_unknown(imputation, categorical, X[k]) and not (anyway and k == first):
            return k
        if W[k] > 0.0:
            observe_row(imputation, categorical, X[k], t)
            t += 1
    return len(X)


@kernel
def observe_row(imputation: Imputation, categorical: Vec, x: Vec, t: int) -> None:
    """Count and perhaps sample a row x (d,) that is learned after t events."""
    seen = imputation.seen
    if t % HALVE_EVERY == HALVE_EVERY - 1:
        for j in range(x.shape[0]):
            seen[NO_VALUE, j] *= 0.5
            seen[NEW_CATEGORY, j] *= 0.5
    for j in range(x.shape[0]):
        if math.isnan(x[j]):
            seen[NO_VALUE, j] += 1.0
        elif x[j] < 0.0 and categorical[j] > 0.0:
            seen[NEW_CATEGORY, j] += 1.0
    stride = 1
    while stride < MAX_STRIDE and t >= 2 * stride * SAMPLED:
        stride *= 2
    if t % stride == _place(t // stride) % stride:
        row = imputation.rows[t // stride % SAMPLED]
        for j in range(x.shape[0]):
            row[j] = x[j]
        imputation.sampled[()] += 1.0


@kernel
def _place(block: int) -> int:
    """Return a number >= 0 that looks random, so that no period of the stream is sampled."""
    mixed = (block * 2654435761) & 0xFFFFFFFF
    mixed = ((mixed ^ (mixed >> 16)) * 73244475) & 0xFFFFFFFF
    return int(mixed ^ (mixed >> 16))


@kernel
def has_unknown(imputation: Imputation, categorical: Vec, x: Vec) -> bool:
    """Return whether the model cannot know what a value of x (d,) means."""
    if imputation.sampled[()] < SAMPLED:
        return False
    unknown = False
    for j in range(x.shape[0]):
        unknown = unknown or _is_unknown(imputation, categorical, x, j)
    return unknown


@kernel
def _is_unknown(imputation: Imputation, categorical: Vec, x: Vec, j: int) -> bool:
    if math.isnan(x[j]):
        return bool(imputation.seen[NO_VALUE, j] < MIN_SEEN)
    new = x[j] < 0.0 and categorical[j] > 0.0
    return bool(new and imputation.seen[NEW_CATEGORY, j] < MIN_SEEN)


@kernel
def find_unknown(
    imputation: Imputation, categorical: Vec, X: Mat, found: NDArray[np.bool_]
) -> None:
    """Fill found (B,) with whether a value of the rows of X (B, d) is unknown."""
    for k in range(X.shape[0]):
        found[k] = has_unknown(imputation, categorical, X[k])


@kernel
def fill_likely(imputation: Imputation, categorical: Vec, x: Vec, filled: Mat) -> None:
    """Fill filled (64, d) with x (d,), unknown values replaced by those of the sampled rows.

    A category's mean label, the column in front of its order, is replaced with it.
    """
    d = x.shape[0]
    for i in range(filled.shape[0]):
        for j in range(d):
            filled[i, j] = x[j]
    for j in range(d):
        if _is_unknown(imputation, categorical, x, j):
            first = j - 1 if j > 0 and categorical[j] > 0.0 else j
            for i in range(filled.shape[0]):
                for c in range(first, j + 1):
                    filled[i, c] = imputation.rows[i, c]


def average(scores: Vec, link: int) -> float:
    """Return the score whose prediction is the mean of the predictions of scores (n,)."""
    if link == LOG_ODDS:
        p = float(np.mean(1.0 / (1.0 + np.exp(-np.clip(scores, -700.0, 700.0)))))
        p = min(max(p, MIN_PROBABILITY), 1.0 - MIN_PROBABILITY)
        return math.log(p / (1.0 - p))
    if link == LOGARITHMS:
        most = float(scores.max())
        return most + math.log(float(np.mean(np.exp(scores - most))))
    return float(scores.mean())
