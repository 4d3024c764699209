"""Hoeffding trees: they grow and answer as the naive twin's do, and keep what banks promise."""

from __future__ import annotations

import numpy as np
import pytest

import kaboost
from kaboost.models.kernels.random import generator
from kaboost.models.types import LOGISTIC, SQUARE
from kaboost.models.verbs import learner_view, learning_only, reset_learner
from tests.models.bank_pair import bytes_of, drive, drive_twin, make, steps, twin_of

SMALL = {"kind": "hoeffding", "n": 3, "warmup": 20, "grace": 10, "bins": 8, "delta": 0.1}
SMALL["tie"] = 0.4
SETTINGS = [
    ({}, 1),
    ({}, 3),
    ({"leaf": "majority", "split": "gini"}, 1),
    ({"leaf": "bayes", "split": "gini"}, 3),
    ({"leaf": "bayes", "features": "sqrt"}, 1),
    ({"max_leaves": 3}, 1),
    ({"depth": 1}, 3),
    ({"grace": 2, "tie": 1.0, "max_leaves": 100}, 1),
    ({"warmup": 1}, 1),
]


def classes(events, m, N, seed=1):
    """Features, +-1 targets (B, m, N), weights with zeros."""
    X, z, weights = steps(events, max(m, 1), N, seed)
    if m == 1:
        return X, np.where(z > 1.2, 1.0, -1.0), weights
    return X, np.where(z == z.max(axis=1, keepdims=True), 1.0, -1.0), weights


def splits(bank):
    return int((bank.feat >= 0).sum())


@pytest.mark.parametrize("mode", [SQUARE, LOGISTIC])
@pytest.mark.parametrize(("words", "m"), SETTINGS, ids=str)
def test_twin(words, m, mode):
    """Every answer is the naive tree's, before, while and after it splits."""
    own = {**SMALL, **words}
    bank, task = make(own, 4, m), classes(150, m, 3)
    predicted = drive(bank, *task, mode)

    np.testing.assert_allclose(predicted, drive_twin(twin_of(own, 4, m), *task, mode), 1e-9, 1e-11)
    assert splits(bank) >= 3
    assert (abs(predicted) <= 1.0).all()


def test_limits():
    """A tree has no more leaves and no deeper ones than it may."""
    own = {**SMALL, "grace": 1, "tie": 1.0}
    few, flat = make({**own, "max_leaves": 3}, 4, 1), make({**own, "depth": 1}, 4, 1)
    X, targets, weights = classes(200, 1, 3)
    targets[::3] *= -1.0  # no leaf is pure
    for bank in (few, flat):
        drive(bank, X, targets, weights, LOGISTIC)

    assert (few.feat >= 0).sum(axis=1).tolist() == [2, 2, 2]
    assert (flat.feat >= 0).sum(axis=1).tolist() == [1, 1, 1]


def test_adaptive_leaf_follows_the_better_way():
    """Where features matter and the tree may not split, naive Bayes answers; else the majority."""
    own = {**SMALL, "n": 1, "delta": 1e-12, "tie": 0.0}
    X, targets, _ = classes(300, 1, 1)
    bank = make(own, 4, 1)
    noise = make(own, 4, 1)
    weights = np.ones((300, 1))
    predicted = drive(bank, X, targets, weights, LOGISTIC)
    drive(noise, X, np.where(np.arange(300)[:, None, None] % 5, 1.0, -1.0), weights, LOGISTIC)

    assert bank.right[0, 0, 1] > bank.right[0, 0, 0]
    assert noise.right[0, 0, 1] <= noise.right[0, 0, 0]
    wrong = np.sign(predicted[200:]) != targets[200:]
    assert wrong.mean() < 0.2


def test_many_features_do_not_underflow():
    """Naive Bayes over a thousand features is still a probability."""
    r = np.random.default_rng(1)
    own = {**SMALL, "n": 1, "leaf": "bayes", "max_leaves": 1}
    bank, u = make(own, 1000, 1), np.where(np.arange(60) % 2, 1.0, -1.0)
    X = r.normal(size=(60, 1000)) + u[:, None]
    predicted = drive(bank, X, u[:, None, None], np.ones((60, 1)), LOGISTIC)

    assert np.isfinite(predicted).all()
    assert (np.sign(predicted[30:, 0, 0]) == u[30:]).all()


@pytest.mark.parametrize("events", [7, 20, 21, 90])
def test_taught_in_turn(events):
    """The sequential pair leaves every byte as the whole bank does, in the warm-up and after."""
    task = classes(events, 1, 3)
    whole, pair = make(SMALL, 4, 1), make(SMALL, 4, 1)
    predicted = drive(whole, *task, LOGISTIC)

    assert predicted.tobytes() == drive(pair, *task, LOGISTIC, in_turn=1).tobytes()
    assert bytes_of(whole) == bytes_of(pair)


def test_a_learner_of_weight_zero_is_untouched():
    """No array of a learner moves by an event it does not learn."""
    X, targets, weights = classes(80, 1, 3)
    weights[:, 1] = 0.0
    bank = make(SMALL, 4, 1)
    drive(bank, X, targets, weights, LOGISTIC)
    shared = {f"binning.{name}" for name in bank.binning._fields}
    now, fresh = bytes_of(learner_view(bank, 1)), bytes_of(learner_view(make(SMALL, 4, 1), 1))

    assert splits(bank) >= 2
    assert {k: now[k] for k in now.keys() - shared} == {k: fresh[k] for k in fresh.keys() - shared}


def test_renew():
    """A renewed learner is a fresh one; the others stay."""
    bank = make({**SMALL, "features": 0.5}, 4, 1)
    drive(bank, *classes(90, 1, 3), LOGISTIC)
    others = [bytes_of(learner_view(bank, i)) for i in (0, 2)]
    reset_learner(bank, 1, generator(3))

    assert [bytes_of(learner_view(bank, i)) for i in (0, 2)] == others
    fresh = learner_view(make(SMALL, 4, 1), 1)
    for name in ("feat", "left", "counts", "right", "slot", "c", "depth", "nodes"):
        np.testing.assert_array_equal(getattr(learner_view(bank, 1), name), getattr(fresh, name))
    assert not bank.histograms.sums[1].any()


def test_serving_arrays():
    """A snapshot holds histograms only where naive Bayes reads them."""
    by_majority, by_bayes = make({**SMALL, "leaf": "majority"}, 4, 1), make(SMALL, 4, 1)
    assert "sums" in learning_only(by_majority.histograms)
    assert "sums" not in learning_only(by_bayes.histograms)
    assert "held" in learning_only(by_bayes.binning)


def test_only_under_rules_that_learn_classes():
    """Rules that ask for numbers are refused with what to take; so is a state beyond two GiB."""
    with pytest.raises(kaboost.ModelError, match=r"sgb needs numbers; take bank trees, or one"):
        kaboost.build({"bank": "hoeffding", "rule": "sgb", "loss": "logistic"}, 4)
    context = {"rule": {"kind": "oza_bag"}, "d": 4, "m": 1}
    context |= {"loss": {"kind": "squared"}, "traits": kaboost.LOSSES["squared"].traits}
    bank = kaboost.normalise_spec({"bank": "hoeffding", "loss": "squared"})["bank"]
    reject_reason = kaboost.BANKS["hoeffding"].reject_reason

    assert "loss squared is for numbers" in reject_reason({**context, "bank": bank})
    context |= {"loss": {"kind": "logistic"}, "traits": kaboost.LOSSES["logistic"].traits}
    assert reject_reason({**context, "bank": bank}) is None
    assert "GiB" in reject_reason({**context, "bank": {**bank, "max_leaves": 4000}, "d": 500})
