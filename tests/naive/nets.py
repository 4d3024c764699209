"""Section 7.3: two-layer nets."""

from __future__ import annotations

import math

from tests.naive.draws import SplitMix64, s
from tests.naive.modes import slope


class NetLearner:
    """7.3: h = W2 act(W1 x + b1) + b2 with Adam or SGD."""

    def __init__(self, W1, b1, W2, b2, spec):
        self.theta = {"W1": W1, "b1": b1, "W2": W2, "b2": b2}
        self.spec, self.t = spec, 0
        self.M, self.V = {}, {}

    def hidden(self, x):
        W1, b1 = self.theta["W1"], self.theta["b1"]
        a = [
            sum(p * q for p, q in zip(row, x, strict=True)) + b
            for row, b in zip(W1, b1, strict=True)
        ]
        kind = self.spec["activation"]
        if kind == "sigmoid":
            z = [s(v) for v in a]
            return z, [v * (1 - v) for v in z]
        if kind == "tanh":
            z = [math.tanh(v) for v in a]
            return z, [1 - v * v for v in z]
        return [v if v > 0 else 0.01 * v for v in a], [1.0 if v > 0 else 0.01 for v in a]

    def predict(self, x):
        z, _ = self.hidden(x)
        W2, b2 = self.theta["W2"], self.theta["b2"]
        return [
            sum(p * q for p, q in zip(row, z, strict=True)) + b
            for row, b in zip(W2, b2, strict=True)
        ]

    def learn(self, x, target, weight, mode):
        e = slope(self.predict(x), target, weight, mode)
        z, act = self.hidden(x)
        H, m = len(z), len(e)
        da = [sum(self.theta["W2"][c][k] * e[c] for c in range(m)) * act[k] for k in range(H)]
        gradients = {
            "W1": [[da[k] * v for v in x] for k in range(H)],
            "b1": da,
            "W2": [[e[c] * v for v in z] for c in range(m)],
            "b2": e,
        }
        self.t += 1
        for name, gradient in gradients.items():
            self.step(name, gradient)

    def step(self, name, gradient):
        lr, value = self.spec["lr"], self.theta[name]
        for place, g in flat(gradient):
            if self.spec["optimiser"] == "sgd":
                move = lr * g
            else:
                M = self.M[name, place] = 0.9 * self.M.get((name, place), 0.0) + 0.1 * g
                V = self.V[name, place] = 0.999 * self.V.get((name, place), 0.0) + 0.001 * g * g
                move = lr * (M / (1 - 0.9**self.t)) / (math.sqrt(V / (1 - 0.999**self.t)) + 1e-8)
            row = value if len(place) == 1 else value[place[0]]
            row[place[-1]] -= move


class NetBank:
    def __init__(self, spec, d, m, seed):
        H, N, draw = spec["hidden"], spec["n"], SplitMix64(seed)
        W1 = [[[draw.sym() / math.sqrt(d) for _ in range(d)] for _ in range(H)] for _ in range(N)]
        b1 = [[draw.sym() / math.sqrt(d) for _ in range(H)] for _ in range(N)]
        W2 = [[[draw.sym() / math.sqrt(H) for _ in range(H)] for _ in range(m)] for _ in range(N)]
        b2 = [[draw.sym() / math.sqrt(H) for _ in range(m)] for _ in range(N)]
        self.learners = [NetLearner(*theta, spec) for theta in zip(W1, b1, W2, b2, strict=True)]

    def see(self, x):
        """Learners share nothing."""


def flat(nested):
    for i, one in enumerate(nested):
        if isinstance(one, list):
            for j, g in enumerate(one):
                yield (i, j), g
        else:
            yield (i,), one
