"""Adam, the step that banks of nets and of linear learners share: two moments for every weight.

Kingma, Ba, Adam: A Method for Stochastic Optimization, 2015; specification, 7.1. A learner of rate
0 keeps weights and moments; moments decay for features of 0 as well.
"""

from __future__ import annotations

import math
from typing import Any

from kaboost.models.kernels.jit import kernel
from kaboost.models.kernels.simd import Dense, Lane, NewRow, Row, over_learners, sqrt, where
from kaboost.models.types import Mat, Vec

BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8


@kernel
def adam_rates(decayed: Mat, lr: float, weight: Vec, rate: Vec, root: Vec) -> None:
    """Count the event for learners of positive weight.

    Fill their rate lr / (1 - beta1^t) and root 1 / sqrt(1 - beta2^t); `decayed` (2, N) holds
    beta1^t and beta2^t. Other learners get rate 0.
    """
    for i in range(weight.shape[0]):
        rate[i] = 0.0
        root[i] = 1.0
        if weight[i] > 0.0:
            decayed[0, i] *= BETA1
            decayed[1, i] *= BETA2
            rate[i] = lr / (1.0 - decayed[0, i])
            root[i] = 1.0 / math.sqrt(1.0 - decayed[1, i])


def adam_step(w: Any, M: Any, V: Any, g: Any, rate: Any, root: Any) -> tuple[Any, Any, Any]:
    """Return weights and moments after a step for the gradient g."""
    moves = rate > 0.0
    M = where(moves, BETA1 * M + (1.0 - BETA1) * g, M)
    V = where(moves, BETA2 * V + (1.0 - BETA2) * g * g, V)
    return w - rate * M / (sqrt(V) * root + EPSILON), M, V


@over_learners
def adam_inputs(
    w: NewRow, M: NewRow, V: NewRow, x: Dense, slope: Lane, rate: Lane, root: Lane
) -> tuple[NewRow, NewRow, NewRow]:
    """Move weights of inputs x (d,) that all learners share, 1 for the bias."""
    return adam_step(w, M, V, slope * x, rate, root)


@over_learners
def adam_units(
    w: NewRow, M: NewRow, V: NewRow, z: Row, slope: Lane, rate: Lane, root: Lane
) -> tuple[NewRow, NewRow, NewRow]:
    """Move weights of hidden units z (units, N) that every learner has for itself."""
    return adam_step(w, M, V, slope * z, rate, root)


@kernel
def adam_lanes(w: Vec, M: Vec, V: Vec, slope: Vec, factor: float, rate: Vec, root: Vec) -> None:
    """Move one row by the gradients slope * factor; its numbers need not lie side by side."""
    for i in range(w.shape[0]):
        if rate[i] > 0.0:
            g = slope[i] * factor
            M[i] = BETA1 * M[i] + (1.0 - BETA1) * g
            V[i] = BETA2 * V[i] + (1.0 - BETA2) * g * g
            w[i] -= rate[i] * M[i] / (math.sqrt(V[i]) * root[i] + EPSILON)


@kernel
def reset_decay(decayed: Mat, i: int) -> None:
    """Put learner i back to before its first event."""
    decayed[0, i] = 1.0
    decayed[1, i] = 1.0
