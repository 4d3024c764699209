"""Section 0: what votes say, and what they cost."""

from __future__ import annotations

import math

from tests.naive.modes import LOGISTIC


def sign(a):
    return 1.0 if a >= 0 else -1.0


def chosen(h):
    """The class a learner is for: 0 or 1 by the sign of one score, else the largest of several."""
    return int(h[0] >= 0) if len(h) == 1 else h.index(max(h))


def targets(label, m):
    """The class as +-1 for every output."""
    return list(label) if m == 1 else [1.0 if c == label[0] else -1.0 for c in range(m)]


class VoteRule:
    """The log-loss of (1 + v) / 2, clipped; of several classes, of their shares."""

    mode, bound = LOGISTIC, 1.0

    def __init__(self, spec, d, m, loss, bank):
        self.spec, self.m, self.loss, self.bank = spec["rule"], m, loss, bank
        self.N, self.seed = spec["bank"]["n"], spec["seed"]

    def weak_predictions(self, x):
        return [one.predict(x) for one in self.bank.learners]

    def cast(self, h):
        """The vote of a binary learner's score."""
        return sign(h[0]) if self.spec["discrete"] else max(-1.0, min(1.0, h[0]))

    def value(self, v, label):
        if self.m == 1:
            return -math.log(min(max((1 + label[0] * v[0]) / 2, 1e-6), 1 - 1e-6))
        shares = [max(a, 1e-6) for a in v]
        return -math.log(shares[int(label[0])] / sum(shares))
