"""Adam for linear learners: two moments for every weight, a step count per learner
(specification, 7.1).

Kingma, Ba, Adam: A Method for Stochastic Optimization, 2015.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from kaboost.models.banks.linear.bank import Linear, Step, learning_rate, move_weights
from kaboost.models.kernels.adam import adam_lanes, adam_rates, reset_decay
from kaboost.models.kernels.jit import kernel
from kaboost.models.kernels.numeric import clear_learner, residual
from kaboost.models.kernels.random import State
from kaboost.models.kernels.simd import aligned
from kaboost.models.types import Mat, Mat3, Vec
from kaboost.models.verbs import bank_scratch_rows, learner_view, learning_only, reset_learner


class Adam(NamedTuple):
    """Moments decay for features of 0 as well, so no feature is skipped."""

    M: Mat3  # (m, rows, N) mean of gradients
    V: Mat3  # (m, rows, N) mean of their squares
    decayed: Mat  # (2, N) beta1^t and beta2^t
    lr: float


@learning_only.register
def _(step: Adam) -> tuple[str, ...]:
    return ("M", "V", "decayed")


@bank_scratch_rows.register
def _(step: Adam) -> int:
    return 2  # rates and roots of `adam_rates`


@learner_view.register
def _(step: Adam, i: int) -> Adam:
    lane = slice(i, i + 1)
    return Adam(step.M[:, :, lane], step.V[:, :, lane], step.decayed[:, lane], step.lr)


@reset_learner.register
def _(step: Adam, i: int, state: State) -> None:
    clear_learner(step.M, i)
    clear_learner(step.V, i)
    reset_decay(step.decayed, i)


@move_weights.register
def _(
    step: Adam,
    bank: Linear,
    x: Vec,
    h: Mat,
    target: Mat,
    weight: Vec,
    mode: int,
    bank_scratch: Mat,
) -> None:
    residual(h, target, weight, mode)
    rate, root = bank_scratch[0], bank_scratch[1]
    adam_rates(step.decayed, step.lr, weight, rate, root)
    for c in range(target.shape[0]):
        move_output(bank, c, x, target[c], rate, root)


@kernel
def move_output(bank: Linear, c: int, x: Vec, e: Vec, rate: Vec, root: Vec) -> None:
    """Move the weights of output c."""
    w, M, V, d = bank.w[c], bank.step.M[c], bank.step.V[c], x.shape[0]
    for j in range(d):
        # learners that see feature j: all, or every d-th
        first, every = ((j - bank.first) % d, d) if bank.cyclic else (0, 1)
        adam_lanes(
            w[j, first::every],
            M[j, first::every],
            V[j, first::every],
            e[first::every],
            x[j],
            rate[first::every],
            root[first::every],
        )
    if w.shape[0] > d:
        adam_lanes(w[d], M[d], V[d], e, 1.0, rate, root)


def _make(options: Mapping[str, Any], w: Mat3, d: int) -> Adam:
    return Adam(aligned(w), aligned(w), np.ones((2, w.shape[2])), options["lr"])


ADAM = Step("adam", (learning_rate(0.001),), _make)
