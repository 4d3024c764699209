"""Section 7.1: linear learners."""

from __future__ import annotations

import math

from tests.naive.modes import SQUARE, slope


class LinearLearner:
    """7.1: one linear learner; with `sees`, only that feature and the bias."""

    def __init__(self, d, m, spec, sees, scales):
        self.rows = d + spec["bias"]
        self.w = [[0.0] * self.rows for _ in range(m)]
        self.S = [[0.0] * self.rows for _ in range(m)]  # also Adam's V and FTRL's n
        self.M = [[0.0] * self.rows for _ in range(m)]  # Adam's M and FTRL's z
        self.t = self.n = 0.0
        self.bias, self.sees, self.scales = spec["bias"], sees, scales
        self.spec, self.lr, self.step = spec, spec.get("lr"), spec["step"]

    def features(self, x):
        kept = [v if self.sees in (None, j) else 0.0 for j, v in enumerate(x)]
        return kept + [1.0] * self.bias

    def predict(self, x):
        x = self.features(x)
        if self.step == "ng":
            return [
                sum(a * (b if abs(b) <= k else k * k / b) for a, b, k in terms)
                for terms in (zip(row, x, self.known(), strict=True) for row in self.w)
            ]
        if self.step != "nag":
            return [sum(a * b for a, b in zip(row, x, strict=True)) for row in self.w]
        return [
            sum(a * (b if abs(b) <= k else math.copysign(k, b)) for a, b, k in terms)
            for terms in (zip(row, x, self.known(), strict=True) for row in self.w)
        ]

    def known(self):
        return [*self.scales[: self.rows - self.bias], *[1.0] * self.bias]

    def rescale(self, old, new):
        for row in self.w:
            for j in range(self.rows - self.bias):
                if new[j] > old[j]:
                    row[j] *= (old[j] / new[j]) ** (2 if self.step == "ng" else 1)

    def learn(self, x, target, weight, mode):
        if weight == 0:
            return
        h = self.predict(x)
        e, x = slope(h, target, weight, mode), self.features(x)
        self.t += 1
        if self.step in ("nag", "ng"):
            self.n += sum((b / k) ** 2 for b, k in zip(x, self.known(), strict=True) if b)
        if self.step == "invariant" and mode == SQUARE and any(x):
            length = sum(v * v for v in x)
            part = (1 - math.exp(-weight * self.lr * length)) / length
            for c, row in enumerate(self.w):
                for j, v in enumerate(x):
                    row[j] -= v * (h[c] - target[c]) * part
            return
        for c in range(len(self.w)):
            for j, v in enumerate(x):
                getattr(self, self.step)(c, j, e[c] * v)
        if self.step == "ogd":
            length = math.sqrt(sum(v * v for row in self.w for v in row))
            for row in self.w:
                row[:] = [v * min(1, self.spec["radius"] / length) if length else v for v in row]

    def sgd(self, c, j, G):
        self.w[c][j] -= self.lr / (1 + self.t / self.spec["t0"]) ** self.spec["p"] * G

    def invariant(self, c, j, G):
        self.w[c][j] -= self.lr * G

    def ogd(self, c, j, G):
        self.w[c][j] -= self.spec["radius"] / (self.spec["norm"] * math.sqrt(self.rounds())) * G

    def rounds(self):
        return min(self.t, self.spec.get("t_max", math.inf))

    def adagrad(self, c, j, G):
        self.S[c][j] += G**2
        self.w[c][j] -= self.lr * G / (math.sqrt(self.S[c][j]) + 1e-8)

    def adam(self, c, j, G):
        self.M[c][j] = 0.9 * self.M[c][j] + 0.1 * G
        self.S[c][j] = 0.999 * self.S[c][j] + 0.001 * G**2
        root = math.sqrt(self.S[c][j] / (1 - 0.999**self.t))
        self.w[c][j] -= self.lr * (self.M[c][j] / (1 - 0.9**self.t)) / (root + 1e-8)

    def ftrl(self, c, j, G):
        z, n, a = self.M[c], self.S[c], self.lr
        q = (math.sqrt(n[j] + G**2) - math.sqrt(n[j])) / a
        z[j] += G - q * self.w[c][j]
        n[j] += G**2
        bias = self.bias and j == self.rows - 1
        l1, l2 = (0, 0) if bias else (self.spec["l1"], self.spec["l2"])
        self.w[c][j] = 0.0
        if abs(z[j]) > l1:
            left = z[j] - math.copysign(l1, z[j])
            self.w[c][j] = -left / ((self.spec["b"] + math.sqrt(n[j])) / a + l2)

    def ng(self, c, j, G):
        if self.n and G:
            self.w[c][j] -= self.lr * self.t / self.n * G / self.known()[j] ** 2

    def nag(self, c, j, G):
        scale = self.known()[j]
        self.S[c][j] += G * G
        if self.n and scale * math.sqrt(self.S[c][j]) > 0:
            rate = self.lr * math.sqrt(self.t / self.n)
            self.w[c][j] -= rate * G / (scale * math.sqrt(self.S[c][j]))


class LinearBank:
    def __init__(self, spec, d, m, seed):
        self.scales, self.d = [0.0] * d, d
        cyclic = spec["features"] == "cyclic"
        self.learners = [
            LinearLearner(d, m, spec, i % d if cyclic else None, self.scales)
            for i in range(spec["n"])
        ]

    def see(self, x):
        new = [max(a, abs(b)) for a, b in zip(self.scales, x, strict=True)]
        for one in self.learners:
            if one.step in ("nag", "ng"):
                one.rescale(self.scales, new)
        self.scales[:] = new
