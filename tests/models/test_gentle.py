"""Online GentleBoost: which way its weights go."""

from __future__ import annotations

import math

import numpy as np
import pytest

import kaboost
from tests.models.reference_streams import stream_c
from tests.models.rule_micro import in_turn, made

CYCLIC = {"kind": "linear", "step": "sgd", "lr": 0.1, "features": "cyclic"}


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ({"alpha": 0.5}, [1, 0.6667, 1, 0.6667]),
        ({"step": "exp"}, [1, 0.6703200460, 0.8187307531, 0.3328710837]),
    ],
)
def test_micro(rule, expected):
    """10.6: margins .4, -.2, .9; an event that is right loses weight (erratum E10)."""
    W = in_turn(made({"kind": "gentle", **rule}, n=4), [0.4, -0.2, 0.9, 0.0], 1.0)

    np.testing.assert_allclose(W, expected, atol=5e-5 if "alpha" in rule else 1e-9)


def test_weight_is_clipped_in_its_importance():
    """Between a thousandth and w_max of the importance; a margin of 0 changes nothing."""
    wrong = in_turn(made({"kind": "gentle", "alpha": 1.0, "w_max": 3.0}, n=4), [-1.0] * 4, 1.0, 2.0)
    np.testing.assert_allclose(wrong, [2, 4, 6, 6])

    right = in_turn(made({"kind": "gentle", "alpha": 1.0}, n=16), [1.0] * 16, 1.0, 2.0)
    np.testing.assert_allclose(right[:3], [2, 1, 0.5])
    assert right[-1] == 2e-3

    still = made({"kind": "gentle", "alpha": 1.0}, n=3, bias=False)
    kaboost.learn_many(still, [[0.0]], [1])
    np.testing.assert_array_equal(in_turn(made("gentle"), [1e-300, 0, 0], 1.0)[0], 1.0)


def test_the_loss_is_exponential():
    """It need not be named; another one is refused; the probability is s(2F)."""
    for task in (None, "binary"):
        full = kaboost.normalise_spec({"rule": "gentle"}, task)
        assert full["loss"]["kind"] == "exponential"
    with pytest.raises(
        kaboost.ModelError, match="gentle supports only certain losses; take exponential"
    ):
        made("gentle", loss="logistic")

    predicted = kaboost.predictions(made("gentle"), np.array([[0.3]]))[0, 0]
    assert predicted == pytest.approx(1 / (1 + math.exp(-0.6)), rel=1e-14)


def test_prefixes_are_smaller_boosters():
    """Learners look back only: prefix k of N learners is what k learners alone say."""
    X, u = stream_c()
    whole = kaboost.build({"rule": "gentle", "bank": {**CYCLIC, "n": 6}}, d=6)
    kaboost.learn_many(whole, X[:500], u[:500])
    alone = kaboost.build({"rule": "gentle", "bank": {**CYCLIC, "n": 3}}, d=6)
    kaboost.learn_many(alone, X[:500], u[:500])

    np.testing.assert_allclose(
        kaboost.prefixes_many(whole, X[500:])[:, 3],
        kaboost.predict_many(alone, X[500:]),
        rtol=1e-12,
    )


def test_alpha_zero_is_a_plain_ensemble():
    """Specification, 9.11: every learner is what it would be alone."""
    X, u = stream_c()
    rule = {"kind": "gentle", "alpha": 0.0}
    bank = {**CYCLIC, "n": 6}
    booster = kaboost.build({"rule": rule, "bank": bank}, d=6)
    kaboost.learn_many(booster, X[:300], u[:300])
    for j in range(6):
        alone = kaboost.build({"rule": rule, "bank": {**CYCLIC, "n": 1}}, d=1)
        kaboost.learn_many(alone, X[:300, j : j + 1], u[:300])
        assert alone.bank.w[0, 0, 0] == booster.bank.w[0, j, j]
