"""Losses of a residual r = s - z other than its square: absolute, quantile, Huber and |r|^p."""

from __future__ import annotations

import math
from typing import NamedTuple

from kaboost.models.kernels.numeric import fill
from kaboost.models.losses.labels import L2, copy_scores, number_labels, update_mean
from kaboost.models.losses.summed import power, summed
from kaboost.models.losses.theory import smallest_radius, with_l2
from kaboost.models.types import Component, LossTraits, Mat, Param, Vec
from kaboost.models.verbs import (
    Constants,
    constants,
    convexity,
    encode_labels,
    gradient_bound,
    init_score,
    inverse_link,
    newton_curvature,
    radius,
    smoothness,
    update_init,
    value_gradient_hessian,
)

MAX_EXPONENT = 700.0  # e^700 is still a number


@summed
class Absolute(NamedTuple):
    """|s - z|, the loss of the median; at the kink s = z the subgradient is 0."""

    l2: float


@summed
class Quantile(NamedTuple):
    """q (z - s)+ + (1 - q) (s - z)+, the loss of the q-quantile; at the kink s = z the subgradient
    is 0.

    Koenker, Bassett, Regression Quantiles, 1978.
    """

    l2: float
    q: float


@summed
class Huber(NamedTuple):
    """1/2 r^2 where |r| <= k, else k (|r| - k/2), for r = s - z; smooth, beta = 1, slope at most k.

    Huber, Robust Estimation of a Location Parameter, 1964.
    """

    l2: float
    k: float


@summed
class PNorm(NamedTuple):
    """|s - z|^p for real p >= 2; its curvature p (p - 1) |s - z|^(p - 2) has no bound unless p is
    2.

    Beygelzimer, Hazan, Kale, Luo, Online Gradient Boosting, 2015.
    """

    l2: float
    p: float


@value_gradient_hessian.register
def _(loss: Absolute, s: float, z: float) -> tuple[float, float, float]:
    r = s - z
    return abs(r), (1.0 if r > 0.0 else 0.0) - (1.0 if r < 0.0 else 0.0), 0.0


@value_gradient_hessian.register
def _(loss: Quantile, s: float, z: float) -> tuple[float, float, float]:
    r = s - z
    slope = (1.0 - loss.q if r > 0.0 else 0.0) - (loss.q if r < 0.0 else 0.0)
    return loss.q * max(-r, 0.0) + (1.0 - loss.q) * max(r, 0.0), slope, 0.0


@value_gradient_hessian.register
def _(loss: Huber, s: float, z: float) -> tuple[float, float, float]:
    r = s - z
    size, k = abs(r), loss.k
    near = size <= k
    value = 0.5 * r * r if near else k * (size - 0.5 * k)
    return value, min(max(r, -k), k), (1.0 if near else 0.0)


@value_gradient_hessian.register
def _(loss: PNorm, s: float, z: float) -> tuple[float, float, float]:
    r = s - z
    p, rest = loss.p, power(abs(r), loss.p - 2.0)
    return rest * r * r, p * rest * r, p * (p - 1.0) * rest


# Their second derivative is 0: with these, Newton's step is a fraction of the typical residual.
@newton_curvature.register
def _(loss: Absolute, s: float, z: float, unit: float) -> float:
    return 1.0 / unit


@newton_curvature.register
def _(loss: Quantile, s: float, z: float, unit: float) -> float:
    return 1.0 / unit


# The weight of iterated least squares: the second derivative is 0 for large residuals.
@newton_curvature.register
def _(loss: Huber, s: float, z: float, unit: float) -> float:
    r = abs(s - z)
    return 1.0 if r <= loss.k else loss.k / r


@inverse_link.register
def _(loss: Absolute | Quantile | Huber | PNorm, s: Vec, p: Vec) -> None:
    copy_scores(s, p)


@update_init.register
def _(loss: Absolute | Huber, y: Vec, w: float, total: float, counts: Vec) -> None:
    update_mean(y, w, total, counts)


@init_score.register
def _(loss: Absolute | Huber, total: float, counts: Vec, y0: Vec) -> None:
    copy_scores(counts, y0)


@update_init.register
def _(loss: Quantile | PNorm, y: Vec, w: float, total: float, counts: Vec) -> None:
    pass


@init_score.register
def _(loss: Quantile | PNorm, total: float, counts: Vec, y0: Vec) -> None:
    fill(y0, 0.0)


@encode_labels.register
def _(loss: Absolute | Quantile | Huber | PNorm, y: Vec, m: int) -> Mat:
    return number_labels(y, m)


@smoothness.register
def _(loss: Absolute | Quantile | PNorm) -> None:
    return None


@smoothness.register
def _(loss: Huber) -> float:
    return 1.0 + 2.0 * loss.l2


@convexity.register
def _(loss: Absolute | Quantile | Huber) -> float:
    return 2.0 * loss.l2


@convexity.register
def _(loss: PNorm) -> float:
    return (2.0 if loss.p == 2.0 else 0.0) + 2.0 * loss.l2


@gradient_bound.register
def _(loss: Absolute) -> float:
    return 1.0


@gradient_bound.register
def _(loss: Quantile) -> float:
    return max(loss.q, 1.0 - loss.q)


@gradient_bound.register
def _(loss: Huber) -> float:
    return loss.k


@constants.register
def _(loss: Absolute, b: float, Z: float = 1.0) -> Constants:
    return with_l2(loss, b, 1.0, None, 1.0 if b < Z else 0.0)


@constants.register
def _(loss: Quantile, b: float, Z: float = 1.0) -> Constants:
    steepest = max(loss.q, 1.0 - loss.q)
    return with_l2(loss, b, steepest, None, steepest if b < Z else 0.0)


@constants.register
def _(loss: Huber, b: float, Z: float = 1.0) -> Constants:
    return with_l2(loss, b, min(loss.k, b + Z), 1.0, max(min(loss.k, Z - b), 0.0))


@constants.register
def _(loss: PNorm, b: float, Z: float = 1.0) -> Constants:
    p, far, over = loss.p, b + Z, max(Z - b, 0.0)
    beta = p * (p - 1.0) * _bounded_power(far, p - 2.0)
    # Not p (Z - b)^(p - 1), which is positive for odd p and b > Z (specification, E13).
    return with_l2(
        loss, b, p * _bounded_power(far, p - 1.0), beta, p * _bounded_power(over, p - 1.0)
    )


def _bounded_power(base: float, exponent: float) -> float:
    large = base > 1.0 and exponent * math.log(base) > MAX_EXPONENT
    return math.inf if large else float(base**exponent)


@radius.register
def _(
    loss: Absolute | Quantile | Huber | PNorm, eta: float, N: int, D: float, Z: float = 1.0
) -> float:
    return smallest_radius(loss, eta, N, D, Z)


ABSOLUTE = Component(
    "absolute",
    "|score - z|",
    "least absolute deviations; specification, section 1",
    (L2,),
    Absolute,
    traits=LossTraits("regression", "numbers", newton=True),
)
QUANTILE = Component(
    "quantile",
    "q (z - score)+ + (1 - q) (score - z)+",
    "Koenker, Bassett 1978; specification, section 1",
    (L2, Param("q", 0.5, "the share of labels below the prediction", 1e-6, 1.0 - 1e-6)),
    Quantile,
    traits=LossTraits("regression", "numbers", newton=True),
)
HUBER = Component(
    "huber",
    "1/2 r^2 up to |r| = k, then k (|r| - k/2), with r = score - z",
    "Huber 1964; specification, section 1",
    (L2, Param("k", 1.0, "the residual from which the loss is linear", 1e-9, 1e9)),
    Huber,
    traits=LossTraits("regression", "numbers", newton=True),
)
PNORM = Component(
    "pnorm",
    "|score - z|^p",
    "Beygelzimer et al. 2015; specification, section 1",
    (L2, Param("p", 3.0, "the power of the residual", 2.0, 100.0)),
    PNorm,
    traits=LossTraits("regression", "numbers"),
)
