"""Section 0: the generator of all reference values; the logistic function."""

from __future__ import annotations

import math


class SplitMix64:
    """Section 0: the generator of all reference values."""

    def __init__(self, seed):
        self.s = seed

    def next(self):
        self.s = (self.s + 0x9E3779B97F4A7C15) % 2**64
        z = self.s
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
        z = (z ^ (z >> 27)) * 0x94D049BB133111EB % 2**64
        return z ^ (z >> 31)

    def u(self):
        return (self.next() >> 11) * 2.0**-53

    def sym(self):
        return 2.0 * self.u() - 1.0

    def normal(self):
        first, second = self.u(), self.u()
        return math.sqrt(-2.0 * math.log(1.0 - first)) * math.cos(2.0 * math.pi * second)

    def poisson(self, rate):
        k, p = 0, self.u()
        while p > math.exp(-rate):
            k, p = k + 1, p * self.u()
        return k


def s(a):
    """The logistic function by the branch on the sign (section 1, Stability)."""
    return 1 / (1 + math.exp(-a)) if a >= 0 else math.exp(a) / (1 + math.exp(a))
