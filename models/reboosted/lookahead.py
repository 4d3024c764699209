"""Leaves that the next events will reach, found for a block of events at once, tree by tree.

A tree's nodes then come into the cache once a block and not once an event. Where an event's leaves
lie depends on its features, on the label lags, which are known as soon as the labels are, and on
the trees; so what a block found stands until a tree takes its place or a label is not learned as it
came. Nothing of it is served: it is learning alone that has its labels beforehand.
"""

from __future__ import annotations

from typing import Any

from kaboost.models.kernels.jit import kernel
from kaboost.models.reboosted.learn import lay_row, learn_lags
from kaboost.models.reboosted.trees.traverse import BLOCK, walk, walk_together


@kernel
def look_ahead(bank: Any, events: Any, a: Any, start: Any) -> int:
    """Fill a.leaf (B, K, N) with the leaves of the events from the first on; `events` are keys
    (n, d0), labels (n, 1) and weights (n,), `start` is the first and the labels' origin. Return the
    number of the event after them.
    """
    (keys, Y, weights), (first, origin) = events, start
    last = min(int(first) + int(a.leaf.shape[0]), int(keys.shape[0]))
    link = int(bank.plan.link[()])
    if a.leaf.shape[0] == 1:
        lay_row(bank.lags, keys[first], a.x)
        for s in range(a.sizes.shape[0]):
            walk(bank.trees[s].nodes, bank.plan.depth[s], a.x, a.leaf[0, s])
        return last
    for j in range(a.lags.shape[0]):
        a.lags[j] = bank.lags[j]
    for k in range(first, last):
        _lay_column(a, keys[k], k - first)
        if weights[k] > 0.0:
            learn_lags(a.lags, bank.plan.lag_rates, Y[k, 0] - origin, link)
    for s in range(a.sizes.shape[0]):
        nodes, depth = bank.trees[s].nodes, int(bank.plan.depth[s])
        for i in range(nodes.shape[0]):
            walk_together(nodes[i], depth, a.columns, (0, last - first), a.leaf[:, s, i])
        a.grown[s] = bank.pace.grown[s]
    return last


@kernel
def _lay_column(a: Any, keys: Any, b: int) -> None:
    lay_row(a.lags, keys, a.x)
    for j in range(2 * (keys.shape[0] + a.lags.shape[0])):
        a.columns[j * BLOCK + b] = a.x[j]


@kernel
def look_again(bank: Any, a: Any, first: int, last: int) -> None:
    """Find the leaves of the block's events from `first` to `last` in the trees that have taken
    their places since they were looked for.
    """
    if a.leaf.shape[0] == 1:
        return
    for s in range(a.sizes.shape[0]):
        nodes, depth = bank.trees[s].nodes, int(bank.plan.depth[s])
        new = int(bank.pace.grown[s] - a.grown[s])
        for back in range(1, new + 1):
            i = (int(bank.pace.cursor[s]) - back) % nodes.shape[0]
            walk_together(nodes[i], depth, a.columns, (first, last), a.leaf[:, s, i])
        a.grown[s] += new
