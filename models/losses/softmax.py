"""Softmax: the loss of several classes, with one score per class."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from kaboost.models.kernels.jit import kernel
from kaboost.models.kernels.numeric import exp_negative
from kaboost.models.losses.labels import L2, as_columns
from kaboost.models.types import Component, LossTraits, Mat, ModelError, Vec
from kaboost.models.verbs import (
    Constants,
    constants,
    convexity,
    curvature,
    encode_labels,
    gradient,
    init_score,
    inverse_link,
    radius,
    smoothness,
    update_init,
    value,
    value_gradient_prefixes,
)


class Softmax(NamedTuple):
    """logsumexp(s) - s_k for the class index k; smooth everywhere, beta = 1/2; a common shift of
    all scores changes nothing.
    """

    l2: float


# float() as in summed.py: plain Python saturates without a warning.
@kernel
def max_and_mass(s: Vec) -> tuple[float, float]:
    """Return the largest score of s (m,) and the sum of e^(score - largest)."""
    top = float(s[0])
    for c in range(1, s.shape[0]):
        top = max(top, float(s[c]))
    total = 0.0
    for c in range(s.shape[0]):
        total += exp_negative(float(s[c]) - top)
    return top, total


@value.register
def _(loss: Softmax, s: Vec, y: Vec) -> float:
    top, total = max_and_mass(s)
    penalty = 0.0
    for c in range(s.shape[0]):
        a = float(s[c])
        penalty += loss.l2 * a * a
    return float((top - float(s[int(y[0])])) + math.log(total) + penalty)


@gradient.register
def _(loss: Softmax, s: Vec, y: Vec, g: Vec) -> None:
    top, total = max_and_mass(s)
    k = int(y[0])
    for c in range(s.shape[0]):
        a = float(s[c])
        share = exp_negative(a - top) / total
        g[c] = share - (1.0 if c == k else 0.0) + 2.0 * loss.l2 * a


@curvature.register
def _(loss: Softmax, s: Vec, y: Vec) -> float:
    # In the score of the class of the label: p_k (1 - p_k), an entry of diag(p) - p p'.
    top, total = max_and_mass(s)
    p = exp_negative(float(s[int(y[0])]) - top) / total
    return float(p * (1.0 - p) + 2.0 * loss.l2)


@value_gradient_prefixes.register
def _(loss: Softmax, F: Mat, y: Vec, G: Mat, L: Vec) -> None:
    m = F.shape[0]
    k = int(y[0])
    for i in range(F.shape[1]):
        top = float(F[0, i])
        for c in range(1, m):
            top = max(top, float(F[c, i]))
        total = 0.0
        penalty = 0.0
        for c in range(m):
            a = float(F[c, i])
            G[c, i] = exp_negative(a - top)
            total += G[c, i]
            penalty += loss.l2 * a * a
        for c in range(m):
            G[c, i] = G[c, i] / total - (1.0 if c == k else 0.0) + 2.0 * loss.l2 * float(F[c, i])
        L[i] = (top - float(F[k, i])) + math.log(total) + penalty


@inverse_link.register
def _(loss: Softmax, s: Vec, p: Vec) -> None:
    top, total = max_and_mass(s)
    for c in range(s.shape[0]):
        p[c] = exp_negative(float(s[c]) - top) / total


@update_init.register
def _(loss: Softmax, y: Vec, w: float, total: float, counts: Vec) -> None:
    counts[int(y[0])] += w


@init_score.register
def _(loss: Softmax, total: float, counts: Vec, y0: Vec) -> None:
    m = y0.shape[0]
    for c in range(m):
        y0[c] = math.log((counts[c] + 0.5) / (total + 0.5 * m)) if total > 0.0 else 0.0


@encode_labels.register
def _(loss: Softmax, y: Vec, m: int) -> Mat:
    Y = as_columns(y)
    known = (Y >= 0.0) & (m > Y) & (np.floor(Y) == Y)
    if Y.shape[1] != 1:
        raise ModelError(f"y: has {Y.shape[1]} columns; a class label is one index, 0 to {m - 1}")
    if not known.all():
        raise ModelError(
            f"y: {Y[~known][0]:g} does not fit: class labels are indices 0 to {m - 1}; "
            "map yours before learning"
        )
    return Y


@smoothness.register
def _(loss: Softmax) -> float:
    return 0.5 + 2.0 * loss.l2


@convexity.register
def _(loss: Softmax) -> float:
    return 2.0 * loss.l2


@constants.register
def _(loss: Softmax, b: float, Z: float = 1.0) -> Constants:
    raise _no_constants()


@radius.register
def _(loss: Softmax, eta: float, N: int, D: float, Z: float = 1.0) -> float:
    raise _no_constants()


def _no_constants() -> ModelError:
    return ModelError(
        "loss: softmax has no constants for Online Gradient Boosting; take logistic with "
        "multiclass: one_vs_rest, or the rule sgb"
    )


def _needs_classes(context: Mapping[str, Any]) -> str | None:
    if context["m"] < 2:
        return "softmax needs one output per class, at least 2; take logistic for two classes"
    return None


SOFTMAX = Component(
    "softmax",
    "logsumexp(score) - score_k",
    "specification, section 1",
    (L2,),
    Softmax,
    _needs_classes,
    traits=LossTraits("multiclass", "log_probabilities", probabilistic=True, log_loss=True),
)
