"""Regression trees of bounded depth that grow online: leaves with a regularised mean, histograms on
shared bins (specification, 7.5).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from statistics import NormalDist
from typing import Any

import numpy as np

from kaboost.models.banks.histogram_trees.binning import new_binning
from kaboost.models.banks.histogram_trees.histograms import (
    new_histograms,
    observe,
    seen_features,
)
from kaboost.models.banks.histogram_trees.trees_grow import (
    fill_histograms,
    grow,
    hold_statistics,
)
from kaboost.models.banks.histogram_trees.trees_leaves import event_statistics, learn_leaves
from kaboost.models.banks.histogram_trees.trees_split import HOEFFDING, NORMAL
from kaboost.models.banks.histogram_trees.trees_state import LEAF, OUTPUTS, TreeParams, Trees
from kaboost.models.banks.state_size import too_large
from kaboost.models.types import Component, Loss, Mat, Param, Vec
from kaboost.models.verbs import learn, predict, update_shared

TESTS = {"normal": NORMAL, "hoeffding": HOEFFDING}


@update_shared.register
def _(bank: Trees, x: Vec) -> None:
    observe(bank.binning, bank.histograms, x)


@predict.register
def _(bank: Trees, x: Vec, h: Mat, bank_scratch: Mat) -> None:
    N, _, m = bank.v.shape
    for i in range(N):
        q = 0
        while bank.feat[i, q] >= 0:
            q = 2 * q + (1 if x[bank.feat[i, q]] <= bank.cut[i, q] else 2)
        bank_scratch[LEAF, i] = q
        for c in range(m):
            h[c, i] = bank.v[i, q, c]


@learn.register
def _(bank: Trees, x: Vec, h: Mat, target: Mat, weight: Vec, mode: int, bank_scratch: Mat) -> None:
    if bank.whole:
        observe(bank.binning, bank.histograms, x)
    event_statistics(target, weight, mode, bank_scratch)
    learn_leaves(bank, weight, mode, bank_scratch)
    if bank.binning.ready[()] == 1:
        fill_histograms(bank, weight, bank_scratch)
        grow(bank, weight, mode, bank_scratch)
    else:
        hold_statistics(bank, bank_scratch)


def _sizes(bank: Mapping[str, Any], d: int, m: int) -> tuple[int, int, int, int]:
    """Return nodes M, histogram places, features seen, sums a bin."""
    depth = bank["depth"]
    return 2 ** (depth + 1) - 1, 2 ** (depth - 1), seen_features(bank["features"], d), OUTPUTS + m


def _reject_reason(context: Mapping[str, Any]) -> str | None:
    bank, d, m = context["bank"], context["d"], context["m"]
    M, places, k, K = _sizes(bank, d, m)
    N, cells = bank["n"], places * k * (bank["bins"] + 1) * K
    size = 8 * N * (cells + bank["warmup"] * K + M * (5 + 2 * m)) + 8 * bank["warmup"] * d
    return too_large(
        size,
        "about 8 n 2^(depth-1) (features seen) (bins + 1) (3 + outputs) bytes",
        "a smaller n, depth, bins or warmup, or features: sqrt",
    )


def _fill_defaults(bank: dict[str, Any], loss: Loss, full: dict[str, Any]) -> None:
    alone = bank["split"] == "hoeffding" and bank["n"] == 1
    bank["grace"] = (200.0 if alone else 50.0) if bank["grace"] is None else bank["grace"]
    bank["delta"] = (1e-7 if alone else 0.05) if bank["delta"] is None else bank["delta"]
    if bank["bound"] is None:
        reach = full["rule"].get("bound")
        bank["bound"] = float(reach) if isinstance(reach, int | float) else 1.0


def _make(params: Mapping[str, Any], d: int, m: int, seed: int) -> Trees:
    N, B, n0 = params["n"], params["bins"], params["warmup"]
    M, places, k, K = _sizes(params, d, m)
    return Trees(
        feat=np.full((N, M), -1, np.int32),
        cut=np.zeros((N, M)),
        v=np.zeros((N, M, m)),
        n=np.zeros((N, M)),
        q=np.zeros((N, M)),
        S=np.zeros((N, M, m)),
        c=np.zeros((N, M)),
        binning=new_binning(d, B, n0, served=False),
        histograms=new_histograms((N, places, k, B + 1, K), d, n0, seed, served=False),
        params=TreeParams(
            rho=params["rho"],
            lam=params["lam"],
            l1=params["l1"],
            bound=params["bound"],
            grace=params["grace"],
            n_min=params["n_min"],
            test=TESTS[params["split"]],
            delta=params["delta"],
            quantile=-NormalDist().inv_cdf(params["delta"] / (k * (B - 1))),
            tie=params["tie"],
            cap=math.inf if params["hist_cap"] is None else params["hist_cap"],
        ),
        whole=True,
    )


TREES = Component(
    "trees",
    "N regression trees of bounded depth that grow online",
    "specification, 7.5; Gouk, Pfahringer, Frank 2019; Ikonomovska et al. 2011",
    (
        Param("n", 20, "weak learners", 1, 100_000, integer=True),
        Param("depth", 3, "cuts from the root to a leaf", 1, 12, integer=True),
        Param("bins", 32, "bins of a feature", 2, 255, integer=True),
        Param("warmup", 500, "events that the bins are made of", 1, 1_000_000, integer=True),
        Param("grace", None, "weight a leaf learns between attempts to split; 50", 1e-9, 1e15),
        Param("split", "normal", "the test of a cut", choices=tuple(TESTS)),
        Param("delta", None, "chance of a cut that is none; .05", 1e-100, 0.5),
        Param("tie", 0.05, "of the hoeffding test: a smaller bound splits anyway", 0.0, 1.0),
        Param("n_min", 10.0, "effective events on both sides of a cut", 1.0, 1e15),
        Param("lam", 1.0, "L2 of a leaf's value", 0.0, 1e15),
        Param("l1", 0.0, "L1 of a leaf's value", 0.0, 1e15),
        Param("rho", 1.0, "what a leaf keeps of its past at every visit", 0.0, 1.0),
        Param("hist_cap", None, "weight of a histogram above which it is halved", 1.0, 1e30),
        Param(
            "features",
            "all",
            "features that a tree uses: all, sqrt, or a fraction",
            1e-9,
            1.0,
            choices=("all", "sqrt"),
        ),
        Param("bound", None, "largest |value| under linear losses; the rule's, or 1", 1e-12, 1e6),
    ),
    _make,
    reject_reason=_reject_reason,
    fill_defaults=_fill_defaults,
    gradient=False,
    has_random_learners=lambda bank: bank["features"] != "all",
)
