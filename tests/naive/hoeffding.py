"""Section 7.6: Hoeffding trees over shared bins."""

from __future__ import annotations

import math

from tests.naive.trees import TreeBank


class ClassLeaf:
    def __init__(self, depth, counts):
        self.depth, self.counts, self.events = depth, counts, []
        self.c, self.right, self.children = 0.0, {"majority": 0.0, "bayes": 0.0}, None

    def majority(self):
        n = sum(self.counts)
        return [a / n if n else 1 / len(self.counts) for a in self.counts]

    def bayes(self, codes, features, edges):
        """Class share times the Laplace-smoothed share of each feature's bin; in logarithms."""
        logs = []
        for k, count in enumerate(self.counts):
            mine = [e for e in self.events if e[2] == k]
            n = sum(w for _, w, _ in mine)
            total = math.log(count) if count else -math.inf
            for j in features:
                here = sum(w for e, w, _ in mine if e[j] == codes[j])
                total += math.log((here + 1) / (n + len(edges[j]) + 1))
            logs.append(total)
        if max(logs) == -math.inf:
            return [1 / len(logs)] * len(logs)
        p = [math.exp(a - max(logs)) for a in logs]
        return [a / sum(p) for a in p]


def impurity(counts, measure):
    n = sum(counts)
    shares = [a / n for a in counts if a]
    if measure == "gini":
        return 1 - sum(p * p for p in shares)
    return -sum(p * math.log2(p) for p in shares)


class HoeffdingTree:
    def __init__(self, spec, d, m, bins, features):
        self.spec, self.m, self.bins, self.features = spec, m, bins, features
        self.classes, self.leaves, self.waiting = max(m, 2), 1, []
        self.root = ClassLeaf(0, [0.0] * self.classes)

    def leaf(self, x):
        node = self.root
        while node.children:
            j, edge = node.cut
            node = node.children[0 if x[j] <= edge else 1]
        return node

    def shares(self, node, x, way):
        if way == "majority" or self.bins.edges is None:
            return node.majority()
        return node.bayes(self.bins.codes(x), self.features, self.bins.edges)

    def predict(self, x):
        node, way = self.leaf(x), self.spec["leaf"]
        if way == "adaptive":
            way = "bayes" if node.right["bayes"] > node.right["majority"] else "majority"
        p = self.shares(node, x, way)
        return [2 * p[1] - 1] if self.m == 1 else [2 * a - 1 for a in p]

    def says(self, p):
        return int(p[1] >= p[0]) if self.m == 1 else p.index(max(p))

    def learn(self, x, target, weight, mode):
        if weight == 0:
            return
        k = int(target[0] > 0) if self.m == 1 else target.index(max(target))
        node = self.leaf(x)
        if self.bins.edges is None:
            self.waiting.append((list(x), weight, k))
            node.counts[k] += weight
            return
        for way in node.right:
            if self.says(self.shares(node, x, way)) == k:
                node.right[way] += weight
        node.counts[k] += weight
        node.events.append((self.bins.codes(x), weight, k))
        node.c += weight
        if node.c >= self.spec["grace"]:
            node.c = 0.0
            if node.depth < self.spec["depth"] and self.leaves < self.spec["max_leaves"]:
                self.attempt(node)

    def gather(self, codes, weight, k):
        self.root.events.append((codes, weight, k))

    def tally(self, events):
        return [sum(w for _, w, k in events if k == c) for c in range(self.classes)]

    def attempt(self, node):
        measure, best = self.spec["split"], {}
        total = self.tally(node.events)
        for j in self.features:
            for b in range(len(self.bins.edges[j])):
                left = self.tally([e for e in node.events if e[0][j] <= b])
                right = self.tally([e for e in node.events if e[0][j] > b])
                if sum(left) > 0 and sum(right) > 0:
                    after = sum(sum(part) * impurity(part, measure) for part in (left, right))
                    gain = impurity(total, measure) - after / sum(total)
                    if j not in best or gain > best[j][0] + 1e-13:
                        best[j] = gain, b, (left, right)
        if not best:
            return
        j = next(i for i in best if best[i][0] > max(g for g, _, _ in best.values()) - 1e-13)
        second = max([0.0, *(gain for i, (gain, _, _) in best.items() if i != j)])
        width = 1 if measure == "gini" else math.log2(self.classes)
        n, gain = sum(total), best[j][0]
        eps = math.sqrt(width**2 * math.log(1 / self.spec["delta"]) / (2 * n))
        if gain > 1e-13 and (gain - second > eps or eps < self.spec["tie"]):
            node.cut = j, self.bins.edges[j][best[j][1]]
            node.children = [ClassLeaf(node.depth + 1, part) for part in best[j][2]]
            self.leaves += 1


class HoeffdingBank(TreeBank):
    learner = HoeffdingTree
