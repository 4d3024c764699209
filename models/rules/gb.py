"""Classic gradient boosting on a whole sample, stage-wise to convergence: the offline comparator of
Streaming Gradient Boosting.

Friedman, Greedy Function Approximation: a Gradient Boosting Machine, 2001; Hu et al. 2017, section
6; specification, 8.2. It learns by `kaboost.models.batch`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from kaboost.models.rules.sgb import step
from kaboost.models.types import SQUARE, BuildContext, Component, Loss, Mat, ModelError, Param, Vec
from kaboost.models.verbs import combine, sequential


class Gb(NamedTuple):
    """State of the rule: the start y0."""

    mode: int
    eta: float
    best: bool  # y0 is the statistic of the sample's labels, computed by `kaboost.models.batch`
    y0: Vec  # (m,)


@combine.register
def _(rule: Gb, h: Mat, F: Mat, yhat: Vec, rule_scratch: Vec) -> None:
    m, N = h.shape
    for c in range(m):
        F[c, 0] = rule.y0[c]
        for i in range(N):
            F[c, i + 1] = F[c, i] - rule.eta * h[c, i]
        yhat[c] = F[c, N]


@sequential.register
def _(rule: Gb) -> bool:
    raise offline("gb", "sgb")


def offline(kind: str, online: str) -> ModelError:
    """Return the error of a rule that learns no events; it names one that does."""
    return ModelError(
        f"rule: {kind} learns a whole sample at once; call kaboost.fit(spec, X, y), or "
        f"take {online}"
    )


def _make(params: Mapping[str, Any], context: BuildContext) -> Gb:
    best = params["y0"] == "statistic"
    return Gb(
        mode=SQUARE,
        eta=params["eta"],
        best=best,
        y0=np.full(context.m, 0.0 if best else params["y0"], np.float64),
    )


def _fill_defaults(params: dict[str, Any], loss: Loss, full: dict[str, Any]) -> None:
    params["eta"] = step({**params, "gamma": None}, loss, full["bank"].get("n", 1))


GB = Component(
    "gb",
    "classic gradient boosting of a whole sample, one learner after the other; by kaboost.fit",
    "Friedman 2001; Hu et al. 2017, section 6",
    (
        Param("eta", None, "step size; min(1, .3/beta)", 1e-12, 1e6),
        Param(
            "y0",
            "statistic",
            "start: the labels' statistic as of sgb, or a number",
            -1e6,
            1e6,
            choices=("statistic",),
        ),
    ),
    _make,
    fill_defaults=_fill_defaults,
)
