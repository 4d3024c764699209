"""Leaves of the next events, found for a block of events at once, tree by tree.

A tree's nodes are then loaded into the cache once a block and not once an event. An event's leaves
depend on its features, on the label means, which are known as soon as the labels are, and on the
trees: they hold until a tree is committed, or a label is learned in a corrected form. Nothing of it
is served: only learning has labels beforehand (docs/adr/0020).
"""

from __future__ import annotations

from typing import NamedTuple

from kaboost.models.kernels.jit import kernel
from kaboost.models.reboosted.label_scale import update_label_means
from kaboost.models.reboosted.predict import fill_row
from kaboost.models.reboosted.scratch import LearnScratch
from kaboost.models.reboosted.state import Keys, Reboosted
from kaboost.models.reboosted.trees.traverse import BLOCK, traverse, traverse_block
from kaboost.models.types import Mat, Vec


class Batch(NamedTuple):
    """Events to learn, in order."""

    keys: Keys  # (n, d0) of features
    labels: Mat  # (n, 1)
    weights: Vec  # (n,) importances; one of 0 is predicted and not learned
    captured: Mat  # (n, 5 + S + 3) from `predict_rows`, and the time; (n, 0) if labels come at once


@kernel
def find_leaves(bank: Reboosted, batch: Batch, first: int, offset: float, a: LearnScratch) -> int:
    """Fill a.leaves (B, K, N) with the leaves of the batch's events from `first` on; labels are
    less the offset. Return the number of the event after them.
    """
    keys, labels, weights = batch.keys, batch.labels, batch.weights
    last = min(int(first) + int(a.leaves.shape[0]), int(keys.shape[0]))
    link = int(bank.params.link[()])
    if a.leaves.shape[0] == 1:
        fill_row(a.event_means, keys[first], a.row)
        for s in range(a.tree_counts.shape[0]):
            traverse(bank.structures[s].nodes, bank.params.depth[s], a.row, a.leaves[0, s])
        return last
    means, rates = a.label_means, bank.params.label_mean_rates
    for j in range(means.shape[0]):
        means[j] = bank.label_means[j]
    late = batch.captured.shape[1] > 0
    for k in range(first, last):
        for j in range(means.shape[0] if late else 0):
            means[j] = batch.captured[k, j]
        _fill_column(a, keys[k], k - first)
        if weights[k] > 0.0 and not late:
            update_label_means(means, rates, labels[k, 0] - offset, link)
    for s in range(a.tree_counts.shape[0]):
        nodes, depth = bank.structures[s].nodes, int(bank.params.depth[s])
        for i in range(nodes.shape[0]):
            traverse_block(nodes[i], depth, a.columns, 0, last - first, a.leaves[:, s, i])
        a.grown[s] = bank.schedule.grown[s]
    return last


@kernel
def _fill_column(a: LearnScratch, keys: Keys, b: int) -> None:
    """Fill a.columns with the row of the block's event b."""
    fill_row(a.label_means, keys, a.row)
    for j in range(2 * (keys.shape[0] + a.label_means.shape[0])):
        a.columns[j * BLOCK + b] = a.row[j]


@kernel
def refresh_leaves(bank: Reboosted, a: LearnScratch, first: int, last: int) -> None:
    """Find again the leaves of the block's events from `first` to `last` in trees that were
    committed since.
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
