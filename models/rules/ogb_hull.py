"""Online Gradient Boosting, Algorithm 2: a fixed average that competes with the convex hull of the
weak learners.

Beygelzimer, Hazan, Kale, Luo, Online Gradient Boosting, NIPS 2015; specification, 3.2-3.5.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

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
    GREEDY,
    PARAMS,
    REDUCED,
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
    rule_scratch_size,
    targets,
    update_rule,
)


class Hull(NamedTuple):
    """State of the rule: only the map of the labels, if there is one."""

    mode: int
    form: int  # of the targets: models/rules/ogb_spec.py
    identical_learners: bool  # one learner represents all: they have the same targets
    scale: float  # s: every weak prediction counts s times
    D: float  # length of weak predictions
    L: float  # Lipschitz constant of the loss on radius s D
    beta: float  # curvature of a quadratic loss
    steps: Vec  # (N,) eta_i = 2/(i+2), i from 0
    labels: LabelMap


@rule_scratch_size.register
def _(rule: Hull) -> int:
    m, N = rule.labels.centre.shape[0], rule.steps.shape[0]
    return int(m * (N + 1) + N + 1 + m)


@prediction_bound.register
def _(rule: Hull) -> float:
    return rule.D


@combine.register
def _(rule: Hull, h: Mat, F: Mat, yhat: Vec, rule_scratch: Vec) -> None:
    m, N = h.shape
    zero_predictions(rule.labels, h)
    for i in range(N):
        project_column(h, i, rule.D)
    for c in range(m):
        F[c, 0] = 0.0
        for i in range(N):
            eta = rule.steps[i]
            F[c, i + 1] = (1.0 - eta) * F[c, i] + eta * rule.scale * h[c, i]
    to_label_units(rule.labels, F, rule_scratch[: m * (N + 1)].reshape((m, N + 1)))
    for c in range(m):
        yhat[c] = F[c, N]


@targets.register
def _(
    rule: Hull, loss: Loss, y: Vec, h: Mat, F: Mat, G: Mat, T: Mat, W: Vec, rule_scratch: Vec
) -> None:
    m, N = h.shape
    end = (m + 1) * (N + 1)
    L, z = rule_scratch[m * (N + 1) : end], rule_scratch[end:]
    for c in range(m):
        z[c] = y[c]
    to_mapped_units(rule.labels, loss, z, F, G, rule_scratch[: m * (N + 1)].reshape((m, N + 1)), L)
    for c in range(m):
        for i in range(N):
            eta = rule.steps[i]
            if rule.form == GREEDY:  # the step of this learner leads to the next partial sum
                T[c, i] = G[c, i + 1]
            elif rule.mode == SQUARE:  # the gradient is affine: this is it at (1 - eta) P[i]
                slope = (1.0 - eta) * G[c, i] + eta * G[c, 0]
                T[c, i] = -slope / (rule.beta * eta * rule.scale)
            else:
                T[c, i] = G[c, N if rule.form == REDUCED else i] / rule.L
    if rule.form == WEIGHED:
        for i in range(N):
            W[i] *= rule.beta * rule.steps[i] * rule.scale
    zero_targets(rule.labels, T, W)


@update_rule.register
def _(rule: Hull, loss: Loss, y: Vec, h: Mat, F: Mat, G: Mat, w: float, rule_scratch: Vec) -> None:
    if is_warming_up(rule.labels):
        collect_label(rule.labels, y, w)


def _make(params: Mapping[str, Any], context: BuildContext) -> Hull:
    form = target_form(params, context)
    reached = params["bound"] * params["scale"]
    return Hull(
        mode=mode_of(form),
        form=form,
        identical_learners=form == REDUCED,
        scale=params["scale"],
        D=params["bound"],
        L=constants(context.loss, reached, params["label_bound"]).lipschitz,
        beta=quadratic_curvature(context.loss, form),
        steps=2.0 / np.arange(2.0, context.learners + 2.0),
        labels=label_map(params["labels"] == "mapped", context.m),
    )


OGB_HULL = Component(
    "ogb_hull",
    "a fixed average that competes with the convex hull of the weak learners",
    "Beygelzimer et al. 2015, Algorithm 2",
    PARAMS,
    _make,
    reject_reason=reject_reason,
    fill_defaults=fill_defaults,
)
