"""Poisson loss: the logarithm of a mean of counts."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from kaboost.models.losses.labels import L2, number_labels
from kaboost.models.losses.summed import TANGENT_FROM, bounded_exp, summed
from kaboost.models.losses.theory import smallest_radius, with_l2
from kaboost.models.types import Component, LossTraits, Mat, ModelError, Vec
from kaboost.models.verbs import (
    Constants,
    constants,
    convexity,
    encode_labels,
    init_score,
    inverse_link,
    newton_curvature,
    radius,
    smoothness,
    update_init,
    value_gradient_hessian,
)

MAX_LOG_STEP = 3.0  # of Newton's step upwards: the label can be any multiple of the mean
COUNT_LIMIT = 1e13  # a larger label is clipped: the largest slope, e^30, must exceed it


@summed
class Poisson(NamedTuple):
    """e^s - z s, ln z! left out, for numbers z >= 0; its curvature e^s has no bound. The prediction
    is e^s.

    From s = 30 on e^s continues as its tangent line: finite, still convex, of slope e^30, and the
    prediction stays e^30 (specification, section 1, Stability).
    """

    l2: float


@value_gradient_hessian.register
def _(loss: Poisson, s: float, z: float) -> tuple[float, float, float]:
    near, beyond = min(s, TANGENT_FROM), max(s - TANGENT_FROM, 0.0)
    e = bounded_exp(near)
    # z s in two parts: the difference of two overflowing terms would be nan.
    return (e - z * near) + (e - z) * beyond, e - z, (e if s <= TANGENT_FROM else 0.0)


@newton_curvature.register
def _(loss: Poisson, s: float, z: float, unit: float) -> float:
    e = bounded_exp(min(s, TANGENT_FROM))
    return float(max(e, (z - e) / MAX_LOG_STEP, 1e-3))


@inverse_link.register
def _(loss: Poisson, s: Vec, p: Vec) -> None:
    for c in range(s.shape[0]):
        p[c] = bounded_exp(min(s[c], TANGENT_FROM))


@update_init.register
def _(loss: Poisson, y: Vec, w: float, total: float, counts: Vec) -> None:
    for c in range(counts.shape[0]):
        counts[c] += w * y[c]


@init_score.register
def _(loss: Poisson, total: float, counts: Vec, y0: Vec) -> None:
    for c in range(y0.shape[0]):
        y0[c] = math.log((counts[c] + 0.5) / (total + 1.0)) if total > 0.0 else 0.0


@encode_labels.register
def _(loss: Poisson, y: Vec, m: int) -> Mat:
    Y = number_labels(y, m)
    if (Y < 0.0).any():
        raise ModelError(
            f"y: {Y[Y < 0.0][0]:g} is no count: poisson labels are numbers from 0 on; "
            "take squared, or leave such events out"
        )
    return np.minimum(Y, COUNT_LIMIT)


@smoothness.register
def _(loss: Poisson) -> None:
    return None


@convexity.register
def _(loss: Poisson) -> float:
    return 2.0 * loss.l2


@constants.register
def _(loss: Poisson, b: float, Z: float = 1.0) -> Constants:
    most, least = math.exp(min(b, TANGENT_FROM)), math.exp(-b)
    return with_l2(loss, b, max(most, Z - least), most, max(Z - most, least))


@radius.register
def _(loss: Poisson, eta: float, N: int, D: float, Z: float = 1.0) -> float:
    return smallest_radius(loss, eta, N, D, Z)


POISSON = Component(
    "poisson",
    "e^score - z score, a straight line from score 30 on",
    "specification, section 1",
    (L2,),
    Poisson,
    traits=LossTraits("regression", "logarithms", newton=True, lowest_label=0.0),
)
