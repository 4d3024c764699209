"""Location, spread, usual loss and usual residual of the labels, as running means."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from kaboost.models.kernels.jit import inlined
from kaboost.models.reboosted.state import LOG_ODDS, NUMBERS, Records
from kaboost.models.types import Vec
from kaboost.models.verbs import newton_curvature, value_gradient_hessian

SLOW_RATE = 1e-3  # lowest rate an event of running means: a memory of 1,000 events
FAST_RATE = 2e-3  # of squared step and residual: 500 events
MAX_STEP_SQUARES = 25.0  # a squared Newton step counts as at most this many usual ones ...
STEP_CAP_AFTER = 50  # ... after so many events
MIN_RESIDUAL = 1e-12  # in units of the label
MAX_RESIDUAL = 1e30
TINY = 1e-300  # keeps divisors positive


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
        ],
    )
)


class LabelScale(NamedTuple):
    """Running means over the last 500 to 1,000 labels, all of labels less `offset`."""

    mean: Vec  # () of labels; of labels in {0, 1} where scores are log-odds
    deviation: Vec  # () mean absolute distance from `mean`, of numbers only
    mean_loss: Vec  # () loss of predicting the mean
    squared_step: Vec  # () squared Newton step at the score of the first stacking filter
    residual: Vec  # () mean absolute residual of that filter
    curvature: Vec  # () loss curvature at its score
    offset: Vec  # () subtracted from labels before learning, added to scores; 0 but for numbers
    shift: Records  # (1,) of LABEL_SHIFT


def label_scale() -> LabelScale:
    """Return the scale before any label."""
    fields: dict[str, Any] = {name: np.zeros(()) for name in LabelScale._fields}
    return LabelScale(**{**fields, "shift": np.zeros(1, LABEL_SHIFT)})


@inlined
def update_label_scale(
    scale: LabelScale, loss: Any, y: float, link: int, t: int, first: float
) -> None:
    """Move the running means towards label y of event t; `first` is the first filter's score."""
    slow, fast = max(1.0 / (t + 1.0), SLOW_RATE), max(1.0 / (t + 1.0), FAST_RATE)
    v, _, _ = value_gradient_hessian(loss, float(scale.mean[()]), y)
    scale.mean_loss[()] += slow * (v - scale.mean_loss[()])
    scale.mean[()] += slow * ((0.5 + 0.5 * y if link == LOG_ODDS else y) - scale.mean[()])
    _, g, _ = value_gradient_hessian(loss, first, y)
    h = newton_curvature(loss, first, y, residual_unit(scale))
    step = g / h
    square = step * step
    if t > STEP_CAP_AFTER:
        square = min(square, MAX_STEP_SQUARES * scale.squared_step[()])
    scale.squared_step[()] = max(
        scale.squared_step[()] + fast * (square - scale.squared_step[()]), TINY
    )
    scale.residual[()] += fast * (min(abs(first - y), MAX_RESIDUAL) - scale.residual[()])
    scale.curvature[()] += slow * (h - scale.curvature[()])


@inlined
def update_label_means(means: Vec, rates: Vec, y: float, link: int) -> None:
    """Move the decayed means (5,) of the labels towards label y of an event that was learned."""
    seen = 0.5 + 0.5 * y if link == LOG_ODDS else y
    for j in range(means.shape[0]):
        means[j] += rates[j] * (seen - means[j])


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
