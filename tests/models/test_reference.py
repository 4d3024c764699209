"""The reference values of the specification, section 10, for the parts that exist."""

from __future__ import annotations

import numpy as np
import pytest

import kaboost
from kaboost.models.kernels import random as rng
from kaboost.models.verbs import gradient, targets, value
from tests.models.reference_streams import linear, stream_m, stream_r, stream_x
from tests.naive import SplitMix64


def test_generator():
    """Seed 42 gives the words and uniforms of section 0; the twin agrees."""
    assert [hex(w) for w in rng.words(42, 3)] == [
        "0xbdd732262feb6e95", "0x28efe333b266f103", "0x47526757130f9f52",
    ]  # fmt: skip
    assert rng.uniforms(42, 2).tolist() == [0.7415648787718233, 0.1599103928769201]
    draw = SplitMix64(42)
    assert [draw.next() for _ in range(20)] == rng.words(42, 20).tolist()
    assert SplitMix64(1).normal() == pytest.approx(-0.034267321791851144, rel=1e-15)


@pytest.mark.parametrize(
    ("loss", "y", "label", "expected", "slope"),
    [
        ("squared", 0.3, 1.0, 0.245, -0.7),
        ("logistic", 0.3, 1.0, 0.5543552444685271, -0.425557483188341),
        ("logistic", 40.0, -1.0, 40.0, 1.0),
        ("logistic", -800.0, 1.0, 800.0, -1.0),
    ],
)
def test_losses(loss, y, label, expected, slope):
    """10.1: values and gradients."""
    subject, g = kaboost.LOSSES[loss].make(l2=0.0), np.empty(1)
    gradient(subject, np.array([y]), np.array([label]), g)

    assert value(subject, np.array([y]), np.array([label])) == pytest.approx(expected, rel=1e-15)
    assert g[0] == pytest.approx(slope, rel=1e-15)


def test_sgb_micro():
    """10.2, micro: partial sums and targets of one event."""
    spec = {"rule": {"kind": "sgb", "eta": 0.5, "y0": 0.0}, "bank": linear(3, "sgd", 0.1)}
    booster = kaboost.build({**spec, "loss": "logistic"}, d=1)
    h, F, G = np.array([[0.4, -0.1, 0.25]]), np.empty((1, 4)), np.empty((1, 4))
    T, W, yhat = np.empty((1, 3)), np.ones(3), np.empty(1)
    kaboost.models.verbs.combine(booster.rule, h, F, yhat, np.empty(0))
    kaboost.models.verbs.value_gradient_prefixes(booster.loss, F, np.array([1.0]), G, np.empty(4))
    targets(booster.rule, booster.loss, np.array([1.0]), h, F, G, T, W, np.empty(0))

    np.testing.assert_allclose(F[0], [0, -0.2, -0.15, -0.275], atol=1e-15)
    np.testing.assert_allclose(T[0], [-0.5, -0.549833997312478, -0.5374298453437496], rtol=1e-14)


@pytest.mark.parametrize(
    ("n", "step", "lr", "eta", "expected"),
    [
        (1, "sgd", 0.05, 1.0, 0.02487399),
        (8, "sgd", 0.05, 1.0, 0.01651145),
        (1, "sgd", 0.05, 0.3, 1.29097579),
        (8, "sgd", 0.05, 0.3, 0.02207198),
        (1, "sgd", 0.1, 1.0, 0.0157074176),
        (1, "nag", 0.5, 1.0, 0.0196068154),
    ],
)
def test_linear_banks(n, step, lr, eta, expected):
    """10.2 and 10.7: mean 1/2 squared loss of linear banks on noisy stream R."""
    X, z = stream_r(0.1)
    spec = {"rule": {"kind": "sgb", "eta": eta, "y0": 0.0}, "bank": linear(n, step, lr)}
    booster = kaboost.build({**spec, "loss": "squared"}, d=5)
    kaboost.learn_many(booster, X, z)

    assert booster.progress.prefix_losses[-1] == pytest.approx(expected, rel=1e-6)
    assert booster.progress.mean_loss == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("step", ["nag", "ng"])
def test_nag_is_blind_to_scale(step):
    """7.1 and 10.7: features times (1, 100, .01, 10, .1) give the same loss."""
    X, z = stream_r(0.1)
    losses = []
    for scale in (np.ones(5), np.array([1, 100, 0.01, 10, 0.1])):
        spec = {"rule": {"kind": "sgb", "eta": 1.0, "y0": 0.0}, "bank": linear(1, step, 0.5)}
        booster = kaboost.build({**spec, "loss": "squared"}, d=5)
        kaboost.learn_many(booster, X * scale, z)
        losses.append(booster.progress.mean_loss)

    assert losses[1] == pytest.approx(losses[0], rel=1e-12)


@pytest.mark.parametrize(
    ("n", "eta", "features", "errors", "loss"),
    [
        (1, 2.0, "cyclic", 1321, 0.93152),
        (4, 2.0, "cyclic", 441, 0.61086),
        (16, 2.0, "cyclic", 491, 0.43730),
        (16, 1.0, "cyclic", 483, 0.53680),
        (1, 2.0, "all", 418, 0.61132),
        (8, 2.0, "all", 570, 0.44220),
    ],
)
def test_softmax(n, eta, features, errors, loss):
    """10.2: errors and mean log loss of softmax boosting on stream M."""
    X, k = stream_m()
    assert np.bincount(k).tolist() == [986, 969, 1045]
    bank = linear(n, "sgd", 0.1, features=features)
    spec = {"rule": {"kind": "sgb", "eta": eta, "y0": 0.0}, "bank": bank, "loss": "softmax"}
    booster = kaboost.build(spec, d=4, m=3)
    scores = kaboost.learn_many(booster, X, k)

    assert (scores.argmax(axis=1) != k).sum() == pytest.approx(errors, abs=2)
    assert booster.progress.mean_loss == pytest.approx(loss, abs=6e-6)


@pytest.mark.parametrize(
    ("n", "eta", "whole", "half"),
    [(1, 1.0, 2004, 995), (8, 1.0, 1425, 439), (8, 4.0, 1395, 425), (20, 2.0, 1336, 399)],
)
def test_nets(n, eta, whole, half):
    """10.5, last lines: SGB over two-layer nets on stream X, errors within one percent."""
    X, u = stream_x()
    bank = {"kind": "nets", "n": n, "hidden": 2, "optimiser": "adam", "lr": 0.01}
    rule = {"kind": "sgb", "eta": eta, "y0": 0.0}
    booster = kaboost.build({"rule": rule, "bank": bank, "loss": "logistic", "seed": 123}, d=4)
    wrong = np.where(kaboost.learn_many(booster, X, u)[:, 0] >= 0, 1, -1) != u

    assert wrong.sum() == pytest.approx(whole, rel=0.01)
    assert wrong[2000:].sum() == pytest.approx(half, rel=0.01)


@pytest.mark.parametrize(
    ("n", "eta", "bank", "seed", "whole", "half"),
    [
        (1, 1.0, {"optimiser": "sgd", "lr": 0.3}, 77, 1702, 736),
        (8, 0.5, {"optimiser": "adam", "lr": 0.01}, 123, 1546, 564),
        (20, 0.3, {"optimiser": "adam", "lr": 0.01}, 123, 1429, 451),
    ],
)
def test_greedy_nets(n, eta, bank, seed, whole, half):
    """10.5: a single net, and the greedy rule with neither sigma nor projection."""
    X, u = stream_x()
    rule = {
        "kind": "ogb_span", "fit": "greedy", "greedy_form": "gradient", "eta": eta,
        "bound": 1e6, "radius": 1e12, "labels": "given",
    }  # fmt: skip
    spec = {"rule": rule, "bank": {"kind": "nets", "n": n, "hidden": 2, **bank}, "loss": "logistic"}
    booster = kaboost.build({**spec, "seed": seed}, d=4)
    wrong = np.where(kaboost.learn_many(booster, X, u)[:, 0] >= 0, 1, -1) != u

    assert wrong.sum() == pytest.approx(whole, rel=0.01)
    assert wrong[2000:].sum() == pytest.approx(half, rel=0.01)


@pytest.mark.parametrize("features", ["all", "cyclic"])
@pytest.mark.parametrize("step", ["nag", "ng"])
def test_tiny_features_leave_learners_alive(step, features):
    """A column whose numbers are all but 0, and later large ones, spoils no learner."""
    X, z = stream_r(0.1)
    X = X[:900].copy()
    X[:, 1] *= 1e-310
    X[600:, 1] *= 1e300
    X[600:, 1] *= 1e10
    bank = {"kind": "linear", "n": 5, "step": step, "features": features}
    booster = kaboost.build({"rule": "sgb", "bank": bank, "loss": "squared"}, d=5)
    kaboost.learn_many(booster, X, z[:900])

    assert booster.progress.skipped[()] == 0
    assert np.isfinite(booster.bank.w).all()
