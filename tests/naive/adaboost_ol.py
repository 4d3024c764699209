"""Sections 6.2 and 6.3: AdaBoost.OL and AdaBoost.OL.W."""

from __future__ import annotations

import math

from tests.naive.draws import SplitMix64, s
from tests.naive.vote_scores import VoteRule, sign


class AdaBoostOlRule(VoteRule):
    """w_i = 1 / (1 + e^s), alpha_i moves by eta_t z / (1 + e^s), v_i *= e^-1 for a wrong prefix."""

    def __init__(self, spec, d, m, loss, bank):
        super().__init__(spec, d, m, loss, bank)
        self.alpha, self.v, self.t = [0.0] * self.N, [1 / self.N] * self.N, 0
        self.draw = SplitMix64(self.seed)
        self.u = self.draw.u() if self.spec["vote"] == "sampled" else None
        if self.spec["vote"] == "full":
            self.value = loss.value

    def sums(self, votes):
        return [
            sum(a * c for a, c in zip(self.alpha[:i], votes[:i], strict=True))
            for i in range(self.N + 1)
        ]

    def combine(self, x):
        S = self.sums([self.cast(h) for h in self.weak_predictions(x)])
        if self.spec["vote"] == "full":
            return [[a] for a in S], [S[-1]]
        P = [[0.0]]
        for i in range(1, self.N + 1):
            total = sum(v * sign(a) for v, a in zip(self.v[:i], S[1 : i + 1], strict=True))
            P.append([total / sum(self.v[:i])])
        if self.spec["vote"] == "expected":
            return P, P[-1]
        first = next((i for i in range(self.N) if sum(self.v[: i + 1]) > self.u), self.N - 1)
        return P, [sign(S[first + 1])]

    def learn(self, x, label, w):
        h, u = self.weak_predictions(x), label[0]
        votes = [self.cast(one) for one in h]
        before = self.sums(votes)
        self.t += 1
        eta = w * 4 / math.sqrt(min(self.t, self.spec["t_max"] or math.inf))
        tasks = []
        for i, c in enumerate(votes):
            share = s(-u * before[i])
            if self.spec["feed"] == "reject":
                share = float(self.draw.u() < share)
            tasks.append((label, w * share))
            step = eta * u * c * s(-u * before[i + 1])
            self.alpha[i] = max(-2.0, min(2.0, self.alpha[i] + step))
        v = [
            a * math.exp(-1) if sign(S) != u else a for a, S in zip(self.v, before[1:], strict=True)
        ]
        self.v = [max(a / sum(v), 1e-300) for a in v]
        if self.spec["vote"] == "sampled":
            self.u = self.draw.u()
        self.bank.see(x)
        for one, (target, weight) in zip(self.bank.learners, tasks, strict=True):
            if weight:
                one.learn(x, target, weight, self.mode)
        return h, tasks
