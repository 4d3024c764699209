"""Scratch of one event of reboosted trees, made once a batch: a whole one to learn, a small one to
predict, in few arrays.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from kaboost.models.kernels.jit import kernel
from kaboost.models.reboosted.linear import LEARNERS, blank_row
from kaboost.models.reboosted.state import LANES
from kaboost.models.reboosted.trees.traverse import BLOCK
from kaboost.models.types import UINT, Ints, Mat, Vec

WORTH, WIDE = 6, 1024  # events from which on blocks are; columns up to which they fit the cache
LINES = LEARNERS + 1  # scores that come of no trees: the linear learners', and the last label


class Desk(NamedTuple):
    """Scratch of one event, made once a batch."""

    x: Any  # (2d,) or more int32 keys, missing ones largest, and again with missing ones smallest
    columns: Any  # (2^i B,) int32, the same of a block of B events, column by column
    leaf: Any  # (B, K, N) int32, of the B events of a block
    lags: Vec  # (5,) as they will be
    grown: Ints  # (K,) trees there were when the leaves were looked for
    F: Mat  # (K, N+1) prefixes
    said: Vec  # (N+1,) differences of one structure's prefixes, losses, slopes, curvatures
    lost: Vec
    steep: Vec
    bent: Vec
    total: Vec  # (8,)
    runs: Any  # what follows is a row of the linear learners: models/reboosted/linear.py
    values: Vec
    distances: Vec
    active: Ints
    inputs: Vec
    places: Any
    parts: Vec
    f: Vec  # (n,) scores of all structures' leaf learners, then those of LINES
    loss: Vec  # (n,)
    slope: Vec  # (n,)
    z: Vec  # (S+1,)
    mixed: Vec  # (S+1,) their losses
    share: Vec  # (max(n, S+1),)
    gain: Vec  # (R,)
    features: Vec  # (R,) scores as the filters see them
    sizes: Ints  # (K,) trees of each structure
    move: Any  # (8,) float32


class Reading(NamedTuple):
    """What of a desk a prediction needs; the fields are a desk's."""

    x: Any
    leaf: Any  # (K, N)
    F: Mat
    total: Vec
    runs: Any
    values: Vec
    distances: Vec
    active: Ints
    inputs: Vec
    places: Any
    f: Vec
    z: Vec
    share: Vec
    features: Vec
    sizes: Ints


def desk(bank: Any, filters: Any, d0: int, events: int = 1) -> Desk:
    """Return scratch for a bank over d0 features and its stack, to learn so many events."""
    d = d0 + bank.lags.size
    sizes = np.array([one.nodes.shape[0] for one in bank.trees], np.int64)
    K, N, n = len(sizes), int(sizes.max()), len(sizes) * len(bank.plan.rates) + LINES
    R, S = filters.weights.shape[1], len(filters.mix_losses)
    leaves = max(one.rows.shape[1] for one in bank.trees)  # a leaf's number is read as a feature
    wide = 1 << (2 * d - 1).bit_length()
    B = BLOCK if events >= WORTH and wide <= WIDE else 1
    return Desk(
        x=np.zeros(max(2 * d, leaves), np.int32), leaf=np.zeros((B, K, N), np.int32),
        columns=np.zeros(wide * B if B > 1 else 0, np.int32), lags=np.zeros(bank.lags.size),
        grown=np.zeros(K, np.int64), F=np.zeros((K, N + 1)),
        said=np.zeros(N + 1), lost=np.zeros(N + 1), steep=np.zeros(N + 1), bent=np.zeros(N + 1),
        total=np.zeros(LANES), **blank_row(d0)._asdict(),
        f=np.zeros(n), loss=np.zeros(n), slope=np.zeros(n),
        z=np.zeros(S), mixed=np.zeros(S), share=np.zeros(max(n, S)), gain=np.zeros(R),
        features=np.zeros(R), sizes=sizes, move=np.zeros(LANES, np.float32),
    )  # fmt: skip


def room_for(bank: Any, filters: Any, d0: int) -> tuple[Any, Vec, Ints]:
    """Return the scratch of predictions in three arrays, for `reading` to cut: to make and hand
    over an array costs more than to walk a tree.
    """
    d, K, n = d0 + bank.lags.size, len(bank.trees), len(bank.trees) * len(bank.plan.rates) + LINES
    N = max(one.nodes.shape[0] for one in bank.trees)
    leaves = max(one.rows.shape[1] for one in bank.trees)
    R, S = filters.weights.shape[1], len(filters.mix_losses)
    floats = K * (N + 1) + LANES + 4 * d0 + 1 + n + S + max(n, S) + R
    ints = max(2 * d, leaves) + K * N
    return np.zeros(ints, np.int32), np.zeros(floats), np.zeros(4 * d0 + 8 + K, np.int64)


@kernel
def reading(forest: Any, stack: Any, d0: int, room: Any) -> Reading:
    """Cut the scratch of predictions over d0 features out of `room_for`."""
    ints, floats, longs = room
    K, N = len(forest.trees), 0
    C, P, sizes = 2 * d0 + 1, 3 * d0 + 1, longs[4 * d0 + 8 :]
    for k in range(K):
        sizes[k] = forest.trees[k].nodes.shape[0]
        N = max(N, forest.trees[k].nodes.shape[0])
    n, S = K * forest.rates.shape[0] + LINES, stack.mix_losses.shape[0]
    wide = ints.shape[0] - K * N
    e = K * (N + 1)
    p = e + LANES
    q, u = p + 2 * d0, p + 2 * d0 + C
    v, w = u + n + S, u + n + S + max(n, S)
    places = longs[3 : 3 + P + d0 + 4].view(UINT)
    return Reading(
        ints[:wide],
        ints[wide:].reshape(K, N),
        floats[:e].reshape(K, N + 1),
        floats[e:p],
        places[P:], floats[p : p + d0], floats[p + d0 : q], longs[:3], floats[q:u],
        places[:P],
        floats[u : u + n], floats[u + n : v], floats[v:w], floats[w:], sizes,
    )  # fmt: skip
