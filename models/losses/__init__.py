"""Losses: pure functions of a score and a label. Any may carry `l2`, the term r |score|^2 of the
SGB papers.

A loss registers value, gradient, curvature, link, tally and start, and `assess`, which does value
and gradient for all prefixes of one event at once. Most are sums over outputs and register only
`point`, from which `summed` makes those (models/losses/summed.py). Formulas and constants:
specification, section 1.
"""

from __future__ import annotations

from typing import Any

from kaboost.models.losses.counts import POISSON, Poisson
from kaboost.models.losses.margins import HINGE, LINEAR, MLS, Hinge, Linear, Mls
from kaboost.models.losses.robust import (
    ABSOLUTE,
    HUBER,
    PNORM,
    QUANTILE,
    Absolute,
    Huber,
    PNorm,
    Quantile,
)
from kaboost.models.losses.smooth_margins import (
    EXPONENTIAL,
    LOGISTIC,
    LOGISTIC2,
    Exponential,
    Logistic,
    Logistic2,
)
from kaboost.models.losses.softmax import SOFTMAX, Softmax
from kaboost.models.losses.squared import SQUARED, SQUARED_FULL, Squared, SquaredFull

NUMBERS = (SQUARED, SQUARED_FULL, ABSOLUTE, QUANTILE, HUBER, POISSON, PNORM)
CLASSES = (LOGISTIC, LOGISTIC2, HINGE, EXPONENTIAL, LINEAR, MLS, SOFTMAX)
LOSSES = {part.kind: part for part in (*NUMBERS, *CLASSES)}

PROBABLE = (Logistic, Logistic2, Exponential, Linear, Mls, Softmax)


def has_probability(loss: Any) -> bool:
    """Return whether the link of `loss` gives probabilities: hinge gives the sign of the score
    instead, and losses of numbers give numbers.
    """
    return isinstance(loss, PROBABLE)


__all__ = [
    "LOSSES",
    "Absolute",
    "Exponential",
    "Hinge",
    "Huber",
    "Linear",
    "Logistic",
    "Logistic2",
    "Mls",
    "PNorm",
    "Poisson",
    "Quantile",
    "Softmax",
    "Squared",
    "SquaredFull",
    "has_probability",
]
