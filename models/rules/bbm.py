"""Online boost-by-majority: the weight of learner i is the probability that its vote decides the
majority.

Beygelzimer, Kale, Luo, Optimal and Adaptive Algorithms for Online Boosting, ICML 2015, Algorithm 1;
specification, 6.1. The convention of gamma is VW's: weak error 1/2 - gamma.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from kaboost.models.kernels.jit import kernel
from kaboost.models.rules.vote_scores import (
    DISCRETE,
    cast_vote,
    classification_mode,
    scored_by_votes,
)
from kaboost.models.types import BuildContext, Component, Loss, Mat, Param, Vec
from kaboost.models.verbs import combine, learning_only, targets, update_rule


@scored_by_votes
class Bbm(NamedTuple):
    """A table of weights, computed once; the rule has no other state."""

    mode: int
    discrete: bool
    chances: Mat  # (N, N+1) weight of learner i when k of those after it must vote right


@learning_only.register
def _(rule: Bbm) -> tuple[str, ...]:
    return ("chances",)


@combine.register
def _(rule: Bbm, h: Mat, F: Mat, yhat: Vec, rule_scratch: Vec) -> None:
    total = 0.0
    F[0, 0] = 0.0
    for i in range(h.shape[1]):
        total += cast_vote(h[0, i], rule.discrete)
        F[0, i + 1] = total / (i + 1.0)
    yhat[0] = F[0, h.shape[1]]


@targets.register
def _(
    rule: Bbm, loss: Loss, y: Vec, h: Mat, F: Mat, G: Mat, T: Mat, W: Vec, rule_scratch: Vec
) -> None:
    margin = 0.0
    for i in range(h.shape[1]):
        T[0, i] = y[0]
        W[i] *= learner_weight(rule.chances, i, margin)
        margin += y[0] * cast_vote(h[0, i], rule.discrete)


@update_rule.register
def _(rule: Bbm, loss: Loss, y: Vec, h: Mat, F: Mat, G: Mat, w: float, rule_scratch: Vec) -> None:
    pass


@kernel
def learner_weight(chances: Mat, i: int, margin: float) -> float:
    """Return the weight of learner i when the votes before it sum to `margin`."""
    after = chances.shape[0] - 1 - i
    k = math.floor((after - margin + 1.0) / 2.0)
    return float(chances[i, k]) if 0 <= k <= after else 0.0


def weight_table(N: int, gamma: float, normalised: bool) -> Mat:
    """Return the table (N, N+1): row i is the binomial distribution of how many of the n = N-1-i
    learners after i vote right, each with probability 1/2 + gamma; normalised, by its largest
    value.

    By logarithms of factorials: whole binomials overflow beyond 66 learners (specification, E15).
    """
    right, wrong = math.log(0.5 + gamma), math.log(0.5 - gamma)
    ln = [math.lgamma(k + 1.0) for k in range(N + 1)]  # of factorials
    table = np.zeros((N, N + 1))
    for i in range(N):
        n = N - 1 - i
        logs = [ln[n] - ln[k] - ln[n - k] + k * right + (n - k) * wrong for k in range(n + 1)]
        top = max(logs) if normalised else 0.0
        table[i, : n + 1] = [math.exp(log - top) for log in logs]
    return table


def _make(params: Mapping[str, Any], context: BuildContext) -> Bbm:
    table = weight_table(context.learners, params["gamma"], params["weight"] == "normalised")
    return Bbm(classification_mode(context), params["discrete"], table)


BBM = Component(
    "bbm",
    "every learner is weighted by how much its vote still counts for the majority",
    "Beygelzimer, Kale, Luo 2015, Algorithm 1",
    (
        Param("gamma", 0.1, "edge of the weak learners: error 1/2 - gamma", 1e-6, 0.499999),
        Param(
            "weight",
            "normalised",
            "chance of the paper's rejection, or the raw binomial",
            choices=("normalised", "raw"),
        ),
        DISCRETE,
    ),
    _make,
    losses=("logistic",),
)
