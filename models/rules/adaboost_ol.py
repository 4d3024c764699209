"""AdaBoost.OL and AdaBoost.OL.W: an online logistic learner over the votes of the weak ones, and
experts that choose how many of them count.

Beygelzimer, Kale, Luo, Optimal and Adaptive Algorithms for Online Boosting, ICML 2015, Algorithm 2;
specification, 6.2 and 6.3, with erratum E15.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from kaboost.models.kernels.jit import kernel
from kaboost.models.kernels.numeric import bits_of, fill, sigmoid
from kaboost.models.kernels.random import State, generator, uniform
from kaboost.models.rules.vote_scores import (
    DISCRETE,
    cast_vote,
    classification_mode,
    vote_loss,
    vote_prefix_losses,
    vote_probabilities,
)
from kaboost.models.types import BuildContext, Component, Ints, Loss, Mat, Param, Vec
from kaboost.models.verbs import (
    combine,
    combine_served,
    inverse_link,
    learning_only,
    observe_features,
    prefix_losses,
    rule_scratch_size,
    served_loss,
    targets,
    to_prediction,
    update_rule,
    value,
    value_gradient_prefixes,
)

EXPECTED, SAMPLED, FULL = 0, 1, 2
VOTES = {"expected": EXPECTED, "sampled": SAMPLED, "full": FULL}
ALPHA_LIMIT = 2.0
WRONG_EXPERT_FACTOR = math.exp(-1.0)  # multiplies the weight of a wrong expert
HASH_PRIME, HASH_MULTIPLIER = 2**31 - 1, 48271
EXPERT_WEIGHT_FLOOR = 1e-300  # of an expert's weight, so that it can recover


class AdaBoostOl(NamedTuple):
    """State of the rule: a coefficient and an expert for every learner.

    The weights of the experts are kept as such, not as logarithms: with the floor no product
    leaves the range, and a prediction needs no exponentials. They shrink by e^-1 whatever the
    importance of the event, which scales weights and the steps of alpha.

    A sampled vote is drawn from the generator while learning and from a hash of the event where
    nothing is learned, so `predict_many` and a following `learn_many` may sample different experts.
    """

    mode: int
    discrete: bool
    reject: bool  # learners get weight 1 with probability w_i, instead of w_i
    vote: int
    t_max: float  # events after which steps shrink no more
    alpha: Vec  # (N,) coefficients of the votes
    v: Vec  # (N,) weights of the experts, summing to 1
    t: Ints  # () events of positive weight
    state: State  # () generator
    drawn: Vec  # () the draw that samples the expert of the next event learned


@learning_only.register
def _(rule: AdaBoostOl) -> tuple[str, ...]:
    return ("t", "state", "drawn")


@kernel
def fill_prefix_votes(rule: AdaBoostOl, h: Mat, F: Mat) -> None:
    """Fill F (1, N+1): sums of the weighted votes where all count, else the expected vote of the
    first i experts.
    """
    total, expected, weight = 0.0, 0.0, 0.0
    F[0, 0] = 0.0
    for i in range(h.shape[1]):
        total += rule.alpha[i] * cast_vote(h[0, i], rule.discrete)
        weight += rule.v[i]
        expected += rule.v[i] if total >= 0.0 else -rule.v[i]
        F[0, i + 1] = total if rule.vote == FULL else expected / weight


@kernel
def sampled_vote(rule: AdaBoostOl, h: Mat, u: float) -> float:
    """Return the vote of the expert that u in [0, 1) draws: the first whose cumulative weight
    exceeds u.
    """
    total, weight = 0.0, 0.0
    for i in range(h.shape[1]):
        total += rule.alpha[i] * cast_vote(h[0, i], rule.discrete)
        weight += rule.v[i]
        if weight > u:
            break
    return 1.0 if total >= 0.0 else -1.0


@combine.register
def _(rule: AdaBoostOl, h: Mat, F: Mat, yhat: Vec, rule_scratch: Vec) -> None:
    fill_prefix_votes(rule, h, F)
    yhat[0] = (
        sampled_vote(rule, h, float(rule.drawn[()])) if rule.vote == SAMPLED else F[0, h.shape[1]]
    )


@rule_scratch_size.register
def _(rule: AdaBoostOl) -> int:
    return 1  # the draw of an event that is only predicted


@observe_features.register
def _(rule: AdaBoostOl, x: Vec, rule_scratch: Vec) -> None:
    if rule.vote == SAMPLED:
        fill(rule_scratch, hash_to_unit(x, float(rule.v[0])))


@combine_served.register
def _(rule: AdaBoostOl, h: Mat, F: Mat, yhat: Vec, rule_scratch: Vec) -> None:
    # A pure prediction draws nothing: a hash of the event chooses the expert (7.8).
    fill_prefix_votes(rule, h, F)
    yhat[0] = (
        sampled_vote(rule, h, float(rule_scratch[0])) if rule.vote == SAMPLED else F[0, h.shape[1]]
    )


@targets.register
def _(
    rule: AdaBoostOl, loss: Loss, y: Vec, h: Mat, F: Mat, G: Mat, T: Mat, W: Vec, rule_scratch: Vec
) -> None:
    margin = 0.0
    for i in range(h.shape[1]):
        T[0, i] = y[0]
        share = sigmoid(-margin)
        if rule.reject:
            W[i] = W[i] if uniform(rule.state) < share else 0.0
        else:
            W[i] *= share
        margin += rule.alpha[i] * y[0] * cast_vote(h[0, i], rule.discrete)


@update_rule.register
def _(
    rule: AdaBoostOl, loss: Loss, y: Vec, h: Mat, F: Mat, G: Mat, w: float, rule_scratch: Vec
) -> None:
    rule.t[()] += 1
    step = w * 4.0 / math.sqrt(min(float(rule.t[()]), rule.t_max))
    vote, total = 0.0, 0.0
    for i in range(h.shape[1]):
        cast = cast_vote(h[0, i], rule.discrete)
        vote += rule.alpha[i] * cast
        if (vote >= 0.0) != (y[0] > 0.0):
            rule.v[i] *= WRONG_EXPERT_FACTOR
        total += rule.v[i]
        moved = rule.alpha[i] + step * y[0] * cast * sigmoid(-y[0] * vote)
        rule.alpha[i] = min(max(moved, -ALPHA_LIMIT), ALPHA_LIMIT)
    for i in range(h.shape[1]):
        rule.v[i] = max(rule.v[i] / total, EXPERT_WEIGHT_FLOOR)
    if rule.vote == SAMPLED:
        rule.drawn[()] = uniform(rule.state)


@prefix_losses.register
def _(rule: AdaBoostOl, loss: Loss, F: Mat, y: Vec, G: Mat, L: Vec) -> None:
    if rule.vote == FULL:
        value_gradient_prefixes(loss, F, y, G, L)
    else:
        vote_prefix_losses(F, y, L)


@served_loss.register
def _(rule: AdaBoostOl, loss: Loss, s: Vec, y: Vec) -> float:
    if rule.vote == FULL:
        return value(loss, s, y)  # type: ignore[no-any-return]
    return vote_loss(s, y)


@to_prediction.register
def _(rule: AdaBoostOl, loss: Loss, s: Vec, p: Vec) -> None:
    if rule.vote == FULL:
        inverse_link(loss, s, p)
    else:
        vote_probabilities(s, p)


@kernel
def hash_to_unit(x: Vec, salt: float) -> float:
    """Return a hash of x (d,) and the salt in [0, 1); the salt lets the boosters of one versus rest
    draw differently.

    Modulo the prime 2^31 - 1, so that no product leaves 64 bits.
    """
    code = 1 + bits_of(salt) % HASH_PRIME
    for j in range(x.shape[0]):
        code = (code * HASH_MULTIPLIER + bits_of(x[j] + 0.0) % HASH_PRIME) % HASH_PRIME  # -0 is 0
    for _ in range(3):  # neighbours in x must not be neighbours here
        code = (code * HASH_MULTIPLIER) % HASH_PRIME
    return code / HASH_PRIME


def _make(params: Mapping[str, Any], context: BuildContext) -> AdaBoostOl:
    N, state = context.learners, generator(context.full["seed"])
    vote, t_max = VOTES[params["vote"]], params["t_max"]
    return AdaBoostOl(
        mode=classification_mode(context),
        discrete=params["discrete"],
        reject=params["feed"] == "reject",
        vote=vote,
        t_max=math.inf if t_max is None else t_max,
        alpha=np.zeros(N),
        v=np.full(N, 1.0 / N),
        t=np.zeros((), np.int64),
        drawn=np.array(uniform(state) if vote == SAMPLED else 0.0),
        state=state,
    )


def _component(kind: str, summary: str, vote: str) -> Component:
    return Component(
        kind,
        summary,
        "Beygelzimer, Kale, Luo 2015, Algorithm 2",
        (
            Param(
                "feed",
                "weight",
                "learners get their weight, or weight 1 with that chance",
                choices=("weight", "reject"),
            ),
            Param(
                "vote",
                vote,
                "the experts' mean, one expert drawn by weight, or the sum of all votes",
                choices=tuple(VOTES),
            ),
            DISCRETE,
            Param("t_max", None, "events after which steps shrink no more", 1.0, 1e18),
        ),
        _make,
        losses=("logistic",),
    )


ADABOOST_OL = _component(
    "adaboost_ol",
    "an online logistic learner over votes; experts choose how many count",
    "expected",
)
ADABOOST_OL_W = _component("adaboost_ol_w", "adaboost_ol without experts: all votes count", "full")
