"""Section 4: P latent spaces mix the learners; the printed gradients (E7, E8, E9) by switches."""

from __future__ import annotations

from tests.naive.draws import SplitMix64, s
from tests.naive.modes import SQUARE


def relu(z):
    return max(z, 0.0)


class LatentRule:
    """Residuals at the restricted model; A and a move by descent, learner after learner."""

    mode, bound = SQUARE, 1.0

    def __init__(self, spec, d, m, loss, bank):
        self.spec, self.bank = spec["rule"], bank
        P, N, draw = self.spec["spaces"], spec["bank"]["n"], SplitMix64(spec["seed"])
        for _ in range(self.drawn(spec["bank"], d)):
            draw.u()
        one = draw.sym if self.spec["start"] == "uniform" else draw.u
        self.A = [[one() for _ in range(N)] for _ in range(P)]
        self.a = [one() * 2 / P for _ in range(P)]
        if self.spec["start"] == "consistent":
            self.A = [row if p < P // 2 else [-v for v in row] for p, row in enumerate(self.A)]
            self.a = [v if p < P // 2 else -v for p, v in enumerate(self.a)]
        self.literal_A = self.literal_a = self.wrong_sign = False

    @staticmethod
    def drawn(bank, d):
        return bank["n"] * (bank["hidden"] * (d + 2) + 1) if bank["kind"] == "nets" else 0

    def combine(self, x):
        h = [one.predict(x)[0] for one in self.bank.learners]
        predicted = [[0.0]]
        for i in range(len(h)):
            z = [sum(a * b for a, b in zip(row[: i + 1], h, strict=False)) for row in self.A]
            predicted.append([sum(a * relu(v) for a, v in zip(self.a, z, strict=True))])
        return predicted, predicted[-1]

    def learn(self, x, label, w):
        u, P = label[0], range(len(self.a))
        h = [one.predict(x)[0] for one in self.bank.learners]
        z, F, tasks = [0.0 for _ in P], 0.0, []
        for i, predicted in enumerate(h):
            r = u * s(-u * F) * (-1 if self.wrong_sign else 1)
            slope = 0.0
            after = [z[p] + self.A[p][i] * predicted for p in P]
            slope = sum(self.a[p] * self.A[p][i] for p in P if after[p] > 0)
            tasks.append(([r * slope if self.spec["target"] == "chain" else r], w))
            q = u * s(-u * sum(self.a[p] * relu(after[p]) for p in P))
            self.move(i, predicted, w * self.spec["lr_combine"] * q, (h, after))
            z = [z[p] + self.A[p][i] * predicted for p in P]
            F = sum(self.a[p] * relu(z[p]) for p in P)
        self.bank.see(x)
        for one, (target, weight) in zip(self.bank.learners, tasks, strict=True):
            one.learn(x, target, weight, SQUARE)
        return [[v] for v in h], tasks

    def move(self, i, predicted, step, seen):
        h, after = seen
        clip = (lambda v: min(max(v, -10.0), 10.0)) if self.spec["guard"] else (lambda v: v)
        A = [row[i] for row in self.A]
        whole = [sum(a * b for a, b in zip(row, h, strict=True)) for row in self.A]
        a = list(self.a)
        for p in range(len(a)):
            gate = A[p] * predicted if self.literal_A else after[p]
            factor = A[p] if self.literal_A else a[p]
            if gate > 0:
                self.A[p][i] = clip(A[p] + step * factor * predicted)
            mixed = whole[p] if self.literal_a else after[p]
            if mixed > 0:
                self.a[p] = clip(a[p] + step * mixed)
