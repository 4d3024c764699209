"""Leaves that the next events will reach, found for a block of events at once, tree by tree.

A tree's nodes then come into the cache once a block and not once an event. Where an event's leaves
lie depends on its features, on the label lags, which are known as soon as the labels are, and on
the trees; so what a block found stands until a tree takes its place or a label is not learned as it
came. Nothing of it is served: it is learning alone that has its labels beforehand.
"""

from __future__ import annotations

from typing import Any

from kaboost.models.kernels.jit import kernel
from kaboost.models.reboosted.learn import fill_row, update_label_means
from kaboost.models.reboosted.trees.traverse import BLOCK, traverse, traverse_block


@kernel
def find_leaves(bank: Any, events: Any, a: Any, start: Any) -> int:
    """Fill a.leaves (B, K, N) with the leaves of the events from the first on; `events` are keys
    (n, d0), labels (n, 1) and weights (n,), `start` is the first and the labels' origin. Return the
    number of the event after them.
    """
    (keys, Y, weights), (first, origin) = events, start
    last = min(int(first) + int(a.leaves.shape[0]), int(keys.shape[0]))
    link = int(bank.params.link[()])
    if a.leaves.shape[0] == 1:
        fill_row(bank.label_means, keys[first], a.row)
        for s in range(a.tree_counts.shape[0]):
            traverse(bank.structures[s].nodes, bank.params.depth[s], a.row, a.leaves[0, s])
        return last
    for j in range(a.label_means.shape[0]):
        a.label_means[j] = bank.label_means[j]
    for k in range(first, last):
        _fill_column(a, keys[k], k - first)
        if weights[k] > 0.0:
            update_label_means(a.label_means, bank.params.label_mean_rates, Y[k, 0] - origin, link)
    for s in range(a.tree_counts.shape[0]):
        nodes, depth = bank.structures[s].nodes, int(bank.params.depth[s])
        for i in range(nodes.shape[0]):
            traverse_block(nodes[i], depth, a.columns, 0, last - first, a.leaves[:, s, i])
        a.grown[s] = bank.schedule.grown[s]
    return last


@kernel
def _fill_column(a: Any, keys: Any, b: int) -> None:
    fill_row(a.label_means, keys, a.row)
    for j in range(2 * (keys.shape[0] + a.label_means.shape[0])):
        a.columns[j * BLOCK + b] = a.row[j]


@kernel
def refresh_leaves(bank: Any, a: Any, first: int, last: int) -> None:
    """Find the leaves of the block's events from `first` to `last` in the trees that have taken
    their places since they were looked for.
    """
    if a.leaves.shape[0] == 1:
        return
    for s in range(a.tree_counts.shape[0]):
        nodes, depth = bank.structures[s].nodes, int(bank.params.depth[s])
        new = int(bank.schedule.grown[s] - a.grown[s])
        for back in range(1, new + 1):
            i = (int(bank.schedule.cursor[s]) - back) % nodes.shape[0]
            traverse_block(nodes[i], depth, a.columns, first, last, a.leaves[:, s, i])
        a.grown[s] += new
