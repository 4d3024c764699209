"""The normalised step that is not adaptive (NG of Ross, Mineiro, Langford, Normalized Online
Learning, 2013; specification, 7.1).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from kaboost.models.banks.linear.bank import (
    Linear,
    Step,
    dot_features,
    learning_rate,
    move_weights,
    multiply_rates,
    rescale,
)
from kaboost.models.banks.linear.scales import dot_scaled, normalise_rates, rescale_weights
from kaboost.models.kernels.jit import kernel
from kaboost.models.kernels.numeric import residual, shift
from kaboost.models.kernels.random import State
from kaboost.models.kernels.simd import Column, Dense, Lane, NewRow, Row, Sum, over_learners, where
from kaboost.models.types import Mat, Mat3, Vec
from kaboost.models.verbs import learner_view, learning_only, reset_learner

LEAST_SCALE = 1e-300  # features that were never larger are not learned: 1/s would overflow


class Ng(NamedTuple):
    """w_j -= lr (t/n) g_j / s_j^2; the bank's weights are in the scale s."""

    s: Vec  # (rows,) largest |x_j| learned so far
    t: Vec  # (N,) events of each learner
    n: Vec  # (N,) sum of (x_j / s_j)^2 over them
    lr: float


@learning_only.register
def _(step: Ng) -> tuple[str, ...]:
    return ("t", "n")


@learner_view.register
def _(step: Ng, i: int) -> Ng:
    return Ng(step.s, step.t[i : i + 1], step.n[i : i + 1], step.lr)


@reset_learner.register
def _(step: Ng, i: int, state: State) -> None:
    # All learners share the scales: they stay.
    step.t[i] = 0.0
    step.n[i] = 0.0


@over_learners
def dot_shrunk(total: Sum, w: Row, x: Column, s: Dense) -> Sum:
    """Sum w x. A feature larger than ever is predicted as in its new scale; `learn` moves the
    weights there.
    """
    return total + w * where(abs(x) <= s, x, s / x * s)


@dot_features.register
def _(step: Ng, w: Mat, x: Vec, cyclic: bool, first: int, h: Vec) -> None:
    if cyclic:
        dot_scaled(w, step.s, x, first, True, h)
    else:
        dot_shrunk(w, x, step.s, h)


@rescale.register
def _(step: Ng, w: Mat3, x: Vec) -> None:
    rescale_weights(step.s, w, x, True)


@move_weights.register
def _(
    step: Ng,
    bank: Linear,
    x: Vec,
    h: Mat,
    target: Mat,
    weight: Vec,
    mode: int,
    bank_scratch: Mat,
) -> None:
    residual(h, target, weight, mode)
    rescale_weights(step.s, bank.w, x, True)
    normalise_rates(bank, x, weight)
    for i in range(weight.shape[0]):
        weight[i] *= step.lr
    multiply_rates(target, weight)
    for c in range(target.shape[0]):
        if bank.cyclic:
            descend_cyclic(bank, c, x, target[c])
        else:
            descend_scaled(bank.w[c], x, step.s, target[c])


@over_learners
def descend_scaled(w: NewRow, x: Column, s: Dense, e: Lane) -> NewRow:
    """Move the weights by e * x / s^2."""
    return w - e * where(s > LEAST_SCALE, x / s / s, 0.0)


@kernel
def descend_cyclic(bank: Linear, c: int, x: Vec, e: Vec) -> None:
    """Do what `descend_scaled` does for output c of learners that see one feature and the bias."""
    w, s, d = bank.w[c], bank.step.s, x.shape[0]
    for i in range(e.shape[0]):
        j = (bank.first + i) % d
        scaled = x[j] / s[j] / s[j] if s[j] > LEAST_SCALE else 0.0
        w[j, i] -= e[i] * scaled
    if w.shape[0] > d:
        shift(w[d], e, 1.0)


def _make(options: Mapping[str, Any], w: Mat3, d: int) -> Ng:
    _, rows, N = w.shape
    return Ng(np.zeros(rows), np.zeros(N), np.zeros(N), options["lr"])


NG = Step("ng", (learning_rate(0.5),), _make)
