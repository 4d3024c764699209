"""Offline comparators: gradient boosting, and Online Gradient Boosting, of a whole sample."""

from __future__ import annotations

import numpy as np
import pytest

import kaboost
from tests.naive import losses as naive_losses
from tests.naive.booster import BANKS
from tests.naive.modes import LINEAR, SQUARE
from tests.naive.ogb import project, radius, table

SGD = {"kind": "linear", "n": 3, "step": "sgd", "lr": 0.05}
NETS = {"kind": "nets", "n": 3, "optimiser": "sgd", "lr": 0.7}
BATCH = {"kind": "ogb_batch", "bound": 0.8, "eta": 0.7}


def sample(m=1, events=50):
    r = np.random.default_rng(4)
    X = r.normal(size=(events, 3))
    z = 0.5 * X[:, 0] - 0.2 * abs(X[:, 1]) + 0.1 * r.normal(size=events)
    w = r.choice([0.0, 1.0, 2.0], events)
    return X, z if m == 1 else np.stack([z, -z, X[:, 2]], axis=1), w


def spec_of(rule, bank, loss="squared"):
    return kaboost.normalise_spec({"rule": rule, "bank": bank, "loss": loss, "seed": 5})


def converge(bank, i, X, w, tasks, mode, bound):
    """Epochs of one learner, until the training loss of one falls by less than 0.1 percent."""
    last = None
    while True:
        lost = 0.0
        for x, weight, task in zip(X, w, tasks, strict=True):
            if weight == 0:
                continue
            predicted = project(bank.learners[i].predict(x), bound)
            pairs = list(zip(predicted, task, strict=True))
            fitted = sum((a - b) ** 2 for a, b in pairs) / 2
            lost += weight * (fitted if mode == SQUARE else sum(a * b for a, b in pairs))
            bank.learners[i].learn(x, task, weight, mode)
        if last is not None and last - lost <= 1e-3 * abs(last):
            return
        last = lost


def naive_fit(spec, X, Y, w, m):
    """Scores of the sample after every stage, (N+1, B, m)."""
    rule, loss, N = spec["rule"], naive_losses.twin(spec["loss"]), spec["bank"]["n"]
    bank = BANKS[spec["bank"]["kind"]](spec["bank"], X.shape[1], m, spec["seed"])
    X, Y = X.tolist(), Y.tolist()
    if rule["kind"] == "gb":
        seen = [(y, v) for y, v in zip(Y, w, strict=True) if v > 0]
        start = loss.init_score(seen, m) if rule["y0"] == "statistic" else [rule["y0"]] * m
        stages = [[start] * len(X)]
        for i in range(N):
            G = [loss.gradient(p, y) for p, y in zip(stages[-1], Y, strict=True)]
            converge(bank, i, X, w, G, SQUARE, float("inf"))
            h = [bank.learners[i].predict(x) for x in X]
            stages.append((np.array(stages[-1]) - rule["eta"] * np.array(h)).tolist())
        return np.array(stages)
    eta, s, D, Z = (rule[word] for word in ("eta", "scale", "bound", "label_bound"))
    B = rule["radius"] or radius(spec["loss"], eta, N, s * D, Z)
    L, _, _ = table(spec["loss"], B, Z)
    stages = [[[0.0] * m] * len(X)]
    for i in range(N):
        P = np.array(stages[-1])
        G = np.array([loss.gradient(p, y) for p, y in zip(stages[-1], Y, strict=True)])
        converge(bank, i, X, w, (G / L).tolist(), LINEAR, D)
        h = np.array([project(bank.learners[i].predict(x), D) for x in X])
        sigma = 1.0 if (w[:, None] * G * P).sum() > 0 and rule["shrinkage"] == "exact" else 0.0
        stages.append([project(p, B) for p in ((1 - sigma * eta) * P + eta * s * h).tolist()])
    return np.array(stages)


@pytest.mark.parametrize(
    ("rule", "bank", "loss", "m"),
    [
        ({"kind": "gb"}, SGD, "squared", 1),
        ({"kind": "gb", "y0": 0.5, "eta": 0.8}, SGD, "squared", 3),
        ({"kind": "gb"}, NETS, "logistic", 1),
        (BATCH, SGD, "squared", 1),
        (BATCH | {"scale": 2, "radius": 0.5}, SGD, "squared", 3),
        (BATCH | {"shrinkage": "none"}, SGD, "squared", 1),
    ],
)
def test_twin(rule, bank, loss, m):
    """What every stage says of the sample is what plain loops say."""
    X, y, w = sample(m)
    spec = spec_of(rule, bank, loss)
    y = np.sign(y) if loss == "logistic" else y
    booster = kaboost.fit(spec, X, y, w)
    expected = naive_fit(spec, X, y.reshape(len(X), m), w, m)

    found = kaboost.prefixes_many(booster, X).transpose(1, 0, 2)
    np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-10)
    assert abs(found[-1] - found[0]).max() > 0.1


def test_learners_are_frozen():
    """Later stages leave earlier learners as they were; the first ones lower the training loss."""
    X, y, _ = sample()
    rule = {"kind": "gb", "eta": 0.5}
    many = kaboost.fit(spec_of(rule, SGD | {"n": 6}), X, y)
    few = kaboost.fit(spec_of(rule, SGD | {"n": 2}), X, y)
    sums = kaboost.prefixes_many(many, X)[:, :, 0]

    np.testing.assert_array_equal(kaboost.predict_many(few, X)[:, 0], sums[:, 2])
    losses = ((sums - y[:, None]) ** 2).mean(axis=0)
    assert (np.diff(losses)[:3] < 0.0).all()
    assert losses[6] < 0.1 * losses[0]


def test_events_of_weight_zero_are_left_out():
    """A sample with weights 0 is learned as the sample without those events."""
    X, y, w = sample()
    for rule in ({"kind": "gb"}, BATCH):
        spec = spec_of(rule, SGD)
        whole, part = (
            kaboost.fit(spec, X, y, w),
            kaboost.fit(spec, X[w > 0], y[w > 0], w[w > 0]),
        )
        np.testing.assert_array_equal(whole.bank.w, part.bank.w)
        np.testing.assert_allclose(
            kaboost.predict_many(whole, X), kaboost.predict_many(part, X), rtol=1e-12
        )


def test_classes():
    """The classes of a softmax are counted in the sample, and boosting learns them."""
    X, y, _ = sample(events=150)
    k = np.digitize(y, (-0.3, 0.3))
    booster = kaboost.fit(spec_of({"kind": "gb"}, SGD, "softmax"), X, k)

    assert booster.outputs == 3
    assert (kaboost.predict_many(booster, X).argmax(axis=1) == k).mean() > 0.7


def test_a_fitted_booster_is_arrays():
    """It goes through arrays and predicts the same, bit for bit."""
    X, y, _ = sample()
    for rule in ({"kind": "gb"}, BATCH):
        spec = spec_of(rule, SGD)
        booster = kaboost.fit(spec, X, y)
        copy = kaboost.from_arrays(spec, kaboost.to_arrays(booster))
        np.testing.assert_array_equal(
            kaboost.predict_many(copy, X), kaboost.predict_many(booster, X)
        )


@pytest.mark.parametrize("kind", ["gb", "ogb_batch"])
def test_no_single_events(kind):
    """Event by event they are refused, with the way to fit them."""
    X, y, _ = sample()
    booster = kaboost.build(spec_of(kind, SGD), d=3)
    with pytest.raises(kaboost.ModelError, match=r"kaboost\.fit"):
        kaboost.learn_many(booster, X, y)


@pytest.mark.parametrize(
    ("rule", "loss", "change", "says"),
    [
        ("sgb", "squared", {}, "call learn_many"),
        ("ogb_batch", "hinge", {}, "needs a smooth loss"),
        ("ogb_batch", "softmax", {}, "one_vs_rest"),
        ("gb", "squared", {"X": np.ones(5)}, "X: has shape"),
        ("gb", "squared", {"X": np.ones((0, 3)), "y": []}, "X: has shape"),
        ("gb", "squared", {"y": [1.0]}, "give as many of each"),
        ("gb", "squared", {"w": [1.0]}, "give as many of each"),
        ("gb", "squared", {"w": np.full(50, -1.0)}, "give as many of each"),
        ("gb", "squared", {"w": np.full(50, np.nan)}, "give as many of each"),
    ],
)
def test_refusals(rule, loss, change, says):
    """Online rules, losses without constants and arrays that do not fit are refused."""
    X, y, _ = sample()
    given = {"X": X, "y": np.sign(y) if loss == "hinge" else np.round(abs(y))} | change
    with pytest.raises(kaboost.ModelError, match=says):
        kaboost.fit({"rule": rule, "bank": SGD, "loss": loss}, **given)
