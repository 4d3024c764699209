"""Shapley values of trees for one event: what each of its features adds to their sum.

The game is the path-dependent one of TreeSHAP: of a feature that is not known, a cut sends every
event both ways, by the shares of the events that the tree was grown from. A leaf's sum over all
sets of features is an integral over t of a product, t o + (1 - t) z for each feature on its path: o
is 1 where the event takes the path, z the share of events that do (Owen's extension). The product
is a polynomial of a degree below the tree's depth, at most 16, so the Gauss-Legendre rule of eight
points gives the integral exactly. One pass down a tree and one up are enough for all leaves.

Lundberg et al., From local explanations to global understanding with explainable AI for trees,
2020, algorithm 1 of the supplement; Owen, Multilinear extensions of games, 1972; Yu et al., Linear
TreeSHAP, 2022.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kaboost.models.kernels.jit import kernel
from kaboost.models.reboosted.state import COVER, VALUE, Keys, Rows, Trees
from kaboost.models.types import Ints, Mat, Vec

QUADRATURE_POINTS = 8  # exact up to degree 15, which is that of depth 16
MOVING_LEARNERS = 4  # leaf learners with an offset; the fifth has none


class ShapScratch(NamedTuple):
    """Figures of one tree of at most M nodes; node 0 is the root."""

    points: Vec  # (8,) between 0 and 1
    shares: Vec  # (8,) their weights, which sum to 1
    parent: Ints  # (M,)
    column: Ints  # (M,) feature of the cut above; -1 for the root
    above: Ints  # (M,) the nearest node above under a cut of the same feature, or the root
    cover: Vec  # (M,) events
    value: Vec  # (M,) of a leaf; of other nodes the mean of their leaves by events
    share: Vec  # (M,) z of the feature of the cut above, down to here
    open: Vec  # (M,) o of it
    inverse: Mat  # (M, 8) 1 / (t o + (1 - t) z)
    reach: Mat  # (M, 8) product of (t o + (1 - t) z) over the features of the path
    total: Mat  # (M, 8) over the leaves below, of value times reach


def shap_scratch(M: int) -> ShapScratch:
    """Return scratch for trees of at most M nodes."""
    points, shares = np.polynomial.legendre.leggauss(QUADRATURE_POINTS)
    ints, flats, tables = (
        np.zeros((3, M), np.int64),
        np.zeros((4, M)),
        np.ones((3, M, QUADRATURE_POINTS)),
    )
    return ShapScratch(0.5 + 0.5 * points, 0.5 * shares, *ints, *flats, *tables)


@kernel
def tree_statistics(nodes: Ints, rows: Rows, weights: Vec, d: int, s: ShapScratch) -> int:
    """Fill the figures of a tree that no event changes; return how many nodes it has.

    Parameters
    ----------
    nodes : (M,) of the tree.
    rows : (leaves, 8) its leaves.
    weights : (5,) of the leaf learners' scores; the value of a leaf is their weighted sum.
    d : features; from d on they are the same, and missing values go left.
    s : output.
    """
    count = _link_cuts(nodes, d, s)
    whole = 0.0
    for e in range(weights.shape[0]):
        whole += weights[e]
    for i in range(count - 1, -1, -1):
        left = int(nodes[i] & 0xFFFF)
        if left == i:
            row = rows[(nodes[i] >> 16) & 0xFFFF]
            score = whole * row[VALUE]
            for e in range(MOVING_LEARNERS):
                score += weights[e] * row[1 + e]
            # Every leaf has events, but files of older builds may lack their number.
            s.cover[i], s.value[i] = max(float(row[COVER]), 1.0), score
        else:
            a, b = s.cover[left], s.cover[left + 1]
            s.cover[i] = a + b
            s.value[i] = (a * s.value[left] + b * s.value[left + 1]) / (a + b)
    s.share[0] = 1.0
    for i in range(1, count):
        s.share[i] = s.share[s.above[i]] * s.cover[i] / s.cover[s.parent[i]]
    return count


@kernel
def _link_cuts(nodes: Ints, d: int, s: ShapScratch) -> int:
    """Fill parent, column and above; children stand behind their parent."""
    s.parent[0], s.column[0], s.above[0] = 0, -1, 0
    count, i = 1, 0
    while i < count:
        left = int(nodes[i] & 0xFFFF)
        if left != i:
            column = int((nodes[i] >> 16) & 0xFFFF) % d
            top = i
            while top > 0 and s.column[top] != column:
                top = int(s.parent[top])
            for child in range(left, left + 2):
                s.parent[child], s.column[child], s.above[child] = i, column, top
            count = max(count, left + 2)
        i += 1
    return count


@kernel
def tree_contributions(nodes: Ints, x: Keys, count: int, s: ShapScratch, phi: Vec) -> float:
    """Add to phi (d,) what each feature of the keys x (2d,) adds in a tree, after its
    `tree_statistics`; return the tree's score.
    """
    _path_products(nodes, x, count, s)
    for i in range(count - 1, 0, -1):
        left, top = int(nodes[i] & 0xFFFF), int(s.above[i])
        here, there = s.open[i] - s.share[i], s.open[top] - s.share[top]
        added = 0.0
        for q in range(QUADRATURE_POINTS):
            if left == i:
                s.total[i, q] = s.value[i] * s.reach[i, q]
            else:
                s.total[i, q] = s.total[left, q] + s.total[left + 1, q]
            # Below a second cut of the same feature the share of the first is taken out.
            added += s.total[i, q] * (here * s.inverse[i, q] - there * s.inverse[top, q])
        phi[s.column[i]] += added
    i = 0
    while int(nodes[i] & 0xFFFF) != i:
        i = _child(nodes[i], x)
    return float(s.value[i])


@kernel
def _path_products(nodes: Ints, x: Keys, count: int, s: ShapScratch) -> None:
    """Fill open, inverse and reach, from the root down."""
    s.open[0] = 1.0
    for q in range(QUADRATURE_POINTS):
        s.inverse[0, q], s.reach[0, q] = 1.0, s.shares[q]
    for i in range(1, count):
        parent, top = int(s.parent[i]), int(s.above[i])
        goes = 1.0 if _child(nodes[parent], x) == i else 0.0
        o, z = s.open[top] * goes, s.share[i]
        s.open[i] = o
        for q in range(QUADRATURE_POINTS):
            factor = s.points[q] * o + (1.0 - s.points[q]) * z
            s.inverse[i, q] = 1.0 / factor
            s.reach[i, q] = s.reach[parent, q] * factor * s.inverse[top, q]


@kernel
def _child(node: int, x: Keys) -> int:
    return int(node & 0xFFFF) + int(x[(node >> 16) & 0xFFFF] > (node >> 32))


@kernel
def explain_trees(
    trees: Trees, weights: Vec, keys: Keys, s: ShapScratch, phi: Mat, scores: Vec
) -> float:
    """Explain the scores of all trees of one structure for B events; return their mean by events.

    Parameters
    ----------
    trees : the structure.
    weights : (5,) of its leaf learners' scores.
    keys : (B, 2d) int32.
    s : scratch.
    phi : (B, d) contributions, which are added to.
    scores : (B,) sums of the trees, which are added to.
    """
    base = 0.0
    for i in range(trees.nodes.shape[0]):
        count = tree_statistics(trees.nodes[i], trees.rows[i], weights, phi.shape[1], s)
        base += s.value[0]
        for r in range(phi.shape[0]):
            scores[r] += tree_contributions(trees.nodes[i], keys[r], count, s, phi[r])
    return base


@kernel
def mean_scores(rows: Rows, total: Vec) -> None:
    """Add to total (5,) the leaf learners' mean scores by events, of leaf rows (N, leaves, 8)."""
    for i in range(rows.shape[0]):
        cover = 0.0
        for n in range(rows.shape[1]):
            cover += float(rows[i, n, COVER])
        for n in range(rows.shape[1]):
            row = rows[i, n]
            part = row[COVER] / cover if cover > 0.0 else (1.0 if n == 0 else 0.0)
            for e in range(total.shape[0]):
                total[e] += part * (row[VALUE] + (row[1 + e] if e < MOVING_LEARNERS else 0.0))
