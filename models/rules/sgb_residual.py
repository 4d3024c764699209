"""Streaming Gradient Boosting, Algorithms 2 and 3: residual projection, for losses that are not
smooth.

Hu, Sun, Venkatraman, Hebert, Bagnell, Gradient Boosting on Stochastic Data Streams, AISTATS 2017;
specification, 2.2, with the errata E2, E3 and E4.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from kaboost.models.kernels.jit import kernel
from kaboost.models.rules.initial_score import (
    Y0,
    Y0_FREEZE,
    initial_score_state,
    update_initial_score,
)
from kaboost.models.types import (
    LABEL_LIMIT,
    SQUARE,
    BuildContext,
    Component,
    Loss,
    Mat,
    ModelError,
    Param,
    Vec,
)
from kaboost.models.verbs import (
    combine,
    convexity,
    gradient,
    gradient_bound,
    rule_scratch_size,
    targets,
    update_rule,
)

THEORY, SHIFTED, LAST = 0, 1, 2
AVERAGES = {"theory": THEORY, "shifted": SHIFTED, "last": LAST}
NOTHING, LABELS, LOGARITHMS = 0, 1, 2  # whose root mean square the radius follows
FOLLOWED = {"numbers": LABELS, "logarithms": LOGARITHMS}  # by the scale of scores
RADIUS_SCALES = 4.0  # the default radius, in label scales


class SgbResidual(NamedTuple):
    """State of the rule: the start y0, the radius of the ball, the largest gradient seen."""

    mode: int
    eta: Vec  # (N,) step sizes of the schedule
    average: int
    clip: float  # c0; inf leaves the residual alone
    decay: float  # rho
    l2: float  # of the loss; the bound of its gradient is without it
    follows: int  # what the radius follows until y0 is frozen
    bound: Vec  # () of the gradient: of the loss, or the largest seen
    grows: bool  # whether it is the largest seen
    radius: Vec  # () R
    square: Vec  # () running mean of |label|^2
    weight: Vec  # () weight of the labels in `square`
    scaled: Vec  # () events in `square`
    freeze_scale: int
    freeze: int
    y0: Vec  # (m,)
    seen: Vec  # ()
    total: Vec  # ()
    counts: Vec  # (m,)


@rule_scratch_size.register
def _(rule: SgbResidual) -> int:
    m = rule.y0.shape[0]
    return int(m * (rule.eta.shape[0] + 1) + 2 * m)  # partial sums, residual, gradient


@kernel
def project_vector(z: Vec, radius: float) -> None:
    """Project z onto the ball of that radius around 0."""
    square = 0.0
    for c in range(z.shape[0]):
        square += z[c] * z[c]
    length = math.sqrt(square)
    if length > radius:
        for c in range(z.shape[0]):
            z[c] *= radius / length


@combine.register
def _(rule: SgbResidual, h: Mat, F: Mat, yhat: Vec, rule_scratch: Vec) -> None:
    m, N = h.shape
    for c in range(m):
        rule_scratch[c] = rule.y0[c]
        F[c, 0] = rule.y0[c]
    for i in range(N):
        here = (i + 1) * m
        for c in range(m):
            rule_scratch[here + c] = rule_scratch[here - m + c] - rule.eta[i] * h[c, i]
        project_vector(rule_scratch[here : here + m], float(rule.radius[()]))
        for c in range(m):
            if rule.average == LAST:
                F[c, i + 1] = rule_scratch[here + c]
            else:
                new = (
                    rule_scratch[here - m + c] if rule.average == THEORY else rule_scratch[here + c]
                )
                before = F[c, i] if i > 0 else 0.0
                F[c, i + 1] = before + (new - before) / (i + 1.0)
    for c in range(m):
        yhat[c] = F[c, N]


@targets.register
def _(
    rule: SgbResidual, loss: Loss, y: Vec, h: Mat, F: Mat, G: Mat, T: Mat, W: Vec, rule_scratch: Vec
) -> None:
    m, N = h.shape
    residual = rule_scratch[m * (N + 1) : m * (N + 2)]
    g = rule_scratch[m * (N + 2) :]
    for c in range(m):
        residual[c] = 0.0
    for i in range(N):
        sums = rule_scratch[i * m : (i + 1) * m]
        gradient(loss, sums, y, g)
        if rule.grows:
            raise_gradient_bound(rule, sums, g)
        square = 0.0
        for c in range(m):
            T[c, i] = residual[c] + g[c]
            residual[c] = rule.decay * (T[c, i] - h[c, i])
            square += residual[c] * residual[c]
        length = math.sqrt(square)
        longest = rule.clip * rule.bound[()]
        if length > longest:
            for c in range(m):
                residual[c] *= longest / length


@kernel
def raise_gradient_bound(rule: SgbResidual, sums: Vec, g: Vec) -> None:
    """Raise the bound to the length of the gradient g (m,) at sums (m,), without its l2 term."""
    square = 0.0
    for c in range(g.shape[0]):
        bare = g[c] - 2.0 * rule.l2 * sums[c]
        square += bare * bare
    rule.bound[()] = max(float(rule.bound[()]), math.sqrt(square))


@update_rule.register
def _(
    rule: SgbResidual, loss: Loss, y: Vec, h: Mat, F: Mat, G: Mat, w: float, rule_scratch: Vec
) -> None:
    if rule.seen[()] < rule.freeze:
        update_initial_score(rule.seen, rule.total, rule.counts, rule.y0, loss, y, w)
    if rule.follows != NOTHING and rule.scaled[()] < rule.freeze_scale:
        rule.scaled[()] += 1.0
        rule.weight[()] += w
        square = 0.0
        for c in range(y.shape[0]):
            z = min(abs(y[c]), LABEL_LIMIT)
            if rule.follows == LOGARITHMS:
                z = math.log(z + 1.0)
            square += z * z
        rule.square[()] += w / rule.weight[()] * (square - rule.square[()])
        rule.radius[()] = RADIUS_SCALES * math.sqrt(rule.square[()])


def schedule(params: Mapping[str, Any], loss: Loss, N: int) -> Vec:
    """Return the step sizes (N,), the first learner's first (specification, 2.2, Options)."""
    i = np.arange(1, N + 1, dtype=np.float64)
    scale = params["eta_scale"]
    if params["schedule"] == "1/(lambda i)":
        strong = convexity(loss)
        if strong == 0.0:
            raise ModelError(
                "rule.schedule: '1/(lambda i)' needs a strongly convex loss; give the loss an l2, "
                "or take 'c/sqrt(i)'"
            )
        return np.asarray(scale / (strong * i))
    if params["schedule"] == "constant":
        return np.full(N, scale)
    return np.asarray(scale / (i if params["schedule"] == "c/i" else np.sqrt(i)))


def _make(params: Mapping[str, Any], context: BuildContext) -> SgbResidual:
    bound = gradient_bound(context.loss)
    follows = FOLLOWED.get(context.traits.scale, NOTHING)
    return SgbResidual(
        mode=SQUARE,
        eta=schedule(params, context.loss, context.learners),
        average=AVERAGES[params["average"]],
        clip=float(params["residual_clip"]),
        decay=params["residual_decay"],
        l2=context.loss.l2,
        follows=follows if params["radius"] is None else NOTHING,
        bound=np.array(0.0 if bound is None else bound),
        grows=bound is None,
        radius=np.array(RADIUS_SCALES if params["radius"] is None else float(params["radius"])),
        square=np.zeros(()),
        weight=np.zeros(()),
        scaled=np.zeros(()),
        freeze_scale=params["y0_freeze"],
        **initial_score_state(params, context.m),
    )


SGB_RESIDUAL = Component(
    "sgb_residual",
    "every learner also fits what those before it left of their targets; for losses with kinks",
    "Hu et al. 2017, Algorithms 2 and 3",
    (
        Param(
            "schedule",
            "c/sqrt(i)",
            "step of learner i",
            choices=("1/(lambda i)", "c/i", "c/sqrt(i)", "constant"),
        ),
        Param("eta_scale", 1.0, "c, which multiplies every schedule", 1e-12, 1e6),
        Param(
            "radius",
            None,
            "R of the ball that holds partial sums; 4 label scales (4 for margin losses)",
            1e-12,
            1e300,
            infinite=True,
        ),
        Param("average", "theory", "what is served of the partial sums", choices=tuple(AVERAGES)),
        Param(
            "residual_clip",
            2.0,
            "longest residual, in bounds of the gradient; inf is the paper",
            0.0,
            1e12,
            infinite=True,
        ),
        Param("residual_decay", 1.0, "rho: share of the residual that is carried on", 0.0, 1.0),
        Y0,
        Y0_FREEZE,
    ),
    _make,
)
