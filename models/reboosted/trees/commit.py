"""A tree takes its place: in its structure, and in what the window says before the cursor."""

from __future__ import annotations

from typing import Any

from kaboost.models.kernels.jit import kernel
from kaboost.models.reboosted.state import COVER
from kaboost.models.reboosted.trees.grower import LEAVES, LEFT_CHILD, NODES, START, STOP
from kaboost.models.reboosted.trees.leaves import reset_leaves
from kaboost.models.reboosted.trees.rebuild import (
    ALL_FEATURES,
    BASE_SCORE,
    COLUMNS,
    DONE,
    END,
    GAIN_DECAY,
    NOT_STARTED,
    STEP,
    UNASSIGNED,
    add_tree_to_prefixes,
)
from kaboost.models.types import Vec


@kernel
def commit_tree(bank: Any, build: Any, k: int, t: int, room: float) -> float:
    """Add the grown tree of structure k to the prefixes of the events since it was begun, up to t,
    and once there is none left put it into its place; return the ns it took.
    """
    prefix, at, schedule = bank.window.prefix[k], build.cursor, bank.schedule
    first = int(at[DONE])
    if schedule.cursor[k] == 0:
        _reset_base_score(prefix, float(build.scale[BASE_SCORE]), max(first, int(at[END])), t)
    spent = float(
        add_tree_to_prefixes(bank.window.codes, prefix, build, (t, int(bank.params.depth[k]), room))
    )
    if at[DONE] == t:
        if schedule.cursor[k] == 0:
            bank.base_score[k] = build.scale[BASE_SCORE]
        _replace_tree(bank.structures[k], schedule, build, k)
    return spent


@kernel
def _reset_base_score(prefix: Vec, y0: float, first: int, t: int) -> None:
    """Let the events from `first` to t start where the sweep does: they came when another did."""
    for event in range(first, t):
        prefix[event % prefix.shape[0]] = y0


@kernel
def _replace_tree(trees: Any, schedule: Any, build: Any, k: int) -> None:
    i = int(schedule.cursor[k])
    for n in range(build.cursor[NODES]):
        trees.nodes[i, n] = build.served_nodes[n]
    for n in range(build.cursor[LEAVES], build.leaf_values.shape[0]):
        build.leaf_values[n] = 0.0
    reset_leaves(trees.rows, i, build.leaf_values)
    _store_cover(build, trees.rows[i])
    _update_gains(schedule.feature_gains[k], build)
    schedule.cursor[k] = (i + 1) % trees.nodes.shape[0]
    schedule.grown[k] += 1
    schedule.leaf_count[k] = build.cursor[LEAVES]
    build.cursor[STEP] = NOT_STARTED
    schedule.status[k] = UNASSIGNED


@kernel
def _store_cover(build: Any, rows: Any) -> None:
    """Note in every leaf's row (leaves, 8) how many events it was grown from: explanations ask."""
    for n in range(build.cursor[NODES]):
        if build.nodes[n, LEFT_CHILD] == 0:
            leaf = (build.served_nodes[n] >> 16) & 0xFFFF
            rows[leaf, COVER] = build.nodes[n, STOP] - build.nodes[n, START]


@kernel
def _update_gains(gains: Vec, build: Any) -> None:
    """After a tree that looked at all features: how much each of them gained."""
    if build.cursor[ALL_FEATURES] > 0:
        for j in range(gains.shape[0]):
            gains[j] *= GAIN_DECAY
        for c in range(build.cursor[COLUMNS]):
            gains[build.columns[c]] += build.split_gain[c]
