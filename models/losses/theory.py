"""The radius of partial sums in Online Gradient Boosting: equation (3.1) of the specification."""

from __future__ import annotations

from kaboost.models.types import Loss
from kaboost.models.verbs import Constants, constants


def with_l2(loss: Loss, b: float, lipschitz: float, beta: float | None, eps: float) -> Constants:
    """Return the constants of a loss on radius b, those of its l2 term included.

    eps_b stays: l2 only makes projection cheaper.
    """
    r = loss.l2
    return Constants(lipschitz + 2.0 * r * b, None if beta is None else beta + 2.0 * r, eps)


def smallest_radius(loss: Loss, eta: float, N: int, D: float, Z: float) -> float:
    """Return min(eta N D, inf {b >= D: eta beta_b b^2 >= eps_b D}) by bisection.

    A loss with a kink has eta N D: its linearisation has beta = 0 (specification, 3.5).
    """

    def enough(b: float) -> bool:
        at_b = constants(loss, b, Z)
        beta = at_b.smoothness
        return beta is not None and eta * beta * b * b >= at_b.projection * D

    low, high = D, eta * N * D
    if high <= D or not enough(high):
        return high
    if enough(D):
        return D
    while low < (middle := 0.5 * (low + high)) < high:
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high
