"""Linear weak learners moved by AdaGrad: every weight has a rate of its own that falls with what it
met.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from kaboost.models.banks.linear.walk import clear, nudge, walk, weigh
from kaboost.models.kernels.numeric import residual
from kaboost.models.types import Mat, Mat3, Vec
from kaboost.models.verbs import learn, learner_view, learning_only, predict, reset_learner

EPSILON = 1e-8


class AdaGrad(NamedTuple):
    """Linear learners moved by w -= lr G / (sqrt(sum G^2) + 1e-8) (Duchi, Hazan, Singer 2011;
    specification, 7.1).
    """

    w: Mat3  # (m, rows, N)
    S: Mat3  # (m, rows, N) sum of squared gradients
    lr: float
    cyclic: bool  # learner i sees only feature (first + i) mod d, and the bias
    first: int  # 0; the learner's own number in a bank of one


@learning_only.register
def _(bank: AdaGrad) -> tuple[str, ...]:
    return ("S",)


@learner_view.register
def _(bank: AdaGrad, i: int) -> AdaGrad:
    w, S = bank.w[:, :, i : i + 1], bank.S[:, :, i : i + 1]
    return AdaGrad(w, S, bank.lr, bank.cyclic, bank.first + i)


@reset_learner.register
def _(bank: AdaGrad, i: int, state: Any) -> None:
    clear(bank.w, i)
    clear(bank.S, i)


@predict.register
def _(bank: AdaGrad, x: Vec, h: Mat, bank_scratch: Mat) -> None:
    weigh(bank.w, bank.cyclic, bank.first, x, h)


@nudge.register
def _(bank: AdaGrad, c: int, j: int, i: int, g: float) -> None:
    bank.S[c, j, i] += g * g
    bank.w[c, j, i] -= bank.lr * g / (math.sqrt(bank.S[c, j, i]) + EPSILON)


@learn.register
def _(
    bank: AdaGrad, x: Vec, h: Mat, target: Mat, weight: Vec, mode: int, bank_scratch: Mat
) -> None:
    residual(h, target, weight, mode)
    walk(bank, x, target)
