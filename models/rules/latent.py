"""Online non-linear gradient boosting: P latent spaces mix the same weak learners through relu.

Frery, Habrard, Sebban, Caelen, He-Guelton, Online Non-Linear Gradient Boosting in Multi-Latent
Spaces, IDA 2018, Algorithm 1 with the corrected gradients of errata E7, E8, E9; specification,
section 4.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from kaboost.models.kernels.jit import kernel
from kaboost.models.kernels.numeric import sigmoid
from kaboost.models.kernels.random import State, generator, uniform, uniforms
from kaboost.models.types import (
    SQUARE,
    TARGET_LIMIT,
    BuildContext,
    Component,
    Loss,
    Mat,
    Param,
    Vec,
)
from kaboost.models.verbs import combine, diagnostics, rule_scratch_size, targets, update_rule

GUARD_LIMIT = 10.0  # largest |A| and |a| under `guard: true`


class Latent(NamedTuple):
    """State of the rule: the weight of every learner in every space, and of every space."""

    mode: int
    rate: float  # lr_c, of both kinds of weight
    chain: bool  # targets are the functional gradient instead of the residual
    guard: float  # largest |A| and |a|
    patience: float  # events without an active space after which all are redrawn; inf for never
    A: Mat  # (P, N)
    a: Vec  # (P,)
    power: Vec  # (P,) sum of |a_p max(z_p, 0)| weighted by importance
    weight: Vec  # () importance summed in `power`
    dead: Vec  # (N,) events in a row in which no space was active from learner i on
    redrawn: Vec  # () how often spaces were redrawn
    state: State  # () the generator that draws them


@rule_scratch_size.register
def _(rule: Latent) -> int:
    return int(rule.a.shape[0])  # z of every space


@combine.register
def _(rule: Latent, h: Mat, F: Mat, yhat: Vec, rule_scratch: Vec) -> None:
    P, N = rule.A.shape
    for p in range(P):
        rule_scratch[p] = 0.0
    F[0, 0] = 0.0
    for i in range(N):
        h[0, i] = clip(h[0, i], TARGET_LIMIT)
        total = 0.0
        for p in range(P):
            rule_scratch[p] += rule.A[p, i] * h[0, i]
            total += rule.a[p] * max(rule_scratch[p], 0.0)
        F[0, i + 1] = total
    yhat[0] = F[0, N]


@targets.register
def _(
    rule: Latent, loss: Loss, y: Vec, h: Mat, F: Mat, G: Mat, T: Mat, W: Vec, rule_scratch: Vec
) -> None:
    # Combination weights are updated here, learner by learner: a residual uses the updated weights
    # of the learners before it. Targets do not depend on updated weak learners.
    P, N = rule.A.shape
    u, w = y[0], W[0]
    add_importance(rule, rule_scratch, w)
    for p in range(P):
        rule_scratch[p] = 0.0
    total = 0.0
    for i in range(N):
        residual = u * sigmoid(-u * total)
        slope = 0.0
        after = 0.0
        for p in range(P):
            z = rule_scratch[p] + rule.A[p, i] * h[0, i]
            after += rule.a[p] * max(z, 0.0)
            slope += rule.a[p] * rule.A[p, i] if z > 0.0 else 0.0
        T[0, i] = residual * slope if rule.chain else residual
        total = update_combination(
            rule, i, h[0, i], (w * rule.rate * u * sigmoid(-u * after)), rule_scratch
        )


@kernel
def add_importance(rule: Latent, z: Vec, w: float) -> None:
    """Add |a_p max(z_p, 0)| to the importance of every space; z (P,) is as `combine` left it."""
    for p in range(z.shape[0]):
        rule.power[p] += w * abs(rule.a[p] * max(z[p], 0.0))
    rule.weight[()] += w


@kernel
def update_combination(rule: Latent, i: int, h: float, step: float, z: Vec) -> float:
    """Move column i of A and all of a by one descent step; add learner i to z (P,); return F_i.

    Specification, section 4, steps 4 and 5: both move from the activations before either did.
    """
    total = 0.0
    active = False
    for p in range(z.shape[0]):
        before = z[p] + rule.A[p, i] * h
        a = rule.a[p]
        if before > 0.0:
            active = True
            rule.A[p, i] = clip(rule.A[p, i] + step * a * h, rule.guard)
            rule.a[p] = clip(a + step * before, rule.guard)
        z[p] += rule.A[p, i] * h
        total += rule.a[p] * max(z[p], 0.0)
    rule.dead[i] = 0.0 if active else rule.dead[i] + 1.0
    return total


@kernel
def clip(value: float, limit: float) -> float:
    """Return value clipped to +-limit."""
    return min(max(value, -limit), limit)


@update_rule.register
def _(
    rule: Latent, loss: Loss, y: Vec, h: Mat, F: Mat, G: Mat, w: float, rule_scratch: Vec
) -> None:
    dead = 0.0
    for i in range(rule.dead.shape[0]):
        dead = max(dead, rule.dead[i])
    if dead >= rule.patience:
        redraw(rule)


@kernel
def redraw(rule: Latent) -> None:
    """Redraw every space: all are dead from some learner on."""
    P, N = rule.A.shape
    rule.redrawn[()] += 1.0
    for i in range(N):
        rule.dead[i] = 0.0
    for p in range(P):
        rule.a[p] = (2.0 * uniform(rule.state) - 1.0) * 2.0 / P
        for i in range(N):
            rule.A[p, i] = 2.0 * uniform(rule.state) - 1.0


def correlations(rule: Latent) -> Mat:
    """Return the correlation of every pair of spaces over the learners' weights, C (P, P)."""
    with np.errstate(invalid="ignore", divide="ignore"):
        C = np.corrcoef(rule.A) if rule.A.shape[1] > 1 else np.full((len(rule.a),) * 2, np.nan)
    return np.atleast_2d(C)


def importances(rule: Latent) -> Vec:
    """Return Omega (P,): mean over events of |a_p max(z_p, 0)|."""
    with np.errstate(invalid="ignore"):
        return np.asarray(rule.power / rule.weight)


@diagnostics.register
def _(rule: Latent) -> dict[str, Mat]:
    C = correlations(rule)
    return {"correlation": C, "importance": importances(rule), "average_correlation": C.mean(1)}


def _make(params: Mapping[str, Any], context: BuildContext) -> Latent:
    P, N, seed = params["spaces"], context.learners, context.full["seed"]
    skip = context.bank.initial_draws(context.full["bank"], context.d, context.m)
    drawn = uniforms(seed, P * N + P, skip)  # one generator: after the bank's, A by rows, then a
    if params["start"] == "uniform":
        drawn = 2.0 * drawn - 1.0
    A, a = drawn[: P * N].reshape(P, N), drawn[P * N :] * 2.0 / P
    if params["start"] == "consistent":
        A[P // 2 :] *= -1.0
        a[P // 2 :] *= -1.0
    return Latent(
        mode=SQUARE,
        rate=params["lr_combine"],
        chain=params["target"] == "chain",
        guard=GUARD_LIMIT if params["guard"] else TARGET_LIMIT,  # a last resort: sums stay finite
        patience=np.inf if params["redraw"] is None else float(params["redraw"]),
        A=np.ascontiguousarray(A),
        a=np.ascontiguousarray(a),
        power=np.zeros(P),
        weight=np.zeros(()),
        dead=np.zeros(N),
        redrawn=np.zeros(()),
        state=generator(seed + 1),
    )


LATENT = Component(
    "latent",
    "P spaces mix the learners through relu: a non-linear combination",
    "Frery et al. 2018, Algorithm 1, corrected",
    (
        Param("spaces", 20, "P, latent spaces", 1, 10_000, integer=True),
        Param("lr_combine", 0.05, "learning rate of the combination", 1e-12, 1e3),
        Param(
            "start",
            "uniform",
            "weights U(-1, 1), or half the spaces all positive and half all negative",
            choices=("uniform", "consistent"),
        ),
        Param(
            "target",
            "residual",
            "what learners fit: the residual, or the literal functional gradient",
            choices=("residual", "chain"),
        ),
        Param("guard", False, "clip the combination's weights to +-10"),
        Param(
            "redraw",
            None,
            "events without an active space at some learner after which all spaces are redrawn",
            1,
            1e12,
        ),
    ),
    _make,
    default_bank={"kind": "nets", "n": 20, "optimiser": "sgd"},
    losses=("logistic",),
)
