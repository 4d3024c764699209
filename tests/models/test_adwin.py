"""ADWIN against River's; bagging that replaces its worst learner."""

from __future__ import annotations

import numpy as np
import pytest
from river.drift import ADWIN

import kaboost
from kaboost.models.rules.adwin import adwin, reset, update, window_mean
from kaboost.models.state.tree import to_arrays
from tests.naive.adwin_bag import Adwin as Naive


def errors(seed):
    """A stream of 0/1 errors whose rate changes seven times."""
    r = np.random.default_rng(seed)
    parts = [r.random(int(r.integers(100, 3000))) < rate for rate in r.random(8)]
    return np.concatenate(parts).astype(float)


def numbers(seed):
    """Normal numbers whose mean changes."""
    return np.random.default_rng(seed).normal(size=6000) + np.repeat([0.0, 1.0, 0.0, 0.3], 1500)


@pytest.mark.parametrize("delta", [0.002, 0.2])
@pytest.mark.parametrize("stream", [errors(0), errors(1), errors(2), errors(3), numbers(4)])
def test_detects_where_river_does(stream, delta):
    """Changes at the same events, the same estimate after every event."""
    oracle, ours = ADWIN(delta=delta), adwin(3, delta)
    expected, actual = [], []
    for k, value in enumerate(stream):
        oracle.update(value)
        if oracle.drift_detected:
            expected.append(k)
        if update(ours, 1, value):
            actual.append(k)
        assert window_mean(ours, 1) == pytest.approx(oracle.estimation, rel=1e-9, abs=1e-12)

    assert len(expected) > 2
    assert actual == expected
    assert ours.width[0] == ours.width[2] == 0


def test_naive_window():
    """The plain list of all values changes at the same events."""
    stream, ours, naive = errors(5)[:1500], adwin(1, 0.01), Naive(0.01)
    for value in stream:
        assert update(ours, 0, value) == naive.update(value)
        assert window_mean(ours, 0) == pytest.approx(naive.estimate, rel=1e-9)


def test_rows_hold_at_most_five_buckets():
    """An exponential histogram: the window is the sum of its buckets."""
    ours = adwin(1, 1e-9)
    for k in range(5000):
        update(ours, 0, float(k % 2))

    assert ours.held.max() == 5
    assert ours.width[0] == 5000 == (ours.held[0] * 2.0 ** np.arange(len(ours.held[0]))).sum()
    assert ours.totals.sum() == ours.total[0] == 2500


def test_clear_is_fresh():
    """A cleared detector is as one that has seen nothing."""
    ours, fresh = adwin(2, 0.002), adwin(2, 0.002)
    for value in errors(6)[:900]:
        update(ours, 0, value)
    reset(ours, 0)

    for one, other in zip(ours[1:], fresh[1:], strict=True):
        np.testing.assert_array_equal(one, other)


def bag(n=3, lr=0.005, **bank):
    bank = {"kind": "linear", "n": n, "step": "sgd", "lr": lr, **bank}
    return kaboost.build({"rule": "adwin_bag", "bank": bank, "seed": 4}, d=3)


def turning(seed=0, half=800):
    """A concept that turns round halfway."""
    X = np.random.default_rng(seed).normal(size=(2 * half, 3))
    u = np.where(X[:, 0] + 0.5 * X[:, 1] >= 0, 1, -1)
    u[half:] *= -1
    return X, u


def test_a_turned_concept_is_met_with_fresh_learners():
    """Slow learners are replaced after the turn, so the bag recovers before plain bagging does."""
    X, u = turning()
    booster = bag()
    wrong = (kaboost.learn_many(booster, X, u)[:, 0] >= 0) != (u > 0)
    plain = kaboost.build(
        {"rule": "oza_bag", "bank": {"kind": "linear", "n": 3, "step": "sgd", "lr": 0.005}}, d=3
    )
    slow = (kaboost.learn_many(plain, X, u)[:, 0] >= 0) != (u > 0)

    assert booster.rule.renewed > 0
    assert wrong[800:].sum() < 0.92 * slow[800:].sum()


def test_the_worst_learner_is_the_one_replaced():
    """The largest estimated error goes, its detector with it; the others stay."""
    booster = bag(n=3, lr=1e-9, bias=True)
    booster.bank.w[0, 3] = 1.0, 0.9, -1.0  # the last says the other class
    X = np.zeros((640, 3))
    u = np.concatenate([np.ones(320), -np.ones(320)])
    u[:320:4] = -1
    for k in range(640):
        kaboost.learn_many(booster, X[k : k + 1], u[k : k + 1])
        if booster.rule.renewed > 0:
            break

    assert booster.rule.renewed == 1
    worst = int(booster.bank.w[0, 3].__abs__().argmin())
    assert abs(booster.bank.w[0, 3, worst]) < 1e-6
    assert booster.rule.detectors.width[worst] == 0
    assert (np.delete(booster.rule.detectors.width, worst) > 0).all()


@pytest.mark.parametrize(
    "bank",
    [
        {"kind": "linear", "step": "nag"},
        {"kind": "linear", "step": "sgd", "lr": 0.1},
        {"kind": "nets", "optimiser": "adam", "lr": 0.01},
        {"kind": "nets", "optimiser": "sgd", "lr": 0.1, "hidden": 3},
    ],
)
def test_reset_learners_are_new(bank):
    """Every array of a reset learner is that of a new one, random weights within their bounds."""
    spec = {"rule": "adwin_bag", "bank": {**bank, "n": 5}}
    booster, fresh = kaboost.build(spec, d=3), kaboost.build(spec, d=3)
    arrays, initial = to_arrays(booster.bank), to_arrays(fresh.bank)
    for array in arrays.values():
        array[...] = 7  # as no new learner has it
    before = {field: np.copy(array) for field, array in arrays.items()}
    kaboost.models.verbs.reset_learner(booster.bank, 2, booster.rule.feed.state)

    for field, was in before.items():
        now, new = arrays[field], initial[field]
        if np.ndim(was) == 0 or was.shape[-1] != 5:
            np.testing.assert_array_equal(now, was)
            continue
        np.testing.assert_array_equal(np.delete(now, 2, -1), np.delete(was, 2, -1))
        if field in ("W1", "W2"):
            assert (now[..., 2] != was[..., 2]).any()
            assert abs(now[..., 2]).max() <= 1.0
        else:
            np.testing.assert_array_equal(now[..., 2], new[..., 2])
