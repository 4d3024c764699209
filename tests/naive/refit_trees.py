"""Section 7.5, last paragraph: CART refitted to every pair so far."""

from __future__ import annotations

import itertools


def fit(pairs, depth, m):
    """A nested tuple (feature, cut, left, right), or the mean of the targets."""
    total = sum(w for _, _, w in pairs)
    mean = [sum(w * r[c] for _, r, w in pairs) / total for c in range(m)]
    if depth == 0:
        return mean
    best, found = 1e-9 * sum(w * sum(a * a for a in r) for _, r, w in pairs), None
    margin = best
    for j in range(len(pairs[0][0])):
        values = sorted({x[j] for x, _, _ in pairs})
        for low, high in itertools.pairwise(values):
            cut = (low + high) / 2
            parts = [p for p in pairs if p[0][j] <= cut], [p for p in pairs if p[0][j] > cut]
            gain = error(pairs, m) - error(parts[0], m) - error(parts[1], m)
            if gain > best:
                best, found = gain + margin, (j, cut, parts)
    if found is None:
        return mean
    j, cut, parts = found
    return j, cut, fit(parts[0], depth - 1, m), fit(parts[1], depth - 1, m)


def error(pairs, m):
    total = sum(w for _, _, w in pairs)
    mean = [sum(w * r[c] for _, r, w in pairs) / total for c in range(m)]
    return sum(w * sum((a - b) ** 2 for a, b in zip(r, mean, strict=True)) for _, r, w in pairs)


class RefitTree:
    def __init__(self, spec, m):
        self.spec, self.m, self.pairs, self.tree = spec, m, [], [0.0] * m
        self.seen = 0

    def predict(self, x):
        node = self.tree
        while isinstance(node, tuple):
            node = node[2] if x[node[0]] <= node[1] else node[3]
        return list(node)

    def learn(self, x, target, weight, mode):
        if weight > 0:
            self.pairs = [*self.pairs, (list(x), list(target), weight)][-self.spec["capacity"] :]
            self.seen += 1
            if self.seen % self.spec["every"] == 0:
                self.tree = fit(self.pairs, self.spec["depth"], self.m)


class RefitTreeBank:
    def __init__(self, spec, d, m, seed):
        self.learners = [RefitTree(spec, m) for _ in range(spec["n"])]

    def see(self, x):
        """Learners share nothing."""
