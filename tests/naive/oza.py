"""Sections 6.4 and 6.5: Oza's online boosting and bagging."""

from __future__ import annotations

import math

from tests.naive.draws import SplitMix64
from tests.naive.modes import SQUARE
from tests.naive.vote_scores import VoteRule, chosen, targets


class OzaRule(VoteRule):
    """What both share: learners see an event k ~ Poisson(lam) times, and vote."""

    def __init__(self, spec, d, m, loss, bank):
        super().__init__(spec, d, m, loss, bank)
        self.draw = SplitMix64(self.seed)

    def learn_copies(self, i, x, target, lam):
        """Return the weight that learner i was taught with."""
        one = self.bank.learners[i]
        if self.spec["feed"] == "weight":
            one.learn(x, target, lam, self.mode)
            return lam
        k = self.draw.poisson(min(self.spec["rate"] * lam, 100))
        for _ in range(k):
            one.learn(x, target, 1.0, self.mode)
        return k

    def weighted_votes(self, h, weights):
        """The weighted mean vote; equal votes where all weights are 0."""
        weights = weights if sum(weights) else [1.0] * len(h)
        total = [0.0] * self.m
        for predicted, weight in zip(h, weights, strict=True):
            for c in range(self.m):
                is_c = chosen(predicted) == (1 if self.m == 1 else c)
                total[c] += weight * (float(is_c) if self.m > 1 else (1.0 if is_c else -1.0))
        return [a / max(sum(weights), 1e-300) for a in total]

    def right(self, i, x, label):
        true = int(label[0] > 0) if self.m == 1 else int(label[0])
        return chosen(self.bank.learners[i].predict(x)) == true


class OzaBoostRule(OzaRule):
    """lam *= (sc + sw) / (2 sc) where learner i, having learned, is right, else over (2 sw)."""

    def __init__(self, spec, d, m, loss, bank):
        super().__init__(spec, d, m, loss, bank)
        self.sc, self.sw = [0.0] * self.N, [0.0] * self.N

    def votes(self):
        found = []
        for sc, sw in zip(self.sc, self.sw, strict=True):
            e = sw / (sc + sw) if sc + sw else 0.5
            e = min(max(e, 1e-10), 1 - 1e-10)
            found.append(math.log((1 - e) / e) if e < 0.5 else 0.0)
        return found

    def combine(self, x):
        h, votes = self.weak_predictions(x), self.votes()
        P = [self.weighted_votes(h[:i], votes[:i]) for i in range(self.N + 1)]
        return P, P[-1]

    def learn(self, x, label, w):
        h, target, tasks, lam = self.weak_predictions(x), targets(label, self.m), [], w
        self.bank.see(x)
        for i in range(self.N):
            tasks.append((target, self.learn_copies(i, x, target, lam)))
            mine = self.sc if self.right(i, x, label) else self.sw
            mine[i] += lam
            total = self.sc[i] + self.sw[i]
            lam *= total / (2 * mine[i])
            if self.spec["t_max"] and total > self.spec["t_max"]:
                self.sc[i] *= self.spec["t_max"] / total
                self.sw[i] *= self.spec["t_max"] / total
        return h, tasks


class OzaBagRule(OzaRule):
    """Equal votes, or the mean of numbers."""

    def __init__(self, spec, d, m, loss, bank):
        super().__init__(spec, d, m, loss, bank)
        self.numbers = spec["loss"]["kind"] not in ("logistic", "softmax")
        if self.numbers:
            self.mode, self.value = SQUARE, loss.value

    def combine(self, x):
        h = self.weak_predictions(x)
        P = [[0.0] * self.m]
        for i in range(1, self.N + 1):
            if self.numbers:
                P.append([sum(one[c] for one in h[:i]) / i for c in range(self.m)])
            else:
                P.append(self.weighted_votes(h[:i], [1.0] * i))
        return P, P[-1]

    def learn(self, x, label, w):
        h = self.weak_predictions(x)
        target = list(label) if self.numbers else targets(label, self.m)
        self.bank.see(x)
        tasks = [(target, self.learn_copies(i, x, target, w)) for i in range(self.N)]
        return h, tasks
