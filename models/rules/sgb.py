"""Streaming Gradient Boosting, Algorithm 1: every weak learner fits the gradient at the partial sum
before it.

Hu, Sun, Venkatraman, Hebert, Bagnell, Gradient Boosting on Stochastic Data Streams, AISTATS 2017;
specification, 2.1.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from kaboost.models.rules.initial_score import (
    Y0,
    Y0_FREEZE,
    initial_score_state,
    update_initial_score,
)
from kaboost.models.types import SQUARE, BuildContext, Component, Loss, Mat, ModelError, Param, Vec
from kaboost.models.verbs import combine, smoothness, targets, update_rule


class Sgb(NamedTuple):
    """State of the rule: the start y0, a statistic of the labels before the event until it is
    frozen.
    """

    mode: int  # of the weak learners: square loss
    eta: float
    freeze: int  # events after which y0 is constant; 0 for a y0 that is set
    y0: Vec  # (m,)
    seen: Vec  # () events of positive weight in the statistic
    total: Vec  # () their weight
    counts: Vec  # (m,) the loss's statistic of their labels


@combine.register
def _(rule: Sgb, h: Mat, F: Mat, yhat: Vec, rule_scratch: Vec) -> None:
    m, N = h.shape
    for c in range(m):
        F[c, 0] = rule.y0[c]
        for i in range(N):
            F[c, i + 1] = F[c, i] - rule.eta * h[c, i]
        yhat[c] = F[c, N]


@targets.register
def _(
    rule: Sgb, loss: Loss, y: Vec, h: Mat, F: Mat, G: Mat, T: Mat, W: Vec, rule_scratch: Vec
) -> None:
    m, N = h.shape
    for c in range(m):
        for i in range(N):
            T[c, i] = G[c, i]


@update_rule.register
def _(rule: Sgb, loss: Loss, y: Vec, h: Mat, F: Mat, G: Mat, w: float, rule_scratch: Vec) -> None:
    if rule.seen[()] < rule.freeze:
        update_initial_score(rule.seen, rule.total, rule.counts, rule.y0, loss, y, w)


def _make(params: Mapping[str, Any], context: BuildContext) -> Sgb:
    eta = step(params, context.loss, context.learners)
    return Sgb(mode=SQUARE, eta=eta, **initial_score_state(params, context.m))


def _fill_defaults(params: dict[str, Any], loss: Loss, full: dict[str, Any]) -> None:
    if full["part"].takes_raw_columns:  # every structure of trees sets its step and initial score
        changed = [p.name for p in SGB.params if params[p.name] != p.default]
        if changed:
            raise ModelError(
                f"rule.{changed[0]}: {full['bank']['kind']} sets its step and initial score; leave "
                "it out"
            )
        return
    eta = step(params, loss, full["bank"].get("n", 1))
    if params["eta"] != "edge":  # which stays in the specification
        params["eta"] = eta


def _reject_reason(context: Mapping[str, Any]) -> str | None:
    params, bank = context["rule"], context["bank"]
    if params["averaged"] and params["avg_halflife"] is not None:
        return "averaged and avg_halflife are two averages; give one of them"
    if params["averaged"] or params["avg_halflife"] is not None:
        name = "averaged" if params["averaged"] else "avg_halflife"
        if bank["kind"] != "linear":
            return f"{name} averages hypotheses that are linear in their weights; take bank linear"
        if bank["step"] in ("nag", "ng"):
            return (
                f"{name} cannot average {bank['step']}, which rescales its weights; take another "
                "step"
            )
    return None


def step(params: Mapping[str, Any], loss: Loss, N: int) -> float:
    """Return eta: the number, the paper's formula for "edge", or by default min(1, .3/beta), and
    min(1, .1/beta) for more than 32 learners.
    """
    eta, beta = params["eta"], smoothness(loss)
    if eta != "edge" and params["gamma"] is not None:
        raise ModelError("rule.gamma: is for eta: edge alone; leave it out, or take eta: edge")
    if eta is None:
        if beta is None:
            return 0.1
        return min(1.0, (0.3 if N <= 32 else 0.1) / beta) if beta > 0.0 else 1.0
    if eta != "edge":
        return float(eta)
    gamma = params["gamma"]
    if gamma is None or beta is None:
        lacks = (
            "gamma, the edge of the weak learners (0 to 1)" if gamma is None else "a smooth loss"
        )
        raise ModelError(f"rule.eta: 'edge' needs {lacks}; give it, or a number for eta")
    return float(gamma / (beta * (8.0 - 4.0 * gamma)))


SGB = Component(
    "sgb",
    "every learner fits the gradient at the partial sum before it",
    "Hu et al. 2017, Algorithm 1",
    (
        Param(
            "eta", None, "step size; a number, or 'edge' with gamma", 1e-12, 1e6, choices=("edge",)
        ),
        Param("gamma", None, "edge of the weak learners, for eta: edge", 1e-12, 1.0),
        Y0,
        Y0_FREEZE,
        Param("averaged", False, "serve the average of all hypotheses; linear banks but nag, ng"),
        Param(
            "avg_halflife", None, "serve an average whose memory halves in so many events", 1, 1e12
        ),
    ),
    _make,
    _reject_reason,
    _fill_defaults,
)
