"""Losses of a margin u s through an exponential, for a label u in {-1, +1}: logistic, Friedman's
logistic, exponential.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from kaboost.models.kernels.jit import kernel
from kaboost.models.kernels.numeric import exp_negative, log1p_unit, sigmoid
from kaboost.models.losses.labels import L2, margin_labels, needs_one_output
from kaboost.models.losses.summed import TANGENT_FROM, bounded_exp, summed
from kaboost.models.losses.theory import smallest_radius, with_l2
from kaboost.models.types import Component, LossTraits, Mat, Vec
from kaboost.models.verbs import (
    Constants,
    constants,
    convexity,
    encode_labels,
    init_score,
    inverse_link,
    radius,
    smoothness,
    update_init,
    value_gradient_hessian,
)


@summed
class Logistic(NamedTuple):
    """ln(1 + e^(-u s)), smooth everywhere, beta = 1/4; P(u = 1) = 1 / (1 + e^-s)."""

    l2: float


@summed
class Logistic2(NamedTuple):
    """ln(1 + e^(-2 u s)), smooth everywhere, beta = 1; P(u = 1) = 1 / (1 + e^-2s).

    Friedman, Greedy Function Approximation: A Gradient Boosting Machine, 2001.
    """

    l2: float


@summed
class Exponential(NamedTuple):
    """e^(-u s); its curvature has no bound. P(u = 1) = 1 / (1 + e^-2s).

    From -u s = 30 on it continues as its tangent line: finite, still convex, of slope e^30
    (specification, section 1, Stability).
    """

    l2: float


@value_gradient_hessian.register
def _(loss: Logistic, s: float, u: float) -> tuple[float, float, float]:
    a = -u * s
    t = exp_negative(-abs(a))  # one exponential serves value, slope and curvature
    slope = (1.0 if a >= 0.0 else t) / (1.0 + t)
    return max(a, 0.0) + log1p_unit(t), -u * slope, t / ((1.0 + t) * (1.0 + t))


@value_gradient_hessian.register
def _(loss: Logistic2, s: float, u: float) -> tuple[float, float, float]:
    a = -2.0 * u * s
    t = exp_negative(-abs(a))
    slope = (1.0 if a >= 0.0 else t) / (1.0 + t)
    return max(a, 0.0) + log1p_unit(t), -2.0 * u * slope, 4.0 * t / ((1.0 + t) * (1.0 + t))


@value_gradient_hessian.register
def _(loss: Exponential, s: float, u: float) -> tuple[float, float, float]:
    a = -u * s
    e = bounded_exp(min(a, TANGENT_FROM))
    return e + e * max(a - TANGENT_FROM, 0.0), -u * e, (e if a <= TANGENT_FROM else 0.0)


@inverse_link.register
def _(loss: Logistic, s: Vec, p: Vec) -> None:
    p[0] = sigmoid(s[0])


@inverse_link.register
def _(loss: Logistic2 | Exponential, s: Vec, p: Vec) -> None:
    p[0] = sigmoid(2.0 * float(s[0]))


@update_init.register
def _(
    loss: Logistic | Logistic2 | Exponential, y: Vec, w: float, total: float, counts: Vec
) -> None:
    if y[0] > 0.0:
        counts[0] += w


@init_score.register
def _(loss: Logistic, total: float, counts: Vec, y0: Vec) -> None:
    y0[0] = log_odds(counts[0], total)


@init_score.register
def _(loss: Logistic2 | Exponential, total: float, counts: Vec, y0: Vec) -> None:
    y0[0] = 0.5 * log_odds(counts[0], total)


@kernel
def log_odds(positive: float, total: float) -> float:
    """Return ln((n+ + 1/2) / (n- + 1/2)) of weights; rounding may make n- negative."""
    return math.log((positive + 0.5) / (max(total - positive, 0.0) + 0.5))


@encode_labels.register
def _(loss: Logistic | Logistic2 | Exponential, y: Vec, m: int) -> Mat:
    return margin_labels(y, m)


@smoothness.register
def _(loss: Logistic) -> float:
    return 0.25 + 2.0 * loss.l2


@smoothness.register
def _(loss: Logistic2) -> float:
    return 1.0 + 2.0 * loss.l2


@smoothness.register
def _(loss: Exponential) -> None:
    return None


@convexity.register
def _(loss: Logistic | Logistic2 | Exponential) -> float:
    return 2.0 * loss.l2


@constants.register
def _(loss: Logistic, b: float, Z: float = 1.0) -> Constants:
    return with_l2(loss, b, float(sigmoid(b)), 0.25, float(sigmoid(-b)))


@constants.register
def _(loss: Logistic2, b: float, Z: float = 1.0) -> Constants:
    return with_l2(loss, b, 2.0 * float(sigmoid(2.0 * b)), 1.0, 2.0 * float(sigmoid(-2.0 * b)))


@constants.register
def _(loss: Exponential, b: float, Z: float = 1.0) -> Constants:
    steepest = math.exp(min(b, TANGENT_FROM))
    return with_l2(loss, b, steepest, steepest, math.exp(-b))


@radius.register
def _(loss: Logistic, eta: float, N: int, D: float, Z: float = 1.0) -> float:
    return min(eta * N * D, D * math.log(4.0 / eta))  # at least that of (3.1)


@radius.register
def _(loss: Logistic2, eta: float, N: int, D: float, Z: float = 1.0) -> float:
    return min(eta * N * D, D * max(1.0, 0.5 * math.log(2.0 / eta)))


@radius.register
def _(loss: Exponential, eta: float, N: int, D: float, Z: float = 1.0) -> float:
    return smallest_radius(loss, eta, N, D, Z)


LOGISTIC = Component(
    "logistic",
    "ln(1 + e^(-u score))",
    "specification, section 1",
    (L2,),
    Logistic,
    needs_one_output,
    traits=LossTraits("binary", "log_odds", probabilistic=True, log_loss=True, newton=True),
)
LOGISTIC2 = Component(
    "logistic2",
    "ln(1 + e^(-2 u score))",
    "Friedman 2001; specification, section 1",
    (L2,),
    Logistic2,
    needs_one_output,
    traits=LossTraits("binary", "half_log_odds", probabilistic=True, log_loss=True),
)
EXPONENTIAL = Component(
    "exponential",
    "e^(-u score), a straight line from margin -30 on",
    "Freund, Schapire 1997; specification, section 1",
    (L2,),
    Exponential,
    needs_one_output,
    traits=LossTraits("binary", "half_log_odds", probabilistic=True),
)
