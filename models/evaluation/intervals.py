"""Prediction intervals as events stream by: how far from a prediction its label will lie.

Conformal prediction online: the tails of the residuals `label - prediction`, both made before the
event was learned, are followed by quantile tracking, each side for itself. A tail that was missed
moves out by a step times its level, one that held moves in by a step times the rest, so over T
events the share of misses is what was asked for but for (last - first place) / (step * T), whatever
the stream does: noise of any kind, a drift, a model that is wrong.

Tails are followed in units of a local scale, so that they need not move when only the scale does:
three running scales of different speed, mixed by how likely each made the residuals so far, times
a tilt that says how the scale grows with the prediction.

Gibbs, Candes, Adaptive Conformal Inference Under Distribution Shift, 2021 (equation 2);
Angelopoulos, Candes, Tibshirani, Conformal PID Control for Time Series Prediction, 2023 (quantile
tracking, equation 3); Herbster, Warmuth, Tracking the Best Expert, 1998 (fixed share, the mixture).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from kaboost.models.kernels.jit import inlined, kernel
from kaboost.models.types import LABEL_LIMIT, Mat, ModelError, Vec

LEVELS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99)  # tracked; between two it is interpolated
FIRST = 20  # events before anything is said: their median residual is the first scale
START = (0.51, 0.60, 0.70, 0.81, 0.96, 1.08, 1.21, 1.29)  # bends of Gaussian tails
STEP = 0.004  # of a bend, once settled
SETTLED = 2700  # events until the first, larger steps have come down to it
RATES = (0.05, 0.01, 0.0015)  # of the scales' steps: memories of about 20, 100 and 700 events
FREEDOM = 5.0  # Student's t that residuals are judged by: of outliers it minds only the number
SHARE = 1e-4  # of the mixture that is dealt out anew every event
APART = 8.0  # a slower scale stays within this factor of the quicker one: it has less to catch up
FLOOR = 0.125  # of the typical residual: a smaller one counts as this, or zeros would win the scale
RECENT = 0.01  # of the typical residual's mean
LEAP = 10.0  # one residual counts in it as at most this many typical ones
TILT = 0.003  # of a step of the tilt
SPREAD = 0.001  # of the predictions' mean and variance
HEAVIEST = 4.0  # an importance counts as at most this many mean ones
DECAY = 0.999  # of the coverage: a memory of about a thousand events

TAILS = tuple((1.0 - level) / 2.0 for level in LEVELS)
DEPTHS = tuple(-math.log(1.0 - level) for level in LEVELS)  # exponential tails are straight in it


class Intervals(NamedTuple):
    """What was seen of the residuals. A tail reaches scale * bend * (1 + |bend|): linear near the
    prediction, quadratic far out, where steps have to be longer.
    """

    bends: Mat  # (2, 8) below and above, by level
    scales: Vec  # (3,) of the residuals, the quickest first
    shares: Vec  # (3,) of the scales in their mixture
    typical: Vec  # () mean residual, without outliers
    said: Vec  # (2,) mean and variance of the predictions
    tilt: Vec  # () growth of the log-scale by a standard deviation of the prediction
    weight: Vec  # () mean importance
    first: Vec  # (20,) sorted |residuals| of the first events
    events: Vec  # () of positive weight
    covered: Vec  # (8,) decayed weight of labels that the interval of a level held
    seen: Vec  # () decayed weight of all labels that had intervals

    @property
    def coverage(self) -> Vec:
        """Share of labels inside, of about the last thousand, (8,); nan before any interval."""
        with np.errstate(invalid="ignore"):
            return np.asarray(np.divide(self.covered, self.seen), dtype=np.float64)


def intervals() -> Intervals:
    """Return intervals that have seen no event."""
    return Intervals(
        bends=np.array([START, START]),
        scales=np.zeros(len(RATES)),
        shares=np.full(len(RATES), 1.0 / len(RATES)),
        typical=np.zeros(()),
        said=np.zeros(2),
        tilt=np.zeros(()),
        weight=np.zeros(()),
        first=np.zeros(FIRST),
        events=np.zeros(()),
        covered=np.zeros(len(LEVELS)),
        seen=np.zeros(()),
    )


def watch_many(seen: Intervals, said: Vec, y: Vec, w: Vec) -> None:
    """Learn from events in stream order how far labels lie from what was said.

    Parameters
    ----------
    seen
        Moves in place.
    said
        Predictions made before each event was learned, (B,).
    y
        Labels, (B,).
    w
        Importances, (B,); only their ratios count, and 0 leaves an event out.

    Examples
    --------
    >>> seen = intervals()
    >>> watch_many(seen, np.zeros(200), np.tile([-1.0, 1.0], 100), np.ones(200))
    >>> low, high = bounds(seen, np.array([5.0]), 0.9)[0]
    >>> bool(low <= 4.0 and 6.0 <= high)
    True
    """
    _watch(seen, said, y, w, np.empty((2, len(LEVELS))))


def bounds(seen: Intervals, said: Vec, level: float) -> Mat:
    """Return low and high (B, 2) around predictions (B,); infinite before 20 events.

    Raises
    ------
    ModelError
        For a level below 0.5 or above 0.99: rarer misses could not be followed through a drift.
    """
    if not _is_level(level):
        raise ModelError(
            f"interval: {level!r} is not a level from {LEVELS[0]} to {LEVELS[-1]}; 0.9 holds nine "
            "labels of ten"
        )
    found = np.empty((len(said), 2))
    if seen.events < FIRST:
        found[:] = -np.inf, np.inf
        return found
    ends = np.empty((2, len(LEVELS)))
    _reach(seen, ends)
    depth = -math.log(1.0 - level)
    low, high = (float(np.interp(depth, DEPTHS, side)) for side in ends)
    _surround(seen, said, low, high, found)
    return found


def _is_level(level: object) -> bool:
    number = isinstance(level, int | float | np.floating) and not isinstance(level, bool)
    return number and bool(LEVELS[0] <= level <= LEVELS[-1])  # type: ignore[operator] # a number


@kernel
def _watch(seen: Intervals, said: Vec, y: Vec, w: Vec, ends: Mat) -> None:
    for k in range(y.shape[0]):
        if w[k] > 0.0:
            weight = _relative(seen, w[k])
            p = min(max(said[k], -LABEL_LIMIT), LABEL_LIMIT)
            place = _place(seen, p)
            r = (y[k] - said[k]) / math.exp(seen.tilt[()] * place)
            if seen.events[()] >= FIRST:
                _check(seen, r, weight, ends)
            if r == r:  # else the model ran away: it was wrong, and there is nothing to learn
                r = min(max(r, -LABEL_LIMIT), LABEL_LIMIT)
                _learn(seen, r, place, weight)
                _spread(seen, p)
                seen.events[()] += 1.0


@inlined
def _learn(seen: Intervals, r: float, place: float, weight: float) -> None:
    """Learn a residual r, in units of the stretch at that place."""
    if seen.events[()] < FIRST:
        _gather(seen, abs(r))
    else:
        scale = _mixed(seen)
        _bend(seen, r, scale, weight)
        _lean(seen, abs(r), place, scale, weight)
        _rescale(seen, abs(r), weight)


# The mean over all events at first, then over about the last thousand.
@inlined
def _relative(seen: Intervals, w: float) -> float:
    """Return an importance w > 0 in units of the mean one, which it moves."""
    n = float(seen.events[()])
    mean = float(seen.weight[()]) if n > 0.0 else w
    mean += max(1.0 / (n + 1.0), 0.001) * (min(w, HEAVIEST * mean) - mean)
    seen.weight[()] = mean
    return min(w / mean, HEAVIEST)


@inlined
def _place(seen: Intervals, p: float) -> float:
    """Return where a prediction lies among those of before, in standard deviations up to 3."""
    deviation = math.sqrt(seen.said[1])
    return min(max((p - float(seen.said[0])) / deviation, -3.0), 3.0) if deviation > 0.0 else 0.0


@inlined
def _mixed(seen: Intervals) -> float:
    scale = 0.0
    for k in range(len(RATES)):
        scale += seen.shares[k] * seen.scales[k]
    return scale


@inlined
def _reached(bend: float, scale: float) -> float:
    return scale * bend * (1.0 + abs(bend))


@kernel
def _reach(seen: Intervals, ends: Mat) -> None:
    """Fill ends (2, 8) with where the interval of each level begins and ends, 0 the prediction;
    wider levels hold narrower ones even where their tails have crossed.
    """
    scale = _mixed(seen)
    low = high = 0.5 * (_reached(seen.bends[1, 0], scale) - _reached(seen.bends[0, 0], scale))
    for j in range(len(LEVELS)):
        low = min(low, -_reached(seen.bends[0, j], scale))
        high = max(high, _reached(seen.bends[1, j], scale))
        ends[0, j], ends[1, j] = low, high


@kernel
def _surround(seen: Intervals, said: Vec, low: float, high: float, found: Mat) -> None:
    for k in range(said.shape[0]):
        stretch = math.exp(seen.tilt[()] * _place(seen, said[k]))
        found[k, 0] = said[k] + stretch * low
        found[k, 1] = said[k] + stretch * high


@inlined
def _check(seen: Intervals, r: float, weight: float, ends: Mat) -> None:
    _reach(seen, ends)
    seen.seen[()] = DECAY * seen.seen[()] + weight
    for j in range(len(LEVELS)):
        inside = weight if ends[0, j] <= r <= ends[1, j] else 0.0
        seen.covered[j] = DECAY * seen.covered[j] + inside


@kernel
def _gather(seen: Intervals, size: float) -> None:
    """Put one of the first residuals in its place; their median withstands outliers."""
    k = int(seen.events[()])
    while k > 0 and seen.first[k - 1] > size:
        seen.first[k] = seen.first[k - 1]
        k -= 1
    seen.first[k] = size
    if seen.events[()] == FIRST - 1:
        _restart(seen, 0.5 * (seen.first[FIRST // 2 - 1] + seen.first[FIRST // 2]))


@kernel
def _restart(seen: Intervals, size: float) -> None:
    seen.typical[()] = size
    for k in range(len(RATES)):
        seen.scales[k] = size


# A residual that lies on a tail moves nothing: so a constant label leaves the bends alone.
@inlined
def _bend(seen: Intervals, r: float, scale: float, weight: float) -> None:
    n = float(seen.events[()])
    step = weight * (STEP if n >= SETTLED else (n + 10.0) ** -0.7)
    for side in range(2):
        outward = r if side == 1 else -r
        for j in range(len(LEVELS)):
            reached = _reached(seen.bends[side, j], scale)
            missed = 1.0 if outward > reached else 0.0
            apart = 0.0 if outward == reached else TAILS[j]
            seen.bends[side, j] += step * (missed - apart)


@inlined
def _tail(x: float) -> float:
    """Return 1 / (1 + x^2 / 5): its cube is the likelihood of a residual of x scales, and
    5 - 6 times it the slope of the log-likelihood in the log-scale, from -1 to 5.
    """
    x = min(x, 1e6)
    return FREEDOM / (FREEDOM + x * x)


@inlined
def _lean(seen: Intervals, size: float, place: float, scale: float, weight: float) -> None:
    if scale > 0.0:
        slope = FREEDOM - (FREEDOM + 1.0) * _tail(size / scale)
        moved = float(seen.tilt[()]) + weight * TILT * slope * place
        seen.tilt[()] = min(max(moved, -1.0), 1.0)


@inlined
def _rescale(seen: Intervals, size: float, weight: float) -> None:
    """Move scales and shares towards the residual's size, by its likelihood under each scale."""
    typical, unit = float(seen.typical[()]), float(seen.scales[0])
    if typical == 0.0:
        _restart(seen, size)
        return
    typical += RECENT * (min(size, LEAP * typical) - typical)
    seen.typical[()] = typical
    size = max(size, FLOOR * typical)
    total = 0.0
    for k in range(len(RATES)):
        scale = float(seen.scales[k])
        tail = _tail(size / scale)
        seen.shares[k] *= tail * tail * tail * (unit / scale)
        total += seen.shares[k]
        scale *= 1.0 + weight * RATES[k] * (FREEDOM - (FREEDOM + 1.0) * tail)
        if k > 0:
            near = float(seen.scales[k - 1])
            scale = min(max(scale, near / APART), near * APART)
        seen.scales[k] = scale
    kept = (1.0 - SHARE) / total
    for k in range(len(RATES)):
        seen.shares[k] = kept * seen.shares[k] + SHARE / len(RATES)


@inlined
def _spread(seen: Intervals, p: float) -> None:
    """Move mean and variance of the predictions; once settled one counts as at most 5 deviations
    away.
    """
    n = float(seen.events[()])
    rate = max(SPREAD, 1.0 / (n + 1.0))
    away = p - float(seen.said[0])
    if n >= FIRST:
        most = 5.0 * math.sqrt(seen.said[1])
        away = min(max(away, -most), most)
    seen.said[0] += rate * away
    seen.said[1] += rate * ((1.0 - rate) * away * away - seen.said[1])
