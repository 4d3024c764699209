"""Section 6.1: online boost-by-majority."""

from __future__ import annotations

import math

from tests.naive.vote_scores import VoteRule


class BbmRule(VoteRule):
    """w_i = C(n,k) p^k (1-p)^(n-k), n = N - i, k = floor((n - s + 1) / 2)."""

    def combine(self, x):
        votes = [self.cast(h) for h in self.weak_predictions(x)]
        P = [[sum(votes[:i]) / max(i, 1)] for i in range(self.N + 1)]
        return P, P[-1]

    def weight(self, i, s):
        n, p = self.N - i, 0.5 + self.spec["gamma"]
        k = math.floor((n - s + 1) / 2)
        if not 0 <= k <= n:
            return 0.0

        def pmf(j):
            return math.comb(n, j) * p**j * (1 - p) ** (n - j)

        if self.spec["weight"] == "raw":
            return pmf(k)
        return pmf(k) / pmf(min(n, math.floor((n + 1) * p)))

    def learn(self, x, label, w):
        h, tasks, s = self.weak_predictions(x), [], 0
        for i in range(1, self.N + 1):
            tasks.append((label, w * self.weight(i, s)))
            s += label[0] * self.cast(h[i - 1])
        self.bank.see(x)
        for one, (target, weight) in zip(self.bank.learners, tasks, strict=True):
            if weight:
                one.learn(x, target, weight, self.mode)
        return h, tasks
