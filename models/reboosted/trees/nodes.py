"""A grown tree in the two forms that are traversed: by keys, to serve, and by codes, of the window.

The served form is that of `Trees`. In the code form a node has the largest code that goes left in
bits 40 on, 1 in bit 32 where missing values go left, then feature and left child, of 16 bits each.
Adding that 1 turns the code of missing values, 63, into 0.
"""

from __future__ import annotations

from kaboost.models.kernels.jit import kernel
from kaboost.models.reboosted.state import Keys, TreeBuild
from kaboost.models.reboosted.trees.histogram import leaf_statistics
from kaboost.models.reboosted.trees.split import SplitLimits, split_terms
from kaboost.models.types import INT


@kernel
def store_tree(build: TreeBuild, limits: SplitLimits, eta: float, edges: Keys) -> None:
    """Fill served_nodes, code_nodes and the values of the leaves; edges are (d, 64)."""
    terms, leaf = split_terms(build, limits), 0
    for i in range(build.cursor[0].nodes):
        if build.nodes[i].left == 0:
            G, H, _ = leaf_statistics(int(build.nodes[i].sums), terms)
            build.node_values[i] = -eta * G / (H + terms.l2)
            build.served_nodes[i] = (2147483647 << 32) + (leaf << 16) + i
            build.leaf_values[leaf] = build.node_values[i]
            leaf += 1
            build.code_nodes[i] = (127 << 40) + i
        else:
            _store_cut(build, i, edges)


@kernel
def _store_cut(build: TreeBuild, i: int, edges: Keys) -> None:
    node, d = build.nodes[i], build.columns.shape[0]
    j, b = INT(build.columns[node.column]), int(node.bin)
    b = 2 * b + 1 if build.half_bins[node.column] > 0 else b
    b = min(b, 62)
    edge = min(int(edges[j, b]), 2147483646)  # beyond the last edge only missing keys are larger
    missing_left, left = int(node.missing_left), int(node.left)
    build.node_values[i] = 0.0
    build.served_nodes[i] = (edge << 32) + ((j + d * missing_left) << 16) + left
    build.code_nodes[i] = ((b + missing_left) << 40) + (missing_left << 32) + (j << 16) + left
