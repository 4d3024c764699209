"""Losses: pure functions of a score and a label. Any may carry `l2`, the term r |score|^2 of the
SGB papers.

A loss registers value, gradient, curvature, link, tally and start, and `assess`, which does value
and gradient for all prefixes of one event at once. Most are sums over outputs and register only
`point`, from which `summed` makes those (models/losses/summed.py). Formulas and constants:
specification, section 1.
"""

from __future__ import annotations

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
from kaboost.models.types import Loss

# In the order of the public list; the first loss of a task is its default.
ALL = (
    SQUARED,
    SQUARED_FULL,
    ABSOLUTE,
    QUANTILE,
    HUBER,
    POISSON,
    PNORM,
    LOGISTIC,
    LOGISTIC2,
    HINGE,
    EXPONENTIAL,
    LINEAR,
    MLS,
    SOFTMAX,
)
LOSSES = {component.kind: component for component in ALL}
TASK_LOSSES = {
    task: tuple(component.kind for component in ALL if component.traits.task == task)
    for task in ("regression", "binary", "multiclass")
}
NEWTON_LOSSES = tuple(component.kind for component in ALL if component.traits.newton)
DEFAULT_LOSS = {task: kinds[0] for task, kinds in TASK_LOSSES.items()}

_TRAITS = {component.make: component.traits for component in ALL}


def has_probability(loss: Loss) -> bool:
    """Return whether the inverse link of `loss` gives probabilities."""
    return _TRAITS[type(loss)].probabilistic


__all__ = [
    "DEFAULT_LOSS",
    "LOSSES",
    "NEWTON_LOSSES",
    "TASK_LOSSES",
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
