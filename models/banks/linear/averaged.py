"""Linear learners that serve the average of every hypothesis they went through (specification, 2.1,
Test time; hbar of Hu et al. 2017).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from kaboost.models.banks.linear.bank import Linear
from kaboost.models.banks.linear.sgd import Sgd
from kaboost.models.kernels.numeric import clear_learner
from kaboost.models.kernels.random import State
from kaboost.models.types import LOSS_LIMIT, EventScratch, Loss, Mat, Mat3, Rule, Vec
from kaboost.models.verbs import (
    bank_scratch_rows,
    combine,
    learn,
    learner_view,
    observe_average,
    predict,
    predict_served,
    reset_learner,
    served_loss,
    update_shared,
)


class Averaged(NamedTuple):
    """A linear bank with the average of its weights, which it serves."""

    bank: Linear  # of a step that does not scale features
    mean: Mat3  # (m, rows, N) the average of bank.w before every event
    t: Vec  # (N,) events of each learner
    share: float  # of a new hypothesis in the average; 0 for the mean of all


def averaged(bank: Linear, half_life: float | None) -> Averaged:
    """Return the bank with the average of all its weights, or an exponential average."""
    share = 0.0 if half_life is None else float(1.0 - 2.0 ** (-1.0 / half_life))
    return Averaged(bank, np.zeros_like(bank.w), np.zeros(bank.w.shape[2]), share)


@bank_scratch_rows.register
def _(bank: Averaged) -> int:
    return bank_scratch_rows(bank.bank)


@learner_view.register
def _(bank: Averaged, i: int) -> Averaged:
    lane = slice(i, i + 1)
    return Averaged(learner_view(bank.bank, i), bank.mean[:, :, lane], bank.t[lane], bank.share)


@predict.register
def _(bank: Averaged, x: Vec, h: Mat, bank_scratch: Mat) -> None:
    predict(bank.bank, x, h, bank_scratch)


@predict_served.register
def _(bank: Averaged, x: Vec, h: Mat, bank_scratch: Mat) -> None:
    predict(Linear(bank.mean, Sgd(0.0), bank.bank.cyclic, bank.bank.first), x, h, bank_scratch)


@learn.register
def _(
    bank: Averaged, x: Vec, h: Mat, target: Mat, weight: Vec, mode: int, bank_scratch: Mat
) -> None:
    m, rows, N = bank.mean.shape
    for i in range(N):
        bank.t[i] += 1.0 if weight[i] > 0.0 else 0.0
    for c in range(m):
        for j in range(rows):
            for i in range(N):
                share = max(bank.share, 1.0 / bank.t[i]) if bank.t[i] > 0.0 else 0.0
                step = bank.bank.w[c, j, i] - bank.mean[c, j, i]
                bank.mean[c, j, i] += share * step if weight[i] > 0.0 else 0.0
    learn(bank.bank, x, h, target, weight, mode, bank_scratch)


@update_shared.register
def _(bank: Averaged, x: Vec) -> None:
    update_shared(bank.bank, x)


@reset_learner.register
def _(bank: Averaged, i: int, state: State) -> None:
    reset_learner(bank.bank, i, state)
    bank.t[i] = 0.0
    clear_learner(bank.mean, i)


@observe_average.register
def _(
    bank: Averaged,
    rule: Rule,
    loss: Loss,
    x: Vec,
    y: Vec,
    w: float,
    seen: Any,
    a: EventScratch,
    s: Vec,
) -> None:
    predict_served(bank, x, a.h, a.bank_scratch)
    combine(rule, a.h, a.F, s, a.rule_scratch)
    served = served_loss(rule, loss, s, y)
    seen.averaged_loss_sum[()] += w * (served if served < LOSS_LIMIT else LOSS_LIMIT)
