"""Location, spread, usual loss and usual residual of the labels, as running means."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from kaboost.models.features.lateness import MAX_LATENESS, next_lateness
from kaboost.models.kernels.jit import inlined
from kaboost.models.reboosted.stacking import MAX_LOG_ODDS
from kaboost.models.reboosted.state import LOG_ODDS, LOGARITHMS, NUMBERS, Records
from kaboost.models.types import Loss, Mat, Vec
from kaboost.models.verbs import newton_curvature, value_gradient_hessian

SLOW_RATE = 1e-3  # lowest rate an event of running means: a memory of 1,000 events
FAST_RATE = 2e-3  # of squared step and residual: 500 events
MAX_STEP_SQUARES = 25.0  # a squared Newton step counts as at most this many usual ones ...
STEP_CAP_AFTER = 50  # ... after so many events
MIN_RESIDUAL = 1e-12  # in units of the label
MAX_RESIDUAL = 1e30
PEAKS, PEAK_EVENTS = 8, 1024  # stretches of events whose largest labels are known
MAX_PEAK_RATIO = 10.0  # a predicted mean is at most this many times the largest label
PEAK_MARGIN = 1e-9  # of its logarithm, for rounding
LOG_RANGE = 16.0  # a score is at most so far below the logarithm of the largest label
TINY = 1e-300  # keeps divisors positive
WEIGHT_RATE = 1e-3  # lowest rate of the running mean importance, an event
MAX_WEIGHT_RATIO = 100.0  # mean importances: a larger one counts as this in their mean


# The record of a possible shift of all labels.
LABEL_SHIFT = np.dtype(
    (
        np.record,
        [
            ("count", np.float64),  # consecutive residuals off by about the same
            ("level", np.float64),  # by how much
            ("bias", np.float64),  # running mean residual without a shift
            ("deviation", np.float64),  # of the labels before the shift
            ("moved_at", np.float64),  # event at which the offset last moved
            ("last_move", np.float64),  # by how much
            ("blocked_until", np.float64),  # first event that may begin a new shift
            ("paused_until", np.float64),  # the same, unless labels are outliers
            ("home", np.float64),  # the offset before it last moved
            ("away", np.float64),  # 1 from such a move to the next, 2 where it was to a stuck label
            ("label", np.float64),  # last label of the possible shift, as it came
            ("different", np.float64),  # its labels that were not equal to the one before
            ("stuck_moves", np.float64),  # moves to labels that were equal
            ("inflation", np.float64),  # factor on the outliers' distance, less 1; robust losses
        ],
    )
)


class LabelScale(NamedTuple):
    """Running means over the last 500 to 1,000 labels, all of labels times `factor` less `offset`.

    Kernels see labels and scores times the factor only.
    """

    mean: Vec  # () of labels; of labels in {0, 1} where scores are log-odds
    deviation: Vec  # () mean absolute distance from `mean`, of numbers only
    mean_loss: Vec  # () loss of predicting the mean, less the least one for logarithms
    squared_step: Vec  # () squared Newton step at the score of the first stacking filter
    # () mean absolute residual of that filter; where scores are logarithms, its mean deviance
    residual: Vec
    curvature: Vec  # () loss curvature at its score
    offset: Vec  # () subtracted from labels before learning, added to scores; 0 but for numbers
    shift: Records  # (1,) of LABEL_SHIFT
    mean_weight: Vec  # () running mean importance
    lateness: Vec  # () running mean of how many labels are learned from a prediction to its label
    peaks: Vec  # (8,) largest labels of the last 8 * PEAK_EVENTS, where scores are logarithms
    factor: Vec  # () a power of 2 that labels are multiplied by; 1 unless their size is extreme


def label_scale() -> LabelScale:
    """Return the scale before any label."""
    fields: dict[str, Any] = {name: np.zeros(()) for name in LabelScale._fields}
    fields |= {"shift": np.zeros(1, LABEL_SHIFT), "peaks": np.zeros(PEAKS), "factor": np.ones(())}
    return LabelScale(**fields)


@inlined
def relative_weight(mean_weight: Vec, w: float, n: float) -> float:
    """Return an importance w > 0 in units of the mean one (), and update the mean, of n importances
    before: what is learned depends on their ratios alone.
    """
    mean = float(mean_weight[()]) if n > 0.0 else w
    mean += max(1.0 / (n + 1.0), WEIGHT_RATE) * (min(w, MAX_WEIGHT_RATIO * mean) - mean)
    mean_weight[()] = mean
    return w / mean


@inlined
def update_label_scale(
    scale: LabelScale, loss: Loss, y: float, link: int, t: int, first: float
) -> None:
    """Move the running means towards label y of event t; `first` is the first filter's score."""
    slow, fast = max(1.0 / (t + 1.0), SLOW_RATE), max(1.0 / (t + 1.0), FAST_RATE)
    counts, mean = link == LOGARITHMS, float(scale.mean[()])
    v, _, _ = value_gradient_hessian(loss, math.log(max(mean, TINY)) if counts else mean, y)
    least = least_loss(y, link)
    scale.mean_loss[()] += slow * (v - least - scale.mean_loss[()])
    scale.mean[()] += slow * ((0.5 + 0.5 * y if link == LOG_ODDS else y) - scale.mean[()])
    v, g, _ = value_gradient_hessian(loss, first, y)
    h = newton_curvature(loss, first, y, residual_unit(scale))
    step = g / h
    square = step * step
    if t > STEP_CAP_AFTER:
        square = min(square, MAX_STEP_SQUARES * scale.squared_step[()])
    scale.squared_step[()] = max(
        scale.squared_step[()] + fast * (square - scale.squared_step[()]), TINY
    )
    residual = v - least if counts else abs(first - y)
    scale.residual[()] += fast * (min(residual, MAX_RESIDUAL) - scale.residual[()])
    scale.curvature[()] += slow * (h - scale.curvature[()])
    if counts:
        _update_peaks(scale, y, t)


@inlined
def least_loss(y: float, link: int) -> float:
    """Return the smallest possible loss of a label where scores are logarithms, else 0."""
    return y - y * math.log(y) if link == LOGARITHMS and y > 0.0 else 0.0


@inlined
def _update_peaks(scale: LabelScale, y: float, t: int) -> None:
    """Update the largest labels with that of event t."""
    i = t // PEAK_EVENTS % PEAKS
    scale.peaks[i] = y if t % PEAK_EVENTS == 0 else max(scale.peaks[i], y)


@inlined
def score_bounds(scale: LabelScale, link: int) -> tuple[float, float]:
    """Return the least and the largest score where scores are no numbers.

    Without the bounds one label far above the predicted mean, whose Newton step is as many times
    too long, could make the next mean any number.
    """
    if link == LOG_ODDS:
        return -MAX_LOG_ODDS, MAX_LOG_ODDS
    peak = 0.0
    for i in range(PEAKS):
        peak = max(peak, float(scale.peaks[i]))
    if peak == 0.0:
        return -LOG_RANGE, 0.0
    level = math.log(peak)
    return level - LOG_RANGE, level + math.log(MAX_PEAK_RATIO) - PEAK_MARGIN


@inlined
def update_label_means(means: Vec, rates: Vec, y: float, link: int) -> None:
    """Move the decayed means (5,) of the labels towards label y of an event that was learned."""
    seen = 0.5 + 0.5 * y if link == LOG_ODDS else y
    for j in range(means.shape[0]):
        means[j] += rates[j] * (seen - means[j])


@inlined
def follows_labels(scale: LabelScale, means: Vec, captured: Mat, k: int, t: int) -> bool:
    """Return whether the label means (5,) move with the label of event k, the t-th to be learned.

    Where labels come much later they say little, and much that is wrong: with labels of one class
    later than those of the other, they tell the class of what is learned, not of what is served.
    They are 0 then.
    """
    if captured.shape[1] == 0 and scale.lateness[()] == 0.0:
        return True
    late = t - captured[k, captured.shape[1] - 1] if captured.shape[1] > 0 else 0.0
    scale.lateness[()] = next_lateness(float(scale.lateness[()]), late, float(t))
    if scale.lateness[()] <= MAX_LATENESS:
        return True
    for j in range(means.shape[0]):
        means[j] = 0.0
    return False


@inlined
def residual_variance(scale: LabelScale, link: int) -> float:
    """Return the variance of residuals that the stacking filters assume, never 0."""
    if link != NUMBERS:
        return 1.0
    spread = min(float(scale.deviation[()]), 1.0)
    return max(float(scale.squared_step[()]), 1e-12 * spread * spread, 1e-24)


@inlined
def residual_unit(scale: LabelScale) -> float:
    """Return the usual size of a residual, never 0."""
    return max(float(scale.residual[()]), MIN_RESIDUAL)
