"""Losses and gradients of an event's scores, in a unit in which streams are comparable.

Losses of numbers are divided by a share of the loss of predicting the mean label; those of counts
are taken less the smallest possible one, and divided so where that share is above 1. No loss counts
for more than `MAX_LOSS`.
"""

from __future__ import annotations

from kaboost.models.kernels.jit import inlined
from kaboost.models.reboosted.label_scale import TINY, LabelScale, least_loss, residual_unit
from kaboost.models.reboosted.scratch import LearnScratch
from kaboost.models.reboosted.state import LOG_ODDS, LOGARITHMS, NUMBERS
from kaboost.models.types import Loss
from kaboost.models.verbs import value_gradient_hessian

# Unit of losses of numbers, as a share of the loss of the mean label; largest loss in that unit.
LOSS_SHARE, MAX_LOSS = 0.3, 10.0
# Usual losses to a unit: the loss of a Gaussian residual is then its log-likelihood.
SHARPNESS_UNITS = 3.0


@inlined
def assess_scores(loss: Loss, y: float, scale: LabelScale, link: int, a: LearnScratch) -> None:
    """Fill a.score_losses and a.score_gradients (n,) at the scores, and a.expert_losses (S+1,) at
    the experts' scores.
    """
    least, factor = least_loss(y, link), _unit_factor(scale, link)
    for i in range(a.scores.shape[0]):
        v, g, _ = value_gradient_hessian(loss, float(a.scores[i]), y)
        a.score_losses[i] = min((v - least) * factor, MAX_LOSS)
        a.score_gradients[i] = g
    for j in range(a.expert_scores.shape[0]):
        v, _, _ = value_gradient_hessian(loss, float(a.expert_scores[j]), y)
        a.expert_losses[j] = min((v - least) * factor, MAX_LOSS)


@inlined
def scaled_loss(loss: Loss, score: float, y: float, scale: LabelScale, link: int) -> float:
    """Return the capped loss of the served score in the unit of `assess_scores`."""
    v, _, _ = value_gradient_hessian(loss, score, y)
    return float(min((v - least_loss(y, link)) * _unit_factor(scale, link), MAX_LOSS))


@inlined
def _unit_factor(scale: LabelScale, link: int) -> float:
    """Return what losses are multiplied by; those of counts about 10 or less stay as they are."""
    if link == LOG_ODDS:
        return 1.0
    least_unit = TINY if link == NUMBERS else 1.0
    return 1.0 / max(LOSS_SHARE * float(scale.mean_loss[()]), least_unit)


@inlined
def sharpness(loss: Loss, scale: LabelScale, link: int) -> float:
    """Return the factor on losses before they weigh scores, 1 or more.

    Where labels are easy to predict, usual losses are far below the loss of the mean label, and
    scores would hardly differ in the unit of `assess_scores`.
    """
    if link == LOG_ODDS:
        return 1.0
    if link == LOGARITHMS:
        unit = SHARPNESS_UNITS * residual_unit(scale)
        return max(1.0, LOSS_SHARE * float(scale.mean_loss[()]) / max(unit, 1.0))
    # The mean of both sides: the quantile loss is not symmetric.
    over, _, _ = value_gradient_hessian(loss, residual_unit(scale), 0.0)
    under, _, _ = value_gradient_hessian(loss, -residual_unit(scale), 0.0)
    usual = 0.5 * (float(over) + float(under))
    return max(1.0, LOSS_SHARE * float(scale.mean_loss[()]) / max(SHARPNESS_UNITS * usual, TINY))
