"""The normalised adaptive step, which does not depend on the scale of any feature (NAG of Ross,
Mineiro, Langford, Normalized Online Learning, 2013; specification, 7.1).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from kaboost.models.banks.linear.bank import (
    Linear,
    Step,
    dot_features,
    learning_rate,
    move_weights,
    rescale,
)
from kaboost.models.banks.linear.scales import dot_scaled, normalise_rates, rescale_weights
from kaboost.models.kernels.jit import kernel
from kaboost.models.kernels.numeric import clear_learner, residual
from kaboost.models.kernels.random import State
from kaboost.models.kernels.simd import (
    Column,
    Dense,
    Lane,
    NewRow,
    Row,
    Sum,
    aligned,
    over_learners,
    sqrt,
    where,
)
from kaboost.models.types import Mat, Mat3, Vec
from kaboost.models.verbs import learner_view, learning_only, reset_learner


class Nag(NamedTuple):
    """w_j -= lr sqrt(t/n) g_j / (s_j sqrt(sum g_j^2)); the bank's weights are in the scale s."""

    s: Vec  # (rows,) largest |x_j| learned so far
    S: Mat3  # (m, rows, N) sum of squared gradients
    t: Vec  # (N,) events of each learner
    n: Vec  # (N,) sum of (x_j / s_j)^2 over them
    lr: float


@learning_only.register
def _(step: Nag) -> tuple[str, ...]:
    return ("S", "t", "n")


@learner_view.register
def _(step: Nag, i: int) -> Nag:
    S, t, n = step.S[:, :, i : i + 1], step.t[i : i + 1], step.n[i : i + 1]
    return Nag(step.s, S, t, n, step.lr)


@reset_learner.register
def _(step: Nag, i: int, state: State) -> None:
    # All learners share the scales: they stay.
    clear_learner(step.S, i)
    step.t[i] = 0.0
    step.n[i] = 0.0


@over_learners
def dot_clipped(total: Sum, w: Row, x: Column, s: Dense) -> Sum:
    """Sum w x. A feature larger than ever is predicted as in its new scale; `learn` moves the
    weights there.
    """
    return total + w * where(abs(x) <= s, x, where(x > 0.0, s, -s))


@dot_features.register
def _(step: Nag, w: Mat, x: Vec, cyclic: bool, first: int, h: Vec) -> None:
    if cyclic:
        dot_scaled(w, step.s, x, first, False, h)
    else:
        dot_clipped(w, x, step.s, h)


@rescale.register
def _(step: Nag, w: Mat3, x: Vec) -> None:
    rescale_weights(step.s, w, x, False)


@move_weights.register
def _(
    step: Nag,
    bank: Linear,
    x: Vec,
    h: Mat,
    target: Mat,
    weight: Vec,
    mode: int,
    bank_scratch: Mat,
) -> None:
    residual(h, target, weight, mode)
    rescale_weights(step.s, bank.w, x, False)
    normalise_rates(bank, x, weight)
    for i in range(weight.shape[0]):
        weight[i] = step.lr * math.sqrt(weight[i])
    for c in range(target.shape[0]):
        if bank.cyclic:
            adapt_cyclic(bank.w[c], step.S[c], step.s, bank.first, x, target[c], weight)
        else:
            adapt(bank.w[c], step.S[c], x, step.s, target[c], weight)


@over_learners
def adapt(
    w: NewRow, S: NewRow, x: Column, s: Dense, slope: Lane, rate: Lane
) -> tuple[NewRow, NewRow]:
    """Move the weights by rate * g / (s sqrt(sum g^2)) with g = slope * x."""
    g = slope * x
    square = S + g * g
    size = s * sqrt(square)
    return w - rate * g / where(size > 0.0, size, 1.0), square  # size is 0 only where g is


@kernel
def adapt_cyclic(w: Mat, S: Mat, s: Vec, first: int, x: Vec, slope: Vec, rate: Vec) -> None:
    """Do what `adapt` does for one output of learners that see one feature and the bias."""
    d = x.shape[0]
    for i in range(slope.shape[0]):
        j = (first + i) % d
        adapt_weight(w, S, j, i, slope[i] * x[j], rate[i], s[j])
        if w.shape[0] > d:
            adapt_weight(w, S, d, i, slope[i], rate[i], 1.0)


@kernel
def adapt_weight(w: Mat, S: Mat, j: int, i: int, g: float, rate: float, scale: float) -> None:
    """Do what `adapt` does for one weight and its gradient g."""
    S[j, i] += g * g
    size = scale * math.sqrt(S[j, i])
    w[j, i] -= rate * g / (size if size > 0.0 else 1.0)


def _make(options: Mapping[str, Any], w: Mat3, d: int) -> Nag:
    _, rows, N = w.shape
    return Nag(np.zeros(rows), aligned(w), np.zeros(N), np.zeros(N), options["lr"])


NAG = Step("nag", (learning_rate(0.5),), _make)
