"""The Poisson feed of online bagging and boosting: a learner learns a Poisson number of copies of
an event, or the event once with its weight.

Oza, Russell, Online Bagging and Boosting, AISTATS 2001; specification, 6.4.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from kaboost.models.kernels.jit import kernel
from kaboost.models.kernels.random import RATE_LIMIT, State, generator, poisson
from kaboost.models.types import (
    TARGET_LIMIT,
    Bank,
    BuildContext,
    Ints,
    Mat,
    Param,
    SingleScratch,
    Vec,
)
from kaboost.models.verbs import learn_one, learning_only

FEED = Param(
    "feed",
    "poisson",
    "a Poisson draw of unit updates, or one update with the weight",
    choices=("poisson", "weight"),
)
RATE = Param("rate", 1.0, "what multiplies the rate of the Poisson draw", 1e-6, 100.0)


class Feed(NamedTuple):
    """How many copies of an event a learner learns."""

    poisson: bool  # a Poisson draw of unit updates, not one update with the weight
    rate: float  # what multiplies the rate of the draw
    state: State  # () generator
    capped: Ints  # () draws whose rate was cut to 100


class Lesson(NamedTuple):
    """What the learners of one event share."""

    mode: int
    feed: Feed
    T: Mat  # (m, N) targets
    W: Vec  # (N,) filled with the weight, or the number of unit updates, of each learner


@learning_only.register
def _(rule: Feed) -> tuple[str, ...]:
    return ("state", "capped")


@kernel
def learn_copies(
    lesson: Lesson, weight: float, bank: Bank, i: int, x: Vec, single: SingleScratch
) -> None:
    """Let learner i learn column i of T with `weight`: once, or by a Poisson number of updates."""
    feed, T, W = lesson.feed, lesson.T, lesson.W
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
        learn_one(bank, i, x, lesson.mode, single)


def reject_unused_rate(context: Mapping[str, Any]) -> str | None:
    """Refuse a rate where nothing is drawn."""
    params = context["rule"]
    if params["feed"] == "weight" and params["rate"] != RATE.default:
        return "rate multiplies the Poisson draw, and feed weight draws nothing; leave it out"
    return None


def make_feed(params: Mapping[str, Any], context: BuildContext) -> Feed:
    """Return the feed, with a generator that starts at the specification's seed."""
    state = generator(context.full["seed"])
    return Feed(params["feed"] == "poisson", params["rate"], state, np.zeros((), np.int64))
