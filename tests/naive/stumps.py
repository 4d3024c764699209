"""Section 7.2: regression stumps."""

from __future__ import annotations

from tests.naive.modes import LINEAR


class StumpLearner:
    """7.2: a line per feature; the one of lowest average error speaks."""

    def __init__(self, d, m, spec):
        self.w = [[0.0] * m for _ in range(d)]
        self.c = [[0.0] * m for _ in range(d)]
        self.L, self.n, self.spec = [0.0] * d, [0.0] * d, spec

    def line(self, j, v):
        return [a * v + b for a, b in zip(self.w[j], self.c[j], strict=True)]

    def alive(self, x):
        return [j for j, v in enumerate(x) if v != 0 or self.spec["use_zeros"]]

    def predict(self, x):
        alive = self.alive(x)
        if not alive:
            return [0.0] * len(self.w[0])
        best = min(alive, key=lambda j: self.L[j] / self.n[j] if self.n[j] else 0.0)
        return self.line(best, x[best])

    def learn(self, x, target, weight, mode):
        if weight == 0:
            return
        for j in self.alive(x):
            q = self.line(j, x[j])
            e = target if mode == LINEAR else [a - b for a, b in zip(q, target, strict=True)]
            charge = q if mode == LINEAR else e
            self.L[j] = self.spec["decay"] * self.L[j]
            self.L[j] += sum(a * b for a, b in zip(charge, e, strict=True))
            self.n[j] = self.spec["decay"] * self.n[j] + 1
            for c, slope in enumerate(e):
                self.w[j][c] -= self.spec["lr"] * weight * slope * x[j]
                self.c[j][c] -= self.spec["lr"] * weight * slope


class StumpBank:
    def __init__(self, spec, d, m, seed):
        self.learners = [StumpLearner(d, m, spec) for _ in range(spec["n"])]

    def see(self, x):
        """Learners share nothing."""
