"""Section 5: online GentleBoost."""

from __future__ import annotations

import math

from tests.naive.modes import SQUARE


def clip(a, low, high):
    return max(low, min(high, a))


class GentleRule:
    """Each learner fits u, then w *= (1 + alpha)^-sign(u f), or e^(-u f), with f after learning."""

    mode, bound = SQUARE, 1.0

    def __init__(self, spec, d, m, loss, bank):
        self.spec, self.bank = spec["rule"], bank

    def combine(self, x):
        P = [[0.0]]
        for one in self.bank.learners:
            P.append([P[-1][0] + clip(one.predict(x)[0], -1.0, 1.0)])
        return P, P[-1]

    def learn(self, x, label, w):
        h = [[clip(one.predict(x)[0], -1.0, 1.0)] for one in self.bank.learners]
        self.bank.see(x)
        u, weight, tasks = label[0], w, []
        for one in self.bank.learners:
            tasks.append((label, weight))
            one.learn(x, label, weight, SQUARE)
            margin = u * clip(one.predict(x)[0], -1.0, 1.0)
            if self.spec["step"] == "exp":
                weight *= math.exp(-margin)
            elif margin:
                weight *= (1 + self.spec["alpha"]) ** (1 if margin < 0 else -1)
            weight = clip(weight, 1e-3 * w, float(self.spec["w_max"]) * w)
        return h, tasks
