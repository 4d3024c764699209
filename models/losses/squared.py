"""Squared loss, halved and full: the losses of means."""

from __future__ import annotations

from typing import NamedTuple

from kaboost.models.kernels.numeric import fill
from kaboost.models.losses.labels import L2, copy_scores, number_labels, update_mean
from kaboost.models.losses.summed import summed
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
class Squared(NamedTuple):
    """1/2 |s - z|^2 for numbers z; smooth everywhere, beta = lambda = 1."""

    l2: float


@summed
class SquaredFull(NamedTuple):
    """|s - z|^2 for numbers z; smooth everywhere, beta = lambda = 2.

    The unhalved square that the SGB paper writes.
    """

    l2: float


@value_gradient_hessian.register
def _(loss: Squared, s: float, z: float) -> tuple[float, float, float]:
    r = s - z
    return 0.5 * r * r, r, 1.0


@value_gradient_hessian.register
def _(loss: SquaredFull, s: float, z: float) -> tuple[float, float, float]:
    r = s - z
    return r * r, 2.0 * r, 2.0


@inverse_link.register
def _(loss: Squared | SquaredFull, s: Vec, p: Vec) -> None:
    copy_scores(s, p)


@update_init.register
def _(loss: Squared, y: Vec, w: float, total: float, counts: Vec) -> None:
    update_mean(y, w, total, counts)


@init_score.register
def _(loss: Squared, total: float, counts: Vec, y0: Vec) -> None:
    copy_scores(counts, y0)


@update_init.register
def _(loss: SquaredFull, y: Vec, w: float, total: float, counts: Vec) -> None:
    pass


@init_score.register
def _(loss: SquaredFull, total: float, counts: Vec, y0: Vec) -> None:
    fill(y0, 0.0)


@encode_labels.register
def _(loss: Squared | SquaredFull, y: Vec, m: int) -> Mat:
    return number_labels(y, m)


@smoothness.register
@convexity.register
def _(loss: Squared) -> float:
    return 1.0 + 2.0 * loss.l2


@smoothness.register
@convexity.register
def _(loss: SquaredFull) -> float:
    return 2.0 + 2.0 * loss.l2


@constants.register
def _(loss: Squared, b: float, Z: float = 1.0) -> Constants:
    return with_l2(loss, b, b + Z, 1.0, max(Z - b, 0.0))


@constants.register
def _(loss: SquaredFull, b: float, Z: float = 1.0) -> Constants:
    return with_l2(loss, b, 2.0 * (b + Z), 2.0, max(2.0 * (Z - b), 0.0))


@radius.register
def _(loss: Squared | SquaredFull, eta: float, N: int, D: float, Z: float = 1.0) -> float:
    return smallest_radius(loss, eta, N, D, Z)


SQUARED = Component(
    "squared",
    "1/2 (score - z)^2",
    "specification, section 1",
    (L2,),
    Squared,
    traits=LossTraits("regression", "numbers", quadratic=True, newton=True),
)
SQUARED_FULL = Component(
    "squared_full",
    "(score - z)^2",
    "Hu et al. 2017; specification, section 1",
    (L2,),
    SquaredFull,
    traits=LossTraits("regression", "numbers", quadratic=True),
)
