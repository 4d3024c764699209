"""The averaged hypothesis: learned by the iterate, served by the mean of all hypotheses."""

from __future__ import annotations

import numpy as np
import pytest

import kaboost
from tests.models.test_reference import linear, stream_r


def spec(step="sgd", **rule):
    rule = {"kind": "sgb", "eta": 0.5, "y0": 0.0, **rule}
    return {"rule": rule, "bank": linear(3, step, 0.05), "loss": "squared"}


def weights_by_event(X, z, w):
    """The weights before every event of positive importance, of a bank without an average."""
    booster, actual = kaboost.build(spec(), d=5), []
    for k in range(len(X)):
        if w[k] > 0:
            actual.append(booster.bank.w.copy())
        kaboost.learn_many(booster, X[k : k + 1], z[k : k + 1], w[k : k + 1])
    return actual


def test_the_mean_of_all_hypotheses_is_served():
    """wbar is the mean of the weights before each event; while learning the iterate scores."""
    X, z = (a[:80] for a in stream_r(0.1))
    w = np.where(np.arange(80) % 7 == 3, 0.0, 2.0)
    plain, booster = (
        kaboost.build(spec(), d=5),
        kaboost.build(spec(averaged=True), d=5),
    )
    scores = kaboost.learn_many(booster, X, z, w)
    actual = weights_by_event(X, z, w)

    np.testing.assert_array_equal(scores, kaboost.learn_many(plain, X, z, w))
    np.testing.assert_allclose(booster.bank.mean, np.mean(actual, axis=0), rtol=1e-12)
    served = -0.5 * np.einsum("mjn,j->m", np.mean(actual, axis=0), X[0])
    np.testing.assert_allclose(kaboost.predict_many(booster, X[:1])[0], served, rtol=1e-12)


def test_both_losses_are_recorded():
    """Progress has the loss of the iterate and of the average, before each event is learned."""
    X, z = (a[:80] for a in stream_r(0.1))
    booster, total = kaboost.build(spec(averaged=True), d=5), 0.0
    for k in range(80):
        total += 0.5 * (kaboost.predict_many(booster, X[k : k + 1])[0, 0] - z[k]) ** 2
        kaboost.learn_many(booster, X[k : k + 1], z[k : k + 1])

    assert booster.progress.averaged_loss_sum == pytest.approx(total, rel=1e-12)
    assert booster.progress.averaged_loss_sum != pytest.approx(booster.progress.loss_sum, rel=0.01)


def test_half_life():
    """An average that forgets: a hypothesis weighs half as much after so many events."""
    X, z = (a[:40] for a in stream_r(0.1))
    booster = kaboost.build(spec(avg_halflife=5), d=5)
    kaboost.learn_many(booster, X, z)
    share, mean = 1 - 2 ** (-1 / 5), 0.0
    for k, w in enumerate(weights_by_event(X, z, np.ones(40))):
        mean = mean + max(share, 1 / (k + 1)) * (w - mean)

    np.testing.assert_allclose(booster.bank.mean, mean, rtol=1e-12)


@pytest.mark.parametrize("step", ["ogd", "adagrad", "adam", "ftrl", "invariant"])
def test_other_steps_can_be_averaged(step):
    """Any step whose predictions are w x goes with an average."""
    X, z = (a[:60] for a in stream_r(0.1))
    given = spec(averaged=True)
    given["bank"] = {"kind": "linear", "n": 3, "step": step, "bias": False}
    booster = kaboost.build(given, d=5)
    scores = kaboost.learn_many(booster, X, z)
    given["rule"] = given["rule"] | {"averaged": False}

    np.testing.assert_array_equal(scores, kaboost.learn_many(kaboost.build(given, d=5), X, z))
    assert np.isfinite(kaboost.predict_many(booster, X)).all()


def test_what_cannot_be_averaged_is_refused():
    """nag rescales its weights, nets are not linear in theirs, two averages are one too many."""
    nets = {"rule": {"kind": "sgb", "averaged": True}, "bank": "nets", "loss": "squared"}
    for given, reason in (
        (spec("nag", averaged=True), "nag, which rescales .*; take another step"),
        (nets, "linear in their weights; take bank linear"),
        (spec(averaged=True, avg_halflife=9), "two averages; give one"),
    ):
        with pytest.raises(kaboost.ModelError, match=reason):
            kaboost.build(given, d=5)
