"""Trees fitted again to everything they have seen: follow the leader, for plots of regret only
(specification, 7.5 and 7.7).

The weak learners of the experiments of Hu et al. 2017: CART limited in depth alone. The cost of an
event grows with the events before it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kaboost.models.banks.refit_trees.cart import Pairs, fit_cart
from kaboost.models.banks.state_size import too_large
from kaboost.models.kernels.jit import kernel
from kaboost.models.kernels.random import State
from kaboost.models.types import LOGISTIC, SQUARE, Component, Ints, Mat, Mat3, Param, Vec
from kaboost.models.verbs import learn, learner_view, learning_only, predict, reset_learner


class RefitTrees(NamedTuple):
    """N trees of depth D, heaps of M = 2^(D+1) - 1 nodes, with the last Q pairs of every tree."""

    feat: NDArray[np.int32]  # (N, M) feature of the node's cut, -1 for a leaf
    cut: Mat  # (N, M) x[feat] <= cut goes left
    v: Mat3  # (N, M, m) leaf values
    X: Mat3  # (N, Q, d) ring buffer
    r: Mat3  # (N, Q, m) targets
    w: Mat  # (N, Q) weights
    seen: Ints  # (N,) pairs so far
    every: int  # pairs between two fits


@learning_only.register
def _(bank: RefitTrees) -> tuple[str, ...]:
    return ("X", "r", "w", "seen")


@learner_view.register
def _(bank: RefitTrees, i: int) -> RefitTrees:
    return RefitTrees(
        bank.feat[i : i + 1],
        bank.cut[i : i + 1],
        bank.v[i : i + 1],
        bank.X[i : i + 1],
        bank.r[i : i + 1],
        bank.w[i : i + 1],
        bank.seen[i : i + 1],
        bank.every,
    )


@predict.register
def _(bank: RefitTrees, x: Vec, h: Mat, bank_scratch: Mat) -> None:
    N, _, m = bank.v.shape
    for i in range(N):
        q = 0
        while bank.feat[i, q] >= 0:
            q = 2 * q + (1 if x[bank.feat[i, q]] <= bank.cut[i, q] else 2)
        for c in range(m):
            h[c, i] = bank.v[i, q, c]


@learn.register
def _(
    bank: RefitTrees, x: Vec, h: Mat, target: Mat, weight: Vec, mode: int, bank_scratch: Mat
) -> None:
    for i in range(weight.shape[0]):
        if weight[i] > 0.0:
            keep(bank, i, x, target, weight[i])
            if bank.seen[i] % bank.every == 0:
                rows = min(bank.seen[i], bank.w.shape[1])
                pairs = Pairs(bank.X[i, :rows], bank.r[i, :rows], bank.w[i, :rows])
                fit_cart(bank.feat[i], bank.cut[i], bank.v[i], pairs)


@kernel
def keep(bank: RefitTrees, i: int, x: Vec, target: Mat, w: float) -> None:
    """Put a pair into learner i's ring buffer, in place of the oldest once it is full."""
    place = bank.seen[i] % bank.w.shape[1]
    for j in range(x.shape[0]):
        bank.X[i, place, j] = x[j]
    for c in range(target.shape[0]):
        bank.r[i, place, c] = target[c, i]
    bank.w[i, place] = w
    bank.seen[i] += 1


@reset_learner.register
def _(bank: RefitTrees, i: int, state: State) -> None:
    bank.feat[i] = -1
    bank.cut[i] = 0.0
    bank.v[i] = 0.0
    bank.X[i] = 0.0
    bank.r[i] = 0.0
    bank.w[i] = 0.0
    bank.seen[i] = 0


def _reject_reason(context: Mapping[str, Any]) -> str | None:
    bank, d, m = context["bank"], context["d"], context["m"]
    size = 8 * bank["n"] * (bank["capacity"] * (d + m + 1) + 2 ** (bank["depth"] + 1) * (2 + m))
    return too_large(
        size, "about 8 n capacity (features + outputs + 1) bytes", "a smaller n or capacity"
    )


def _make(params: Mapping[str, Any], d: int, m: int, seed: int) -> RefitTrees:
    N, M, Q = params["n"], 2 ** (params["depth"] + 1) - 1, params["capacity"]
    return RefitTrees(
        feat=np.full((N, M), -1, np.int32),
        cut=np.zeros((N, M)),
        v=np.zeros((N, M, m)),
        X=np.zeros((N, Q, d)),
        r=np.zeros((N, Q, m)),
        w=np.zeros((N, Q)),
        seen=np.zeros(N, np.int64),
        every=params["every"],
    )


REFIT_TREES = Component(
    "refit_trees",
    "N trees fitted again to the last `capacity` pairs, for plots only",
    "specification, 7.5 and 7.7; Breiman, Friedman, Olshen, Stone 1984",
    (
        Param("n", 20, "weak learners", 1, 100_000, integer=True),
        Param("depth", 3, "cuts from the root to a leaf", 1, 15, integer=True),
        Param("every", 10, "pairs between two fits", 1, 1_000_000, integer=True),
        Param("capacity", 4096, "latest pairs that count", 1, 10_000_000, integer=True),
    ),
    _make,
    reject_reason=_reject_reason,
    modes=(SQUARE, LOGISTIC),
    gradient=False,
)
