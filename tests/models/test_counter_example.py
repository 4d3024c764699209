"""The counter-example 9.A, in both directions: Algorithm 1 stays where it is, Algorithm 2 does not.

y in R^2, no features, l(y) = 2|y_1| + |y_2| + |y|^2 / 4; learners follow the leader on one
coordinate, from their stationary hypotheses.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest

import kaboost
from kaboost.models.types import BuildContext
from kaboost.models.verbs import (
    combine,
    gradient,
    rule_scratch_size,
    targets,
    value_gradient_prefixes,
)

LAMBDA = 0.5


class TwoSlopes(NamedTuple):
    """2|y_1| + |y_2| + lambda/2 |y|^2 with sign(0) = +1: steep where nothing is gained."""

    l2: float = LAMBDA / 2


def slope_of(y):
    steep = np.array([2.0, 1.0]) * np.where(y >= 0.0, 1.0, -1.0)
    return steep + LAMBDA * y


def value_of(y):
    return 2 * abs(y[0]) + abs(y[1]) + LAMBDA / 2 * (y @ y)


@gradient.register
def _(loss: TwoSlopes, s, y, g) -> None:
    g[:] = slope_of(s)


@value_gradient_prefixes.register
def _(loss: TwoSlopes, F, y, G, L) -> None:
    for i in range(F.shape[1]):
        G[:, i] = slope_of(F[:, i])
        L[i] = value_of(F[:, i])


class Leader:
    """Follow the leader: the mean target, on the coordinate where that gains most."""

    def __init__(self, limit):
        self.mu, self.n, self.limit = np.zeros(2), 0, limit

    def learn(self, target):
        self.n += 1
        self.mu += (target - self.mu) / self.n

    def say(self):
        a = np.clip(self.mu, -self.limit, self.limit)
        gain = 2 * a * self.mu - a * a
        h = np.zeros(2)
        h[int(gain[1] > gain[0])] = a[int(gain[1] > gain[0])]
        return h


class Run:
    """One rule over N leaders that start from the best response to what each would see."""

    def __init__(self, rule, limit, N):
        self.rule, self.N = rule, N
        self.h, self.F = np.zeros((2, N)), np.empty((2, N + 1))
        self.T, self.W = np.empty((2, N)), np.ones(N)
        self.leaders = [Leader(limit) for _ in range(N)]
        for i, leader in enumerate(self.leaders):
            self.look()
            leader.learn(self.T[:, i].copy())
            self.h[:, i] = leader.say()

    def look(self):
        yhat, rule_scratch, G = (
            np.empty(2),
            np.empty(rule_scratch_size(self.rule)),
            np.empty((2, self.N + 1)),
        )
        combine(self.rule, self.h, self.F, yhat, rule_scratch)
        value_gradient_prefixes(TwoSlopes(), self.F, np.zeros(2), G, np.empty(self.N + 1))
        targets(
            self.rule, TwoSlopes(), np.zeros(2), self.h, self.F, G, self.T, self.W, rule_scratch
        )
        return yhat

    def events(self, count):
        """The loss of every event; nothing moves from one to the next."""
        actual = []
        for _ in range(count):
            actual.append(value_of(self.look()))
            before = self.h.copy()
            for i, leader in enumerate(self.leaders):
                leader.learn(self.T[:, i].copy())
                self.h[:, i] = leader.say()
            np.testing.assert_array_equal(self.h, before)
        return actual


def rule(kind, N, **params):
    spec = {"rule": {"kind": kind, "y0": 1.0, **params}, "bank": {"kind": "linear", "n": N}}
    full = kaboost.normalise_spec({**spec, "loss": "squared"})
    absolute = kaboost.LOSSES["absolute"]
    setting = BuildContext(full, absolute.make(l2=LAMBDA / 2), absolute.traits, None, 1, 2)
    return kaboost.RULES[kind].make(full["rule"], setting)


@pytest.mark.parametrize(
    ("N", "regret"),
    [(1, 3.01), (2, 2.54), (3, 2.09), (4, 1.66), (5, 1.25), (16, 1.66), (17, 1.25), (64, 1.66)],
)
def test_algorithm_1_is_stuck(N, regret):
    """Every learner fits the first coordinate: the second stays at 1, for every N and T."""
    run = Run(rule("sgb", N, eta=0.1), 2.0, N)
    assert run.events(5) == pytest.approx([regret] * 5, abs=1e-9)
    assert not run.h[1].any()


@pytest.mark.parametrize(
    ("N", "regret"),
    [
        (1, 3.5), (2, 1.875918907), (4, 0.528451885), (8, 0.560148095), (16, 0.067959511),
        (32, 0.064711211), (64, 0.080492176), (128, 0.055897619), (256, 0.037713524),
        (512, 0.023225308),
    ],
)  # fmt: skip
def test_algorithm_2_gets_there(N, regret):
    """The residual grows in the second coordinate until it is fitted."""
    params = {"schedule": "1/(lambda i)", "radius": 2.0, "residual_clip": "inf"}
    run = Run(rule("sgb_residual", N, **params), np.inf, N)
    assert run.events(3) == pytest.approx([regret] * 3, abs=1e-8)
