"""FTRL-proximal: every weight minimises all its losses so far, with a penalty that keeps useless
ones at 0 (specification, 7.1).

McMahan et al., Ad Click Prediction: a View from the Trenches, 2013.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from kaboost.models.banks.linear.bank import (
    Linear,
    Step,
    learning_rate,
    move_each,
    move_weight,
    move_weights,
)
from kaboost.models.kernels.jit import kernel
from kaboost.models.kernels.numeric import clear_learner, residual
from kaboost.models.kernels.random import State
from kaboost.models.kernels.simd import aligned
from kaboost.models.types import Mat, Mat3, Param, Vec
from kaboost.models.verbs import learner_view, learning_only, reset_learner


class Ftrl(NamedTuple):
    """w = -(z - sign(z) l1) / ((b + sqrt(n)) / lr + l2), and 0 while |z| <= l1.

    l1 and l2 do not apply to the bias. The bank's w is stored with z and n, so predictions need no
    more.
    """

    z: Mat3  # (m, rows, N)
    n: Mat3  # (m, rows, N) sum of squared gradients
    lr: float  # a of the specification
    b: float
    l1: float
    l2: float
    bias_row: int  # d


@learning_only.register
def _(step: Ftrl) -> tuple[str, ...]:
    return ("z", "n")


@learner_view.register
def _(step: Ftrl, i: int) -> Ftrl:
    z, n = step.z[:, :, i : i + 1], step.n[:, :, i : i + 1]
    return Ftrl(z, n, step.lr, step.b, step.l1, step.l2, step.bias_row)


@reset_learner.register
def _(step: Ftrl, i: int, state: State) -> None:
    clear_learner(step.z, i)
    clear_learner(step.n, i)


@move_weights.register
def _(
    step: Ftrl,
    bank: Linear,
    x: Vec,
    h: Mat,
    target: Mat,
    weight: Vec,
    mode: int,
    bank_scratch: Mat,
) -> None:
    residual(h, target, weight, mode)
    move_each(bank, x, target)


@move_weight.register
def _(step: Ftrl, w: Mat3, c: int, j: int, i: int, g: float) -> None:
    before = math.sqrt(step.n[c, j, i])
    step.n[c, j, i] += g * g
    root = math.sqrt(step.n[c, j, i])
    z = step.z[c, j, i] + (g - (root - before) / step.lr * w[c, j, i])
    step.z[c, j, i] = z
    penalised = 1.0 * (j != step.bias_row)
    curvature = (step.b + root) / step.lr + penalised * step.l2
    w[c, j, i] = minimiser(z, penalised * step.l1, curvature)


@kernel
def minimiser(z: float, l1: float, curvature: float) -> float:
    """Return the w of lowest z w + curvature w^2 / 2 + l1 |w|."""
    left = abs(z) - l1
    left = left if left > 0.0 else 0.0
    return (-left if z > 0.0 else left) / curvature


def _make(options: Mapping[str, Any], w: Mat3, d: int) -> Ftrl:
    l1, l2 = options["l1"], options["l2"]
    return Ftrl(aligned(w), aligned(w), options["lr"], options["b"], l1, l2, bias_row=d)


FTRL = Step(
    "ftrl",
    (
        learning_rate(0.5),
        Param("b", 1.0, "slows the first steps", 1e-6, 1e6),
        Param("l1", 0.0, "keeps weights of little evidence at 0", 0.0, 1e6),
        Param("l2", 0.0, "shrinks weights", 0.0, 1e6),
    ),
    _make,
)
