"""Calibration of a binary score as it streams by: a monotone piecewise-linear map, and how far to
trust it.

Fifteen knots at log-odds from -8 to 8 hold the calibrated log-odds; between two knots the map is a
straight line, beyond the last it is flat. Each label moves the two knots around its score by
AdaGrad; knots never cross, so the order of two scores never turns. What is served is a mixture of
the plain and the calibrated probability, weighed by their decayed log-losses.

Knots stand close at 0 and wide apart in the tails, about as sinh has them. Where many labels are
flipped and the rule behind them is sharp, the true map is a step at 0 between two even odds: knots
a whole log-odds apart cannot follow it, and knots half as far apart everywhere learn the tails
slower.

Duchi, Hazan, Singer, Adaptive Subgradient Methods, 2011; specification of reboosted trees, 2.3d,
whose knots stand evenly.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from kaboost.models.kernels.jit import kernel
from kaboost.models.kernels.numeric import log1pexp, sigmoid
from kaboost.models.types import Vec

POSITIVE_KNOTS = (0.4, 0.9, 1.5, 2.3, 3.5, 5.3, 8.0)
KNOT_LOG_ODDS = np.array(
    [-at for at in reversed(POSITIVE_KNOTS)] + [0.0, *POSITIVE_KNOTS]
)  # log-odds of the knots
KNOTS = len(KNOT_LOG_ODDS)
KNOT_RATE = 0.2  # of a knot's step
SQUARES_DECAY = 0.9995  # of the squared gradients that shorten a knot's steps
LOSS_DECAY = 0.999  # of the two log-losses
TRUST_SCALE = 0.5  # of a unit of log-loss, in the log-odds of trusting the map
MIN_PROBABILITY = 1e-12  # a probability served is at least this far from 0 and 1


class Calibration(NamedTuple):
    """State of the map."""

    knots: Vec  # (15,) calibrated log-odds at AT; they never decrease
    squares: Vec  # (15,) decayed sums of squared gradients
    losses: Vec  # (2,) decayed log-loss of the plain and of the calibrated probability


def calibration() -> Calibration:
    """Return the map that changes nothing."""
    return Calibration(KNOT_LOG_ODDS.copy(), np.zeros(KNOTS), np.zeros(2))


@kernel
def knot_position(z: float) -> tuple[int, float]:
    """Return the knot left of the log-odds z, and how far z lies towards the next, 0 to 1."""
    a, j = min(max(z, KNOT_LOG_ODDS[0]), KNOT_LOG_ODDS[KNOTS - 1]), 0
    for i in range(1, KNOTS - 1):
        j += a >= KNOT_LOG_ODDS[i]
    return j, (a - KNOT_LOG_ODDS[j]) / (KNOT_LOG_ODDS[j + 1] - KNOT_LOG_ODDS[j])


@kernel
def calibrated(knots: Vec, z: float) -> float:
    """Return the calibrated log-odds of the log-odds z, from knots (15,).

    Examples
    --------
    >>> mapped(calibration().knots, 0.25)
    0.25
    """
    j, rest = knot_position(z)
    return float(knots[j] + rest * (knots[j + 1] - knots[j]))


@kernel
def served_log_odds(c: Calibration, z: float) -> float:
    """Return the log-odds that are served for the log-odds z: those of the mixture."""
    trust = sigmoid(TRUST_SCALE * float(c.losses[0] - c.losses[1]))
    p = trust * sigmoid(calibrated(c.knots, z)) + (1.0 - trust) * sigmoid(z)
    p = min(max(p, MIN_PROBABILITY), 1.0 - MIN_PROBABILITY)
    return math.log(p / (1.0 - p))


@kernel
def calibrate(c: Calibration, z: float, y: float, w: float) -> None:
    """Learn that the log-odds z came with label y, 0 or 1, of importance w > 0."""
    u = 2.0 * y - 1.0
    image = calibrated(c.knots, z)
    c.losses[0] = LOSS_DECAY * c.losses[0] + w * log1pexp(-u * z)
    c.losses[1] = LOSS_DECAY * c.losses[1] + w * log1pexp(-u * image)
    j, rest = knot_position(z)
    slope = min(w, 1.0 / KNOT_RATE) * (sigmoid(image) - y)
    _move_knot(c, j, slope * (1.0 - rest))
    _move_knot(c, j + 1, slope * rest)
    _keep_monotone(c.knots, j, slope)


@kernel
def _move_knot(c: Calibration, j: int, g: float) -> None:
    c.squares[j] = SQUARES_DECAY * c.squares[j] + g * g
    c.knots[j] -= KNOT_RATE * g / math.sqrt(1.0 + c.squares[j])


# Both knots moved the same way and were in order before: each gives way to the one ahead of it.
@kernel
def _keep_monotone(knots: Vec, j: int, slope: float) -> None:
    if slope < 0.0:
        if j + 2 < KNOTS:
            knots[j + 1] = min(knots[j + 1], knots[j + 2])
        knots[j] = min(knots[j], knots[j + 1])
    else:
        if j > 0:
            knots[j] = max(knots[j], knots[j - 1])
        knots[j + 1] = max(knots[j + 1], knots[j])
