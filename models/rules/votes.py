"""Scores that are votes: what a weak learner's score votes for, the probability of a vote in
[-1, 1], and the log-loss of that probability (specification, section 0, Prefixes and
probabilities).
"""

from __future__ import annotations

import math
from typing import Any, TypeVar, cast

from kaboost.models.kernels.jit import kernel
from kaboost.models.types import LOGISTIC, BuildContext, Mat, ModelError, Param, Vec
from kaboost.models.verbs import prefix_losses, served_loss, to_prediction

Kind = TypeVar("Kind", bound=type)

SURE = 1e-6  # no vote gives a probability nearer to 0 or 1 than this

DISCRETE = Param("discrete", True, "learners vote -1 or 1; else their score, clipped to [-1, 1]")


def votes(kind: Kind) -> Kind:
    """Give a rule whose scores are votes the verbs that judge and say them: (1,) in [-1, 1] of two
    classes, shares (m,) of the vote of more.
    """
    for each, function in ((prefix_losses, _judge), (served_loss, _cost), (to_prediction, _say)):
        cast(Any, each).register(kind, function)
    return kind


def classifying(setting: BuildContext) -> int:
    """Return the mode of a rule whose learners learn classes; ModelError for a bank that cannot."""
    if LOGISTIC not in setting.bank.modes:
        rule, bank = setting.full["rule"]["kind"], setting.bank.kind
        raise ModelError(
            f"bank: {bank} learners cannot learn classes, as {rule} asks; "
            "take linear, nets or trees"
        )
    return LOGISTIC


@kernel
def cast_vote(score: float, discrete: bool) -> float:
    """Return what a score votes for: its sign, +1 for 0, or itself clipped to [-1, 1]."""
    if discrete:
        return 1.0 if score >= 0.0 else -1.0
    return min(max(score, -1.0), 1.0)


@kernel
def chance(vote: float) -> float:
    """Return (1 + vote) / 2, at least 1e-6 and at most 1 - 1e-6."""
    return min(max(0.5 * (1.0 + vote), SURE), 1.0 - SURE)


@kernel
def vote_loss(s: Vec, y: Vec) -> float:
    """Return -ln of the probability that votes s (m,) give the label."""
    if s.shape[0] == 1:
        return -math.log(chance(y[0] * s[0]))
    total = 0.0
    for c in range(s.shape[0]):
        total += max(s[c], SURE)
    return math.log(total / max(s[int(y[0])], SURE))


@kernel
def say_vote(s: Vec, p: Vec) -> None:
    """Fill p (m,) with the probabilities of votes s (m,)."""
    if s.shape[0] == 1:
        p[0] = chance(s[0])
    else:
        total = 0.0
        for c in range(s.shape[0]):
            total += max(s[c], SURE)
        for c in range(s.shape[0]):
            p[c] = max(s[c], SURE) / total


@kernel
def judge_votes(F: Mat, y: Vec, L: Vec) -> None:
    """Fill L (N+1,) with the loss of every prefix F (m, N+1)."""
    for i in range(F.shape[1]):
        L[i] = -math.log(chance(y[0] * F[0, i])) if F.shape[0] == 1 else vote_loss(F[:, i], y)


def _judge(rule: Any, loss: Any, F: Mat, y: Vec, G: Mat, L: Vec) -> None:
    judge_votes(F, y, L)  # votes have no gradient: G stays as it is


def _cost(rule: Any, loss: Any, s: Vec, y: Vec) -> float:
    return vote_loss(s, y)


def _say(rule: Any, loss: Any, s: Vec, p: Vec) -> None:
    say_vote(s, p)
