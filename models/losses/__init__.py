"""Losses: pure functions of a score and a label. Every loss has `l2`, the weight of the term
|score|^2 of the SGB papers.

A loss registers value, gradient, curvature, `value_gradient_prefixes`, `inverse_link`,
`update_init` and `init_score`. Most are sums over outputs and register only
`value_gradient_hessian`, from which `summed` makes the first four (models/losses/summed.py). Its
component carries its traits, by which other parts decide. Formulas and constants: specification,
section 1. A new loss is one class and one line in ALL.
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
