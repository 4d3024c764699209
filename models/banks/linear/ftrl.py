"""Linear weak learners moved by FTRL-proximal: every weight is the solution of what it met so far,
with a penalty that keeps useless ones at 0.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from kaboost.models.banks.linear.walk import clear, nudge, walk, weigh
from kaboost.models.kernels.jit import kernel
from kaboost.models.kernels.numeric import residual
from kaboost.models.types import Mat, Mat3, Vec
from kaboost.models.verbs import learn, learner_view, learning_only, predict, reset_learner


class Ftrl(NamedTuple):
    """Linear learners solved by FTRL-proximal (McMahan et al. 2013; specification, 7.1):
    w = -(z - sign(z) l1) / ((b + sqrt(n)) / lr + l2), and 0 while |z| <= l1.

    l1 and l2 leave the bias alone.
    """

    w: Mat3  # (m, rows, N) what z and n solve to, kept so that predictions need no more
    z: Mat3  # (m, rows, N)
    n: Mat3  # (m, rows, N) sum of squared gradients
    lr: float  # a of the specification
    b: float
    l1: float
    l2: float
    free: int  # the row that is not regularised, d
    cyclic: bool  # learner i sees only feature (first + i) mod d, and the bias
    first: int  # 0; the learner's own number in a bank of one


@learning_only.register
def _(bank: Ftrl) -> tuple[str, ...]:
    return ("z", "n")


@learner_view.register
def _(bank: Ftrl, i: int) -> Ftrl:
    lane = slice(i, i + 1)
    return Ftrl(
        bank.w[:, :, lane],
        bank.z[:, :, lane],
        bank.n[:, :, lane],
        bank.lr,
        bank.b,
        bank.l1,
        bank.l2,
        bank.free,
        bank.cyclic,
        bank.first + i,
    )


@reset_learner.register
def _(bank: Ftrl, i: int, state: Any) -> None:
    clear(bank.w, i)
    clear(bank.z, i)
    clear(bank.n, i)


@predict.register
def _(bank: Ftrl, x: Vec, h: Mat, bank_scratch: Mat) -> None:
    weigh(bank.w, bank.cyclic, bank.first, x, h)


@nudge.register
def _(bank: Ftrl, c: int, j: int, i: int, g: float) -> None:
    before = math.sqrt(bank.n[c, j, i])
    bank.n[c, j, i] += g * g
    root = math.sqrt(bank.n[c, j, i])
    z = bank.z[c, j, i] + (g - (root - before) / bank.lr * bank.w[c, j, i])
    bank.z[c, j, i] = z
    regular = 1.0 * (j != bank.free)
    size = (bank.b + root) / bank.lr + regular * bank.l2
    bank.w[c, j, i] = solve(z, regular * bank.l1, size)


@kernel
def solve(z: float, l1: float, size: float) -> float:
    """Return the weight w of lowest z w + size w^2 / 2 + l1 |w|."""
    left = abs(z) - l1
    left = left if left > 0.0 else 0.0
    return (-left if z > 0.0 else left) / size


@learn.register
def _(bank: Ftrl, x: Vec, h: Mat, target: Mat, weight: Vec, mode: int, bank_scratch: Mat) -> None:
    residual(h, target, weight, mode)
    walk(bank, x, target)
