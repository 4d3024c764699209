"""What reboosted trees promise of whole streams: nothing is learned where nothing is to learn, and
what has changed is followed, early and late.
"""

import numpy as np
import pytest

from kaboost import Model
from kaboost.models.booster import learn_many
from kaboost.models.build import build
from kaboost.models.reboosted.state import INLINE
from tests.boosters import default_booster, log_losses

SPEC = {"bank": "reboosted_trees", "loss": "logistic"}


def sigmoid(s):
    """The probability of log-odds."""
    return 1.0 / (1.0 + np.exp(-s))


def test_no_label_leaks():
    """Labels that nothing foretells cost what a coin costs, or a little more."""
    r = np.random.default_rng(1)
    X, y = r.standard_normal((160_000, 10)), (r.random(160_000) < 0.5).astype(float)

    assert log_losses(default_booster(10, seed=0), X, y).mean() > np.log(2.0) - 0.001


def test_no_label_leaks_through_categories():
    """Nor do mean labels of a category of many values tell an event its own label."""
    r = np.random.default_rng(2)
    y = (r.random(20_000) < 0.5).astype(int)
    rows = [{"user": f"u{k}"} for k in r.integers(0, 5_000, len(y))]
    predicted = Model("binary", SPEC, {"user": "category"}).learn_many(rows, y)

    assert -np.log(predicted[np.arange(len(y)), y]).mean() > np.log(2.0) - 0.001


@pytest.mark.parametrize("at", [4_000, 100_000])
def test_an_abrupt_drift_is_followed(at):
    """1,500 events after the answer has turned round, the loss is within a tenth of what it was."""
    before, after = [], []
    for seed in range(3):
        r = np.random.default_rng(seed)
        X = r.standard_normal((at + 3_000, 10))
        turned = np.where(np.arange(len(X)) < at, 1.0, -1.0)
        y = turned * (X[:, 0] + 0.5 * X[:, 1] - 0.2) > 0.0
        y = (y ^ (r.random(len(y)) < 0.05)).astype(float)
        lost = log_losses(default_booster(10, seed=seed), X, y)
        before.append(lost[at - 2_000 : at].mean())
        after.append(lost[at + 1_500 : at + 3_000].mean())
        assert lost[at : at + 200].mean() > 1.3 * before[-1]  # or there was nothing to follow

    assert np.mean(after) < 1.1 * np.mean(before)


def turned(task, at, seed, n=3_000):
    """Features and labels whose rule turns round after `at` events; classes have no noise."""
    r = np.random.default_rng(seed)
    X = r.random((at + n, 10)) if task == "squared" else r.standard_normal((at + n, 10))
    sign = np.where(np.arange(len(X)) < at, 1.0, -1.0)
    if task == "logistic":
        return X, (sign * (X[:, 0] + 0.5 * X[:, 1] - 0.2) > 0.0).astype(float)
    f = 10.0 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20.0 * (X[:, 2] - 0.5) ** 2 + 10.0 * X[:, 3]
    return X, sign * (f + 5.0 * X[:, 4] - 14.0) + r.standard_normal(len(X))


def lost(loss, X, y, seed):
    """The log-loss or the absolute error of every event before it was learned."""
    if loss == "logistic":
        return log_losses(default_booster(X.shape[1], seed=seed), X, y)
    spec = {"bank": "reboosted_trees", "loss": loss, "seed": seed}
    return abs(learn_many(build(spec, X.shape[1]), X, y)[:, 0] - y)


@pytest.mark.parametrize("loss", ["logistic", "squared"])
@pytest.mark.parametrize("at", [4_000, 40_000])
def test_what_has_turned_round_is_not_learned_anew(loss, at):
    """Where the rule turns round, the stack turns with it: the 1,500 events after it cost a
    fifth less than they cost a model that has seen nothing else, and the next no more.
    """
    soon, later, fresh_soon, fresh_later = [], [], [], []
    for seed in range(3):
        X, y = turned(loss, at, seed)
        after, fresh = lost(loss, X, y, seed)[at:], lost(loss, X[at:], y[at:], seed)
        soon.append(after[:1_500].mean())
        later.append(after[1_500:].mean())
        fresh_soon.append(fresh[:1_500].mean())
        fresh_later.append(fresh[1_500:].mean())

    assert np.mean(soon) < 0.8 * np.mean(fresh_soon)
    assert np.mean(later) < 1.03 * np.mean(fresh_later)


def test_a_new_rule_is_learned_as_soon_as_by_a_new_model():
    """Where the rule goes over to other columns, late in the stream, the past is forgotten: 8,000
    events later the loss is about that of a model that has seen nothing else.
    """
    served, fresh = [], []
    for seed, by in ((80, 10), (81, 20), (82, 27), (83, 35), (84, 44)):
        r, at = np.random.default_rng(seed), 20_000
        X = r.standard_normal((at + 16_000, 54))
        R = np.vstack([X[:at], np.roll(X[at:], by, axis=1)])
        z = 0.8 * R[:, 0] - 0.6 * R[:, 1] + 1.2 * R[:, 2] * R[:, 3] + np.sin(2.0 * R[:, 4])
        z += 0.9 * (abs(R[:, 5]) - 0.8) + ((R[:, 6] > 0.0) & (R[:, 7] > 0.0)) - 0.25
        z += 0.5 * R[:, 8] * abs(R[:, 9])
        y = ((z > 0.0) ^ (r.random(len(z)) < 0.05)).astype(float)
        served.append(log_losses(default_booster(X.shape[1]), X, y)[at + 8_000 :].mean())
        fresh.append(log_losses(default_booster(X.shape[1]), X[at:], y[at:])[8_000:].mean())

    assert np.max(np.divide(served, fresh)) < 1.15


@pytest.mark.parametrize("flipped", [0.05, 0.2, 0.3, 0.4])
def test_probabilities_are_honest_where_labels_are_flipped(flipped):
    """A sharp rule under much noise: the true probabilities are two, and those served are near."""
    r = np.random.default_rng(11)
    X = r.standard_normal((60_000, 12))
    z = 1.5 * X[:, 0] + X[:, 1] * X[:, 2] + np.sin(3.0 * X[:, 3])
    y = ((z > 0.0) ^ (r.random(len(z)) < flipped)).astype(float)
    scores = learn_many(build(SPEC, 12), X, y)[:, 0][30_000:]
    p, happened = sigmoid(scores), y[30_000:]
    off = np.bincount(np.minimum((15.0 * p).astype(int), 14), p - happened)

    assert abs(off).sum() / len(p) < 0.02


@pytest.mark.parametrize(("d", "events", "memory"), [(54, 12_000, 128), (1_900, 2_200, 200)])
def test_no_event_has_much_work(d, events, memory):
    """Of wide events and narrow ones, with the first bins, trees and re-codings among them, none is
    given more than about a millisecond of counted work; and no tree that takes its place as soon as
    it is grown waits longer than for the others, each of which is first in its turn.
    """
    r = np.random.default_rng(5)
    bank = {"kind": "reboosted_trees", "max_memory": memory}
    booster = build({"bank": bank, "loss": "logistic"}, d)
    spent, waits = [], [np.zeros(4, int)]
    for _ in range(events):
        x = r.normal(size=(1, d))
        before = np.array([work.cursor for work in booster.builds])
        learn_many(booster, x, np.sign(x[:, :12].sum(axis=1)))
        spent.append(float(booster.trees.schedule.spent_ns))
        still = [
            np.array_equal(work.cursor, was)
            for work, was in zip(booster.builds, before, strict=True)
        ]
        waits.append((waits[-1] + 1) * (still & (booster.trees.schedule.status == INLINE)))

    assert booster.trees.schedule.grown.min() > 0
    assert 0.5e6 < max(spent) < 1.2e6
    assert np.max(waits) < 4


def test_no_event_of_a_long_window_has_much_work():
    """Nor is any where a tree looks at tens of thousands of rows: at most 2 ms are counted, its
    first cut, which is made in one piece, among them.
    """
    r, d = np.random.default_rng(6), 54
    booster = build({"bank": {"kind": "reboosted_trees"}, "loss": "logistic"}, d)
    cuts, spent = 0, []
    for _ in range(27):
        X = r.normal(size=(10_000, d))
        learn_many(booster, X, np.sign(X[:, :12].sum(axis=1)))
    for _ in range(8_000):
        x = r.normal(size=(1, d))
        before = [one.cursor[0].leaves for one in booster.builds]
        learn_many(booster, x, np.sign(x[:, :12].sum(axis=1)))
        cuts += sum(
            b == 1 and a.cursor[0].leaves > 1 for a, b in zip(booster.builds, before, strict=True)
        )
        spent.append(float(booster.trees.schedule.spent_ns))

    assert cuts > 1
    assert 1e6 < max(spent) < 2e6


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("n", [300, 3000])
def test_what_is_new_or_missing_is_usual(seed, n):
    """A name never seen, and one missing for the first time, are served between those there were,
    or nearly so; and an explanation counts them for nothing.
    """
    r = np.random.default_rng(seed)
    model = Model("regression", features={"rooms": "number", "city": "category"})
    rows = [{"rooms": int(r.integers(1, 6)), "city": "LP"[r.integers(2)]} for _ in range(n)]
    prices = [300 * row["rooms"] + 100 * (row["city"] == "L") + 20 * r.normal() for row in rows]
    model.learn_many(rows, prices)
    for row in ({"rooms": 3, "city": "new"}, {"rooms": 3}):
        assert 880 < model.predict_one(row) < 1020
        assert abs(model.explain_one(row).contributions["city"]) < 60
