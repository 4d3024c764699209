"""Bagging that notices change: when the errors of any learner change, the worst one starts afresh.

Bifet, Gavalda 2007 and Bifet, Holmes, Pfahringer, Kirkby, Gavalda, New Ensemble Methods for
Evolving Data Streams, KDD 2009; specification, 6.7.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from kaboost.models.kernels.jit import kernel
from kaboost.models.kernels.numeric import chosen
from kaboost.models.rules.adwin import Adwin, adwin, clear, detect, estimate
from kaboost.models.rules.oza import (
    CLASS_SCALES,
    FEED,
    RATE,
    Feed,
    aim,
    feeding,
    poll_equals,
    teach,
    unused_rate,
)
from kaboost.models.rules.votes import classifying, votes
from kaboost.models.types import BuildContext, Component, Ints, Mat, Param, Vec
from kaboost.models.verbs import (
    combine,
    learn_sequentially,
    learning_only,
    predict_one,
    reset_learner,
    sequential,
)


@votes
class AdwinBag(NamedTuple):
    """State of the rule: how learners are fed, and a detector for each."""

    mode: int
    feed: Feed
    detectors: Adwin
    renewed: Ints  # () learners started afresh


@learning_only.register
def _(rule: AdwinBag) -> tuple[str, ...]:
    return ("renewed",)


@sequential.register
def _(rule: AdwinBag) -> bool:
    return True


@combine.register
def _(rule: AdwinBag, h: Mat, F: Mat, yhat: Vec, rule_scratch: Vec) -> None:
    poll_equals(h, F)
    for c in range(h.shape[0]):
        yhat[c] = F[c, h.shape[1]]


@learn_sequentially.register
def _(rule: AdwinBag, bank: Any, y: Vec, x: Vec, w: float, T: Mat, W: Vec, single: Any) -> None:
    label = aim(y, T)
    changed = False
    for i in range(W.shape[0]):
        predict_one(bank, i, x, single)
        wrong = chosen(single.h, 0) != label
        if detect(rule.detectors, i, 1.0 if wrong else 0.0):
            changed = True
        teach(rule, bank, i, x, (w, T, W), single)
    if changed:
        i = worst(rule.detectors)
        reset_learner(bank, i, rule.feed.state)
        clear(rule.detectors, i)
        rule.renewed[()] += 1


@kernel
def worst(a: Adwin) -> int:
    """Return the learner whose window has the largest mean error, the first of equals."""
    found = 0
    for i in range(1, a.width.shape[0]):
        found = i if estimate(a, i) > estimate(a, found) else found
    return found


def _make(params: Mapping[str, Any], setting: BuildContext) -> AdwinBag:
    detectors = adwin(setting.learners, params["delta"])
    return AdwinBag(
        classifying(setting), feeding(params, setting), detectors, np.zeros((), np.int64)
    )


ADWIN_BAG = Component(
    "adwin_bag",
    "oza_bag whose worst learner starts afresh when the errors of any of them change",
    "Bifet and others 2009",
    (
        FEED,
        RATE,
        Param("delta", 0.002, "chance that a detector raises a false alarm", 1e-12, 1.0),
    ),
    _make,
    unused_rate,
    default_bank={"n": 10},
    loss_scales=CLASS_SCALES,
)
