"""Section 7.5: bins, histogram trees."""

from __future__ import annotations

import math
from statistics import NormalDist

from tests.naive.draws import SplitMix64
from tests.naive.modes import LINEAR


class Bins:
    """Quantile edges of the first n0 events; learners tell of those events once they are there."""

    def __init__(self, spec, d):
        self.B, self.n0, self.d = spec["bins"], spec["warmup"], d
        self.held, self.edges = [], None

    def see(self, x, learners):
        """Called before the learners learn from x: the bins come with the event after n0."""
        if self.edges is None and len(self.held) == self.n0:
            self.fit(self.held)
            for one in learners:
                for row, *task in one.waiting:
                    one.gather(self.codes(row), *task)
        if self.edges is None:
            self.held.append(list(x))

    def fit(self, X):
        self.edges = []
        for j in range(self.d):
            column = sorted(x[j] for x in X)
            n = len(column)
            ranks = [math.ceil((b + 1) * n / self.B) for b in range(self.B - 1)]
            self.edges.append(sorted({column[rank - 1] for rank in ranks}))

    def codes(self, x):
        return [sum(edge < v for edge in self.edges[j]) for j, v in enumerate(x)]


def features_of(spec, d, draw):
    """The features of one tree: k of d in order, by selection sampling."""
    share = spec["features"]
    k = d if share == "all" else math.ceil(math.sqrt(d) if share == "sqrt" else share * d)
    if k == d:
        return list(range(d))
    taken = []
    for j in range(d):
        if len(taken) < k and draw.u() * (d - j) < k - len(taken):
            taken.append(j)
    return taken


class Leaf:
    def __init__(self, depth, m, n=0.0, q=0.0, S=None):
        self.depth, self.n, self.q, self.S = depth, n, q, S or [0.0] * m
        self.c, self.events, self.children = 0.0, [], None

    def value(self, spec, linear):
        if linear:
            v = [spec["bound"] * s / math.sqrt(self.q + 1e-12) for s in self.S]
            size = math.sqrt(sum(a * a for a in v))
            return [a * min(1, spec["bound"] / size) if size else 0.0 for a in v]
        shrunk = [math.copysign(max(abs(s) - spec["l1"], 0), s) for s in self.S]
        return [s / (self.n + spec["lam"]) if self.n else 0.0 for s in shrunk]


def sums(events):
    """n, sum w^2, sum w |r|^2, sum w r of (codes, factor, w, r); a factor fades old events."""
    m = len(events[0][3]) if events else 0
    return (
        sum(f * w for _, f, w, _ in events),
        sum(f * w * w for _, f, w, _ in events),
        sum(f * w * sum(a * a for a in r) for _, f, w, r in events),
        [sum(f * w * r[c] for _, f, w, r in events) for c in range(m)],
    )


def dot(a, b):
    return sum(p * q for p, q in zip(a, b, strict=True))


class Tree:
    def __init__(self, spec, d, m, bins, features):
        self.spec, self.m, self.bins, self.features = spec, m, bins, features
        self.root, self.linear, self.waiting = Leaf(0, m), False, []

    def leaf(self, x):
        node = self.root
        while node.children:
            j, edge = node.cut
            node = node.children[0 if x[j] <= edge else 1]
        return node

    def predict(self, x):
        return self.leaf(x).value(self.spec, self.linear)

    def learn(self, x, target, weight, mode):
        if weight == 0:
            return
        self.linear = mode == LINEAR
        r = [-g for g in target] if self.linear else list(target)
        node = self.leaf(x)
        rho = self.spec["rho"]
        node.n = rho * node.n + weight
        node.q = rho * node.q + weight * dot(r, r)
        node.S = [rho * s + weight * a for s, a in zip(node.S, r, strict=True)]
        if self.bins.edges is None:
            self.waiting.append((list(x), weight, r))
        elif node.depth < self.spec["depth"]:
            node.events.append((self.bins.codes(x), 1.0, weight, r))
            node.c += weight
            if node.c >= self.spec["grace"]:
                node.c = 0.0
                self.attempt(node)

    def gather(self, codes, weight, r):
        """Replay: a single leaf, no split."""
        self.root.events.append((codes, 1.0, weight, r))

    def attempt(self, node):
        best = {}
        for j in self.features:
            for b in range(len(self.bins.edges[j])):
                parts = self.parts(node, j, b)
                if all(n and n * n / w2 >= self.spec["n_min"] for n, w2, _, _ in map(sums, parts)):
                    score = sum(
                        dot(S, S) / (n + self.spec["lam"]) for n, _, _, S in map(sums, parts)
                    )
                    if j not in best or score > best[j][0]:
                        best[j] = score, b
        if best:
            j = max(best, key=lambda j: (best[j][0], -j))
            parts = self.parts(node, j, best[j][1])
            others = [score for i, (score, _) in best.items() if i != j]
            if self.sure(node, parts, best[j][0], max(others, default=-math.inf)):
                node.cut = j, self.bins.edges[j][best[j][1]]
                node.children = [
                    Leaf(node.depth + 1, self.m, n, q, S) for n, _, q, S in map(sums, parts)
                ]
                return
        cap = self.spec["hist_cap"]
        if cap is not None and sums(node.events)[0] > cap:
            node.events = [(codes, f / 2, w, r) for codes, f, w, r in node.events]

    def parts(self, node, j, b):
        left = [e for e in node.events if e[0][j] <= b]
        return left, [e for e in node.events if e[0][j] > b]

    def sure(self, node, parts, best, second):
        n, w2, _, S = sums(node.events)
        lam, delta = self.spec["lam"], self.spec["delta"]
        size = n * n / w2
        if self.spec["split"] == "hoeffding":
            parent = dot(S, S) / (n + lam)
            eps = math.sqrt(math.log(1 / delta) / (2 * size))
            G1, G2 = best - parent, max(second - parent, 0)
            return G1 > 0 and (G2 / G1 < 1 - eps or eps < self.spec["tie"])
        p = [s / (n + lam) for s in S]
        z, within, share = [], [], []
        for n_c, _, Q_c, S_c in map(sums, parts):
            mean = [s / n_c for s in S_c]
            v = [s / (n_c + lam) for s in S_c]
            step = [a - b for a, b in zip(v, p, strict=True)]
            z.append(dot(step, mean) - 0.5 * (dot(v, v) - dot(p, p)))
            within.append(max(0, Q_c / n_c - dot(mean, mean)) * dot(step, step))
            share.append(n_c / n)
        zbar = dot(share, z)
        spread = [t + (a - zbar) ** 2 for t, a in zip(within, z, strict=True)]
        candidates = len(self.features) * (self.spec["bins"] - 1)
        quantile = NormalDist().inv_cdf(1 - delta / candidates)
        return zbar > 0 and zbar * math.sqrt(size) > quantile * math.sqrt(dot(share, spread))


class TreeBank:
    learner = Tree

    def __init__(self, spec, d, m, seed):
        self.bins, draw = Bins(spec, d), SplitMix64(seed)
        self.learners = [
            self.learner(spec, d, m, self.bins, features_of(spec, d, draw))
            for _ in range(spec["n"])
        ]

    def see(self, x):
        self.bins.see(x, self.learners)
