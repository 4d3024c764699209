"""Regression trees of bounded depth that grow online: leaves with a regularised mean, histograms on
shared bins (specification, 7.5).

Learners lie along the first axis, unlike in other banks: a learner reads one path, not all nodes.
A tree is a heap: the children of node q are 2q+1 and 2q+2.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kaboost.models.banks.bins import choose, note, seen_features, too_large
from kaboost.models.banks.trees_grow import fill_histograms, grow, settle
from kaboost.models.banks.trees_split import BEYOND, HOEFFDING, NORMAL
from kaboost.models.kernels.jit import kernel
from kaboost.models.kernels.random import generator
from kaboost.models.types import LINEAR, Component, Ints, Mat, Mat3, Param, Vec
from kaboost.models.verbs import (
    bank_scratch_rows,
    learn,
    learner_view,
    learning_only,
    predict,
    reset_learner,
    update_shared,
)

TESTS = {"normal": NORMAL, "hoeffding": HOEFFDING}


class Trees(NamedTuple):
    """N trees of depth D with M = 2^(D+1) - 1 places for nodes; K = 3 + m sums in a histogram's
    bin.
    """

    feat: NDArray[np.int32]  # (N, M) feature of the node's cut, -1 for a leaf
    cut: Mat  # (N, M) x[feat] <= cut goes left
    v: Mat3  # (N, M, m) what the leaf says
    n: Mat  # (N, M) weight of the leaf's events
    q: Mat  # (N, M) sum of w |r|^2
    S: Mat3  # (N, M, m) sum of w r
    c: Mat  # (N, M) weight since the last attempt to split
    H: NDArray[np.float64]  # (N, 2^(D-1), k, B+1, K) histograms of the leaves that may split
    subset: Ints  # (N, k) features each tree sees
    edges: Mat  # (d, B-1) and the rest of the shared bins: models/banks/bins.py
    cuts: Ints  # (d,)
    codes: NDArray[np.uint8]  # (d,)
    held: Mat  # (n0, d)
    tasks: Mat3  # (N, n0, K)
    filled: Ints  # ()
    ready: Ints  # ()
    rho: float
    lam: float
    l1: float
    bound: float  # D of the linear mode: no leaf says more
    grace: float
    n_min: float
    test: int
    delta: float
    quantile: float  # of the normal test: delta shared by all candidates
    tie: float
    cap: float  # mass of a histogram, above which it fades; inf for never
    whole: bool  # False in a bank of one


@learning_only.register
def _(bank: Trees) -> tuple[str, ...]:
    return (
        "n", "q", "S", "c", "H", "subset", "edges", "cuts", "codes", "held", "tasks", "filled",
        "ready",
    )  # fmt: skip


@bank_scratch_rows.register
def _(bank: Trees) -> int:
    # the leaf each learner is at, its statistics of the event, three sums of the split
    return 1 + 4 * int(bank.tasks.shape[2])


@learner_view.register
def _(bank: Trees, i: int) -> Trees:
    return Trees(
        bank.feat[i : i + 1],
        bank.cut[i : i + 1],
        bank.v[i : i + 1],
        bank.n[i : i + 1],
        bank.q[i : i + 1],
        bank.S[i : i + 1],
        bank.c[i : i + 1],
        bank.H[i : i + 1],
        bank.subset[i : i + 1],
        bank.edges,
        bank.cuts,
        bank.codes,
        bank.held,
        bank.tasks[i : i + 1],
        bank.filled,
        bank.ready,
        bank.rho,
        bank.lam,
        bank.l1,
        bank.bound,
        bank.grace,
        bank.n_min,
        bank.test,
        bank.delta,
        bank.quantile,
        bank.tie,
        bank.cap,
        False,
    )


@update_shared.register
def _(bank: Trees, x: Vec) -> None:
    note(bank, x)


@predict.register
def _(bank: Trees, x: Vec, h: Mat, bank_scratch: Mat) -> None:
    N, _, m = bank.v.shape
    for i in range(N):
        q = 0
        while bank.feat[i, q] >= 0:
            q = 2 * q + (1 if x[bank.feat[i, q]] <= bank.cut[i, q] else 2)
        bank_scratch[0, i] = q
        for c in range(m):
            h[c, i] = bank.v[i, q, c]


@learn.register
def _(bank: Trees, x: Vec, h: Mat, target: Mat, weight: Vec, mode: int, bank_scratch: Mat) -> None:
    if bank.whole:
        note(bank, x)
    count(target, weight, mode, bank_scratch)
    learn_leaves(bank, weight, mode, bank_scratch)
    if bank.ready[()] == 1:
        fill_histograms(bank, weight, bank_scratch)
        grow(bank, weight, mode, bank_scratch)
    else:
        wait(bank, bank_scratch)


@kernel
def count(target: Mat, weight: Vec, mode: int, bank_scratch: Mat) -> None:
    """Fill rows 1 to K of room with w, w^2, w|r|^2 and w r of every learner; r is the target, or
    the negative slope.
    """
    m, N = target.shape
    for i in range(N):
        w = weight[i]
        bank_scratch[1, i] = w
        bank_scratch[2, i] = w * w
        bank_scratch[3, i] = 0.0
        for c in range(m):
            r = -target[c, i] if mode == LINEAR else target[c, i]
            bank_scratch[3, i] += w * r * r
            bank_scratch[1 + BEYOND + c, i] = w * r


@kernel
def learn_leaves(bank: Trees, weight: Vec, mode: int, bank_scratch: Mat) -> None:
    """Add the event to the leaf of every learner of positive weight."""
    m = bank.v.shape[2]
    for i in range(weight.shape[0]):
        if weight[i] > 0.0:
            q = int(bank_scratch[0, i])
            bank.n[i, q] = bank.rho * bank.n[i, q] + bank_scratch[1, i]
            bank.q[i, q] = bank.rho * bank.q[i, q] + bank_scratch[3, i]
            for c in range(m):
                bank.S[i, q, c] = bank.rho * bank.S[i, q, c] + bank_scratch[1 + BEYOND + c, i]
            settle(bank.n, bank.q, bank.S, bank.v, (i, q), (bank.lam, bank.l1, bank.bound, mode))


@kernel
def wait(bank: Trees, bank_scratch: Mat) -> None:
    """Keep the statistics of every learner in the warm-up buffer, beside what the event already
    told it.
    """
    N, _, K = bank.tasks.shape
    r = bank.filled[()] - 1
    for i in range(N):
        if bank_scratch[1, i] > 0.0:
            for s in range(K):
                bank.tasks[i, r, s] += bank_scratch[1 + s, i]


@reset_learner.register
def _(bank: Trees, i: int, state: Any) -> None:
    bank.feat[i] = -1
    bank.cut[i] = 0.0
    bank.v[i] = 0.0
    bank.n[i] = 0.0
    bank.q[i] = 0.0
    bank.S[i] = 0.0
    bank.c[i] = 0.0
    bank.H[i] = 0.0
    bank.tasks[i] = 0.0
    choose(bank.subset[i], bank.edges.shape[0], state)


def _sizes(own: Mapping[str, Any], d: int, m: int) -> tuple[int, int, int, int]:
    """Return nodes M, histogram places, features seen, sums a bin."""
    depth = own["depth"]
    return 2 ** (depth + 1) - 1, 2 ** (depth - 1), seen_features(own["features"], d), BEYOND + m


def _forbids(context: Mapping[str, Any]) -> str | None:
    own, d, m = context["bank"], context["d"], context["m"]
    M, places, k, K = _sizes(own, d, m)
    N, cells = own["n"], places * k * (own["bins"] + 1) * K
    size = 8 * N * (cells + own["warmup"] * K + M * (5 + 2 * m)) + 8 * own["warmup"] * d
    return too_large(
        size,
        "about 8 n 2^(depth-1) (features seen) (bins + 1) (3 + outputs) bytes",
        "a smaller n, depth, bins or warmup, or features: sqrt",
    )


def _complete(own: dict[str, Any], loss: Any, full: dict[str, Any]) -> None:
    alone = own["split"] == "hoeffding" and own["n"] == 1
    own["grace"] = (200.0 if alone else 50.0) if own["grace"] is None else own["grace"]
    own["delta"] = (1e-7 if alone else 0.05) if own["delta"] is None else own["delta"]
    if own["bound"] is None:
        reach = full["rule"].get("bound")
        own["bound"] = float(reach) if isinstance(reach, int | float) else 1.0


def _make(params: Mapping[str, Any], d: int, m: int, seed: int) -> Trees:
    N, B, n0 = params["n"], params["bins"], params["warmup"]
    M, places, k, K = _sizes(params, d, m)
    subset, state = np.zeros((N, k), np.int64), generator(seed)
    for i in range(N):
        choose(subset[i], d, state)
    return Trees(
        feat=np.full((N, M), -1, np.int32),
        cut=np.zeros((N, M)),
        v=np.zeros((N, M, m)),
        n=np.zeros((N, M)),
        q=np.zeros((N, M)),
        S=np.zeros((N, M, m)),
        c=np.zeros((N, M)),
        H=np.zeros((N, places, k, B + 1, K)),
        subset=subset,
        edges=np.full((d, B - 1), np.inf),
        cuts=np.zeros(d, np.int64),
        codes=np.zeros(d, np.uint8),
        held=np.zeros((n0, d)),
        tasks=np.zeros((N, n0, K)),
        filled=np.zeros((), np.int64),
        ready=np.zeros((), np.int64),
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
        Param("n_min", 10.0, "effective events on each side of a cut", 1.0, 1e15),
        Param("lam", 1.0, "L2 of a leaf's value", 0.0, 1e15),
        Param("l1", 0.0, "L1 of a leaf's value", 0.0, 1e15),
        Param("rho", 1.0, "what a leaf keeps of its past at each visit", 0.0, 1.0),
        Param("hist_cap", None, "weight of a histogram above which it is halved", 1.0, 1e30),
        Param(
            "features",
            "all",
            "features each tree sees: all, sqrt, or a fraction",
            1e-9,
            1.0,
            choices=("all", "sqrt"),
        ),
        Param("bound", None, "largest |value| under linear losses; the rule's, or 1", 1e-12, 1e6),
    ),
    _make,
    reject_reason=_forbids,
    fill_defaults=_complete,
    gradient=False,
    has_random_learners=lambda own: own["features"] != "all",
)
