"""Oza's online boosting and bagging: weights, votes, classes, numbers."""

from __future__ import annotations

import math

import numpy as np
import pytest

import kaboost
from tests.models.reference_streams import stream_c, stream_m, stream_r
from tests.models.rule_micro import in_turn, made

LINEAR = {"kind": "linear", "step": "sgd", "lr": 0.1}


def test_boost_micro():
    """10.6: correct, wrong, correct; votes, of which a negative one is 0."""
    booster = made({"kind": "oza_boost", "feed": "weight"}, n=4)
    booster.rule.sc[:] = 3, 2, 5, 1
    booster.rule.sw[:] = 1, 2, 1, 1
    W = in_turn(booster, [1.0, -1.0, 1.0, 1.0], 1.0)

    np.testing.assert_allclose(W, [1, 0.625, 0.5505952381, 0.3248954743], atol=1e-10)
    np.testing.assert_allclose(booster.rule.sc[:3], [4, 2, 5.5505952381], atol=1e-10)
    np.testing.assert_allclose(booster.rule.sw[:3], [1, 2.625, 1], atol=1e-10)
    np.testing.assert_allclose(booster.rule.votes[:3], [1.3862943611, 0, 1.7139051722], atol=1e-10)


def test_boost_starts_at_the_importance():
    """The first learner's weight is the event's; a long run of halvings ends without harm."""
    booster = made({"kind": "oza_boost", "feed": "weight"}, n=1200)
    W = in_turn(booster, [1.0] * 1200, 1.0, 2.0)
    in_turn(booster, [1.0] * 1200, 1.0, 2.0)

    np.testing.assert_allclose(W[:3], [2, 1, 0.5])
    assert W[-1] == 0.0
    assert np.isfinite(booster.rule.votes).all()


def test_votes_are_weighted_and_equal_before_any():
    """Prefixes are weighted mean votes; while all weights are 0, votes are equal."""
    booster = made("oza_boost", n=4)
    booster.bank.w[0, 1] = 1.0, -1.0, 0.0, -1.0
    np.testing.assert_allclose(
        kaboost.prefixes_many(booster, [[0.0]])[0, :, 0], [0, 1, 0, 1 / 3, 0], atol=1e-15
    )
    booster.rule.votes[:] = 0.0, 2.0, 0.0, 1.0
    np.testing.assert_allclose(
        kaboost.prefixes_many(booster, [[0.0]])[0, :, 0], [0, 1, -1, -1, -1], atol=1e-15
    )
    booster.rule.votes[:] = 1.0, 2.0, 0.0, 1.0
    np.testing.assert_allclose(
        kaboost.prefixes_many(booster, [[0.0]])[0, :, 0], [0, 1, -1 / 3, -1 / 3, -0.5], atol=1e-15
    )


def test_perfect_learners_have_a_finite_vote():
    """An error of 0 counts as 1e-10."""
    booster = made({"kind": "oza_boost", "feed": "weight"}, n=1)
    in_turn(booster, [1.0], 1.0)

    assert booster.rule.votes[0] == pytest.approx(math.log((1 - 1e-10) / 1e-10))


@pytest.mark.parametrize(("rate", "mean"), [(1.0, 1.0), (2.5, 2.5)])
def test_poisson_feed(rate, mean):
    """Learners see an event a Poisson number of times, of mean and variance rate."""
    booster = made({"kind": "oza_bag", "rate": rate}, n=50)
    fed = np.array([in_turn(booster, [1.0] * 50, 1.0) for _ in range(200)])

    assert fed.mean() == pytest.approx(mean, rel=0.05)
    assert fed.var() == pytest.approx(mean, rel=0.08)
    np.testing.assert_array_equal(fed, np.floor(fed))
    assert booster.rule.feed.capped == 0


def test_a_large_rate_is_capped_and_counted():
    """Beyond 100 the draw's rate is 100."""
    booster = made({"kind": "oza_bag"}, n=20)
    fed = in_turn(booster, [1.0] * 20, 1.0, 1e15)

    assert fed.mean() == pytest.approx(100, rel=0.1)
    assert booster.rule.feed.capped == 20


def test_bag_of_weight_one_is_a_plain_ensemble():
    """Specification, 9.11: fed by weight, learners are alike and say what one alone says."""
    X, u = stream_c()
    rule = {"kind": "oza_bag", "feed": "weight"}
    three = kaboost.build({"rule": rule, "bank": {**LINEAR, "n": 3}}, d=6)
    alone = kaboost.build({"rule": rule, "bank": {**LINEAR, "n": 1}}, d=6)

    np.testing.assert_array_equal(
        kaboost.learn_many(three, X[:300], u[:300]), kaboost.learn_many(alone, X[:300], u[:300])
    )


@pytest.mark.parametrize("kind", ["oza_boost", "oza_bag"])
def test_prefixes_are_smaller_boosters(kind):
    """Fed by weight, prefix k of N learners is what k alone say (with draws, one generator serves
    all learners, as in the reference values, so a smaller booster draws otherwise).
    """
    X, u = stream_c()
    rule, bank = {"kind": kind, "feed": "weight"}, {**LINEAR, "features": "cyclic"}
    whole = kaboost.build({"rule": rule, "bank": {**bank, "n": 6}}, d=6)
    alone = kaboost.build({"rule": rule, "bank": {**bank, "n": 4}}, d=6)
    for booster in (whole, alone):
        kaboost.learn_many(booster, X[:400], u[:400])

    np.testing.assert_allclose(
        kaboost.prefixes_many(whole, X[400:900])[:, 4],
        kaboost.predict_many(alone, X[400:900]),
        rtol=1e-9,
        atol=1e-12,
    )


@pytest.mark.parametrize("kind", ["oza_boost", "oza_bag", "adwin_bag"])
def test_several_classes(kind):
    """Votes are shares of classes; probabilities sum to 1; three classes are learned."""
    X, k = (part[:600] for part in stream_m())
    booster = kaboost.build(
        {"rule": kind, "bank": {**LINEAR, "n": 4}, "loss": "softmax", "seed": 3}, d=4, m=3
    )
    scores = kaboost.learn_many(booster, X, k)
    predicted = kaboost.predictions(booster, scores)
    prefixes = kaboost.prefixes_many(booster, X[:50])

    assert (scores.argmax(axis=1) != k).sum() < 150
    np.testing.assert_allclose(predicted.sum(axis=1), 1.0, rtol=1e-12)
    np.testing.assert_array_equal(predicted.argmax(axis=1), scores.argmax(axis=1))
    np.testing.assert_allclose(prefixes[:, 1:].sum(axis=2), 1.0, rtol=1e-12)
    np.testing.assert_array_equal(prefixes[:, 0], 0.0)
    expected = -np.log(predicted[np.arange(len(k)), k])
    assert booster.progress.mean_loss == pytest.approx(expected.mean(), rel=1e-12)


def test_bagging_of_numbers():
    """Regression serves the mean of the learners; prefixes are running means."""
    X, z = (part[:800] for part in stream_r(0.1))
    booster = kaboost.build({"rule": "oza_bag", "bank": {**LINEAR, "n": 5}, "loss": "squared"}, d=5)
    kaboost.learn_many(booster, X, z)
    single = X[:20] @ booster.bank.w[0, :5] + booster.bank.w[0, 5]

    assert booster.progress.mean_loss < 0.3
    np.testing.assert_allclose(
        kaboost.prefixes_many(booster, X[:20])[:, 1:, 0],
        np.cumsum(single, axis=1) / np.arange(1, 6),
        rtol=1e-9,
        atol=1e-12,
    )


@pytest.mark.parametrize(
    ("rule", "loss"),
    [("oza_boost", "squared"), ("oza_boost", "hinge"), ("oza_bag", "poisson"),
     ("adwin_bag", "squared")],
)  # fmt: skip
def test_losses_that_do_not_fit(rule, loss):
    """Votes have their own loss; a mean of numbers has no other link than the identity."""
    with pytest.raises(kaboost.ModelError, match=f"{rule} supports only certain losses"):
        made(rule, loss=loss)


def test_task_names_the_loss():
    """Without a loss, bagging takes the task's."""
    expected = {"binary": "logistic", "multiclass": "softmax", "regression": "squared"}
    actual = {t: kaboost.normalise_spec({"rule": "oza_bag"}, t)["loss"]["kind"] for t in expected}

    assert actual == expected


def test_enormous_labels_are_clipped_and_counted():
    """Learners are fed at most +-1e6; the booster stays finite."""
    booster = made("oza_bag", loss="squared", lr=0.1)
    kaboost.learn_many(booster, [[1.0]] * 4, [1e308, -1e308, 1.0, 1e308])

    assert booster.progress.clipped == 9
    assert abs(booster.bank.w).max() <= 1e6
