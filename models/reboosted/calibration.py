"""Online calibration of binary scores: a monotone piecewise-linear map, and a weight for it.

Fifteen knots at log-odds from -8 to 8 hold the calibrated log-odds; between two knots the map is
linear, beyond the last it is constant. Each label moves the two knots around its score by AdaGrad;
knots never cross, so the order of two scores never inverts. The served probability is a mixture of
the plain and the calibrated one, weighted by their decayed log-losses.

Knots are close at 0 and wide apart in the tails, about as sinh has them; they were tuned on
artificial streams with flipped labels (bench/README.md). Where many labels are flipped and the true
rule is sharp, the true map is a step at 0 between two log-odds near 0: knots a whole log-odds apart
cannot follow it, and knots half as far apart everywhere learn the tails more slowly.

Duchi, Hazan, Singer, Adaptive Subgradient Methods, 2011; specification of reboosted trees, 2.3d,
whose knots are equidistant.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from kaboost.models.kernels.jit import kernel
from kaboost.models.kernels.numeric import log1pexp, sigmoid
from kaboost.models.types import Vec

POSITIVE_KNOTS = (0.4, 0.9, 1.5, 2.3, 3.5, 5.3, 8.0)  # log-odds
KNOT_LOG_ODDS = np.array([-at for at in reversed(POSITIVE_KNOTS)] + [0.0, *POSITIVE_KNOTS])
KNOTS = len(KNOT_LOG_ODDS)
KNOT_RATE = 0.2  # learning rate of a knot, in log-odds
SQUARES_DECAY = 0.9995  # of AdaGrad's squared gradients, an event that moves the knot
LOSS_DECAY = 0.999  # of the two log-losses, an event
TRUST_SCALE = 0.5  # log-odds of the map's weight for a unit of decayed log-loss
MIN_PROBABILITY = 1e-12  # a served probability is at least this far from 0 and 1


class Calibration(NamedTuple):
    """State of the map from log-odds to calibrated log-odds."""

    knots: Vec  # (15,) calibrated log-odds at KNOT_LOG_ODDS; never decreasing
    squares: Vec  # (15,) decayed sums of squared gradients
    losses: Vec  # (2,) decayed log-loss of the plain and of the calibrated probability


def calibration() -> Calibration:
    """Return the identity map."""
    return Calibration(KNOT_LOG_ODDS.copy(), np.zeros(KNOTS), np.zeros(2))


@kernel
def knot_position(z: float) -> tuple[int, float]:
    """Return the knot left of the log-odds z, and the fraction of the way from it to the next."""
    a, j = min(max(z, KNOT_LOG_ODDS[0]), KNOT_LOG_ODDS[KNOTS - 1]), 0
    for i in range(1, KNOTS - 1):
        j += a >= KNOT_LOG_ODDS[i]
    return j, (a - KNOT_LOG_ODDS[j]) / (KNOT_LOG_ODDS[j + 1] - KNOT_LOG_ODDS[j])


@kernel
def calibrated(knots: Vec, z: float) -> float:
    """Return the calibrated log-odds of the log-odds z, from knots (15,).

    Examples
    --------
    >>> calibrated(calibration().knots, 0.25)
    0.25
    """
    j, fraction = knot_position(z)
    return float(knots[j] + fraction * (knots[j + 1] - knots[j]))


@kernel
def served_log_odds(c: Calibration, z: float) -> float:
    """Return the log-odds to serve for the log-odds z: those of the mixture."""
    trust = sigmoid(TRUST_SCALE * float(c.losses[0] - c.losses[1]))
    p = trust * sigmoid(calibrated(c.knots, z)) + (1.0 - trust) * sigmoid(z)
    p = min(max(p, MIN_PROBABILITY), 1.0 - MIN_PROBABILITY)
    return math.log(p / (1.0 - p))


@kernel
def calibrate(c: Calibration, z: float, y: float, w: float) -> None:
    """Update the map for the log-odds z of an event with label y, 0 or 1, and importance w > 0."""
    u = 2.0 * y - 1.0
    mapped = calibrated(c.knots, z)
    c.losses[0] = LOSS_DECAY * c.losses[0] + w * log1pexp(-u * z)
    c.losses[1] = LOSS_DECAY * c.losses[1] + w * log1pexp(-u * mapped)
    j, fraction = knot_position(z)
    gradient = min(w, 1.0 / KNOT_RATE) * (sigmoid(mapped) - y)
    _move_knot(c, j, gradient * (1.0 - fraction))
    _move_knot(c, j + 1, gradient * fraction)
    _keep_monotone(c.knots, j, gradient)


@kernel
def _move_knot(c: Calibration, j: int, g: float) -> None:
    c.squares[j] = SQUARES_DECAY * c.squares[j] + g * g
    c.knots[j] -= KNOT_RATE * g / math.sqrt(1.0 + c.squares[j])


# Both knots moved the same way and were in order before: each is clipped at the one ahead of it.
@kernel
def _keep_monotone(knots: Vec, j: int, gradient: float) -> None:
    if gradient < 0.0:
        if j + 2 < KNOTS:
            knots[j + 1] = min(knots[j + 1], knots[j + 2])
        knots[j] = min(knots[j], knots[j + 1])
    else:
        if j > 0:
            knots[j] = max(knots[j], knots[j - 1])
        knots[j + 1] = max(knots[j + 1], knots[j])
