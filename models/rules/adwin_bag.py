"""Bagging with change detection: when the errors of any learner change, the worst one is reset.

Bifet, Gavalda 2007 and Bifet, Holmes, Pfahringer, Kirkby, Gavalda, New Ensemble Methods for
Evolving Data Streams, KDD 2009; specification, 6.7.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from kaboost.models.kernels.jit import kernel
from kaboost.models.kernels.numeric import chosen
from kaboost.models.rules.adwin import Adwin, adwin, reset, update, window_mean
from kaboost.models.rules.oza import CLASS_SCALES, fill_class_targets, mean_votes
from kaboost.models.rules.poisson_feed import (
    FEED,
    RATE,
    Feed,
    Lesson,
    learn_copies,
    make_feed,
    reject_unused_rate,
)
from kaboost.models.rules.vote_scores import classification_mode, scored_by_votes
from kaboost.models.types import Bank, BuildContext, Component, Ints, Mat, Param, SingleScratch, Vec
from kaboost.models.verbs import (
    combine,
    learn_sequentially,
    learning_only,
    predict_one,
    reset_learner,
    sequential,
)


@scored_by_votes
class AdwinBag(NamedTuple):
    """State of the rule: a detector for every learner."""

    mode: int
    feed: Feed
    detectors: Adwin
    renewed: Ints  # () how many learners were reset


@learning_only.register
def _(rule: AdwinBag) -> tuple[str, ...]:
    return ("renewed",)


@sequential.register
def _(rule: AdwinBag) -> bool:
    return True


@combine.register
def _(rule: AdwinBag, h: Mat, F: Mat, yhat: Vec, rule_scratch: Vec) -> None:
    mean_votes(h, F)
    for c in range(h.shape[0]):
        yhat[c] = F[c, h.shape[1]]


@learn_sequentially.register
def _(
    rule: AdwinBag, bank: Bank, y: Vec, x: Vec, w: float, T: Mat, W: Vec, single: SingleScratch
) -> None:
    label = fill_class_targets(y, T)
    lesson = Lesson(rule.mode, rule.feed, T, W)
    changed = False
    for i in range(W.shape[0]):
        predict_one(bank, i, x, single)
        wrong = chosen(single.h, 0) != label
        if update(rule.detectors, i, 1.0 if wrong else 0.0):
            changed = True
        learn_copies(lesson, w, bank, i, x, single)
    if changed:
        i = worst_learner(rule.detectors)
        reset_learner(bank, i, rule.feed.state)
        reset(rule.detectors, i)
        rule.renewed[()] += 1


@kernel
def worst_learner(a: Adwin) -> int:
    """Return the learner whose window has the largest mean error; ties go to the first."""
    worst = 0
    for i in range(1, a.width.shape[0]):
        worst = i if window_mean(a, i) > window_mean(a, worst) else worst
    return worst


def _make(params: Mapping[str, Any], context: BuildContext) -> AdwinBag:
    detectors = adwin(context.learners, params["delta"])
    return AdwinBag(
        classification_mode(context), make_feed(params, context), detectors, np.zeros((), np.int64)
    )


ADWIN_BAG = Component(
    "adwin_bag",
    "oza_bag whose worst learner is reset when the errors of any of them change",
    "Bifet and others 2009",
    (
        FEED,
        RATE,
        Param("delta", 0.002, "chance that a detector raises a false alarm", 1e-12, 1.0),
    ),
    _make,
    reject_unused_rate,
    default_bank={"n": 10},
    loss_scales=CLASS_SCALES,
)
