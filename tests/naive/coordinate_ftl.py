"""Section 7.1, last item: follow the regularised leader over one coordinate."""

from __future__ import annotations


class CoordinateFtlLearner:
    """The ridge regression on the single feature that explains most, refitted from all events."""

    def __init__(self, m, ridge):
        self.m, self.ridge, self.seen = m, ridge, []

    def predict(self, x):
        d = len(x)
        S = [self.ridge + sum(w * v[j] ** 2 for v, _, w in self.seen) for j in range(d)]
        b = [
            [sum(w * z[c] * v[j] for v, z, w in self.seen) for c in range(self.m)] for j in range(d)
        ]
        gains = [sum(a * a for a in b[j]) / S[j] for j in range(d)]
        best = gains.index(max(gains))
        return [a / S[best] * x[best] for a in b[best]]

    def learn(self, x, target, weight, mode):
        self.seen.append((list(x), list(target), weight))


class CoordinateFtlBank:
    def __init__(self, spec, d, m, seed):
        self.learners = [CoordinateFtlLearner(m, spec["ridge"]) for _ in range(spec["n"])]

    def see(self, x):
        """Learners share nothing."""
