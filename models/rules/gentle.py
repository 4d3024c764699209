"""Online GentleBoost: learners fit the label one after the other, and all multiply the weight of
the event for those after it.

Siu, Online GentleAdaBoost, technical report; specification, section 5, with the errata E10 and E11.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from kaboost.models.rules.vote_scores import classification_mode
from kaboost.models.types import (
    SQUARE,
    Bank,
    BuildContext,
    Component,
    Mat,
    Param,
    SingleScratch,
    Vec,
)
from kaboost.models.verbs import combine, learn_one, learn_sequentially, predict_one, sequential

MIN_WEIGHT = 1e-3  # of an event, in units of its importance


class Gentle(NamedTuple):
    """Constants of the rule; it has no state."""

    mode: int
    exponential: bool  # the weight's factor is exp(-u f), not 1 + alpha
    factor: float  # 1 + alpha
    most: float  # of an event, in units of its importance


@sequential.register
def _(rule: Gentle) -> bool:
    return True


@combine.register
def _(rule: Gentle, h: Mat, F: Mat, yhat: Vec, rule_scratch: Vec) -> None:
    F[0, 0] = 0.0
    for i in range(h.shape[1]):
        h[0, i] = min(max(h[0, i], -1.0), 1.0)
        F[0, i + 1] = F[0, i] + h[0, i]
    yhat[0] = F[0, h.shape[1]]


@learn_sequentially.register
def _(
    rule: Gentle, bank: Bank, y: Vec, x: Vec, w: float, T: Mat, W: Vec, single: SingleScratch
) -> None:
    weight = w
    for i in range(W.shape[0]):
        T[0, i] = y[0]
        W[i] = weight
        single.target[0, 0] = y[0]
        single.weight[0] = weight
        learn_one(bank, i, x, rule.mode, single)
        predict_one(bank, i, x, single)
        score = single.h[0, 0]
        margin = y[0] * min(max(score, -1.0), 1.0) if abs(score) < math.inf else 0.0
        if rule.exponential:
            weight *= math.exp(-margin)
        elif margin < 0.0:
            weight *= rule.factor
        elif margin > 0.0:
            weight /= rule.factor
        least = MIN_WEIGHT * w if rule.most < math.inf else 0.0  # no clip at all
        weight = min(max(weight, least), rule.most * w)


def _make(params: Mapping[str, Any], context: BuildContext) -> Gentle:
    # A bank of classifiers learns a weighted example of the class instead of a square fit.
    mode = SQUARE if SQUARE in context.bank.modes else classification_mode(context)
    return Gentle(mode, params["step"] == "exp", 1.0 + params["alpha"], float(params["w_max"]))


GENTLE = Component(
    "gentle",
    "every learner fits the label, more weight for those after it where it is still wrong",
    "Siu, Online GentleAdaBoost; Friedman, Hastie, Tibshirani 2000",
    (
        Param(
            "step",
            "factor",
            "what multiplies the weight: 1 + alpha, or exp of the margin",
            choices=("factor", "exp"),
        ),
        Param("alpha", 0.5, "of step factor, up to e - 1", 0.0, math.e - 1.0),
        Param(
            "w_max",
            10.0,
            "largest weight, in the event's importance; inf: no clip",
            1,
            1e300,
            infinite=True,
        ),
    ),
    _make,
    default_bank={"n": 10},
    losses=("exponential",),
)
