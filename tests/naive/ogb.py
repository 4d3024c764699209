"""Section 3: online gradient boosting."""

from __future__ import annotations

import math

from tests.naive.modes import LINEAR, SQUARE

KINKED = ("hinge", "absolute", "quantile")


def table(loss, b, Z):
    """Section 1, constants OGB needs: L_b, beta_b, eps_b; l2 adds to the first two."""
    e, r, k = math.exp, loss.get("l2", 0.0), loss.get("k", 1.0)
    p, q = loss.get("p", 2.0), loss.get("q", 0.5)
    lipschitz, beta, eps = {
        "linear": lambda: (1, 0, 1),
        "pnorm": lambda: (
            p * (Z + b) ** (p - 1),
            p * (p - 1) * (Z + b) ** (p - 2),
            p * max(Z - b, 0) ** (p - 1),  # 0 for labels within the ball (E13)
        ),
        "squared": lambda: (Z + b, 1, max(Z - b, 0)),
        "squared_full": lambda: (2 * (Z + b), 2, 2 * max(Z - b, 0)),
        "mls": lambda: (1 + b, 1, max(1 - b, 0)),
        "logistic": lambda: (1 / (1 + e(-b)), 0.25, 1 / (1 + e(b))),
        "logistic2": lambda: (2 / (1 + e(-2 * b)), 1, 2 / (1 + e(2 * b))),
        "huber": lambda: (min(k, Z + b), 1, max(min(k, Z - b), 0)),
        "exponential": lambda: (e(b), e(b), e(-b)),
        "poisson": lambda: (max(e(b), Z - e(-b)), e(b), max(Z - e(b), e(-b))),
        "hinge": lambda: (1, 0, 1),
        "absolute": lambda: (1, 0, 1),
        "quantile": lambda: (max(q, 1 - q), 0, 1),
    }[loss["kind"]]()
    return lipschitz + 2 * r * b, beta + 2 * r, eps


def radius(loss, eta, N, D, Z):
    """Equation 3.1; logistic losses by their closed form."""
    largest = eta * N * D
    if loss["kind"] in KINKED:
        return largest
    if loss["kind"] == "logistic":
        return min(largest, D * math.log(4 / eta))
    if loss["kind"] == "logistic2":
        return min(largest, D * max(1, math.log(2 / eta) / 2))

    def enough(b):
        _, beta, eps = table(loss, b, Z)
        return eta * beta * b * b >= eps * D

    if largest <= D or not enough(largest):
        return largest
    low, high = D, largest
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return D if enough(D) else high


def project(z, R):
    size = math.sqrt(sum(a * a for a in z))
    return [a * R / size for a in z] if size > R else list(z)


class Labels:
    """7.8: (y - median)/(2 max |y - median|) from the first 500 labels, clipped."""

    def __init__(self, mapped, m):
        self.mapped, self.m, self.first, self.scales = mapped, m, [], None

    def collect(self, z, w):
        self.first.append((list(z), w))
        if not self.is_warming_up:
            self.scales = [self.scale(c) for c in range(self.m)]

    @property
    def is_warming_up(self):
        return self.mapped and len(self.first) < 500

    def scale(self, c):
        seen = sorted(z[c] for z, _ in self.first)
        middle = (seen[249] + seen[250]) / 2
        return middle, 2 * max(abs(v - middle) for v in seen) or 1.0

    def to_mapped_units(self, z):
        if not self.mapped:
            return z
        return [max(-1, min(1, (v - a) / b)) for v, (a, b) in zip(z, self.scales, strict=True)]

    def to_label_units(self, P):
        if not self.mapped:
            return P
        if self.is_warming_up:
            total = sum(w for _, w in self.first)
            return [
                sum(w * z[c] for z, w in self.first) / total if total else 0.0
                for c in range(self.m)
            ]
        return [a + b * v for v, (a, b) in zip(P, self.scales, strict=True)]


class OgbRule:
    """What both algorithms share: how h is clipped and what it is fed."""

    def __init__(self, spec, d, m, loss, bank):
        self.spec, self.m, self.loss, self.bank = spec["rule"], m, loss, bank
        self.kind, self.N = spec["loss"]["kind"], spec["bank"]["n"]
        self.closed = spec["bank"]["kind"] in ("stumps", "trees", "refit_trees", "coordinate_ftl")
        self.s, self.bound = self.spec["scale"], self.spec["bound"]
        self.reduced = self.kind in KINKED and self.spec["nonsmooth"] == "deterministic"
        greedy, form = self.spec["fit"] == "greedy", self.spec["greedy_form"]
        quadratic = self.kind in ("squared", "squared_full")
        # A closed form has no single gradient: gradient form is its residual fit of that weight.
        self.weighed = greedy and form == "gradient" and self.closed and quadratic
        self.residual = self.weighed or (greedy and form == "residual")
        self.mode = SQUARE if self.residual and not self.reduced else LINEAR
        self.labels = Labels(self.spec["labels"] == "mapped", m)
        self.l2, self.beta = spec["loss"]["l2"], 2.0 if self.kind == "squared_full" else 1.0
        self.set_up(spec["loss"])

    def weak_predictions(self, x):
        if self.labels.is_warming_up:
            return [[0.0] * self.m for _ in range(self.N)]
        return [project(one.predict(x), self.bound) for one in self.bank.learners]

    def combine(self, x):
        P = [self.labels.to_label_units(p) for p in self.sums(self.weak_predictions(x))]
        return P, P[-1]

    def task(self, i, h, P, z):
        """What learner i is fed: a slope, or a target."""
        if self.reduced:
            return [g / self.L for g in self.loss.gradient(P[-1], z)]
        if self.spec["fit"] == "linear":
            return [g / self.L for g in self.loss.gradient(P[i], z)]
        a, o = self.step(i), self.offset(i, P)
        if not self.residual:
            there = [b + a * self.s * c for b, c in zip(o, h[i], strict=True)]
            return self.loss.gradient(there, z)
        best = [v * self.beta / (self.beta + 2 * self.l2) for v in z]  # l2 pulls it inwards
        return [(v - b) / (a * self.s) for v, b in zip(best, o, strict=True)]

    def weight_factor(self, i):
        return (self.beta + 2 * self.l2) * self.step(i) * self.s if self.weighed else 1.0

    def learn(self, x, label, w):
        h = self.weak_predictions(x)
        self.bank.see(x)
        if self.labels.is_warming_up:
            self.labels.collect(label, w)
            return h, [([0.0] * self.m, 0.0)] * self.N
        P, z = self.sums(h), self.labels.to_mapped_units(label)
        tasks = [(self.task(i, h, P, z), w * self.weight_factor(i)) for i in range(self.N)]
        for one, predicted, (task, weight) in zip(self.bank.learners, h, tasks, strict=True):
            if self.mode == SQUARE and not self.closed:  # straight through the clip
                one.learn(x, [a - b for a, b in zip(predicted, task, strict=True)], weight, LINEAR)
            else:
                one.learn(x, task, weight, self.mode)
        self.update_rule(P, z, w)
        return h, tasks


class OgbSpanRule(OgbRule):
    """3.1: P[i+1] = proj_B((1 - sigma[i] eta) P[i] + eta h[i]), sigma by gradient descent."""

    def set_up(self, loss):
        self.eta, Z = self.spec["eta"], self.spec["label_bound"]
        self.B = self.spec["radius"] or radius(loss, self.eta, self.N, self.s * self.bound, Z)
        self.L, _, _ = table(loss, self.B, Z)
        self.sigma, self.t = [0.0] * self.N, 0

    def sums(self, h):
        P = [[0.0] * self.m]
        for sigma, predicted in zip(self.sigma, h, strict=True):
            pairs = zip(P[-1], predicted, strict=True)
            step = [(1 - sigma * self.eta) * a + self.eta * self.s * b for a, b in pairs]
            P.append(project(step, self.B))
        return P

    def step(self, i):
        return self.eta

    def offset(self, i, P):
        return P[i]

    def update_rule(self, P, z, w):
        self.t += 1
        a = 1 / (self.L * self.B * math.sqrt(min(self.t, self.spec["t_max"] or math.inf)))
        for i in range(self.N):
            g = self.loss.gradient(P[-1] if self.reduced else P[i], z)
            step = w * a * sum(b * c for b, c in zip(g, P[i], strict=True))
            self.sigma[i] = max(0.0, min(1.0, self.sigma[i] + step))


class OgbHullRule(OgbRule):
    """3.2: P[i] = (1 - eta_i) P[i-1] + eta_i h_i, eta_i = 2/(i+1) for i = 1..N."""

    def set_up(self, loss):
        self.L, _, _ = table(loss, self.s * self.bound, self.spec["label_bound"])

    def sums(self, h):
        P = [[0.0] * self.m]
        for i, predicted in enumerate(h):
            a, pairs = self.step(i), zip(P[-1], predicted, strict=True)
            P.append([(1 - a) * p + a * self.s * b for p, b in pairs])
        return P

    def step(self, i):
        return 2 / (i + 2)

    def offset(self, i, P):
        return [(1 - self.step(i)) * a for a in P[i]]

    def update_rule(self, P, z, w):
        """Nothing but the bank learns."""
