"""Linear weak learners: which step moves them, and their words in a specification."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from kaboost.models.banks.linear.adagrad import AdaGrad
from kaboost.models.banks.linear.adam import Adam
from kaboost.models.banks.linear.ftrl import Ftrl
from kaboost.models.banks.linear.invariant import Invariant
from kaboost.models.banks.linear.nag import Nag
from kaboost.models.banks.linear.ng import Ng
from kaboost.models.banks.linear.ogd import Ogd
from kaboost.models.banks.linear.schedule import Scheduled
from kaboost.models.banks.linear.sgd import Sgd
from kaboost.models.kernels.simd import aligned
from kaboost.models.types import Component, Param

OPTIONS: dict[str, dict[str, float | None]] = {  # what each step can be told, and its default
    "nag": {"lr": 0.5},
    "ng": {"lr": 0.5},
    "sgd": {"lr": 0.05, "p": 0.0, "t0": 1.0},
    "ogd": {"radius": 1.0, "norm": 1.0, "t_max": None},
    "adagrad": {"lr": 0.5},
    "adam": {"lr": 0.001},
    "ftrl": {"lr": 0.5, "b": 1.0, "l1": 0.0, "l2": 0.0},
    "invariant": {"lr": 0.05},
}
PARAMS = (
    Param("n", 20, "weak learners", 1, 100_000, integer=True),
    Param("step", "nag", "how weights move", choices=tuple(OPTIONS)),
    Param(
        "lr",
        None,
        "learning rate; .5 for nag, ng and adagrad, .05 for sgd and invariant, .001 for adam; "
        "of ftrl its a, .5; ogd makes its own from radius and norm",
        1e-12,
        1e6,
    ),
    Param("bias", True, "a constant feature 1"),
    Param(
        "features",
        "all",
        "all, or cyclic: learner i sees feature i mod d",
        choices=("all", "cyclic"),
    ),
    Param("p", None, "of sgd: the rate is lr / (1 + t/t0)^p; 0, a constant rate", 0.0, 10.0),
    Param("t0", None, "of sgd: events after which the rate begins to fall; 1", 1e-6, 1e12),
    Param("radius", None, "of ogd: W, the largest length of a learner's weights; 1", 1e-6, 1e6),
    Param("norm", None, "of ogd: X, the largest length of features, bias included; 1", 1e-6, 1e6),
    Param("t_max", None, "of ogd: events after which its rate falls no more", 1.0, 1e18),
    Param("b", None, "of ftrl: slows the first steps; 1", 1e-6, 1e6),
    Param("l1", None, "of ftrl: keeps weights at 0 that little speaks for; 0", 0.0, 1e6),
    Param("l2", None, "of ftrl: shrinks weights; 0", 0.0, 1e6),
)
ONLY_SOME = tuple(param.name for param in PARAMS if param.default is None)


def _complete(own: dict[str, Any], loss: Any, full: dict[str, Any]) -> None:
    """Fill in what the step can be told; what it cannot stays away from equal models' words."""
    known = OPTIONS[own["step"]]
    for name in ONLY_SOME:
        if own[name] is None:
            own[name] = known.get(name)
        if own[name] is None:
            del own[name]


def _forbids(context: Mapping[str, Any]) -> str | None:
    own = context["bank"]
    for name in ONLY_SOME:
        if name in own and name not in OPTIONS[own["step"]]:
            steps = " or ".join(step for step, known in OPTIONS.items() if name in known)
            return (
                f"{name} is no option of the step {own['step']}; leave it out, or take step {steps}"
            )
    return None


def _make(params: Mapping[str, Any], d: int, m: int, seed: int) -> Any:
    step, N, lr = params["step"], params["n"], params.get("lr", 0.0)
    view = (params["features"] == "cyclic", 0)
    rows = d + (1 if params["bias"] else 0)
    w = aligned(np.zeros((m, rows, N)))
    if step == "nag":
        return Nag(w, np.zeros(rows), aligned(w), np.zeros(N), np.zeros(N), lr, *view)
    if step == "ng":
        return Ng(w, np.zeros(rows), np.zeros(N), np.zeros(N), lr, *view)
    if step == "sgd" and params["p"] == 0.0:
        return Sgd(w, lr, *view)
    if step == "sgd":
        return Scheduled(w, np.zeros(N), lr, params["t0"], params["p"], *view)
    if step == "ogd":
        slowest = params.get("t_max", math.inf)
        return Ogd(w, np.zeros(N), params["radius"], params["norm"], slowest, *view)
    if step == "adagrad":
        return AdaGrad(w, aligned(w), lr, *view)
    if step == "adam":
        return Adam(w, aligned(w), aligned(w), np.ones((2, N)), lr, *view)
    if step == "ftrl":
        told = (lr, params["b"], params["l1"], params["l2"], d)
        return Ftrl(w, aligned(w), aligned(w), *told, *view)
    return Invariant(w, lr, *view)


LINEAR_BANK = Component(
    "linear",
    "N linear learners",
    "specification, 7.1; nag: Ross, Mineiro, Langford 2013",
    PARAMS,
    _make,
    _forbids,
    _complete,
    has_random_learners=lambda own: bool(own["features"] == "cyclic"),
)
