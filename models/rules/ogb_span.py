"""Online Gradient Boosting, Algorithm 1: shrunken, projected partial sums compete with the span of
the weak learners.

Beygelzimer, Hazan, Kale, Luo, Online Gradient Boosting, NIPS 2015; specification, 3.1, 3.3-3.5.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from kaboost.models.kernels.jit import kernel
from kaboost.models.rules.ball_projection import project_column
from kaboost.models.rules.ogb_label_map import (
    LabelMap,
    collect_label,
    is_warming_up,
    label_map,
    to_label_units,
    to_mapped_units,
    zero_predictions,
    zero_targets,
)
from kaboost.models.rules.ogb_spec import (
    ETA,
    GREEDY,
    PARAMS,
    RADIUS,
    REDUCED,
    T_MAX,
    WEIGHED,
    fill_defaults,
    mode_of,
    quadratic_curvature,
    reject_reason,
    target_form,
)
from kaboost.models.types import SQUARE, BuildContext, Component, Loss, Mat, Vec
from kaboost.models.verbs import (
    combine,
    constants,
    prediction_bound,
    radius,
    rule_scratch_size,
    targets,
    update_rule,
    value_gradient_prefixes,
)


class Span(NamedTuple):
    """State of the rule: the shrinkage sigma of every stage, learned by gradient descent."""

    mode: int
    form: int  # of the targets: models/rules/ogb_spec.py
    identical_learners: bool  # one learner represents all: they have the same targets
    eta: float
    scale: float  # s: every weak prediction counts s times
    D: float  # length of weak predictions
    B: float  # length of partial sums
    L: float  # Lipschitz constant of the loss on radius B
    beta: float  # curvature of a quadratic loss
    t_max: float
    sigma: Vec  # (N,) in [0, 1]; the first stays 0
    t: Vec  # () events learned
    labels: LabelMap


@rule_scratch_size.register
def _(rule: Span) -> int:
    m, N = rule.labels.centre.shape[0], rule.sigma.shape[0]
    return int(m * (N + 1) + 2 * m * N + N + 1 + m)


@prediction_bound.register
def _(rule: Span) -> float:
    return rule.D


@combine.register
def _(rule: Span, h: Mat, F: Mat, yhat: Vec, rule_scratch: Vec) -> None:
    m, N = h.shape
    zero_predictions(rule.labels, h)
    shrunken_sums(h, F, rule.sigma, rule.eta, rule.scale, rule.D, rule.B)
    to_label_units(rule.labels, F, rule_scratch[: m * (N + 1)].reshape((m, N + 1)))
    for c in range(m):
        yhat[c] = F[c, N]


@targets.register
def _(
    rule: Span, loss: Loss, y: Vec, h: Mat, F: Mat, G: Mat, T: Mat, W: Vec, rule_scratch: Vec
) -> None:
    m, N = h.shape
    first, second, third = m * (N + 1), m * (2 * N + 1), m * (3 * N + 1)
    S, E = rule_scratch[first:second].reshape((m, N)), rule_scratch[second:third].reshape((m, N))
    L, z = rule_scratch[third : third + N + 1], rule_scratch[third + N + 1 :]
    for c in range(m):
        z[c] = y[c]
    to_mapped_units(rule.labels, loss, z, F, G, rule_scratch[: m * (N + 1)].reshape((m, N + 1)), L)
    if rule.form == GREEDY:
        for c in range(m):
            for i in range(N):
                S[c, i] = F[c, i] + rule.eta * rule.scale * h[c, i]
        value_gradient_prefixes(loss, S, z, E, L)
    for c in range(m):
        for i in range(N):
            if rule.form == GREEDY:
                T[c, i] = E[c, i]
            elif rule.mode == SQUARE:
                T[c, i] = -G[c, i] / (rule.beta * rule.eta * rule.scale)
            else:
                T[c, i] = G[c, N if rule.form == REDUCED else i] / rule.L
    if rule.form == WEIGHED:
        for i in range(N):
            W[i] *= rule.beta * rule.eta * rule.scale
    zero_targets(rule.labels, T, W)


@update_rule.register
def _(rule: Span, loss: Loss, y: Vec, h: Mat, F: Mat, G: Mat, w: float, rule_scratch: Vec) -> None:
    m, N = h.shape
    if is_warming_up(rule.labels):
        collect_label(rule.labels, y, w)
    else:
        rule.t[()] += 1.0
        step = w / (rule.L * rule.B * math.sqrt(min(float(rule.t[()]), rule.t_max)))
        for i in range(1, N):
            product = 0.0
            for c in range(m):
                product += G[c, N if rule.form == REDUCED else i] * F[c, i]
            moved = rule.sigma[i] + step * product
            if abs(moved) < math.inf:
                rule.sigma[i] = min(max(moved, 0.0), 1.0)


@kernel
def shrunken_sums(h: Mat, P: Mat, sigma: Vec, eta: float, scale: float, D: float, B: float) -> None:
    """Clip h (m, N) to length D and fill P (m, N+1): P[0] = 0 and P[i+1] = proj_B((1 - sigma[i]
    eta) P[i] + eta scale h[i]).
    """
    m, N = h.shape
    for c in range(m):
        P[c, 0] = 0.0
    for i in range(N):
        project_column(h, i, D)
        keep = 1.0 - sigma[i] * eta
        for c in range(m):
            P[c, i + 1] = keep * P[c, i] + eta * scale * h[c, i]
        project_column(P, i + 1, B)


def step_size(eta: float | None, N: int) -> float:
    """Return eta, by default ln(N)/N, and 1 for fewer than three learners."""
    if eta is not None:
        return eta
    return math.log(N) / N if N >= 3 else 1.0


def ball_radius(params: Mapping[str, Any], context: BuildContext) -> tuple[float, float]:
    """Return B, the length of partial sums (equation 3.1), and L_B."""
    D, Z, B = params["bound"] * params["scale"], params["label_bound"], params["radius"]
    if B is None:
        B = radius(context.loss, params["eta"], context.learners, D, Z)
    return B, constants(context.loss, B, Z).lipschitz


def _make(params: Mapping[str, Any], context: BuildContext) -> Span:
    form = target_form(params, context)
    B, L = ball_radius(params, context)
    return Span(
        mode=mode_of(form),
        form=form,
        identical_learners=form == REDUCED,
        eta=params["eta"],
        scale=params["scale"],
        D=params["bound"],
        B=B,
        L=L,
        beta=quadratic_curvature(context.loss, form),
        t_max=float(params["t_max"] or math.inf),
        sigma=np.zeros(context.learners),
        t=np.zeros(()),
        labels=label_map(params["labels"] == "mapped", context.m),
    )


def _fill_defaults(params: dict[str, Any], loss: Loss, full: dict[str, Any]) -> None:
    # A bank without n is rejected later, by name.
    params["eta"] = step_size(params["eta"], full["bank"].get("n", 1))
    fill_defaults(params, loss, full)


OGB_SPAN = Component(
    "ogb_span",
    "shrunken partial sums compete with the span of the weak learners",
    "Beygelzimer et al. 2015, Algorithm 1",
    (ETA, *PARAMS, RADIUS, T_MAX),
    _make,
    reject_reason=reject_reason,
    fill_defaults=_fill_defaults,
)
