"""10.4: deterministic Hedge over the functions +-x_j, mean prediction."""

from __future__ import annotations

import math

from tests.naive.modes import slope


class HedgeLearner:
    """Weights e^(-rate * loss so far) over 2d functions, for every output."""

    def __init__(self, d, m, rate):
        self.lost = [{(j, u): 0.0 for j in range(d) for u in (1, -1)} for _ in range(m)]
        self.rate = rate

    def predict(self, x):
        predicted = []
        for lost in self.lost:
            least = min(lost.values())
            weight = {f: math.exp(-self.rate * (v - least)) for f, v in lost.items()}
            mean = sum(q * u * x[j] for (j, u), q in weight.items()) / sum(weight.values())
            predicted.append(mean)
        return predicted

    def learn(self, x, target, weight, mode):
        for e, lost in zip(slope(self.predict(x), target, weight, mode), self.lost, strict=True):
            for j, u in lost:
                lost[j, u] += e * u * x[j]


class HedgeBank:
    def __init__(self, spec, d, m, seed):
        rate = spec["rate"] or math.sqrt(2 * math.log(2 * d) / spec["horizon"])
        self.learners = [HedgeLearner(d, m, rate) for _ in range(spec["n"])]

    def see(self, x):
        """Learners share nothing."""
