"""Losses that are a sum over outputs: the verbs over vectors and prefixes, from value, gradient and
hessian at one score.

A loss registers `value_gradient_hessian`, its row of the table in section 1 of the specification,
and is decorated `@summed`. The term l2 |score|^2 is added here. Everything is branch-free per
score, so that a pass over prefixes fills vector lanes, and `value_gradient_prefixes` gives the same
bits as `value` and `gradient`.
"""

from __future__ import annotations

import math
from typing import Any, TypeVar, cast

from kaboost.models.kernels.jit import kernel
from kaboost.models.kernels.numeric import exp_negative
from kaboost.models.types import Loss, Mat, Vec
from kaboost.models.verbs import (
    curvature,
    gradient,
    value,
    value_gradient_hessian,
    value_gradient_prefixes,
)

Kind = TypeVar("Kind", bound=type)

TANGENT_FROM = 30.0  # from here e^a continues as its tangent line: value and slope stay finite


def summed(kind: Kind) -> Kind:
    """Register the verbs of a loss that follow from its `value_gradient_hessian`."""
    for table, function in (
        (value, _value),
        (gradient, _gradient),
        (curvature, _curvature),
        (value_gradient_prefixes, _value_gradient_prefixes),
    ):
        cast(Any, table).register(kind, function)
    return kind


# float() is for plain Python alone: its numbers saturate without a warning, NumPy's scalars do not.
def _value(loss: Loss, s: Vec, y: Vec) -> float:
    total: float = 0.0
    for c in range(s.shape[0]):
        a = float(s[c])
        cost, _, _ = value_gradient_hessian(loss, a, float(y[c]))
        total += cost + loss.l2 * a * a
    return total


def _gradient(loss: Loss, s: Vec, y: Vec, g: Vec) -> None:
    for c in range(s.shape[0]):
        a = float(s[c])
        _, slope, _ = value_gradient_hessian(loss, a, float(y[c]))
        g[c] = slope + 2.0 * loss.l2 * a


def _curvature(loss: Loss, s: Vec, y: Vec) -> float:
    _, _, hessian = value_gradient_hessian(loss, float(s[0]), float(y[0]))
    return float(hessian + 2.0 * loss.l2)


def _value_gradient_prefixes(loss: Loss, F: Mat, y: Vec, G: Mat, L: Vec) -> None:
    for c in range(F.shape[0]):
        z = float(y[c])
        for i in range(F.shape[1]):
            a = float(F[c, i])
            cost, slope, _ = value_gradient_hessian(loss, a, z)
            G[c, i] = slope + 2.0 * loss.l2 * a
            L[i] = (L[i] if c > 0 else 0.0) + (cost + loss.l2 * a * a)


@kernel
def bounded_exp(a: float) -> float:
    """Return e^a for a up to 30, and at least e^-708."""
    t = exp_negative(-abs(a))
    return float(1.0 / t if a > 0.0 else t)


@kernel
def power(r: float, p: float) -> float:
    """Return r^p for r, p >= 0: the whole part of p by multiplication, what is left by exp and log,
    whose compiled bits are those of Python's.
    """
    whole = int(p)
    product = 1.0
    for _ in range(whole):
        product *= r
    if p > whole:
        product *= math.exp((p - whole) * math.log(r)) if r > 0.0 else 0.0
    return product
