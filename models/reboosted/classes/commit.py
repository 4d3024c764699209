"""Committing a grown tree of classes: to its structure, and to the prefixes of the events since."""

from __future__ import annotations

from kaboost.models.kernels.jit import kernel
from kaboost.models.reboosted.classes.leaves import reset_leaves
from kaboost.models.reboosted.classes.rebuild import add_tree_to_prefixes
from kaboost.models.reboosted.classes.state import AnyBuild, Singles
from kaboost.models.reboosted.state import CLASS_LANES, Reboosted, Trees
from kaboost.models.reboosted.trees.commit import record_commit
from kaboost.models.types import Vec


@kernel
def commit_tree(bank: Reboosted, build: AnyBuild, k: int, t: int, left_ns: float) -> float:
    """Add the grown tree of structure k to the prefixes of the events since its start, up to t, for
    about so many ns, and then replace the old one; return the ns it took.
    """
    prefix, cursor, schedule = bank.window.prefix[k], build.cursor[0], bank.schedule
    first, depth = max(int(cursor.done), int(cursor.end)), int(bank.params.depth[k])
    if schedule.cursor[k] == 0:
        _reset_base_scores(prefix, build.class_base, first, t)
    spent = float(add_tree_to_prefixes(bank.window.codes, prefix, build, t, depth, left_ns))
    if cursor.done == t:
        if schedule.cursor[k] == 0:
            for c in range(build.class_base.shape[0]):
                bank.base_score[k, c] = build.class_base[c]
        _replace_tree(bank.structures[k], build, int(schedule.cursor[k]))
        record_commit(bank.structures[k], schedule, build, k)
    return spent


@kernel
def _reset_base_scores(prefix: Singles, base: Vec, first: int, t: int) -> None:
    """Set the prefixes of events [first, t), which came under the last sweep's base scores."""
    for event in range(first, t):
        for c in range(base.shape[0]):
            prefix[event % prefix.shape[0], c] = base[c]


@kernel
def _replace_tree(trees: Trees, build: AnyBuild, i: int) -> None:
    """Put the grown tree in the place of tree i."""
    C, rows = build.direction.shape[0], trees.rows[i]
    reset_leaves(rows, C)
    for n in range(build.cursor[0].nodes):
        trees.nodes[i, n] = build.served_nodes[n]
        node = build.nodes[n]
        if node.left == 0:
            row = rows[(build.served_nodes[n] >> 16) & 0xFFFF]
            row[CLASS_LANES * C] = node.stop - node.start
            for c in range(C):
                row[c] = build.class_values[n, c]
