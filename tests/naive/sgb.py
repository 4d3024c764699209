"""Section 2: streaming gradient boosting."""

from __future__ import annotations

from tests.naive.modes import SQUARE


class SgbRule:
    """2.1: P[i+1] = P[i] - eta h[i]; target[i] = grad l(P[i])."""

    mode, bound = SQUARE, 1.0

    def __init__(self, spec, d, m, loss, bank):
        self.spec, self.m, self.loss, self.bank, self.seen = spec["rule"], m, loss, bank, []
        self.eta = self.spec["eta"]
        if self.eta == "edge":  # 2.1
            gamma, beta = self.spec["gamma"], loss.beta
            self.eta = gamma / (beta * (8.0 - 4.0 * gamma))
        self.y0 = [0.0 if self.spec["y0"] == "running" else self.spec["y0"]] * m

    def combine(self, x):
        """(what every prefix says, what is served)."""
        P = [list(self.y0)]
        for one in self.bank.learners:
            predicted = one.predict(x)
            P.append([a - self.eta * b for a, b in zip(P[-1], predicted, strict=True)])
        return P, P[-1]

    def learn(self, x, label, w):
        """Teach every learner; return what each said and its (target, weight)."""
        P, _ = self.combine(x)
        h = [one.predict(x) for one in self.bank.learners]
        tasks = [(self.loss.gradient(P[i], label), w) for i in range(len(h))]
        self.bank.see(x)
        for one, (target, weight) in zip(self.bank.learners, tasks, strict=True):
            one.learn(x, target, weight, SQUARE)
        if self.spec["y0"] == "running" and len(self.seen) < self.spec["y0_freeze"]:
            self.seen.append((label, w))
            self.y0 = self.loss.init_score(self.seen, self.m)
        return h, tasks
