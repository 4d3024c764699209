"""Committing a grown tree: to its structure, and to the prefixes of the events since its start."""

from __future__ import annotations

from kaboost.models.kernels.jit import kernel
from kaboost.models.reboosted.config import GAIN_DECAY
from kaboost.models.reboosted.state import (
    COVER,
    NOT_STARTED,
    UNASSIGNED,
    Reboosted,
    Rows,
    Schedule,
    TreeBuild,
    Trees,
)
from kaboost.models.reboosted.trees.leaves import reset_leaves
from kaboost.models.reboosted.trees.rebuild import add_tree_to_prefixes
from kaboost.models.types import Vec


@kernel
def commit_tree(bank: Reboosted, build: TreeBuild, k: int, t: int, left_ns: float) -> float:
    """Add the grown tree of structure k to the prefixes of the events since its start, up to t, for
    about so many ns, and then replace the old one; return the ns it took.
    """
    prefix, cursor, schedule = bank.window.prefix[k], build.cursor[0], bank.schedule
    first, depth = max(int(cursor.done), int(cursor.end)), int(bank.params.depth[k])
    if schedule.cursor[k] == 0:
        _reset_base_score(prefix, float(build.scale[0].base_score), first, t)
    spent = float(add_tree_to_prefixes(bank.window.codes, prefix, build, t, depth, left_ns))
    if cursor.done == t:
        if schedule.cursor[k] == 0:
            bank.base_score[k] = build.scale[0].base_score
        _replace_tree(bank.structures[k], schedule, build, k)
    return spent


@kernel
def _reset_base_score(prefix: Vec, base_score: float, first: int, t: int) -> None:
    """Set the prefixes of events [first, t), which came under the last sweep's base score."""
    for event in range(first, t):
        prefix[event % prefix.shape[0]] = base_score


@kernel
def _replace_tree(trees: Trees, schedule: Schedule, build: TreeBuild, k: int) -> None:
    i, cursor = int(schedule.cursor[k]), build.cursor[0]
    for n in range(cursor.nodes):
        trees.nodes[i, n] = build.served_nodes[n]
    for n in range(cursor.leaves, build.leaf_values.shape[0]):
        build.leaf_values[n] = 0.0
    reset_leaves(trees.rows, i, build.leaf_values)
    _store_cover(build, trees.rows[i])
    record_commit(trees, schedule, build, k)


@kernel
def record_commit(trees: Trees, schedule: Schedule, build: TreeBuild, k: int) -> None:
    """Record that the tree at the cursor of structure k was replaced."""
    i, cursor = int(schedule.cursor[k]), build.cursor[0]
    _update_gains(schedule.feature_gains[k], build)
    schedule.cursor[k] = (i + 1) % trees.nodes.shape[0]
    schedule.grown[k] += 1
    schedule.leaf_count[k] = cursor.leaves
    cursor.step = NOT_STARTED
    schedule.status[k] = UNASSIGNED


@kernel
def _store_cover(build: TreeBuild, rows: Rows) -> None:
    """Store in every leaf's row (leaves, 8) how many rows it was grown from, for explanations."""
    for n in range(build.cursor[0].nodes):
        node = build.nodes[n]
        if node.left == 0:
            leaf = (build.served_nodes[n] >> 16) & 0xFFFF
            rows[leaf, COVER] = node.stop - node.start


@kernel
def _update_gains(gains: Vec, build: TreeBuild) -> None:
    """Add the gains of a tree that saw all features to the decayed gains (d,)."""
    if build.cursor[0].all_features > 0:
        for j in range(gains.shape[0]):
            gains[j] *= GAIN_DECAY
        for c in range(build.cursor[0].columns):
            gains[build.columns[c]] += build.split_gain[c]
