"""How far partial sums of Online Gradient Boosting may go: equation (3.1) of the specification."""

from __future__ import annotations

from typing import Any

from kaboost.models.verbs import Constants, constants


def bounds(loss: Any, b: float, lipschitz: float, beta: float | None, eps: float) -> Constants:
    """Return the constants of a loss on radius b with those of its l2 term added.

    eps_b is left as it is: l2 only makes it cheaper to project.
    """
    r = loss.l2
    return Constants(lipschitz + 2.0 * r * b, None if beta is None else beta + 2.0 * r, eps)


def smallest_radius(loss: Any, eta: float, N: int, D: float, Z: float) -> float:
    """Return min(eta N D, inf {b >= D: eta beta_b b^2 >= eps_b D}) by bisection.

    A loss with a kink has eta N D: its linearisation has beta = 0 (specification, 3.5).
    """

    def enough(b: float) -> bool:
        found = constants(loss, b, Z)
        bend = found.smoothness
        return bend is not None and eta * bend * b * b >= found.projection * D

    low, high = D, eta * N * D
    if high <= D or not enough(high):
        return high
    if enough(D):
        return D
    while low < (middle := 0.5 * (low + high)) < high:
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high
