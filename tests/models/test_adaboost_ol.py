"""AdaBoost.OL: coefficients, experts, and what is drawn where."""

from __future__ import annotations

import numpy as np
import pytest

import kaboost
from kaboost.models.verbs import combine, combine_served
from tests.boosters import state_bytes
from tests.contracts import checks, subjects
from tests.models.reference_streams import stream_c
from tests.models.rule_micro import at_once, made

CYCLIC = {"kind": "linear", "step": "sgd", "lr": 0.5, "features": "cyclic"}
SAMPLED = {"kind": "adaboost_ol", "vote": "sampled"}


def micro(**rule):
    booster = made({"kind": "adaboost_ol", **rule})
    booster.rule.alpha[:] = 0.5, -0.2, 1.9
    booster.rule.t[()] = 3
    return booster


def test_micro():
    """10.6: weights, new coefficients; all experts are wrong, so their weights stay."""
    booster = micro()
    F, s, W = at_once(booster, [1.0, -1.0, 1.0], -1.0)

    np.testing.assert_allclose(W, [0.5, 0.6224593312, 0.6681877722], atol=1e-10)
    np.testing.assert_allclose(
        booster.rule.alpha, [-0.7449186624, 1.1363755443, 0.0382768407], atol=1e-10
    )
    np.testing.assert_allclose(booster.rule.v, 1 / 3, rtol=1e-15)
    np.testing.assert_allclose(F, [0, 1, 1, 1])
    assert s == 1.0
    assert booster.rule.t == 4


def test_experts():
    """A wrong expert keeps e^-1 of its weight; a floor lets it come back."""
    booster = micro()
    booster.rule.alpha[:] = 0.5, 0.8, 0.1
    at_once(booster, [1.0, -1.0, 1.0], 1.0)
    expected = np.array([1.0, np.exp(-1), np.exp(-1)])
    np.testing.assert_allclose(booster.rule.v, expected / expected.sum(), rtol=1e-14)

    booster.rule.v[:] = 1.0, 1e-300, 1e-300
    booster.rule.alpha[:] = 0.5, -0.8, 0.1
    at_once(booster, [1.0, 1.0, 1.0], 1.0)
    np.testing.assert_array_equal(booster.rule.v, [1.0, 1e-300, 1e-300])


def test_importance_scales_weights_and_steps():
    """Twice the importance: twice the weights, twice the step; t counts one event."""
    single, double = micro(), micro()
    start = single.rule.alpha.copy()
    once, twice = (
        at_once(booster, [1.0, -1.0, 1.0], -1.0, w) for booster, w in ((single, 0.1), (double, 0.2))
    )

    np.testing.assert_allclose(twice[2], 2 * once[2], rtol=1e-14)
    np.testing.assert_allclose(
        double.rule.alpha - start, 2 * (single.rule.alpha - start), rtol=1e-12
    )
    assert single.rule.t == double.rule.t == 4


def test_coefficients_are_clipped():
    """A huge importance ends at +-2."""
    booster = micro()
    at_once(booster, [1.0, -1.0, 1.0], -1.0, 1e15)

    np.testing.assert_array_equal(booster.rule.alpha, [-2, 2, -2])


def test_t_max():
    """Steps shrink no more after t_max events."""
    capped, free = micro(t_max=4), micro()
    free.rule.t[()] = 3
    capped.rule.t[()] = 999
    at_once(free, [1.0, -1.0, 1.0], -1.0)
    at_once(capped, [1.0, -1.0, 1.0], -1.0)

    np.testing.assert_array_equal(capped.rule.alpha, free.rule.alpha)


def test_full_vote():
    """AdaBoost.OL.W says S_N, prefixes S_i, and its probability is that of the logistic loss."""
    booster = made("adaboost_ol_w")
    booster.rule.alpha[:] = 0.5, -0.2, 1.9
    F, s, _ = at_once(booster, [1.0, -1.0, -1.0], -1.0)

    np.testing.assert_allclose(F, [0, 0.5, 0.7, -1.2])
    assert s == F[-1]
    predicted = kaboost.predictions(booster, np.array([[-1.2]]))[0, 0]
    assert predicted == pytest.approx(1 / (1 + np.exp(1.2)), rel=1e-14)


@pytest.mark.parametrize("kind", ["adaboost_ol", "adaboost_ol_w"])
def test_prefixes_are_smaller_boosters(kind):
    """Specification, 9.7: prefix k of N learners is what k learners alone say."""
    X, u = stream_c()
    whole = kaboost.build({"rule": kind, "bank": {**CYCLIC, "n": 6}}, d=6)
    kaboost.learn_many(whole, X[:500], u[:500])
    prefixes = kaboost.prefixes_many(whole, X[500:600])
    for n in (1, 3, 6):
        alone = kaboost.build({"rule": kind, "bank": {**CYCLIC, "n": n}}, d=6)
        kaboost.learn_many(alone, X[:500], u[:500])
        predicted = kaboost.predict_many(alone, X[500:600])
        np.testing.assert_allclose(prefixes[:, n], predicted, rtol=1e-9, atol=1e-12)


def test_rejection_feeds_weights_in_the_mean():
    """feed: reject gives importance or nothing, with the weight as its chance."""
    booster = micro(feed="reject")
    start = booster.rule.alpha.copy()
    fed = []
    for _ in range(4000):
        booster.rule.alpha[:] = start
        fed.append(at_once(booster, [1.0, -1.0, 1.0], -1.0, 2.0)[2])

    assert set(np.unique(fed)) == {0.0, 2.0}
    np.testing.assert_allclose(np.mean(fed, axis=0) / 2, [0.5, 0.622, 0.668], atol=0.03)


def sampled(n=5):
    bank = {**CYCLIC, "n": n, "features": "all"}
    return subjects.make(SAMPLED, bank, {"kind": "logistic"}, 1)


@pytest.mark.parametrize(
    "check",
    [checks.check_twin, checks.check_batching, checks.check_save_load_continue,
     checks.check_read_only_serving, checks.check_size_is_constant],
)  # fmt: skip
def test_sampled_vote_keeps_the_contract(check):
    """The draws are state: any batching, any restart goes on with the same sequence."""
    subject = sampled()
    check(subject, checks.whole_stream(subject))


def test_serving_draws_nothing():
    """A pure prediction takes its draw from the event: twice the same, the state as it was, and
    over many events every expert answers as often as its weight says.
    """
    booster = kaboost.build({"rule": SAMPLED, "bank": {**CYCLIC, "n": 6}, "seed": 5}, d=6)
    X, u = stream_c()
    kaboost.learn_many(booster, X[:1000], u[:1000])
    booster.rule.v[:] = 1 / 6  # one expert would answer nearly always
    before = state_bytes(booster)
    predicted = kaboost.predict_many(booster, X)
    again = kaboost.predict_many(booster, X)
    expected = kaboost.prefixes_many(booster, X)[:, -1]

    assert set(np.unique(predicted)) == {-1.0, 1.0}
    np.testing.assert_array_equal(predicted, again)
    assert before == state_bytes(booster)
    assert abs((predicted - expected).mean()) < 0.03
    split = abs(expected[:, 0]) < 0.9
    assert split.sum() > 300
    assert predicted[split, 0].mean() == pytest.approx(expected[split, 0].mean(), abs=0.1)


def test_the_event_itself_draws_the_expert():
    """Events with equal weak predictions draw different experts, by their weights."""
    booster = made({"kind": "adaboost_ol", "vote": "sampled"})
    booster.bank.w[0, -1] = 1.0, -1.5, -1.0  # the bias alone
    booster.rule.alpha[:] = 1.0
    booster.rule.v[:] = 0.2, 0.3, 0.5  # they say +1, +1 (a sum of 0), -1
    X = np.random.default_rng(1).normal(size=(4_000, booster.shape[0]))

    assert kaboost.predict_many(booster, X).mean() == pytest.approx(0.0, abs=0.05)


def test_learning_draws_from_the_generator():
    """The score made while learning follows the draw in the state, the served one does not."""
    booster = made({"kind": "adaboost_ol", "vote": "sampled"})
    booster.rule.alpha[:] = 1.0, 1.0, 1.0
    booster.rule.v[:] = 0.2, 0.3, 0.5
    h, F, s = np.array([[1.0, -1.5, -1.0]]), np.empty((1, 4)), np.empty(1)
    actual = []
    for u in (0.0, 0.19, 0.3, 0.6, 0.999):
        booster.rule.drawn[()] = u
        combine(booster.rule, h, F, s, np.empty(0))
        actual.append(s[0])
        combine_served(booster.rule, h, F, s, np.array([0.5]))
        actual.append(s[0])

    assert actual[::2] == [1, 1, 1, -1, -1]  # experts 1, 1, 2 (a sum of 0 is +1), 3, 3
    assert len(set(actual[1::2])) == 1
