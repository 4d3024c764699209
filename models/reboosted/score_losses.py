"""Losses and gradients of an event's scores, in a unit in which streams are comparable.

Losses of numbers are divided by a share of the loss of predicting the mean label, those of counts
are taken less the smallest possible one; no loss counts for more than `MAX_LOSS`.
"""

from __future__ import annotations

import math
from typing import Any

from kaboost.models.kernels.jit import inlined
from kaboost.models.reboosted.label_scale import TINY, LabelScale, residual_unit
from kaboost.models.reboosted.scratch import LearnScratch
from kaboost.models.reboosted.state import LOGARITHMS, NUMBERS
from kaboost.models.verbs import value_gradient_hessian

# Unit of losses of numbers, as a share of the loss of the mean label; largest loss in that unit.
LOSS_SHARE, MAX_LOSS = 0.3, 10.0
# Usual losses to a unit: the loss of a Gaussian residual is then its log-likelihood.
SHARPNESS_UNITS = 3.0


@inlined
def assess_scores(loss: Any, y: float, scale: LabelScale, link: int, a: LearnScratch) -> None:
    """Fill a.score_losses and a.score_gradients (n,) at the scores, and a.expert_losses (S+1,) at
    the experts' scores.
    """
    least, factor = 0.0, 1.0
    if link == NUMBERS:
        factor = 1.0 / max(LOSS_SHARE * float(scale.mean_loss[()]), TINY)
    elif link == LOGARITHMS and y > 0.0:
        least = y - y * math.log(y)
    for i in range(a.scores.shape[0]):
        v, g, _ = value_gradient_hessian(loss, float(a.scores[i]), y)
        a.score_losses[i] = min((v - least) * factor, MAX_LOSS)
        a.score_gradients[i] = g
    for j in range(a.expert_scores.shape[0]):
        v, _, _ = value_gradient_hessian(loss, float(a.expert_scores[j]), y)
        a.expert_losses[j] = min((v - least) * factor, MAX_LOSS)


@inlined
def scaled_loss(loss: Any, score: float, y: float, scale: LabelScale, link: int) -> float:
    """Return the capped loss of the served score in the unit of `assess_scores`."""
    v, _, _ = value_gradient_hessian(loss, score, y)
    factor = 1.0 / max(LOSS_SHARE * float(scale.mean_loss[()]), TINY) if link == NUMBERS else 1.0
    return float(min(v * factor, MAX_LOSS))


@inlined
def sharpness(loss: Any, scale: LabelScale, link: int) -> float:
    """Return the factor on losses before they weigh scores, 1 or more.

    Where labels are easy to predict, usual losses are far below the loss of the mean label, and
    scores would hardly differ in the unit of `assess_scores`.
    """
    if link != NUMBERS:
        return 1.0
    # The mean of both sides: the quantile loss is not symmetric.
    over, _, _ = value_gradient_hessian(loss, residual_unit(scale), 0.0)
    under, _, _ = value_gradient_hessian(loss, -residual_unit(scale), 0.0)
    usual = 0.5 * (float(over) + float(under))
    return max(1.0, LOSS_SHARE * float(scale.mean_loss[()]) / max(SHARPNESS_UNITS * usual, TINY))
