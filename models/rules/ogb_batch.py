"""Online Gradient Boosting on a fixed sample: every round adds the best learner against the
gradients, with exact shrinkage.

Beygelzimer, Hazan, Kale, Luo, Online Gradient Boosting, NIPS 2015, appendix A.3; specification,
3.6. It learns by `kaboost.models.batch`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from kaboost.models.rules.gb import offline
from kaboost.models.rules.ogb_span import ball_radius, shrunken_sums, step_size
from kaboost.models.rules.ogb_spec import BOUND, ETA, LABEL_BOUND, RADIUS, SCALE, has_kink
from kaboost.models.types import LINEAR, BuildContext, Component, Loss, Mat, ModelError, Param, Vec
from kaboost.models.verbs import combine, prediction_bound, sequential


class Batch(NamedTuple):
    """State of the rule: the shrinkage sigma of every round, 0 or 1."""

    mode: int
    eta: float
    scale: float  # s: every weak prediction counts s times
    D: float  # length of weak predictions
    B: float  # length of partial sums
    L: float  # Lipschitz constant of the loss on radius B
    shrinks: bool
    sigma: Vec  # (N,)


@prediction_bound.register
def _(rule: Batch) -> float:
    return rule.D


@combine.register
def _(rule: Batch, h: Mat, F: Mat, yhat: Vec, rule_scratch: Vec) -> None:
    m, N = h.shape
    shrunken_sums(h, F, rule.sigma, rule.eta, rule.scale, rule.D, rule.B)
    for c in range(m):
        yhat[c] = F[c, N]


@sequential.register
def _(rule: Batch) -> bool:
    raise offline("ogb_batch", "ogb_span")


def _make(params: Mapping[str, Any], context: BuildContext) -> Batch:
    if has_kink(context.loss):
        kind = context.full["loss"]["kind"]
        raise ModelError(f"loss: ogb_batch needs a smooth loss; take huber or gb, not {kind}")
    if LINEAR not in context.bank.modes:
        raise ModelError(f"bank: {context.bank.kind} cannot be fed slopes; take linear or hedge")
    B, L = ball_radius(params, context)
    return Batch(
        mode=LINEAR,
        eta=params["eta"],
        scale=params["scale"],
        D=params["bound"],
        B=B,
        L=L,
        shrinks=params["shrinkage"] == "exact",
        sigma=np.zeros(context.learners),
    )


def _fill_defaults(params: dict[str, Any], loss: Loss, full: dict[str, Any]) -> None:
    params["eta"] = step_size(params["eta"], full["bank"].get("n", 1))


OGB_BATCH = Component(
    "ogb_batch",
    "boosting of a whole sample against the span of the weak learners; by kaboost.models.batch",
    "Beygelzimer et al. 2015, A.3",
    (
        ETA,
        SCALE,
        BOUND,
        LABEL_BOUND,
        RADIUS,
        Param("shrinkage", "exact", "sigma: exact, or none", choices=("exact", "none")),
    ),
    _make,
    fill_defaults=_fill_defaults,
)
