"""Prediction intervals by online conformal prediction.

Quantile tracking follows the tails of the residuals `label - prediction`, both from before the
event was learned, on both sides separately. A tail that was missed moves out by a step times its
level; one that held moves in by a step times the rest. So over T events the miss rate differs from
the level by (last - first multiplier) / (step * T), whatever the noise, the drift or the model.

Tails are in units of a local scale, so that they stay when only the scale changes. The local scale
is a mixture of three running scales of different speed, weighted by their likelihoods, times a
tilt: the growth of the scale with the prediction.

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

LEVELS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99)  # tracked; between them interpolated
WARMUP_EVENTS = 20  # before the first interval: their median residual is the first scale
GAUSSIAN_MULTIPLIERS = (0.51, 0.60, 0.70, 0.81, 0.96, 1.08, 1.21, 1.29)  # of Gaussian tails
MULTIPLIER_STEP = 0.004  # of a multiplier after SETTLED_EVENTS
SETTLED_EVENTS = 2700  # until the larger first steps have fallen to MULTIPLIER_STEP
SCALE_RATES = (0.05, 0.01, 0.0015)  # of the scales: memories of 20, 100 and 700 events
T_DEGREES = 5.0  # of freedom of Student's t, the likelihood of residuals: it bounds outliers
FIXED_SHARE = 1e-4  # of the mixture: redistributed at every event
SCALE_RATIO_LIMIT = 8.0  # of a scale to the next faster one, so that it catches up
RESIDUAL_FLOOR = 0.125  # typical residuals: smaller ones count as this, so zeros do not win
TYPICAL_RATE = 0.01  # of the typical residual's running mean
TYPICAL_CLIP = 10.0  # typical residuals: larger ones are clipped to this in their mean
TILT_RATE = 0.003  # of a step of the tilt
MOMENT_RATE = 0.001  # of the predictions' mean and variance
WEIGHT_RATIO_LIMIT = 4.0  # mean importances: larger ones are clipped to this
COVERAGE_DECAY = 0.999  # per event: a memory of about a thousand events

TAILS = tuple((1.0 - level) / 2.0 for level in LEVELS)
DEPTHS = tuple(-math.log(1.0 - level) for level in LEVELS)  # exponential tails are straight in it


class Intervals(NamedTuple):
    """State of the residuals.

    A tail of multiplier b is scale * b * (1 + |b|): linear near the prediction, quadratic far out,
    where steps have to be longer.
    """

    quantile_multipliers: Mat  # (2, 8) below and above, by level
    scales: Vec  # (3,) of the residuals, the fastest first
    shares: Vec  # (3,) weights of the scales in the mixture
    typical_residual: Vec  # () mean residual, without outliers
    prediction_moments: Vec  # (2,) mean and variance of the predictions
    tilt: Vec  # () growth of the log-scale per standard deviation of the prediction
    mean_weight: Vec  # () mean importance
    first_residuals: Vec  # (20,) sorted |residuals| of the first events
    events: Vec  # () of positive weight
    covered: Vec  # (8,) decayed weight of labels inside the interval, by level
    coverage_weight: Vec  # () decayed weight of all labels that had intervals

    @property
    def coverage(self) -> Vec:
        """Part of about the last thousand labels that lay inside, by level (8,); nan before any."""
        with np.errstate(invalid="ignore"):
            return np.asarray(np.divide(self.covered, self.coverage_weight), dtype=np.float64)


def intervals() -> Intervals:
    """Return the intervals before any event."""
    return Intervals(
        quantile_multipliers=np.array([GAUSSIAN_MULTIPLIERS, GAUSSIAN_MULTIPLIERS]),
        scales=np.zeros(len(SCALE_RATES)),
        shares=np.full(len(SCALE_RATES), 1.0 / len(SCALE_RATES)),
        typical_residual=np.zeros(()),
        prediction_moments=np.zeros(2),
        tilt=np.zeros(()),
        mean_weight=np.zeros(()),
        first_residuals=np.zeros(WARMUP_EVENTS),
        events=np.zeros(()),
        covered=np.zeros(len(LEVELS)),
        coverage_weight=np.zeros(()),
    )


def update_many(seen: Intervals, predicted: Vec, y: Vec, w: Vec) -> None:
    """Learn the residuals of events in stream order.

    Parameters
    ----------
    seen
        Updated in position.
    predicted
        Predictions made before each event was learned, (B,).
    y
        Labels, (B,).
    w
        Importances, (B,); only their ratios matter, and events of weight 0 are skipped.

    Examples
    --------
    >>> seen = intervals()
    >>> update_many(seen, np.zeros(200), np.tile([-1.0, 1.0], 100), np.ones(200))
    >>> low, high = bounds(seen, np.array([5.0]), 0.9)[0]
    >>> bool(low <= 4.0 and 6.0 <= high)
    True
    """
    _update_many(seen, predicted, y, w, np.empty((2, len(LEVELS))))


def bounds(seen: Intervals, predicted: Vec, level: float) -> Mat:
    """Return low and high (B, 2) around predictions (B,); infinite before 20 events.

    Raises
    ------
    ModelError
        For a level below 0.5 or above 0.99: rarer misses cannot be tracked through drift.
    """
    if not _is_level(level):
        raise ModelError(
            f"interval: {level!r} is not a level from {LEVELS[0]} to {LEVELS[-1]}; at 0.9 nine "
            "labels of ten lie inside"
        )
    ends = np.empty((len(predicted), 2))
    if seen.events < WARMUP_EVENTS:
        ends[:] = -np.inf, np.inf
        return ends
    quantiles = np.empty((2, len(LEVELS)))
    _quantiles(seen, quantiles)
    depth = -math.log(1.0 - level)
    low, high = (float(np.interp(depth, DEPTHS, side)) for side in quantiles)
    _fill_bounds(seen, predicted, low, high, ends)
    return ends


def _is_level(level: object) -> bool:
    number = isinstance(level, int | float | np.floating) and not isinstance(level, bool)
    return number and bool(LEVELS[0] <= level <= LEVELS[-1])  # type: ignore[operator] # a number


@kernel
def _update_many(seen: Intervals, predicted: Vec, y: Vec, w: Vec, quantiles: Mat) -> None:
    for k in range(y.shape[0]):
        if w[k] > 0.0:
            weight = _relative_weight(seen, w[k])
            p = min(max(predicted[k], -LABEL_LIMIT), LABEL_LIMIT)
            position = _standardise(seen, p)
            r = (y[k] - predicted[k]) / math.exp(seen.tilt[()] * position)
            if seen.events[()] >= WARMUP_EVENTS:
                _update_coverage(seen, r, weight, quantiles)
            if r == r:  # else the model has diverged: a miss, without a residual to learn
                r = min(max(r, -LABEL_LIMIT), LABEL_LIMIT)
                _update_residual(seen, r, position, weight)
                _update_moments(seen, p)
                seen.events[()] += 1.0


@inlined
def _update_residual(seen: Intervals, r: float, position: float, weight: float) -> None:
    """Learn a residual r, divided by the tilt at its prediction."""
    if seen.events[()] < WARMUP_EVENTS:
        _insert_residual(seen, abs(r))
    else:
        scale = _mixed_scale(seen)
        _update_multipliers(seen, r, scale, weight)
        _update_tilt(seen, abs(r), position, scale, weight)
        _update_scales(seen, abs(r), weight)


# The mean is over all events at first, then over about the last thousand.
@inlined
def _relative_weight(seen: Intervals, w: float) -> float:
    """Return an importance w > 0 in units of the mean importance, and update the mean."""
    n = float(seen.events[()])
    mean = float(seen.mean_weight[()]) if n > 0.0 else w
    mean += max(1.0 / (n + 1.0), 0.001) * (min(w, WEIGHT_RATIO_LIMIT * mean) - mean)
    seen.mean_weight[()] = mean
    return min(w / mean, WEIGHT_RATIO_LIMIT)


@inlined
def _standardise(seen: Intervals, p: float) -> float:
    """Return a prediction in standard deviations from the mean of earlier ones, up to 3."""
    deviation = math.sqrt(seen.prediction_moments[1])
    return (
        min(max((p - float(seen.prediction_moments[0])) / deviation, -3.0), 3.0)
        if deviation > 0.0
        else 0.0
    )


@inlined
def _mixed_scale(seen: Intervals) -> float:
    scale = 0.0
    for k in range(len(SCALE_RATES)):
        scale += seen.shares[k] * seen.scales[k]
    return scale


@inlined
def _quantile(multiplier: float, scale: float) -> float:
    return scale * multiplier * (1.0 + abs(multiplier))


@kernel
def _quantiles(seen: Intervals, quantiles: Mat) -> None:
    """Fill quantiles (2, 8) with both ends of the intervals, relative to the prediction.

    Wider levels contain narrower ones even where their tails have crossed.
    """
    scale = _mixed_scale(seen)
    multipliers = seen.quantile_multipliers
    low = high = 0.5 * (_quantile(multipliers[1, 0], scale) - _quantile(multipliers[0, 0], scale))
    for j in range(len(LEVELS)):
        low = min(low, -_quantile(multipliers[0, j], scale))
        high = max(high, _quantile(multipliers[1, j], scale))
        quantiles[0, j], quantiles[1, j] = low, high


@kernel
def _fill_bounds(seen: Intervals, predicted: Vec, low: float, high: float, ends: Mat) -> None:
    for k in range(predicted.shape[0]):
        stretch = math.exp(seen.tilt[()] * _standardise(seen, predicted[k]))
        ends[k, 0] = predicted[k] + stretch * low
        ends[k, 1] = predicted[k] + stretch * high


@inlined
def _update_coverage(seen: Intervals, r: float, weight: float, quantiles: Mat) -> None:
    _quantiles(seen, quantiles)
    seen.coverage_weight[()] = COVERAGE_DECAY * seen.coverage_weight[()] + weight
    for j in range(len(LEVELS)):
        inside = weight if quantiles[0, j] <= r <= quantiles[1, j] else 0.0
        seen.covered[j] = COVERAGE_DECAY * seen.covered[j] + inside


@kernel
def _insert_residual(seen: Intervals, size: float) -> None:
    """Insert one of the first residuals in order; their median is robust to outliers."""
    k = int(seen.events[()])
    while k > 0 and seen.first_residuals[k - 1] > size:
        seen.first_residuals[k] = seen.first_residuals[k - 1]
        k -= 1
    seen.first_residuals[k] = size
    if seen.events[()] == WARMUP_EVENTS - 1:
        _reset_scales(
            seen,
            0.5
            * (
                seen.first_residuals[WARMUP_EVENTS // 2 - 1]
                + seen.first_residuals[WARMUP_EVENTS // 2]
            ),
        )


@kernel
def _reset_scales(seen: Intervals, size: float) -> None:
    seen.typical_residual[()] = size
    for k in range(len(SCALE_RATES)):
        seen.scales[k] = size


# A residual on a tail moves nothing: so a constant label leaves the multipliers unchanged.
@inlined
def _update_multipliers(seen: Intervals, r: float, scale: float, weight: float) -> None:
    n = float(seen.events[()])
    step = weight * (MULTIPLIER_STEP if n >= SETTLED_EVENTS else (n + 10.0) ** -0.7)
    for side in range(2):
        outward = r if side == 1 else -r
        for j in range(len(LEVELS)):
            quantile = _quantile(seen.quantile_multipliers[side, j], scale)
            missed = 1.0 if outward > quantile else 0.0
            miss_rate = 0.0 if outward == quantile else TAILS[j]
            seen.quantile_multipliers[side, j] += step * (missed - miss_rate)


@inlined
def _t_tail(x: float) -> float:
    """Return t = 1 / (1 + x^2 / 5) for a residual of x scales.

    Its likelihood is t^3; the derivative of the log-likelihood in the log-scale is 5 - 6 t.
    """
    x = min(x, 1e6)
    return T_DEGREES / (T_DEGREES + x * x)


@inlined
def _update_tilt(
    seen: Intervals, size: float, position: float, scale: float, weight: float
) -> None:
    if scale > 0.0:
        derivative = T_DEGREES - (T_DEGREES + 1.0) * _t_tail(size / scale)
        moved = float(seen.tilt[()]) + weight * TILT_RATE * derivative * position
        seen.tilt[()] = min(max(moved, -1.0), 1.0)


@inlined
def _update_scales(seen: Intervals, size: float, weight: float) -> None:
    """Update scales and mixture weights by the likelihood of the residual under every scale."""
    typical, unit = float(seen.typical_residual[()]), float(seen.scales[0])
    if typical == 0.0:
        _reset_scales(seen, size)
        return
    typical += TYPICAL_RATE * (min(size, TYPICAL_CLIP * typical) - typical)
    seen.typical_residual[()] = typical
    size = max(size, RESIDUAL_FLOOR * typical)
    total = 0.0
    for k in range(len(SCALE_RATES)):
        scale = float(seen.scales[k])
        tail = _t_tail(size / scale)
        seen.shares[k] *= tail * tail * tail * (unit / scale)
        total += seen.shares[k]
        scale *= 1.0 + weight * SCALE_RATES[k] * (T_DEGREES - (T_DEGREES + 1.0) * tail)
        if k > 0:
            faster = float(seen.scales[k - 1])
            scale = min(max(scale, faster / SCALE_RATIO_LIMIT), faster * SCALE_RATIO_LIMIT)
        seen.scales[k] = scale
    kept = (1.0 - FIXED_SHARE) / total
    for k in range(len(SCALE_RATES)):
        seen.shares[k] = kept * seen.shares[k] + FIXED_SHARE / len(SCALE_RATES)


@inlined
def _update_moments(seen: Intervals, p: float) -> None:
    """Update mean and variance of the predictions; later ones are clipped to 5 deviations."""
    n = float(seen.events[()])
    rate = max(MOMENT_RATE, 1.0 / (n + 1.0))
    difference = p - float(seen.prediction_moments[0])
    if n >= WARMUP_EVENTS:
        limit = 5.0 * math.sqrt(seen.prediction_moments[1])
        difference = min(max(difference, -limit), limit)
    seen.prediction_moments[0] += rate * difference
    seen.prediction_moments[1] += rate * (
        (1.0 - rate) * difference * difference - seen.prediction_moments[1]
    )
