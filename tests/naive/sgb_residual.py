"""Section 2.2: residual projection."""

from __future__ import annotations

import math

from tests.naive.modes import SQUARE


def length(z):
    return math.sqrt(sum(a * a for a in z))


def project(z, R):
    return z if length(z) <= R else [a * R / length(z) for a in z]


class SgbResidualRule:
    """P[i+1] = proj(P[i] - eta_i h[i]); target[i] = D + g; D = target[i] - h[i], clipped."""

    mode, bound = SQUARE, 1.0

    def __init__(self, spec, d, m, loss, bank):
        self.spec, self.kind, self.m, self.loss, self.bank = (
            spec["rule"],
            spec["loss"],
            m,
            loss,
            bank,
        )
        self.seen, self.labels = [], []
        self.y0 = [0.0 if self.spec["y0"] == "running" else self.spec["y0"]] * m
        kind = self.kind["kind"]
        known = {"hinge": 1, "absolute": 1}
        known |= {"huber": self.kind.get("k"), "quantile": max(q := self.kind.get("q", 0), 1 - q)}
        self.G, self.known = known.get(kind, 0.0), kind in known

    def eta(self, i):
        """The step of learner i, counted from 1."""
        return (
            self.spec["eta_scale"]
            * {
                "1/(lambda i)": lambda: 1 / (self.loss.convexity * i),
                "c/i": lambda: 1 / i,
                "c/sqrt(i)": lambda: 1 / math.sqrt(i),
                "constant": lambda: 1.0,
            }[self.spec["schedule"]]()
        )

    @property
    def R(self):
        kind = self.kind["kind"]
        if self.spec["radius"] is not None:
            return float(self.spec["radius"])
        margins = ("logistic", "logistic2", "hinge", "exponential", "linear", "mls", "softmax")
        if kind in margins or not self.labels:
            return 4.0
        scale = math.log1p if kind == "poisson" else float
        total = sum(w for _, w in self.labels)
        return 4 * math.sqrt(
            sum(w * sum(scale(abs(a)) ** 2 for a in z) for z, w in self.labels) / total
        )

    def chain(self, x):
        P = [list(self.y0)]
        for i, one in enumerate(self.bank.learners):
            step = [self.eta(i + 1) * a for a in one.predict(x)]
            P.append(project([a - b for a, b in zip(P[-1], step, strict=True)], self.R))
        return P

    def combine(self, x):
        P = self.chain(x)
        kept = {"theory": P[:-1], "shifted": P[1:], "last": P[1:]}[self.spec["average"]]
        predicted = [list(self.y0)]
        for i in range(1, len(P)):
            if self.spec["average"] == "last":
                predicted.append(P[i])
            else:
                predicted.append([sum(p[c] for p in kept[:i]) / i for c in range(self.m)])
        return predicted, predicted[-1]

    def learn(self, x, label, w):
        P, D = self.chain(x), [0.0] * self.m
        h = [one.predict(x) for one in self.bank.learners]
        tasks = []
        for i, predicted in enumerate(h):
            g = self.loss.gradient(P[i], label)
            if not self.known:
                r = self.kind["l2"]
                bare = [a - 2 * r * b for a, b in zip(g, P[i], strict=True)]
                self.G = max(self.G, length(bare))
            target = [a + b for a, b in zip(D, g, strict=True)]
            tasks.append((target, w))
            rho = self.spec["residual_decay"]
            D = [rho * (a - b) for a, b in zip(target, predicted, strict=True)]
            D = project(D, float(self.spec["residual_clip"]) * self.G)
        self.bank.see(x)
        for one, (target, weight) in zip(self.bank.learners, tasks, strict=True):
            one.learn(x, target, weight, SQUARE)
        if len(self.labels) < self.spec["y0_freeze"]:
            self.labels.append((label, w))
        if self.spec["y0"] == "running" and len(self.seen) < self.spec["y0_freeze"]:
            self.seen.append((label, w))
            self.y0 = self.loss.init_score(self.seen, self.m)
        return h, tasks
