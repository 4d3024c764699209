"""Two linear learners over columns as they are: Kalman filters with a diagonal covariance.

Trees need many cuts for what is nearly a line; a line needs one weight. Every column is two
inputs: its distance from its running mean in running deviations, and whether it is there at all,
which counts once it was ever missing. Where numbers stand for names, every name is an input of its
own. There is no rate to choose: a weight moves by its variance, which falls with what its input has
told. One learner is slow and sure, the other starts bold and forgets. They know nothing of who
stacks their scores.

Kalman, A new approach to linear filtering and prediction problems, 1960; with a diagonal
covariance for classes: Crammer, Kulesza, Dredze, Adaptive regularization of weight vectors, 2009.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from models.types import Ints, Mat, Mat3, Vec
from models.verbs import kernel, learning_only

LEARNERS = 2
START = (1.0, 10.0)  # variance of a weight before its input has told anything; drift ends there
DRIFT = (1e-6, 3e-4)  # added to it with every event that has the input
VALUES = 64  # names of a column that have a weight: the first ones
CONSTANT = 10.0  # variance of the constants' weights at the start
MEMORY = 1e-4  # rate of the running means, once a column has been seen often enough
RECENT = 1e-3  # rate of the mean squares
FARTHEST = 10.0  # deviations from its mean that count, in a score
OUTLYING, SETTLED = 30.0, 100.0  # deviations that move the running means, after so many values
LEAST = 1e-300  # so that nothing is divided by 0
FLAT = 1e-6  # a deviation smaller than this share of the mean is rounding


class LinearFilters(NamedTuple):
    """State over d columns; C = 2d + 1 inputs: distances, presences, and the constant 1."""

    weights: Mat  # (2, C)
    spread: Mat  # (2, C) variances of the weights
    values: Mat3  # (2, d, 64) weights of names
    doubt: Mat3  # (2, d, 64) their variances
    mean: Vec  # (d,) running
    variance: Vec  # (d,) running
    seen: Vec  # (d,) how often the column was there
    gaps: Vec  # (d,) 1 where it was ever missing
    power: Mat  # (2, d) running mean square of what a column adds
    age: Vec  # () events
    names: Vec  # (d,) 1 where numbers stand for names: -1 for a new one, then in order of sight


@learning_only.register
def _(filters: LinearFilters) -> tuple[str, ...]:
    return ("spread", "doubt")


def linear_filters(d: int) -> LinearFilters:
    """Return learners that have seen nothing.

    Examples
    --------
    >>> linear_filters(54).weights.shape
    (2, 109)
    """
    C = 2 * d + 1
    spread = np.repeat(np.array(START)[:, None], C, axis=1)
    spread[:, -1] = CONSTANT
    doubt = np.repeat(np.array(START)[:, None, None], d * VALUES, axis=1).reshape(-1, d, VALUES)
    return LinearFilters(
        weights=np.zeros((LEARNERS, C)),
        spread=spread,
        values=np.zeros((LEARNERS, d, VALUES)),
        doubt=doubt,
        mean=np.zeros(d),
        variance=np.zeros(d),
        seen=np.zeros(d),
        gaps=np.zeros(d),
        power=np.zeros((LEARNERS, d)),
        age=np.zeros(()),
        names=np.zeros(d),
    )


def size(d: int) -> int:
    """Return the bytes of the state over d columns."""
    return 8 * LEARNERS * ((5 + 2 * VALUES) * d + 2) + 5 * d * 8


def widened(old: LinearFilters, d: int) -> LinearFilters:
    """Return the learners over d columns, no fewer than before; new ones were missing so far."""
    before, made = len(old.mean), linear_filters(d)
    inputs = np.r_[0:before, d : d + before, 2 * d]  # of the old columns among the new
    made.weights[:, inputs], made.spread[:, inputs] = old.weights, old.spread
    made.power[:, :before] = old.power
    made.values[:, :before], made.doubt[:, :before] = old.values, old.doubt
    for name in ("mean", "variance", "seen", "gaps", "names"):
        getattr(made, name)[:before] = getattr(old, name)
    made.gaps[before:] = float(old.age > 0.0)
    return made._replace(age=old.age)


@kernel
def inputs(filters: LinearFilters, x: Vec, z: Vec, codes: Ints) -> None:
    """Fill z (C,) with the inputs that columns x (d,) are, NaN where missing, and codes (d,) with
    the places of names that have a weight, -1 where there is none.

    Means and deviations are as this event leaves them, so that few events give no far distances.
    """
    d = x.shape[0]
    for j in range(d):
        mean, seen = filters.mean[j], filters.seen[j]
        here = x[j] == x[j]
        amount = here and filters.names[j] == 0.0
        off = x[j] - mean if amount and seen > 0.0 else 0.0
        rate = max(1.0 / (seen + 1.0), MEMORY)
        square = (filters.variance[j] + rate * off * off) / max(1.0 - rate, 0.5)
        flat = square <= FLAT * FLAT * mean * mean + LEAST
        far = off / math.sqrt(square + LEAST)
        z[j] = 0.0 if flat else min(max(far, -FARTHEST), FARTHEST)
        z[d + j] = filters.gaps[j] if amount else 0.0
        named = here and filters.names[j] > 0.0 and -1.0 <= x[j] < VALUES - 1.0
        codes[j] = int(x[j] + 1.0) if named else -1
    z[2 * d] = 1.0


@kernel
def said(filters: LinearFilters, z: Vec, codes: Ints) -> tuple[float, float]:
    """Return what both learners say of inputs z (C,)."""
    slow, bold = 0.0, 0.0
    for j in range(z.shape[0]):  # two sums at once: neither waits for the other
        slow += filters.weights[0, j] * z[j]
        bold += filters.weights[1, j] * z[j]
    for j in range(codes.shape[0]):
        if codes[j] >= 0:
            slow += filters.values[0, j, codes[j]]
            bold += filters.values[1, j, codes[j]]
    return slow, bold


@kernel
def learn_line(
    filters: LinearFilters, i: int, z: Vec, codes: Ints, error: float, noise: float
) -> None:
    """Let learner i learn from inputs z (C,) that what it said is off by `error`, which is known
    with variance `noise` > 0.
    """
    w, P, drift, most = filters.weights[i], filters.spread[i], DRIFT[i], START[i]
    total = noise
    for j in range(z.shape[0]):
        total += P[j] * z[j] * z[j]
    for j in range(codes.shape[0]):
        if codes[j] >= 0:
            total += filters.doubt[i, j, codes[j]]
    part = 1.0 / total
    step = error * part
    for j in range(z.shape[0]):
        gain = P[j] * z[j]
        w[j] += gain * step
        left = P[j] - gain * gain * part
        P[j] = left + (drift if z[j] != 0.0 and left < most else 0.0)
    for j in range(codes.shape[0]):
        c = codes[j]
        if c >= 0:
            gain = filters.doubt[i, j, c]
            filters.values[i, j, c] += gain * step
            left = gain - gain * gain * part
            filters.doubt[i, j, c] = left + (drift if left < most else 0.0)


@kernel
def attribute(filters: LinearFilters, i: int, z: Vec, codes: Ints, parts: Vec) -> None:
    """Fill parts (d,) with what each column adds to what learner i says of inputs z (C,)."""
    d = codes.shape[0]
    for j in range(d):
        part = filters.weights[i, j] * z[j] + filters.weights[i, d + j] * z[d + j]
        parts[j] = part + (filters.values[i, j, codes[j]] if codes[j] >= 0 else 0.0)


@kernel
def learn_columns(filters: LinearFilters, x: Vec, z: Vec, codes: Ints, parts: Vec) -> None:
    """Move what is known of columns towards x (d,), whose inputs z (C,) and codes (d,) are; parts
    (d,) is scratch.
    """
    filters.age[()] += 1.0
    rate = max(1.0 / filters.age[()], RECENT)
    for i in range(LEARNERS):
        attribute(filters, i, z, codes, parts)
        for j in range(x.shape[0]):
            filters.power[i, j] += rate * (parts[j] * parts[j] - filters.power[i, j])
    for j in range(x.shape[0]):
        if x[j] != x[j]:
            filters.gaps[j] = 1.0
            continue
        filters.seen[j] += 1.0
        rate = max(1.0 / filters.seen[j], MEMORY)
        mean, variance = filters.mean[j], filters.variance[j]
        off = x[j] - mean
        if filters.seen[j] > SETTLED and variance > 0.0:  # what was 0 so far tells no size
            most = OUTLYING * math.sqrt(variance) + FLAT * abs(mean)
            off = min(max(off, -most), most)
        filters.mean[j] = mean + rate * off
        filters.variance[j] = variance + rate * ((1.0 - rate) * off * off - variance)
