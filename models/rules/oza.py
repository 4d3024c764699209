"""Online boosting and bagging by Poisson copies: every learner sees an event so many times.

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
from kaboost.models.kernels.random import RATE_LIMIT, State, generator, poisson
from kaboost.models.rules.votes import classifying, votes
from kaboost.models.types import (
    SQUARE,
    TARGET_LIMIT,
    BuildContext,
    Component,
    Ints,
    Mat,
    Param,
    Scale,
    Vec,
)
from kaboost.models.verbs import (
    combine,
    learn_one,
    learn_sequentially,
    learning_only,
    predict_one,
    sequential,
)

SURE = 1e-10  # no learner counts as nearer to error 0 than this
CLASS_SCALES: tuple[Scale, ...] = ("log_odds", "log_probabilities")


class Feed(NamedTuple):
    """How often a learner sees an event."""

    poisson: bool  # a Poisson draw of unit updates, not one update with the weight
    rate: float  # what multiplies the rate of the draw
    state: State  # () generator
    capped: Ints  # () draws whose rate was cut to 100


@votes
class OzaBoost(NamedTuple):
    """State of the rule: the weight each learner got right and wrong."""

    mode: int
    feed: Feed
    t_max: float  # weight of events after which sc and sw forget
    sc: Vec  # (N,) weight of the events it got right
    sw: Vec  # (N,) weight of those it got wrong
    votes: Vec  # (N,) what its vote counts: ln((1-e)/e), 0 from error 1/2 on


@votes
class OzaBag(NamedTuple):
    """State of the rule: how learners are fed, no more; equal votes."""

    mode: int
    feed: Feed


class OzaMean(NamedTuple):
    """The same for numbers: the mean of the predictions."""

    mode: int
    feed: Feed


@learning_only.register
def _(rule: Feed) -> tuple[str, ...]:
    return ("state", "capped")


@learning_only.register
def _(rule: OzaBoost) -> tuple[str, ...]:
    return ("sc", "sw")


@sequential.register(OzaBoost)
@sequential.register(OzaBag)
@sequential.register(OzaMean)
def _(rule: Any) -> bool:
    return True


@combine.register
def _(rule: OzaBoost, h: Mat, F: Mat, yhat: Vec, rule_scratch: Vec) -> None:
    poll(h, rule.votes, F)
    for c in range(h.shape[0]):
        yhat[c] = F[c, h.shape[1]]


@combine.register
def _(rule: OzaBag, h: Mat, F: Mat, yhat: Vec, rule_scratch: Vec) -> None:
    poll_equals(h, F)
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
def _(rule: OzaBoost, bank: Any, y: Vec, x: Vec, w: float, T: Mat, W: Vec, single: Any) -> None:
    label = aim(y, T)
    weight = w
    for i in range(W.shape[0]):
        teach(rule, bank, i, x, (weight, T, W), single)
        predict_one(bank, i, x, single)
        right = chosen(single.h, 0) == label
        weight = count(rule, i, weight, right)


@learn_sequentially.register
def _(rule: OzaBag, bank: Any, y: Vec, x: Vec, w: float, T: Mat, W: Vec, single: Any) -> None:
    aim(y, T)
    for i in range(W.shape[0]):
        teach(rule, bank, i, x, (w, T, W), single)


@learn_sequentially.register
def _(rule: OzaMean, bank: Any, y: Vec, x: Vec, w: float, T: Mat, W: Vec, single: Any) -> None:
    for i in range(W.shape[0]):
        for c in range(y.shape[0]):
            T[c, i] = y[c]
        teach(rule, bank, i, x, (w, T, W), single)


@kernel
def count(rule: OzaBoost, i: int, weight: float, right: bool) -> float:
    """Count the event's weight for learner i; return the weight for the learner after it."""
    sums = rule.sc if right else rule.sw
    sums[i] += weight
    total = rule.sc[i] + rule.sw[i]
    if sums[i] > 0.0:  # a long run of halvings ends at 0
        weight *= total / (2.0 * sums[i])
    if total > rule.t_max:
        rule.sc[i] *= rule.t_max / total
        rule.sw[i] *= rule.t_max / total
    rule.votes[i] = vote(rule.sc[i], rule.sw[i])
    return weight


@kernel
def poll(h: Mat, weights: Vec, F: Mat) -> None:
    """Fill F (m, N+1) with the weighted vote of the first i learners: in [-1, 1] for two classes,
    else every class's share; by equal votes while all weights are 0.
    """
    m, N = h.shape
    poll_equals(h, F)
    weight = 0.0
    for i in range(N):
        if weights[i] > 0.0 or weight > 0.0:
            share = weights[i] / (weight + weights[i])
            weight += weights[i]
            said = chosen(h, i)
            for c in range(m):
                before = F[c, i] if weight > weights[i] else 0.0
                F[c, i + 1] = before + share * (ballot(said, c, m) - before)


@kernel
def poll_equals(h: Mat, F: Mat) -> None:
    """Fill F (m, N+1) with the mean vote of the first i learners."""
    m, N = h.shape
    for c in range(m):
        F[c, 0] = 0.0
    for i in range(N):
        said = chosen(h, i)
        for c in range(m):
            F[c, i + 1] = F[c, i] + ballot(said, c, m)
    for c in range(m):
        for i in range(N):
            F[c, i + 1] /= i + 1.0


@kernel
def ballot(said: int, c: int, m: int) -> float:
    """Return what a vote for class `said` adds to output c: -1 or 1 where there is one output."""
    if m == 1:
        return 1.0 if said == 1 else -1.0
    return 1.0 if said == c else 0.0


@kernel
def vote(right: float, wrong: float) -> float:
    """Return the weight of a learner's vote: ln((1-e)/e) for its error e, 0 from 1/2 on."""
    if not wrong < right:
        return 0.0
    error = max(wrong / (right + wrong), SURE)
    return math.log((1.0 - error) / error)


@kernel
def aim(y: Vec, T: Mat) -> int:
    """Fill T (m, N) with the class as +-1 for every output; return the class."""
    m, N = T.shape
    label = int(y[0])
    for c in range(m):
        for i in range(N):
            T[c, i] = y[0] if m == 1 else (1.0 if c == label else -1.0)
    return (1 if y[0] > 0.0 else 0) if m == 1 else label


@kernel
def teach(rule: Any, bank: Any, i: int, x: Vec, task: Any, single: Any) -> None:
    """Let learner i learn column i of T (m, N) with `weight`, and put what it got into W (N,);
    `task` is weight, T, W.
    """
    weight, T, W = task
    feed = rule.feed
    times = 1
    W[i] = weight
    if feed.poisson:
        feed.capped[()] += 1 if feed.rate * weight > RATE_LIMIT else 0
        times = poisson(feed.state, feed.rate * weight)
        W[i] = float(times)
    for _ in range(times):
        for c in range(T.shape[0]):
            single.target[c, 0] = min(max(T[c, i], -TARGET_LIMIT), TARGET_LIMIT)
        single.weight[0] = 1.0 if feed.poisson else weight
        learn_one(bank, i, x, rule.mode, single)


FEED = Param(
    "feed",
    "poisson",
    "a Poisson draw of unit updates, or one update with the weight",
    choices=("poisson", "weight"),
)
RATE = Param("rate", 1.0, "what multiplies the rate of the Poisson draw", 1e-6, 100.0)
T_MAX = Param(
    "t_max", None, "weight of events after which counts of right and wrong forget", 1.0, 1e18
)


def unused_rate(context: Mapping[str, Any]) -> str | None:
    """Refuse a rate where nothing is drawn."""
    own = context["rule"]
    if own["feed"] == "weight" and own["rate"] != RATE.default:
        return "rate multiplies the Poisson draw, and feed weight draws nothing; leave it out"
    return None


def feeding(params: Mapping[str, Any], setting: BuildContext) -> Feed:
    """Return how learners are fed, with a generator that starts at the specification's seed."""
    state = generator(setting.full["seed"])
    return Feed(params["feed"] == "poisson", params["rate"], state, np.zeros((), np.int64))


def _boost(params: Mapping[str, Any], setting: BuildContext) -> OzaBoost:
    N = setting.learners
    slowest = math.inf if params["t_max"] is None else params["t_max"]
    feed = feeding(params, setting)
    return OzaBoost(classifying(setting), feed, slowest, np.zeros(N), np.zeros(N), np.zeros(N))


def _bag(params: Mapping[str, Any], setting: BuildContext) -> OzaBag | OzaMean:
    feed = feeding(params, setting)
    if setting.traits.scale == "numbers":
        return OzaMean(SQUARE, feed)
    return OzaBag(classifying(setting), feed)


OZA_BOOST = Component(
    "oza_boost",
    "every learner sees an event the oftener the more of those before it were wrong",
    "Oza, Russell 2001; Oza 2005",
    (FEED, RATE, T_MAX),
    _boost,
    unused_rate,
    default_bank={"n": 10},
    loss_scales=CLASS_SCALES,
)
OZA_BAG = Component(
    "oza_bag",
    "every learner sees an event a Poisson number of times; equal votes, or the mean of numbers",
    "Oza, Russell 2001",
    (FEED, RATE),
    _bag,
    unused_rate,
    default_bank={"n": 10},
    # A mean of predictions is a prediction only where the score is the prediction.
    loss_scales=(*CLASS_SCALES, "numbers"),
)
