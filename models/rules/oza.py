"""Online boosting and bagging: every learner learns a Poisson number of copies of an event.

Oza, Russell, Online Bagging and Boosting, AISTATS 2001; Oza 2005; specification, 6.4 and 6.5. Two
classes or more, and the mean of numbers by bagging.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from kaboost.models.kernels.jit import kernel
from kaboost.models.kernels.numeric import chosen
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
from kaboost.models.types import (
    SQUARE,
    Bank,
    BuildContext,
    Component,
    Mat,
    Param,
    Scale,
    SingleScratch,
    Vec,
)
from kaboost.models.verbs import (
    combine,
    learn_sequentially,
    learning_only,
    predict_one,
    sequential,
)

ERROR_FLOOR = 1e-10  # a smaller error of a learner counts as this
CLASS_SCALES: tuple[Scale, ...] = ("log_odds", "log_probabilities")


@scored_by_votes
class OzaBoost(NamedTuple):
    """State of the rule: the weight of the events that each learner got right and wrong."""

    mode: int
    feed: Feed
    t_max: float  # weight of events after which sc and sw forget
    sc: Vec  # (N,) weight of the events it got right
    sw: Vec  # (N,) weight of those it got wrong
    votes: Vec  # (N,) weight of its vote: ln((1-e)/e), 0 from error 1/2 on


@scored_by_votes
class OzaBag(NamedTuple):
    """State of the rule: equal votes."""

    mode: int
    feed: Feed


class OzaMean(NamedTuple):
    """State of the rule for numbers: the mean of the predictions."""

    mode: int
    feed: Feed


@learning_only.register
def _(rule: OzaBoost) -> tuple[str, ...]:
    return ("sc", "sw")


@sequential.register
def _(rule: OzaBoost | OzaBag | OzaMean) -> bool:
    return True


@combine.register
def _(rule: OzaBoost, h: Mat, F: Mat, yhat: Vec, rule_scratch: Vec) -> None:
    weighted_votes(h, rule.votes, F)
    for c in range(h.shape[0]):
        yhat[c] = F[c, h.shape[1]]


@combine.register
def _(rule: OzaBag, h: Mat, F: Mat, yhat: Vec, rule_scratch: Vec) -> None:
    mean_votes(h, F)
    for c in range(h.shape[0]):
        yhat[c] = F[c, h.shape[1]]


@combine.register
def _(rule: OzaMean, h: Mat, F: Mat, yhat: Vec, rule_scratch: Vec) -> None:
    for c in range(h.shape[0]):
        total = 0.0
        F[c, 0] = 0.0
        for i in range(h.shape[1]):
            total += h[c, i]
            F[c, i + 1] = total / (i + 1.0)
        yhat[c] = F[c, h.shape[1]]


@learn_sequentially.register
def _(
    rule: OzaBoost, bank: Bank, y: Vec, x: Vec, w: float, T: Mat, W: Vec, single: SingleScratch
) -> None:
    label = fill_class_targets(y, T)
    lesson = Lesson(rule.mode, rule.feed, T, W)
    weight = w
    for i in range(W.shape[0]):
        learn_copies(lesson, weight, bank, i, x, single)
        predict_one(bank, i, x, single)
        right = chosen(single.h, 0) == label
        weight = update_error_counts(rule, i, weight, right)


@learn_sequentially.register
def _(
    rule: OzaBag, bank: Bank, y: Vec, x: Vec, w: float, T: Mat, W: Vec, single: SingleScratch
) -> None:
    fill_class_targets(y, T)
    lesson = Lesson(rule.mode, rule.feed, T, W)
    for i in range(W.shape[0]):
        learn_copies(lesson, w, bank, i, x, single)


@learn_sequentially.register
def _(
    rule: OzaMean, bank: Bank, y: Vec, x: Vec, w: float, T: Mat, W: Vec, single: SingleScratch
) -> None:
    lesson = Lesson(rule.mode, rule.feed, T, W)
    for i in range(W.shape[0]):
        for c in range(y.shape[0]):
            T[c, i] = y[c]
        learn_copies(lesson, w, bank, i, x, single)


@kernel
def update_error_counts(rule: OzaBoost, i: int, weight: float, right: bool) -> float:
    """Add the event's weight to the sums of learner i; return the weight for the next learner."""
    sums = rule.sc if right else rule.sw
    sums[i] += weight
    total = rule.sc[i] + rule.sw[i]
    if sums[i] > 0.0:  # a long run of halvings ends at 0
        weight *= total / (2.0 * sums[i])
    if total > rule.t_max:
        rule.sc[i] *= rule.t_max / total
        rule.sw[i] *= rule.t_max / total
    rule.votes[i] = vote_weight(rule.sc[i], rule.sw[i])
    return weight


@kernel
def weighted_votes(h: Mat, weights: Vec, F: Mat) -> None:
    """Fill F (m, N+1) with the weighted vote of the first i learners: in [-1, 1] for two classes,
    else every class's share; by equal votes while all weights are 0.
    """
    m, N = h.shape
    mean_votes(h, F)
    weight = 0.0
    for i in range(N):
        if weights[i] > 0.0 or weight > 0.0:
            share = weights[i] / (weight + weights[i])
            weight += weights[i]
            voted = chosen(h, i)
            for c in range(m):
                before = F[c, i] if weight > weights[i] else 0.0
                F[c, i + 1] = before + share * (vote_value(voted, c, m) - before)


@kernel
def mean_votes(h: Mat, F: Mat) -> None:
    """Fill F (m, N+1) with the mean vote of the first i learners."""
    m, N = h.shape
    for c in range(m):
        F[c, 0] = 0.0
    for i in range(N):
        voted = chosen(h, i)
        for c in range(m):
            F[c, i + 1] = F[c, i] + vote_value(voted, c, m)
    for c in range(m):
        for i in range(N):
            F[c, i + 1] /= i + 1.0


@kernel
def vote_value(voted: int, c: int, m: int) -> float:
    """Return what a vote for class `voted` adds to output c: -1 or 1 where there is one output."""
    if m == 1:
        return 1.0 if voted == 1 else -1.0
    return 1.0 if voted == c else 0.0


@kernel
def vote_weight(right: float, wrong: float) -> float:
    """Return the weight of a learner's vote: ln((1-e)/e) for its error e, 0 from 1/2 on."""
    if not wrong < right:
        return 0.0
    error = max(wrong / (right + wrong), ERROR_FLOOR)
    return math.log((1.0 - error) / error)


@kernel
def fill_class_targets(y: Vec, T: Mat) -> int:
    """Fill T (m, N) with the class as +-1 for every output; return the class."""
    m, N = T.shape
    label = int(y[0])
    for c in range(m):
        for i in range(N):
            T[c, i] = y[0] if m == 1 else (1.0 if c == label else -1.0)
    return (1 if y[0] > 0.0 else 0) if m == 1 else label


T_MAX = Param(
    "t_max", None, "weight of events after which counts of right and wrong forget", 1.0, 1e18
)


def _boost(params: Mapping[str, Any], context: BuildContext) -> OzaBoost:
    N = context.learners
    t_max = math.inf if params["t_max"] is None else params["t_max"]
    feed = make_feed(params, context)
    return OzaBoost(
        classification_mode(context), feed, t_max, np.zeros(N), np.zeros(N), np.zeros(N)
    )


def _bag(params: Mapping[str, Any], context: BuildContext) -> OzaBag | OzaMean:
    feed = make_feed(params, context)
    if context.traits.scale == "numbers":
        return OzaMean(SQUARE, feed)
    return OzaBag(classification_mode(context), feed)


OZA_BOOST = Component(
    "oza_boost",
    "every learner learns an event more often the more of those before it were wrong",
    "Oza, Russell 2001; Oza 2005",
    (FEED, RATE, T_MAX),
    _boost,
    reject_unused_rate,
    default_bank={"n": 10},
    loss_scales=CLASS_SCALES,
)
OZA_BAG = Component(
    "oza_bag",
    "every learner learns an event a Poisson number of times; equal votes, or the mean of numbers",
    "Oza, Russell 2001",
    (FEED, RATE),
    _bag,
    reject_unused_rate,
    default_bank={"n": 10},
    # A mean of predictions is a prediction only where the score is the prediction.
    loss_scales=(*CLASS_SCALES, "numbers"),
)
