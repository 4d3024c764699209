"""Scores that are votes: the vote of a weak learner, the probability that a vote in [-1, 1] stands
for, and its log-loss (specification, section 0, Prefixes and probabilities).
"""

from __future__ import annotations

import math
from typing import Any, TypeVar, cast

from kaboost.models.kernels.jit import kernel
from kaboost.models.types import LOGISTIC, BuildContext, Loss, Mat, ModelError, Param, Rule, Vec
from kaboost.models.verbs import prefix_losses, served_loss, to_prediction

Kind = TypeVar("Kind", bound=type)

PROBABILITY_FLOOR = 1e-6  # the least probability that a vote stands for

DISCRETE = Param("discrete", True, "learners vote -1 or 1; else their score, clipped to [-1, 1]")


def scored_by_votes(kind: Kind) -> Kind:
    """Register losses and predictions for a rule whose scores are votes: (1,) in [-1, 1] of two
    classes, shares (m,) of more.
    """
    for table, function in (
        (prefix_losses, _prefix_losses),
        (served_loss, _served_loss),
        (to_prediction, _to_prediction),
    ):
        cast(Any, table).register(kind, function)
    return kind


def classification_mode(context: BuildContext) -> int:
    """Return the mode in which learners learn classes; ModelError for a bank that cannot."""
    if LOGISTIC not in context.bank.modes:
        rule, bank = context.full["rule"]["kind"], context.bank.kind
        raise ModelError(
            f"bank: {bank} learners cannot learn classes, as {rule} asks; "
            "take linear, nets or trees"
        )
    return LOGISTIC


@kernel
def cast_vote(score: float, discrete: bool) -> float:
    """Return the vote of a score: its sign, +1 for 0, or the score clipped to [-1, 1]."""
    if discrete:
        return 1.0 if score >= 0.0 else -1.0
    return min(max(score, -1.0), 1.0)


@kernel
def vote_probability(vote: float) -> float:
    """Return (1 + vote) / 2, at least 1e-6 and at most 1 - 1e-6."""
    return min(max(0.5 * (1.0 + vote), PROBABILITY_FLOOR), 1.0 - PROBABILITY_FLOOR)


@kernel
def vote_loss(s: Vec, y: Vec) -> float:
    """Return -ln of the probability that votes s (m,) give the label."""
    if s.shape[0] == 1:
        return -math.log(vote_probability(y[0] * s[0]))
    total = 0.0
    for c in range(s.shape[0]):
        total += max(s[c], PROBABILITY_FLOOR)
    return math.log(total / max(s[int(y[0])], PROBABILITY_FLOOR))


@kernel
def vote_probabilities(s: Vec, p: Vec) -> None:
    """Fill p (m,) with the probabilities of votes s (m,)."""
    if s.shape[0] == 1:
        p[0] = vote_probability(s[0])
    else:
        total = 0.0
        for c in range(s.shape[0]):
            total += max(s[c], PROBABILITY_FLOOR)
        for c in range(s.shape[0]):
            p[c] = max(s[c], PROBABILITY_FLOOR) / total


@kernel
def vote_prefix_losses(F: Mat, y: Vec, L: Vec) -> None:
    """Fill L (N+1,) with the loss of every prefix F (m, N+1)."""
    for i in range(F.shape[1]):
        L[i] = (
            -math.log(vote_probability(y[0] * F[0, i]))
            if F.shape[0] == 1
            else vote_loss(F[:, i], y)
        )


def _prefix_losses(rule: Rule, loss: Loss, F: Mat, y: Vec, G: Mat, L: Vec) -> None:
    vote_prefix_losses(F, y, L)  # votes have no gradient: G stays as it is


def _served_loss(rule: Rule, loss: Loss, s: Vec, y: Vec) -> float:
    return vote_loss(s, y)


def _to_prediction(rule: Rule, loss: Loss, s: Vec, p: Vec) -> None:
    vote_probabilities(s, p)
