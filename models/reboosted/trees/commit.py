"""A tree takes its place: in its structure, and in what the window says before the cursor."""

from __future__ import annotations

from typing import Any

from kaboost.models.kernels.jit import kernel
from kaboost.models.reboosted.state import COVER
from kaboost.models.reboosted.trees.grower import LEAVES, LEFT, NODES, START, STOP
from kaboost.models.reboosted.trees.leaves import replant
from kaboost.models.reboosted.trees.rebuild import (
    COLUMNS,
    DONE,
    END,
    IDLE,
    KEPT,
    REST,
    STEP,
    WIDE,
    Y0,
    raise_some,
)
from kaboost.models.types import Vec


@kernel
def hand_over(bank: Any, work: Any, k: int, t: int, room: float) -> float:
    """Add the grown tree of structure k to the prefixes of the events since it was begun, up to t,
    and once there is none left put it into its place; return the ns it took.
    """
    prefix, at, pace = bank.window.prefix[k], work.at, bank.pace
    first = int(at[DONE])
    if pace.cursor[k] == 0:
        _restart(prefix, float(work.scale[Y0]), max(first, int(at[END])), t)
    spent = float(raise_some(bank.window.codes, prefix, work, (t, int(bank.plan.depth[k]), room)))
    if at[DONE] == t:
        if pace.cursor[k] == 0:
            bank.y0[k] = work.scale[Y0]
        _plant(bank.trees[k], pace, work, k)
    return spent


@kernel
def _restart(prefix: Vec, y0: float, first: int, t: int) -> None:
    """Let the events from `first` to t start where the sweep does: they came when another did."""
    for event in range(first, t):
        prefix[event % prefix.shape[0]] = y0


@kernel
def _plant(trees: Any, pace: Any, work: Any, k: int) -> None:
    i = int(pace.cursor[k])
    for n in range(work.at[NODES]):
        trees.nodes[i, n] = work.keys[n]
    for n in range(work.at[LEAVES], work.said.shape[0]):
        work.said[n] = 0.0
    replant(trees.rows, i, work.said)
    _cover(work, trees.rows[i])
    _remember(pace.gains[k], work)
    pace.cursor[k] = (i + 1) % trees.nodes.shape[0]
    pace.grown[k] += 1
    pace.leaves[k] = work.at[LEAVES]
    work.at[STEP] = IDLE
    pace.busy[k] = REST


@kernel
def _cover(work: Any, rows: Any) -> None:
    """Note in every leaf's row (leaves, 8) how many events it was grown from: explanations ask."""
    for n in range(work.at[NODES]):
        if work.nodes[n, LEFT] == 0:
            leaf = (work.keys[n] >> 16) & 0xFFFF
            rows[leaf, COVER] = work.nodes[n, STOP] - work.nodes[n, START]


@kernel
def _remember(gains: Vec, work: Any) -> None:
    """After a tree that looked at all features: how much each of them gained."""
    if work.at[WIDE] > 0:
        for j in range(gains.shape[0]):
            gains[j] *= KEPT
        for c in range(work.at[COLUMNS]):
            gains[work.columns[c]] += work.won[c]
