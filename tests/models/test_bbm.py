"""Online boost-by-majority: its weights are differences of the potential."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import kaboost
from kaboost.models.rules.bbm import learner_weight, weight_table
from tests.models.rule_micro import at_once, made


def potential(n, p, s):
    """Phi: the chance that s plus n independent steps, +1 with chance p, ends at 0 or below."""
    actual = 0.0
    for steps in itertools.product((-1, 1), repeat=n):
        if s + sum(steps) <= 0:
            actual += math.prod(p if step > 0 else 1 - p for step in steps)
    return actual


@pytest.mark.parametrize("N", [1, 2, 3, 6, 9])
@pytest.mark.parametrize("gamma", [0.02, 0.1, 0.4])
def test_weights_are_differences_of_the_potential(N, gamma):
    """Specification, 9.13: w_i = Phi_i(s - 1) - Phi_i(s + 1), by listing every outcome."""
    table = weight_table(N, gamma, False)
    for i in range(N):
        n, p = N - 1 - i, 0.5 + gamma
        for s in range(-i, i + 1):
            expected = potential(n, p, s - 1) - potential(n, p, s + 1)
            assert learner_weight(table, i, s) == pytest.approx(expected, rel=1e-9, abs=1e-15)


def test_twelve_learners():
    """The same for the first of twelve."""
    expected = potential(11, 0.6, -1) - potential(11, 0.6, 1)

    assert learner_weight(weight_table(12, 0.1, False), 0, 0.0) == pytest.approx(
        expected, rel=1e-12
    )


@pytest.mark.parametrize(
    ("i", "expected"),
    [(1, (0.3456, 0.3456, 0.3456, 0.3456, 0.1536)), (3, (0.36, 0.36, 0.48, 0.48, 0.16)),
     (5, (0, 0, 1, 1, 0))],
)  # fmt: skip
def test_reference_weights(i, expected):
    """10.6: N = 5, p = .6, s = -2 .. 2."""
    table = weight_table(5, 0.1, False)
    actual = [learner_weight(table, i - 1, s) for s in range(-2, 3)]

    np.testing.assert_allclose(actual, expected, atol=1e-9)


def test_reference_weights_of_ten():
    """10.6: N = 10, p = .55, raw and normalised."""
    raw, normalised = weight_table(10, 0.05, False), weight_table(10, 0.05, True)

    assert learner_weight(raw, 0, 0) == pytest.approx(0.26003634176953, rel=1e-12)
    assert learner_weight(raw, 4, -2) == pytest.approx(0.2058890625, rel=1e-12)
    assert learner_weight(normalised, 4, -2) == pytest.approx(0.6111111111, abs=1e-10)
    assert learner_weight(raw, 4, 2) == pytest.approx(0.275653125, rel=1e-12)
    assert learner_weight(normalised, 4, 2) == pytest.approx(0.8181818182, abs=1e-10)


@pytest.mark.parametrize("normalised", [False, True])
def test_a_thousand_learners(normalised):
    """No overflow: rows are distributions, or have 1 as their largest value."""
    table = weight_table(1000, 0.1, normalised)
    whole = table.max(axis=1) if normalised else table.sum(axis=1)

    assert np.isfinite(table).all()
    np.testing.assert_allclose(whole, 1.0, rtol=1e-9)


def test_votes_of_scores():
    """Discrete votes are signs, others clipped scores; margins, prefixes and score use them."""
    F, s, W = at_once(made("bbm"), [0.0, -0.3, 2.0], -1.0, w=2.0)
    np.testing.assert_allclose(F, [0, 1, 0, 1 / 3])
    assert s == F[-1]
    table = weight_table(3, 0.1, True)
    expected = [
        learner_weight(table, 0, 0),
        learner_weight(table, 1, -1),
        learner_weight(table, 2, 0),
    ]
    np.testing.assert_allclose(W, 2 * np.array(expected))

    F, s, W = at_once(made({"kind": "bbm", "discrete": False}), [0.0, -0.3, 2.0], -1.0)
    np.testing.assert_allclose(F, [0, 0, -0.15, 0.7 / 3])
    expected = [
        learner_weight(table, 0, 0),
        learner_weight(table, 1, 0),
        learner_weight(table, 2, 0.3),
    ]
    np.testing.assert_allclose(W, expected)


def test_probability_of_a_vote():
    """(1 + v) / 2, never nearer to 0 and 1 than a millionth; its log-loss is recorded."""
    booster = made("bbm")
    predicted = kaboost.predictions(booster, np.array([[-1.0], [0.0], [1 / 3], [1.0]]))[:, 0]
    np.testing.assert_allclose(predicted, [1e-6, 0.5, 2 / 3, 1 - 1e-6], rtol=1e-12)

    kaboost.learn_many(booster, [[0.0]], [0])
    assert booster.progress.mean_loss == pytest.approx(-math.log(1e-6))


def test_another_loss_is_refused():
    """The loss is fixed, and is known without being named."""
    with pytest.raises(
        kaboost.ModelError, match="bbm supports only certain losses; take logistic, not hinge"
    ):
        made("bbm", loss="hinge")
    assert made("bbm").loss == made("bbm", loss="logistic").loss


def test_a_bank_of_numbers_is_refused():
    """Learners must be able to learn classes."""
    with pytest.raises(kaboost.ModelError, match="coordinate_ftl learners cannot learn classes"):
        kaboost.build({"rule": "bbm", "bank": {"kind": "coordinate_ftl", "n": 2}}, d=2)
