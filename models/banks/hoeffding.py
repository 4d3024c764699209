"""Hoeffding trees, the classifiers of Online GentleBoost and of the vote rules (specification,
7.6).

Learners lie along the first axis, as in trees.py. Nodes are numbered as they come; the children of
a node are `left` and `left + 1`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kaboost.models.banks.bins import choose, note, seen_features, too_large
from kaboost.models.banks.hoeffding_leaves import (
    ADAPTIVE,
    BAYES,
    MAJORITY,
    asked,
    bayes,
    majority,
    said,
)
from kaboost.models.banks.hoeffding_split import GAIN, GINI, add_bins, best_cut, is_ahead, weight_of
from kaboost.models.kernels.jit import kernel
from kaboost.models.kernels.random import generator
from kaboost.models.types import LOGISTIC, SQUARE, Component, Ints, Mat, Mat3, Param, Vec
from kaboost.models.verbs import (
    bank_scratch_rows,
    learn,
    learner_view,
    learning_only,
    predict,
    reset_learner,
    update_shared,
)

LEAVES = {"adaptive": ADAPTIVE, "majority": MAJORITY, "bayes": BAYES}
MEASURES = {"gain": GAIN, "gini": GINI}
RULES = ("gentle", "bbm", "adaboost_ol", "adaboost_ol_w", "oza_boost", "oza_bag", "adwin_bag")


class Hoeffding(NamedTuple):
    """N classification trees of at most L leaves, M = 2L - 1 nodes, over C classes."""

    feat: NDArray[np.int32]  # (N, M) feature of the node's cut, -1 for a leaf
    cut: Mat  # (N, M) x[feat] <= cut goes left
    left: NDArray[np.int32]  # (N, M)
    counts: Mat3  # (N, M, C) class weights of the leaf, with those its parent handed on
    right: Mat3  # (N, M, 2) weight that majority and naive Bayes got right there
    slot: NDArray[np.int32]  # (N, M) the leaf's place in H
    H: NDArray[np.float64]  # (N, L, k, B+1, C) class weights by feature and bin
    subset: Ints  # (N, k) features each tree sees
    edges: Mat  # (d, B-1) and the rest of the shared bins: models/banks/bins.py
    cuts: Ints  # (d,)
    codes: NDArray[np.uint8]  # (d,)
    held: Mat  # (n0, d)
    tasks: Mat3  # (N, n0, C)
    filled: Ints  # ()
    ready: Ints  # ()
    c: Mat  # (N, M) weight since the last attempt to split
    depth: NDArray[np.int32]  # (N, M)
    nodes: Ints  # (N,) how many there are
    leaf: int
    measure: int
    grace: float
    delta: float
    tie: float
    max_depth: int
    whole: bool  # False in a bank of one


@learning_only.register
def _(bank: Hoeffding) -> tuple[str, ...]:
    learns = ("codes", "held", "tasks", "filled", "c", "depth", "nodes")
    counted = ("right", "slot", "H", "subset", "edges", "cuts", "ready")
    return learns + counted if bank.leaf == MAJORITY else learns


@bank_scratch_rows.register
def _(bank: Hoeffding) -> int:
    # the leaf each learner is at; two rows of classes to predict, three to split
    return 1 + 3 * int(bank.counts.shape[2])


@learner_view.register
def _(bank: Hoeffding, i: int) -> Hoeffding:
    return Hoeffding(
        bank.feat[i : i + 1],
        bank.cut[i : i + 1],
        bank.left[i : i + 1],
        bank.counts[i : i + 1],
        bank.right[i : i + 1],
        bank.slot[i : i + 1],
        bank.H[i : i + 1],
        bank.subset[i : i + 1],
        bank.edges,
        bank.cuts,
        bank.codes,
        bank.held,
        bank.tasks[i : i + 1],
        bank.filled,
        bank.ready,
        bank.c[i : i + 1],
        bank.depth[i : i + 1],
        bank.nodes[i : i + 1],
        bank.leaf,
        bank.measure,
        bank.grace,
        bank.delta,
        bank.tie,
        bank.max_depth,
        False,
    )


@update_shared.register
def _(bank: Hoeffding, x: Vec) -> None:
    note(bank, x)


@predict.register
def _(bank: Hoeffding, x: Vec, h: Mat, bank_scratch: Mat) -> None:
    N, _, C = bank.counts.shape
    p = bank_scratch[1:]
    for i in range(N):
        q = 0
        while bank.feat[i, q] >= 0:
            q = bank.left[i, q] + (0 if x[bank.feat[i, q]] <= bank.cut[i, q] else 1)
        bank_scratch[0, i] = q
        chosen = bank.leaf == BAYES
        if bank.leaf == ADAPTIVE:
            chosen = bank.right[i, q, 1] > bank.right[i, q, 0]
        if chosen and bank.ready[()] == 1:
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
        note(bank, x)
    learn_classes(bank, x, target, weight, bank_scratch)


@kernel
def learn_classes(bank: Hoeffding, x: Vec, target: Mat, weight: Vec, bank_scratch: Mat) -> None:
    """Add the event to the leaf of every learner of positive weight.

    A kernel of its own: numba takes writes to what `learner_view` returned for dead code where both
    are inlined into one function.
    """
    for i in range(weight.shape[0]):
        if weight[i] > 0.0:
            q, k = int(bank_scratch[0, i]), asked(target, i)
            if bank.ready[()] == 0:
                bank.tasks[i, bank.filled[()] - 1, k] += weight[i]
                bank.counts[i, q, k] += weight[i]
            else:
                learn_leaf(bank, (i, q, k, target.shape[0]), weight[i], x, bank_scratch)
                grow(bank, i, q, bank_scratch)


@kernel
def learn_leaf(bank: Hoeffding, place: Any, w: float, x: Vec, bank_scratch: Mat) -> None:
    """Add an event of class k to leaf q of tree i with m outputs, after both ways of answering were
    tried on it.
    """
    i, q, k, m = place
    if bank.leaf == ADAPTIVE:
        C, p = bank.counts.shape[2], bank_scratch[1:]
        majority(bank, i, q, p)
        bank.right[i, q, 0] += w if said(p, i, C, m) == k else 0.0
        bayes(bank, i, q, x, p)
        bank.right[i, q, 1] += w if said(p, i, C, m) == k else 0.0
    bank.counts[i, q, k] += w
    bank.c[i, q] += w
    slot = bank.slot[i, q]
    for f in range(bank.subset.shape[1]):
        bank.H[i, slot, f, bank.codes[bank.subset[i, f]], k] += w


@kernel
def grow(bank: Hoeffding, i: int, q: int, bank_scratch: Mat) -> None:
    """Try to split leaf q of tree i once it has waited for `grace`."""
    if bank.c[i, q] < bank.grace:
        return
    bank.c[i, q] = 0.0
    if bank.depth[i, q] >= bank.max_depth or bank.nodes[i] + 2 > bank.feat.shape[1]:
        return
    C, H = bank.counts.shape[2], bank.H[i, bank.slot[i, q]]
    total, low, high = (
        bank_scratch[1 : 1 + C, 0],
        bank_scratch[1 + C : 1 + 2 * C, 0],
        bank_scratch[1 + 2 * C :, 0],
    )
    add_bins(H, 0, H.shape[1] - 1, total)
    sums = (total, low, high)
    f, b, best, second = best_cut(H, bank.subset[i], bank.cuts, sums, bank.measure)
    width = 1.0 if bank.measure == GINI else math.log(float(C)) / math.log(2.0)
    if f >= 0 and is_ahead(best, second, weight_of(total), (width, bank.delta, bank.tie)):
        add_bins(H, f, b, low)
        for k in range(C):
            high[k] = total[k] - low[k] if total[k] > low[k] else 0.0
        j = bank.subset[i, f]
        split(bank, (i, q), (j, bank.edges[j, b]), (low, high))


@kernel
def split(bank: Hoeffding, place: Any, where: Any, parts: Any) -> None:
    """Give leaf q of tree i two children that go on from the class weights of each side; the left
    one takes its histogram's place.
    """
    i, q = place
    slot, leaves, child = bank.slot[i, q], (bank.nodes[i] + 1) // 2, bank.nodes[i]
    bank.feat[i, q], bank.cut[i, q] = where
    bank.left[i, q] = child
    bank.nodes[i] += 2
    for side in range(2):
        part = parts[side]
        bank.depth[i, child + side] = bank.depth[i, q] + 1
        bank.slot[i, child + side] = slot if side == 0 else leaves
        for k in range(part.shape[0]):
            bank.counts[i, child + side, k] = part[k]
    _, _, features, bins, classes = bank.H.shape
    for f in range(features):
        for b in range(bins):
            for k in range(classes):
                bank.H[i, slot, f, b, k] = 0.0


@reset_learner.register
def _(bank: Hoeffding, i: int, state: Any) -> None:
    bank.feat[i] = -1
    bank.cut[i] = 0.0
    bank.left[i] = 0
    bank.counts[i] = 0.0
    bank.right[i] = 0.0
    bank.slot[i] = 0
    bank.H[i] = 0.0
    bank.tasks[i] = 0.0
    bank.c[i] = 0.0
    bank.depth[i] = 0
    bank.nodes[i] = 1
    choose(bank.subset[i], bank.edges.shape[0], state)


def _sizes(own: Mapping[str, Any], d: int, m: int) -> tuple[int, int, int]:
    """Return leaves L, features seen, classes."""
    return (
        min(own["max_leaves"], 2 ** int(own["depth"])),
        seen_features(own["features"], d),
        max(2, m),
    )


def _forbids(context: Mapping[str, Any]) -> str | None:
    own, d, m = context["bank"], context["d"], context["m"]
    if context["rule"]["kind"] not in RULES:
        return (
            f"hoeffding trees learn classes, and {context['rule']['kind']} asks for numbers; take "
            f"bank trees, or one of the rules {', '.join(RULES)}"
        )
    if context["traits"].task == "regression":
        return (
            f"hoeffding trees learn classes, and loss {context['loss']['kind']} is for numbers; "
            "take bank trees"
        )
    L, k, C = _sizes(own, d, m)
    N, n0, cells = own["n"], own["warmup"], L * k * (own["bins"] + 1) * C
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
    subset, state = np.zeros((N, k), np.int64), generator(seed)
    for i in range(N):
        choose(subset[i], d, state)
    return Hoeffding(
        feat=np.full((N, M), -1, np.int32),
        cut=np.zeros((N, M)),
        left=np.zeros((N, M), np.int32),
        counts=np.zeros((N, M, C)),
        right=np.zeros((N, M, 2)),
        slot=np.zeros((N, M), np.int32),
        H=np.zeros((N, L, k, B + 1, C)),
        subset=subset,
        edges=np.full((d, B - 1), np.inf),
        cuts=np.zeros(d, np.int64),
        codes=np.zeros(d, np.uint8),
        held=np.zeros((n0, d)),
        tasks=np.zeros((N, n0, C)),
        filled=np.zeros((), np.int64),
        ready=np.zeros((), np.int64),
        c=np.zeros((N, M)),
        depth=np.zeros((N, M), np.int32),
        nodes=np.ones(N, np.int64),
        leaf=LEAVES[params["leaf"]],
        measure=MEASURES[params["split"]],
        grace=params["grace"],
        delta=params["delta"],
        tie=params["tie"],
        max_depth=params["depth"],
        whole=True,
    )


HOEFFDING = Component(
    "hoeffding",
    "N Hoeffding trees, for rules that learn classes",
    "specification, 7.6; Domingos, Hulten 2000",
    (
        Param("n", 10, "weak learners", 1, 100_000, integer=True),
        Param("depth", 12, "cuts from the root to a leaf", 1, 30, integer=True),
        Param("max_leaves", 64, "leaves of each tree", 1, 100_000, integer=True),
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
        Param("leaf", "adaptive", "what a leaf answers by", choices=tuple(LEAVES)),
        Param(
            "features",
            "all",
            "features each tree sees: all, sqrt, or a fraction",
            1e-9,
            1.0,
            choices=("all", "sqrt"),
        ),
    ),
    _make,
    reject_reason=_forbids,
    modes=(SQUARE, LOGISTIC),
    gradient=False,
    has_random_learners=lambda own: own["features"] != "all",
)
