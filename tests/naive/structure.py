"""One structure of rebuilt trees on events of a few levels: every tree a nested tuple, every prefix
computed from the trees, nothing in pieces. Specification of reboosted trees, 2.2, 2.4 and 2.6.
"""

from typing import NamedTuple

import numpy as np

from tests.naive.draws import SplitMix64, s
from tests.naive.reboosted import MISSING, best_cut, sides


class How(NamedTuple):
    """Settings of a structure."""

    loss: str  # logistic with labels 0 and 1, or squared
    trees: int
    leaves: int
    depth: int
    eta: float
    window: int
    least_rows: int
    part: float
    least_h: float
    lam: float
    budget: float = 4000
    rates: tuple = (0.7, 0.1, 0.4, 1.0, 0.0)


class Leaf:
    """A value, five offsets, and AdaGrad's sum."""

    def __init__(self, value):
        self.value, self.offsets, self.squares = value, np.zeros(5), 0.0


def fall(tree, row):
    """The leaf of a row of codes."""
    while isinstance(tree, tuple):
        cut, left, right = tree
        tree = left if sides(row[None, :], cut)[0] else right
    return tree


def grown(codes, g, h, how):
    """A tree grown best first; missing values that no row shows go to the heavier side."""
    limits = (how.lam, how.least_h)
    nodes, found = [[np.arange(len(g)), 0, None]], {}  # rows, depth, (cut, left, right)
    for _ in range(how.leaves - 1):
        for i, (rows, level, _) in enumerate(nodes[-2:], len(nodes[:-2])):
            gain, cut = best_cut(codes, g, h, rows, limits) if level < how.depth else (0.0, None)
            if cut is not None:
                found[i] = (gain, cut)
        if not found:
            break
        i = max(found, key=lambda k: found[k][0])
        rows, level, _ = nodes[i]
        (column, b, missing_left), here = found.pop(i)[1], codes[rows]
        goes = sides(here, (column, b, missing_left))
        if not (here[:, column] == MISSING).any():
            missing_left = 2.0 * h[rows[goes]].sum() >= h[rows].sum()
        nodes[i][2] = ((column, b, missing_left), len(nodes), len(nodes) + 1)
        nodes += [[rows[goes], level + 1, None], [rows[~goes], level + 1, None]]

    def tree(i):
        rows, _, children = nodes[i]
        if children is None:
            return Leaf(-how.eta * g[rows].sum() / (h[rows].sum() + how.lam))
        return (children[0], tree(children[1]), tree(children[2]))

    return tree(0)


class Structure:
    """Events are codes, a label and a weight; the test sets when a tree starts and is committed."""

    def __init__(self, how, seed):
        self.how, self.draws = how, SplitMix64(seed)
        self.trees = [Leaf(0.0) for _ in range(how.trees)]
        self.base_score, self.cursor, self.count, self.gained = 0.0, 0, 0, False
        self.codes, self.labels, self.weights, self.P = [], [], [], []
        self.typical, self.squares, self.coming = 0.0, 0.0, None

    def partial_sums(self, row):
        """Scores of the first 0, 1, .. N trees as they were grown."""
        return self.base_score + np.cumsum([0.0] + [fall(tree, row).value for tree in self.trees])

    def scores(self, row):
        """Scores of the five leaf learners."""
        offsets = sum(fall(tree, row).offsets for tree in self.trees)
        return self.partial_sums(row)[-1] + offsets

    def derivatives(self, f, y):
        """Gradient and hessian of the loss at a score."""
        if self.how.loss == "squared":
            return f - y, 1.0
        p = s(f)
        return p - y, max(p * (1.0 - p), 1e-3)

    def learn(self, row, y, w):
        """Move the offsets of the leaves that the event reaches; put it into the window."""
        t, how = len(self.labels), self.how
        f = self.scores(row)
        if how.loss == "logistic":
            f = np.clip(f, -12.0, 12.0)
        gradients = np.array([self.derivatives(each, y)[0] for each in f])
        square = gradients[0] ** 2
        self.typical += max(1.0 / (t + 1.0), 1e-3) * (square - self.typical)
        if how.loss == "squared":
            square = 0.25 * square / self.typical
        self.squares += w * square
        steep = 4.0 if how.loss == "logistic" else float(t > 0)  # no curvature is known at first
        steps = np.minimum(np.array(how.rates) * w, 1.0) * steep * gradients / how.trees
        self.P.append(self.partial_sums(row)[self.cursor])
        for leaf in (fall(tree, row) for tree in self.trees):
            leaf.offsets -= steps * np.array([1.0 / np.sqrt(1.0 + leaf.squares), 1, 1, 1, 1])
            if t % 4 == 3:
                leaf.squares += self.squares
        if t % 4 == 3:
            self.squares = 0.0
        self.codes.append(row)
        self.labels.append(y)
        self.weights.append(w)

    def set_base_score(self):
        """Before there are bins: set the base score by the labels so far."""
        self.base_score = self.best_constant(np.ones(len(self.labels)), np.array(self.labels))
        self.P[-1] = self.base_score

    def best_constant(self, w, y):
        """The constant of smallest loss."""
        if self.how.loss == "squared":
            return (w * y).sum() / w.sum()
        return np.log(((w * y).sum() + 1.0) / ((w * (1.0 - y)).sum() + 1.0))

    def start_tree(self):
        """Grow the next tree on rows drawn evenly from the window, against the trees before it."""
        t, how = len(self.labels), self.how
        m = min(t, how.window)
        self.since, window = t - m, slice(t - m, t)
        wide = self.count % 16 == 0 or not self.gained
        if not wide:  # so few features are all seen; a number is drawn for each
            for _ in self.codes[0]:
                self.draws.u()
        draws = SplitMix64(int(self.draws.u() * 2**53))
        y, w = np.array(self.labels[window]), np.array(self.weights[window])
        f, self.start = np.array(self.P[window]), self.base_score
        if self.cursor == 0:
            self.start = self.best_constant(w, y)
            f = np.full(m, self.start)
        n = min(m, max(how.least_rows, int(how.part * m)))
        drawn = np.arange(n)
        if n < m:
            drawn = np.array([min(int((i + draws.u()) * (m / n)), m - 1) for i in range(n)])
        pairs = [self.derivatives(*each) for each in zip(f[drawn], y[drawn], strict=True)]
        g, h = (w[drawn] * each for each in np.array(pairs).T)
        self.coming = grown(np.array(self.codes[window])[drawn], g, h, how)
        self.gained = self.gained or isinstance(self.coming, tuple)
        self.count += 1

    def commit(self):
        """Commit the tree, and add it to the prefixes of all events since the oldest of its window;
        the first of a sweep resets these to the base score.
        """
        for k in range(self.since, len(self.labels)):
            before = self.start if self.cursor == 0 else self.P[k]
            self.P[k] = before + fall(self.coming, self.codes[k]).value
        self.base_score = self.start
        self.trees[self.cursor] = self.coming
        self.cursor = (self.cursor + 1) % self.how.trees
