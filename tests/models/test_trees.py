"""Regression trees: they grow as the naive twin's do, whatever the settings, and keep what banks
promise.
"""

from __future__ import annotations

import numpy as np
import pytest

import kaboost
from kaboost.models.banks.histogram_trees.binning import bin_of, fit_edges
from kaboost.models.kernels.random import generator
from kaboost.models.types import LINEAR, LOGISTIC, SQUARE
from kaboost.models.verbs import learner_view, learning_only, reset_learner
from tests.boosters import restored
from tests.models.bank_pair import bytes_of, drive, drive_twin, make, steps, twin_of

SMALL = {"kind": "trees", "n": 3, "warmup": 20, "grace": 10, "bins": 8, "n_min": 3}
SETTINGS = [
    ({}, 1),
    ({}, 3),
    ({"split": "hoeffding"}, 1),
    ({"split": "hoeffding", "tie": 0.6, "delta": 1e-3}, 3),
    ({"rho": 0.9}, 1),
    ({"l1": 0.5, "lam": 0.1}, 3),
    ({"hist_cap": 15.0, "delta": 1e-3, "grace": 5}, 1),
    ({"features": "sqrt"}, 1),
    ({"features": 0.6, "depth": 1}, 3),
    ({"depth": 5, "n_min": 1, "delta": 0.5}, 1),
    ({"bound": 0.4}, 3),
]


def splits(bank):
    return int((bank.feat >= 0).sum())


@pytest.mark.parametrize("mode", [SQUARE, LINEAR, LOGISTIC])
@pytest.mark.parametrize(("words", "m"), SETTINGS, ids=str)
def test_twin(words, m, mode):
    """Every answer is the naive tree's, before, while and after it splits."""
    own = {**SMALL, **words}
    bank, task = make(own, 4, m), steps(150, m, 3)
    predicted = drive(bank, *task, mode)

    np.testing.assert_allclose(predicted, drive_twin(twin_of(own, 4, m), *task, mode), 1e-9, 1e-12)
    assert splits(bank) >= 3


def test_pool_holds_every_leaf():
    """Trees that split wherever they can, to the last place, never share a histogram."""
    own = {**SMALL, "depth": 3, "n_min": 1, "delta": 0.5, "split": "hoeffding", "tie": 1.0}
    own["grace"] = 2
    X, targets, weights = steps(400, 1, 3)
    bank = make(own, 4, 1)
    targets = targets + X[:, 3, None, None] + np.sin(5 * X[:, 2, None, None])
    predicted = drive(bank, X, targets, weights, SQUARE)

    expected = drive_twin(twin_of(own, 4, 1), X, targets, weights, SQUARE)
    np.testing.assert_allclose(predicted, expected, 1e-9, 1e-12)
    assert splits(bank) == 3 * 7


@pytest.mark.parametrize("events", [7, 20, 21, 90])
def test_taught_in_turn(events):
    """The sequential pair leaves every byte as the whole bank does, in the warm-up and after."""
    task = steps(events, 2, 3)
    whole, pair = make(SMALL, 4, 2), make(SMALL, 4, 2)
    predicted = drive(whole, *task, SQUARE)

    assert predicted.tobytes() == drive(pair, *task, SQUARE, in_turn=1).tobytes()
    assert bytes_of(whole) == bytes_of(pair)


def test_learned_twice():
    """A learner that takes every event twice, as Oza's rules may, counts each twice, in the warm-up
    too.
    """
    own = {**SMALL, "n": 1, "warmup": 4, "grace": 1e6}
    X, targets, weights = steps(8, 1, 1)
    twice, heavy = make(own, 4, 1), make(own, 4, 1)
    drive(heavy, X, targets, 2 * weights, SQUARE)
    drive(twice, X, targets, weights, SQUARE, in_turn=2)

    np.testing.assert_allclose(twice.v, heavy.v)
    np.testing.assert_allclose(
        twice.histograms.sums[..., [0, 2, 3]], heavy.histograms.sums[..., [0, 2, 3]]
    )
    np.testing.assert_allclose(2 * twice.histograms.sums[..., 1], heavy.histograms.sums[..., 1])
    assert heavy.histograms.sums.any()


def test_a_learner_of_weight_zero_is_untouched():
    """No array of a learner moves by an event it does not learn."""
    X, targets, weights = steps(80, 1, 3)
    weights[:, 1] = 0.0
    bank = make(SMALL, 4, 1)
    drive(bank, X, targets, weights, SQUARE)

    assert splits(bank) >= 2
    fresh = bytes_of(learner_view(make(SMALL, 4, 1), 1))
    shared = {f"binning.{name}" for name in bank.binning._fields}
    now = bytes_of(learner_view(bank, 1))
    assert {k: v for k, v in now.items() if k not in shared} == {
        k: v for k, v in fresh.items() if k not in shared
    }


@pytest.mark.parametrize("events", [10, 60])
def test_renew(events):
    """A reset learner equals a new one and samples its features again; the others do not change."""
    own = {**SMALL, "features": 0.5, "n": 4}
    bank = make(own, 4, 1)
    drive(bank, *steps(events, 1, 4), SQUARE)
    others = [bytes_of(learner_view(bank, i)) for i in (0, 1, 3)]
    reset_learner(bank, 2, generator(3))

    assert [bytes_of(learner_view(bank, i)) for i in (0, 1, 3)] == others
    histograms = bank.histograms
    assert histograms.sums[2].sum() == histograms.warmup[2].sum() == bank.n[2].sum() == 0.0
    assert (bank.feat[2] == -1).all()
    assert not bank.v[2].any()
    assert (np.diff(histograms.features[2]) > 0).all()


@pytest.mark.parametrize("cut", [10, 20, 45])
def test_goes_on_after_a_restore(cut):
    """Saved and restored in the warm-up, at its end and after it, all goes on bit for bit."""
    X, targets, _ = steps(90, 1, 1)
    spec = {"bank": SMALL, "rule": "sgb", "loss": "squared"}
    straight, first = (kaboost.build(spec, 4) for _ in range(2))
    kaboost.learn_many(straight, X, targets[:, 0, 0])
    kaboost.learn_many(first, X[:cut], targets[:cut, 0, 0])
    second = restored(first, spec)
    kaboost.learn_many(second, X[cut:], targets[cut:, 0, 0])

    assert bytes_of(straight.bank) == bytes_of(second.bank)
    assert splits(straight.bank) >= 3


def test_serving_arrays():
    """A snapshot holds paths and values alone."""
    booster = kaboost.build({"bank": SMALL, "loss": "squared"}, 4)
    kept = {name for name in kaboost.serving_arrays(booster) if name.startswith("bank.")}

    assert kept == {"bank.feat", "bank.cut", "bank.v"}
    assert set(learning_only(booster.bank.histograms)) == {"sums", "features", "warmup"}


def test_bins():
    """Edges are quantiles by inverse CDF, once; a value on an edge is below it; nan is last."""
    X = np.array([[5.0, 1.0, 0.0], [1.0, 1.0, 0.0], [3.0, 1.0, 9.0], [2.0, 1.0, 9.0]])
    edges, cuts = np.empty((3, 3)), np.zeros(3, np.int64)
    fit_edges(X, edges, cuts)

    assert cuts.tolist() == [3, 1, 2]
    np.testing.assert_array_equal(edges[0], [1.0, 2.0, 3.0])
    np.testing.assert_array_equal(edges[1:, :2], [[1.0, np.inf], [0.0, 9.0]])
    assert [bin_of(edges, cuts, 0, v) for v in (0.0, 1.0, 1.1, 3.0, 3.1, np.nan)] == [
        0, 0, 1, 2, 3, 4,
    ]  # fmt: skip


def test_defaults():
    """The Hoeffding test of a lone tree is stricter; the linear mode's bound is the rule's."""
    alone = {"kind": "trees", "n": 1, "split": "hoeffding"}
    filled = [
        kaboost.normalise_spec({"bank": bank, "loss": "squared"})["bank"]
        for bank in (alone, {**alone, "n": 5}, "trees")
    ]

    assert [(own["grace"], own["delta"]) for own in filled] == [
        (200.0, 1e-7), (50.0, 0.05), (50.0, 0.05),
    ]  # fmt: skip
    assert filled[0]["bound"] == 1.0


def test_too_large():
    """A state beyond two GiB is refused with its formula and what to take."""
    with pytest.raises(kaboost.ModelError, match=r"2\^\(depth-1\).* GiB.*take a smaller n"):
        kaboost.build({"bank": {"kind": "trees", "n": 300, "depth": 8}, "loss": "squared"}, 100)
