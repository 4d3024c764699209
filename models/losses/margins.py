"""Piecewise losses of a margin u s, for a label u in {-1, +1}: hinge, linear, modified least
squares.
"""

from __future__ import annotations

from typing import NamedTuple

from kaboost.models.kernels.numeric import fill
from kaboost.models.losses.labels import L2, margin_labels, needs_one_output
from kaboost.models.losses.summed import summed
from kaboost.models.losses.theory import smallest_radius, with_l2
from kaboost.models.types import Component, LossTraits, Mat, Vec
from kaboost.models.verbs import (
    Constants,
    constants,
    convexity,
    encode_labels,
    gradient_bound,
    init_score,
    inverse_link,
    radius,
    smoothness,
    update_init,
    value_gradient_hessian,
)


@summed
class Hinge(NamedTuple):
    """max(0, 1 - u s); at the kink u s = 1 the subgradient is 0. A score has no probability."""

    l2: float


@summed
class Linear(NamedTuple):
    """-u s: no curvature at all.

    Beygelzimer, Hazan, Kale, Luo, Online Gradient Boosting, 2015.
    """

    l2: float


@summed
class Mls(NamedTuple):
    """1/2 max(1 - u s, 0)^2, modified least squares; smooth, beta = 1, curvature 0 from u s = 1 on.

    Beygelzimer, Hazan, Kale, Luo, Online Gradient Boosting, 2015.
    """

    l2: float


@value_gradient_hessian.register
def _(loss: Hinge, s: float, u: float) -> tuple[float, float, float]:
    gap = 1.0 - u * s
    return max(gap, 0.0), (-u if gap > 0.0 else 0.0), 0.0


@value_gradient_hessian.register
def _(loss: Linear, s: float, u: float) -> tuple[float, float, float]:
    return -u * s, -u, 0.0


@value_gradient_hessian.register
def _(loss: Mls, s: float, u: float) -> tuple[float, float, float]:
    gap = max(1.0 - u * s, 0.0)
    return 0.5 * gap * gap, -u * gap, (1.0 if gap > 0.0 else 0.0)


@inverse_link.register
def _(loss: Hinge, s: Vec, p: Vec) -> None:
    p[0] = 1.0 if s[0] >= 0.0 else -1.0


@inverse_link.register
def _(loss: Linear | Mls, s: Vec, p: Vec) -> None:
    p[0] = 0.5 * (1.0 + min(max(s[0], -1.0), 1.0))


@update_init.register
def _(loss: Hinge | Linear | Mls, y: Vec, w: float, total: float, counts: Vec) -> None:
    pass


@init_score.register
def _(loss: Hinge | Linear | Mls, total: float, counts: Vec, y0: Vec) -> None:
    fill(y0, 0.0)


@encode_labels.register
def _(loss: Hinge | Linear | Mls, y: Vec, m: int) -> Mat:
    return margin_labels(y, m)


@smoothness.register
def _(loss: Hinge) -> None:
    return None


@smoothness.register
def _(loss: Linear) -> float:
    return 2.0 * loss.l2


@smoothness.register
def _(loss: Mls) -> float:
    return 1.0 + 2.0 * loss.l2


@convexity.register
def _(loss: Hinge | Linear | Mls) -> float:
    return 2.0 * loss.l2


@gradient_bound.register
def _(loss: Hinge) -> float:
    return 1.0


@constants.register
def _(loss: Hinge, b: float, Z: float = 1.0) -> Constants:
    return with_l2(loss, b, 1.0, None, 1.0 if b < 1.0 else 0.0)


@constants.register
def _(loss: Linear, b: float, Z: float = 1.0) -> Constants:
    return with_l2(loss, b, 1.0, 0.0, 1.0)


@constants.register
def _(loss: Mls, b: float, Z: float = 1.0) -> Constants:
    return with_l2(loss, b, 1.0 + b, 1.0, max(1.0 - b, 0.0))


@radius.register
def _(loss: Hinge | Linear | Mls, eta: float, N: int, D: float, Z: float = 1.0) -> float:
    return smallest_radius(loss, eta, N, D, Z)


HINGE = Component(
    "hinge",
    "max(0, 1 - u score); no probability",
    "Hu et al. 2017; specification, section 1",
    (L2,),
    Hinge,
    needs_one_output,
    traits=LossTraits("binary", "margins"),
)
LINEAR = Component(
    "linear",
    "-u score",
    "Beygelzimer et al. 2015; specification, section 1",
    (L2,),
    Linear,
    needs_one_output,
    traits=LossTraits("binary", "margins", probabilistic=True),
)
MLS = Component(
    "mls",
    "1/2 max(1 - u score, 0)^2",
    "Beygelzimer et al. 2015; specification, section 1",
    (L2,),
    Mls,
    needs_one_output,
    traits=LossTraits("binary", "margins", probabilistic=True),
)
