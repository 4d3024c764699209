"""Hoeffding trees, the classifiers of Online GentleBoost and of the vote rules (Domingos, Hulten,
Mining High-Speed Data Streams, 2000; specification, 7.6).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from kaboost.models.banks.histogram_trees.binning import new_binning
from kaboost.models.banks.histogram_trees.histograms import (
    new_histograms,
    observe,
    seen_features,
)
from kaboost.models.banks.histogram_trees.hoeffding_grow import learn_classes
from kaboost.models.banks.histogram_trees.hoeffding_leaves import bayes, majority
from kaboost.models.banks.histogram_trees.hoeffding_split import GAIN, GINI
from kaboost.models.banks.histogram_trees.hoeffding_state import (
    ADAPTIVE,
    BAYES,
    CLASSES,
    LEAF,
    MAJORITY,
    Hoeffding,
    HoeffdingParams,
)
from kaboost.models.banks.state_size import too_large
from kaboost.models.types import LOGISTIC, SQUARE, Component, Mat, Param, Vec
from kaboost.models.verbs import learn, predict, update_shared

LEAVES = {"adaptive": ADAPTIVE, "majority": MAJORITY, "bayes": BAYES}
MEASURES = {"gain": GAIN, "gini": GINI}
RULES = ("gentle", "bbm", "adaboost_ol", "adaboost_ol_w", "oza_boost", "oza_bag", "adwin_bag")


@update_shared.register
def _(bank: Hoeffding, x: Vec) -> None:
    observe(bank.binning, bank.histograms, x)


@predict.register
def _(bank: Hoeffding, x: Vec, h: Mat, bank_scratch: Mat) -> None:
    N, _, C = bank.counts.shape
    p, leaf = bank_scratch[CLASSES:], bank.params.leaf
    for i in range(N):
        q = 0
        while bank.feat[i, q] >= 0:
            q = bank.left[i, q] + (0 if x[bank.feat[i, q]] <= bank.cut[i, q] else 1)
        bank_scratch[LEAF, i] = q
        by_bayes = leaf == BAYES
        if leaf == ADAPTIVE:
            by_bayes = bank.right[i, q, 1] > bank.right[i, q, 0]
        if by_bayes and bank.binning.ready[()] == 1:
            bayes(bank, i, q, x, p)
        else:
            majority(bank, i, q, p)
        if h.shape[0] == 1:
            h[0, i] = 2.0 * p[1, i] - 1.0
        else:
            for k in range(C):
                h[k, i] = 2.0 * p[k, i] - 1.0


@learn.register
def _(
    bank: Hoeffding, x: Vec, h: Mat, target: Mat, weight: Vec, mode: int, bank_scratch: Mat
) -> None:
    if bank.whole:
        observe(bank.binning, bank.histograms, x)
    learn_classes(bank, x, target, weight, bank_scratch)


def _sizes(bank: Mapping[str, Any], d: int, m: int) -> tuple[int, int, int]:
    """Return leaves L, features seen, classes."""
    return (
        min(bank["max_leaves"], 2 ** int(bank["depth"])),
        seen_features(bank["features"], d),
        max(2, m),
    )


def _reject_reason(context: Mapping[str, Any]) -> str | None:
    bank, d, m = context["bank"], context["d"], context["m"]
    if context["rule"]["kind"] not in RULES:
        return (
            f"hoeffding trees learn classes, but {context['rule']['kind']} needs numbers; take "
            f"bank trees, or one of the rules {', '.join(RULES)}"
        )
    if context["traits"].task == "regression":
        return (
            f"hoeffding trees learn classes, and loss {context['loss']['kind']} is for numbers; "
            "take bank trees"
        )
    L, k, C = _sizes(bank, d, m)
    N, n0, cells = bank["n"], bank["warmup"], L * k * (bank["bins"] + 1) * C
    size = 8 * N * (cells + n0 * C + 2 * L * (6 + C)) + 8 * n0 * d
    return too_large(
        size,
        "about 8 n max_leaves (features seen) (bins + 1) classes bytes",
        "a smaller n, max_leaves, bins or warmup, or features: sqrt",
    )


def _make(params: Mapping[str, Any], d: int, m: int, seed: int) -> Hoeffding:
    N, B, n0 = params["n"], params["bins"], params["warmup"]
    L, k, C = _sizes(params, d, m)
    M = 2 * L - 1
    served = params["leaf"] != "majority"
    return Hoeffding(
        feat=np.full((N, M), -1, np.int32),
        cut=np.zeros((N, M)),
        left=np.zeros((N, M), np.int32),
        counts=np.zeros((N, M, C)),
        right=np.zeros((N, M, 2)),
        slot=np.zeros((N, M), np.int32),
        binning=new_binning(d, B, n0, served),
        histograms=new_histograms((N, L, k, B + 1, C), d, n0, seed, served),
        c=np.zeros((N, M)),
        depth=np.zeros((N, M), np.int32),
        nodes=np.ones(N, np.int64),
        params=HoeffdingParams(
            leaf=LEAVES[params["leaf"]],
            measure=MEASURES[params["split"]],
            grace=params["grace"],
            delta=params["delta"],
            tie=params["tie"],
            max_depth=params["depth"],
        ),
        whole=True,
    )


HOEFFDING = Component(
    "hoeffding",
    "N Hoeffding trees, for rules that learn classes",
    "specification, 7.6; Domingos, Hulten 2000",
    (
        Param("n", 10, "weak learners", 1, 100_000, integer=True),
        Param("depth", 12, "cuts from the root to a leaf", 1, 30, integer=True),
        Param("max_leaves", 64, "leaves of a tree", 1, 100_000, integer=True),
        Param("bins", 32, "bins of a feature", 2, 255, integer=True),
        Param("warmup", 500, "events that the bins are made of", 1, 1_000_000, integer=True),
        Param("grace", 200.0, "weight a leaf learns between attempts to split", 1e-9, 1e15),
        Param(
            "split",
            "gain",
            "what a cut lowers: entropy (gain) or gini impurity",
            choices=tuple(MEASURES),
        ),
        Param("delta", 1e-7, "chance that another feature is the better one", 1e-300, 0.5),
        Param("tie", 0.05, "a smaller bound splits anyway", 0.0, 1.0),
        Param("leaf", "adaptive", "what a leaf predicts by", choices=tuple(LEAVES)),
        Param(
            "features",
            "all",
            "features that a tree uses: all, sqrt, or a fraction",
            1e-9,
            1.0,
            choices=("all", "sqrt"),
        ),
    ),
    _make,
    reject_reason=_reject_reason,
    modes=(SQUARE, LOGISTIC),
    gradient=False,
    has_random_learners=lambda bank: bank["features"] != "all",
)
