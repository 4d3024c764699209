"""Residual projection: reference values 10.3 and the hinge rows of 10.6, and property 11."""

from __future__ import annotations

import numpy as np
import pytest

import kaboost
from kaboost.models.types import BuildContext
from kaboost.models.verbs import combine, rule_scratch_size, targets
from tests.models.reference_streams import stream_c, stream_r
from tests.models.test_reference import linear


def build(rule, bank, loss, d):
    spec = {"rule": {"kind": "sgb_residual", "y0": 0.0, **rule}, "bank": bank, "loss": loss}
    return kaboost.build(spec, d=d)


def test_micro():
    """10.3, micro: partial sums, targets and residuals of one event."""
    rule = {"schedule": "1/(lambda i)", "radius": 4.0, "residual_clip": "inf"}
    booster = build(rule, linear(3, "sgd", 0.1), {"kind": "hinge", "l2": 0.05}, 1)
    h, F, T = np.array([[0.4, -0.1, 0.25]]), np.empty((1, 4)), np.empty((1, 3))
    yhat, rule_scratch = np.empty(1), np.empty(rule_scratch_size(booster.rule))
    combine(booster.rule, h, F, yhat, rule_scratch)
    u, G, W = np.array([1.0]), np.empty((1, 4)), np.ones(3)
    targets(booster.rule, booster.loss, u, h, F, G, T, W, rule_scratch)

    np.testing.assert_allclose(rule_scratch[:4], [0, -4, -3.5, -4], atol=1e-15)
    np.testing.assert_allclose(T[0], [-1, -2.8, -4.05], atol=1e-14)
    np.testing.assert_allclose(T[0] - h[0], [-1.4, -2.7, -4.3], atol=1e-14)
    assert yhat[0] == pytest.approx(-2.5, abs=1e-15)


@pytest.mark.parametrize(("average", "served"), [("theory", -2.5), ("shifted", -3.8333333333)])
def test_averages(average, served):
    """10.3, micro: what is served of the same partial sums."""
    rule = {"schedule": "1/(lambda i)", "radius": 4.0, "average": average}
    booster = build(rule, linear(3, "sgd", 0.1), {"kind": "hinge", "l2": 0.05}, 1)
    yhat, F = np.empty(1), np.empty((1, 4))
    combine(
        booster.rule,
        np.array([[0.4, -0.1, 0.25]]),
        F,
        yhat,
        np.empty(rule_scratch_size(booster.rule)),
    )
    assert yhat[0] == F[0, 3] == pytest.approx(served, abs=1e-9)


SGD = linear(32, "sgd", 0.02)
LEADERS = {"kind": "coordinate_ftl", "n": 32}
ROOT, OVER = "c/sqrt(i)", "c/i"


@pytest.mark.parametrize(
    ("bank", "schedule", "clip", "decay", "average", "last"),
    [
        (LEADERS, ROOT, "inf", 1.0, 0.5195, 1.5288),
        (LEADERS, ROOT, 2.0, 1.0, 0.2641, 0.3567),
        (LEADERS, ROOT, 0.5, 1.0, 0.3795, 0.3079),
        (LEADERS, ROOT, 2.0, 0.0, 0.5372, 0.1848),
        (SGD, ROOT, "inf", 1.0, 0.5826, 2.2548),
        (SGD, ROOT, 0.5, 1.0, 0.1453, 0.1965),
        (SGD, ROOT, 2.0, 0.0, 0.1293, 0.1095),
        (SGD, OVER, "inf", 1.0, 0.2701, 0.5524),
        (SGD, OVER, 0.5, 1.0, 0.1820, 0.0956),
        (SGD, OVER, 2.0, 0.0, 0.1752, 0.0618),
    ],
)
def test_absolute_loss(bank, schedule, clip, decay, average, last):
    """10.3: mean absolute error of the second half, of the average and of the last iterate."""
    X, z = stream_r(0.0)
    errors = []
    for served in ("theory", "last"):
        rule = {"schedule": schedule, "residual_clip": clip, "residual_decay": decay}
        rule |= {"radius": 8.0, "average": served}
        scores = kaboost.learn_many(build(rule, bank, "absolute", 5), X[:3000], z[:3000])[:, 0]
        errors.append(abs(scores - z[:3000])[1500:].mean())

    assert errors == pytest.approx([average, last], abs=6e-5)


@pytest.mark.parametrize(
    ("schedule", "scale", "clip", "wrong", "loss"),
    [
        ("1/(lambda i)", 1.0, "inf", 1280, 1.2062),
        ("c/i", 3.0, "inf", 1048, 0.7260),
        ("c/i", 3.0, 2.0, 954, 0.6165),
        ("c/i", 3.0, 0.5, 1042, 0.6339),
        ("c/sqrt(i)", 1.0, "inf", 1134, 0.7914),
        ("c/sqrt(i)", 1.0, 2.0, 978, 0.5879),
        ("c/sqrt(i)", 1.0, 0.5, 1007, 0.6128),
    ],
)
def test_hinge(schedule, scale, clip, wrong, loss):
    """10.6: errors and mean regularised hinge loss on stream C, one feature a learner."""
    X, u = stream_c()
    rule = {"schedule": schedule, "eta_scale": scale, "residual_clip": clip, "radius": 8.0}
    bank = {"kind": "linear", "n": 30, "step": "sgd", "lr": 0.05, "features": "cyclic"}
    booster = build(rule, bank, {"kind": "hinge", "l2": 0.01}, 6)
    scores = kaboost.learn_many(booster, X, u)[:, 0]

    assert (np.where(scores >= 0, 1, -1) != u).sum() == pytest.approx(wrong, abs=2)
    assert booster.progress.mean_loss == pytest.approx(loss, abs=6e-5)


@pytest.mark.parametrize("loss", ["squared", "absolute", "huber", "logistic", "softmax"])
def test_without_residual_it_is_algorithm_1(loss):
    """Property 11: rho = 0, a constant step, the last iterate and no ball, bit for bit."""
    X, z = stream_r(0.1)
    m = 3 if loss == "softmax" else 1
    y = {"logistic": np.sign(z), "softmax": np.digitize(z, (-1.0, 1.0))}.get(loss, z)
    rule = {"kind": "sgb_residual", "schedule": "constant", "eta_scale": 0.3, "radius": "inf"}
    rule |= {"average": "last", "residual_decay": 0.0}
    actual = []
    for one in (rule, {"kind": "sgb", "eta": 0.3}):
        spec = {"rule": one, "bank": linear(6, "sgd", 0.05), "loss": loss}
        booster = kaboost.build(spec, d=5, m=m)
        actual.append(kaboost.learn_many(booster, X[:500], y[:500]).tobytes())

    assert actual[0] == actual[1]


def test_default_radius_is_four_label_scales():
    """The radius follows the root mean square of the labels until y0 is frozen."""
    booster = build({"y0_freeze": 100}, linear(2, "sgd", 0.1), "absolute", 5)
    X, z = stream_r(0.0)
    kaboost.learn_many(booster, X[:300], z[:300], np.full(300, 2.0))
    assert booster.rule.radius == pytest.approx(4 * np.sqrt((z[:100] ** 2).mean()), rel=1e-12)


def test_partial_sums_stay_in_the_ball():
    """Property 6: no partial sum leaves radius R, whatever the labels."""
    full = kaboost.normalise_spec(
        {"rule": {"kind": "sgb_residual", "radius": 2.0, "y0": 0.5}, "bank": SGD, "loss": "squared"}
    )
    squared = kaboost.LOSSES["squared"]
    rule = kaboost.RULES["sgb_residual"].make(
        full["rule"], BuildContext(full, squared.make(l2=0.0), squared.traits, None, 5, 3)
    )
    r = np.random.default_rng(4)
    for _ in range(50):
        rule_scratch = np.empty(rule_scratch_size(rule))
        combine(rule, 9 * r.normal(size=(3, 32)), np.empty((3, 33)), np.empty(3), rule_scratch)
        assert np.linalg.norm(rule_scratch[:99].reshape(33, 3), axis=1).max() <= 2.0 * (1 + 1e-15)


def test_a_schedule_that_needs_convexity_is_refused():
    """1/(lambda i) without lambda is an error that says what to do."""
    with pytest.raises(kaboost.ModelError, match=r"rule.schedule: .* give the loss an l2"):
        build({"schedule": "1/(lambda i)"}, linear(3, "sgd", 0.1), "hinge", 5)
