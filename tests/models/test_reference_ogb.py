"""Online Gradient Boosting: the reference values of section 10.4."""

from __future__ import annotations

import math

import numpy as np
import pytest

import kaboost
from kaboost.models.verbs import (
    combine,
    rule_scratch_size,
    targets,
    update_rule,
    value_gradient_prefixes,
)
from tests.boosters import learned
from tests.models.reference_streams import stream_c, stream_h, stream_r

LINE = {"kind": "linear", "step": "sgd", "lr": 0.05, "features": "cyclic"}


def loss_of(rule, bank, loss, X, y):
    return learned({"rule": rule, "bank": bank, "loss": loss}, X, y).booster.progress.mean_loss


def hedge(n):
    return {"kind": "hedge", "n": n, "horizon": 4000}


def one_event(rule):
    """Three learners say .4, -.1, .25 at the fourth event, whose label is .8: sums and slopes."""
    spec = {"rule": rule, "bank": {"kind": "linear", "n": 3}, "loss": "squared"}
    booster = kaboost.build(spec, d=1)
    h, F, G = np.array([[0.4, -0.1, 0.25]]), np.empty((1, 4)), np.empty((1, 4))
    T, W, yhat, y = np.empty((1, 3)), np.ones(3), np.empty(1), np.array([0.8])
    rule_scratch = np.empty(rule_scratch_size(booster.rule))
    if rule["kind"] == "ogb_span":
        booster.rule.sigma[:] = 0.0, 0.3, 0.6
        booster.rule.t[()] = 3.0
    combine(booster.rule, h, F, yhat, rule_scratch)
    value_gradient_prefixes(booster.loss, F, y, G, np.empty(4))
    targets(booster.rule, booster.loss, y, h, F, G, T, W, rule_scratch)
    update_rule(booster.rule, booster.loss, y, h, F, G, 1.0, rule_scratch)
    return booster.rule, F[0], T[0]


def test_span_micro():
    """Partial sums, slopes and new shrinkage of one event."""
    rule, P, slopes = one_event({"kind": "ogb_span", "eta": 0.5, "fit": "linear"})

    assert (rule.B, rule.L) == (1.0, 2.0)
    np.testing.assert_allclose(P, [0, 0.2, 0.12, 0.209], atol=1e-15)
    np.testing.assert_allclose(slopes, [-0.4, -0.3, -0.34], atol=1e-15)
    np.testing.assert_allclose(rule.sigma, [0, 0.27, 0.5796], atol=1e-15)


def test_hull_micro():
    """Partial sums and slopes of one event."""
    _, P, slopes = one_event({"kind": "ogb_hull", "fit": "linear"})

    np.testing.assert_allclose(P, [0, 0.4, 0.2 / 3, 0.475 / 3], atol=1e-15)
    np.testing.assert_allclose(slopes, [-0.4, -0.2, -1.1 / 3], atol=1e-15)


@pytest.mark.parametrize(
    ("n", "expected"),
    [(1, 0.010569), (2, 0.009763), (4, 0.005606), (8, 0.005464), (16, 0.005444), (64, 0.005440)],
)
def test_hull(n, expected):
    """Hedge learners compete with the hull that holds the target, within the bound of 3.2."""
    X, z = stream_h()
    found = loss_of({"kind": "ogb_hull", "fit": "linear"}, hedge(n), "squared", X, z)

    assert found == pytest.approx(expected, abs=6e-7)
    assert found < 8 / n + 2 * math.sqrt(2 * math.log(10) / 4000)


def test_saying_nothing():
    """The predictor 0 on the same stream loses .039452."""
    _, z = stream_h()
    assert (z * z).mean() / 2 == pytest.approx(0.039452, abs=6e-7)


@pytest.mark.parametrize(
    ("n", "eta", "radius", "expected"),
    [(4, 0.8047, 0.4520, 0.009922), (16, 0.3542, 0.5896, 0.005863), (64, 0.1304, 0.7533, 0.004273)],
)
def test_span(n, eta, radius, expected):
    """Where the target is outside the hull, the span goes on to fall; B is that of equation 3.1."""
    X, z = stream_h()
    rule = {"kind": "ogb_span", "eta": 2 * math.log(n + 1) / n, "fit": "linear", "bound": 0.3}
    booster, _ = learned({"rule": rule, "bank": hedge(n), "loss": "squared"}, 0.3 * X, z)

    assert booster.rule.eta == pytest.approx(eta, abs=5e-5)
    assert booster.rule.B == pytest.approx(radius, abs=5e-5)
    assert booster.progress.mean_loss == pytest.approx(expected, abs=6e-7)
    assert booster.rule.sigma.max() < 0.175


def test_outside_the_hull():
    """The hull, and a span of step 1/N, stay far from a target outside."""
    X, z = stream_h()
    hull = {"kind": "ogb_hull", "fit": "linear", "bound": 0.3}
    span = {"kind": "ogb_span", "eta": 1 / 16, "fit": "linear", "bound": 0.3}

    assert loss_of(hull, hedge(64), "squared", 0.3 * X, z) == pytest.approx(0.025638, abs=6e-7)
    assert 0.02504 < loss_of(span, hedge(16), "squared", 0.3 * X, z) < 0.02515


@pytest.mark.parametrize(
    ("n", "expected"), [(1, 0.157451), (4, 0.119002), (16, 0.048626), (64, 0.015897)]
)
def test_deterministic_reduction(n, expected):
    """Absolute loss by the slope at the served score; one Hedge learner stands for all."""
    X, z = stream_h()
    eta = 1.0 if n == 1 else math.log(n + 1) / n
    rule = {"kind": "ogb_span", "eta": eta, "bound": 0.3}
    booster, _ = learned({"rule": rule, "bank": hedge(n), "loss": "absolute"}, 0.3 * X, z)

    assert booster.progress.mean_loss == pytest.approx(expected, abs=6e-7)
    assert booster.progress.prefix_losses[0] == pytest.approx(0.228146, abs=6e-7)
    assert (booster.rule.B, booster.rule.L) == (pytest.approx(0.3 * eta * n), 1.0)
    assert booster.bank.bank.C.shape == (1, 5, 1)


def test_heuristic():
    """Absolute loss by subgradients at every partial sum is somewhat worse."""
    X, z = stream_h()
    rule = {"kind": "ogb_span", "eta": math.log(65) / 64, "bound": 0.3}
    found = loss_of(rule | {"nonsmooth": "heuristic"}, hedge(64), "absolute", 0.3 * X, z)

    assert found == pytest.approx(0.0262, abs=6e-5)


@pytest.mark.parametrize(
    ("n", "eta", "form", "expected"),
    [
        (1, 1.0, "residual", 1.110884),
        (5, 1.0, "residual", 0.301601),
        (20, 0.3, "residual", 0.393365),
        (20, 0.3, "gradient", 0.103295),
    ],
)
def test_stumps(n, eta, form, expected):
    """Greedy span over stumps on noisy stream R, with B = 8 and weak predictions as they are."""
    X, z = stream_r(0.1)
    rule = {"kind": "ogb_span", "eta": eta, "radius": 8, "bound": 1e6, "greedy_form": form}
    booster, _ = learned(
        {"rule": rule, "bank": {"kind": "stumps", "n": n, "lr": 0.1}, "loss": "squared"}, X, z
    )

    assert booster.rule.L == 9.0
    assert booster.progress.mean_loss == pytest.approx(expected, abs=6e-7)


@pytest.mark.parametrize(
    ("n", "fit", "eta", "errors", "loss"),
    [
        (30, "linear", None, 541, 0.3794),
        (30, "linear", 0.3, 460, 0.3357),
        (30, "greedy", None, 496, 0.3751),
        (30, "greedy", 0.3, 439, 0.3320),
        (1, "linear", None, 1507, None),
        (1, "greedy", None, 1460, None),
    ],
)
def test_logistic(n, fit, eta, errors, loss):
    """Logistic loss on stream C over lines of one feature, D = 2; the greedy form is best."""
    X, u = stream_c()
    assert (u > 0).sum() == 2001
    rule = {"kind": "ogb_span", "fit": fit, "eta": eta, "bound": 2}
    booster, scores = learned({"rule": rule, "bank": LINE | {"n": n}, "loss": "logistic"}, X, u)

    eta = booster.rule.eta
    assert booster.rule.B == pytest.approx(min(2 * eta * n, 2 * math.log(4 / eta)))
    assert (np.where(scores[:, 0] >= 0, 1, -1) != u).sum() == pytest.approx(errors, abs=2)
    if loss:
        assert booster.progress.mean_loss == pytest.approx(loss, abs=6e-5)


@pytest.mark.parametrize(
    ("scale", "radius", "expected"),
    [(1, 0.7094, 0.013569), (2, 0.8103, 0.006673), (4, 1.2, 0.004731), (8, 2.4, 0.004926)],
)
def test_scaling(scale, radius, expected):
    """A.2: a larger scale falls faster, until B grows with it."""
    X, z = stream_h()
    rule = {"kind": "ogb_span", "fit": "linear", "bound": 0.3, "scale": scale}
    booster, _ = learned({"rule": rule, "bank": hedge(16), "loss": "squared"}, 0.3 * X, z)

    assert booster.rule.eta == pytest.approx(math.log(16) / 16)
    assert booster.rule.B == pytest.approx(radius, abs=5e-5)
    assert booster.progress.mean_loss == pytest.approx(expected, abs=6e-7)


@pytest.mark.parametrize(
    ("n", "exact", "none"),
    [
        (4, 0.022788, 0.009000),
        (16, 0.012453, 0.003216),
        (64, 0.000397, 0.000523),
        (256, 0.000028, 0.000048),
    ],
)
def test_batch(n, exact, none):
    """A.3 on the first 500 points, with exact shrinkage and without."""
    X, z = stream_h()
    X, z = 0.3 * X[:500], z[:500]
    for shrinkage, expected in (("exact", exact), ("none", none)):
        eta = min(1.0, math.log(n) / (0.3 * n))
        rule = {"kind": "ogb_batch", "eta": eta, "bound": 0.3, "radius": 1, "shrinkage": shrinkage}
        booster = kaboost.fit({"rule": rule, "bank": hedge(n), "loss": "squared"}, X, z)
        found = 0.5 * ((kaboost.predict_many(booster, X)[:, 0] - z) ** 2).mean()

        assert found == pytest.approx(expected, abs=6e-7)
        assert set(booster.rule.sigma) <= {0.0, 1.0}
