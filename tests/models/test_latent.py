"""Boosting in latent spaces: reference values 10.5, the gradients by finite differences, and what
the printed formulas do instead.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

import kaboost
from kaboost.models.rules.latent import correlations, importances
from kaboost.models.verbs import combine, rule_scratch_size, targets
from tests.models.test_reference import stream_x
from tests.naive import NaiveBooster

NETS = {"kind": "nets", "n": 8, "hidden": 2, "optimiser": "sgd", "lr": 0.3}


def spec(n=8, spaces=10, seed=77, **rule):
    rule = {"kind": "latent", "spaces": spaces, **rule}
    return {"rule": rule, "bank": NETS | {"n": n}, "loss": "logistic", "seed": seed}


def errors(answers, u):
    wrong = np.where(np.asarray(answers).ravel() >= 0, 1, -1) != u
    return wrong.sum(), wrong[2000:].sum()


def small(rate=0.1):
    """The rule of 10.5, micro: two spaces, two learners."""
    booster = kaboost.build(spec(n=2, spaces=2, lr_combine=rate), d=1)
    booster.rule.A[:] = [[0.5, -0.4], [-0.3, 0.8]]
    booster.rule.a[:] = [0.6, -0.7]
    return booster


def learn(booster, h, u):
    h, F, G = np.array([h]), np.empty((1, 3)), np.empty((1, 3))
    T, W, rule_scratch = np.empty((1, 2)), np.ones(2), np.empty(rule_scratch_size(booster.rule))
    combine(booster.rule, h, F, np.empty(1), rule_scratch)
    targets(booster.rule, booster.loss, np.array([u]), h, F, G, T, W, rule_scratch)
    return F[0], T[0]


def test_micro():
    """10.5, micro: residuals and both kinds of weights after one event."""
    booster = small()
    F, T = learn(booster, [0.9, 0.5], 1.0)

    assert F[2] == pytest.approx(0.059, abs=1e-12)
    np.testing.assert_allclose(T, [0.5, 0.4275633029292], atol=1e-12)
    np.testing.assert_allclose(
        booster.rule.A, [[0.523376983132, -0.385108190309], [-0.3, 0.78317257539]], atol=1e-11
    )
    np.testing.assert_allclose(booster.rule.a, [0.63251194251, -0.693749813716], atol=1e-11)


def test_weights_descend_the_loss():
    """One learner's step is -rate times the gradient of ln(1 + e^(-u F')) by differences."""
    for h, u in (([0.9, 0.0], 1.0), ([-1.3, 0.0], -1.0)):
        rate, eps = 1e-3, 1e-6
        booster = small(rate)
        A, a = booster.rule.A.copy(), booster.rule.a.copy()
        learn(booster, h, u)

        def loss(A, a, h=h, u=u):
            return math.log1p(math.exp(-u * float(a @ np.maximum(A[:, 0] * h[0], 0.0))))

        for p in range(2):
            up, down = A.copy(), A.copy()
            up[p, 0] += eps
            down[p, 0] -= eps
            slope = (loss(up, a) - loss(down, a)) / (2 * eps)
            assert (A - booster.rule.A)[p, 0] / rate == pytest.approx(slope, abs=1e-6)
            up, down = a.copy(), a.copy()
            up[p] += eps
            down[p] -= eps
            slope = (loss(A, up) - loss(A, down)) / (2 * eps)
            # the second learner, silent here, repeats the step of a from where the first left it
            assert (a - booster.rule.a)[p] / rate == pytest.approx(2 * slope, abs=1e-3)


@pytest.mark.parametrize(
    ("start", "whole", "half"), [("uniform", 1271, 384), ("consistent", 1345, 398)]
)
def test_stream_x(start, whole, half):
    """10.5: errors on sign(x0 x1), which no sum of single features can say."""
    X, u = stream_x()
    booster = kaboost.build(spec(start=start), d=4)
    assert errors(kaboost.learn_many(booster, X, u), u) == pytest.approx((whole, half), rel=0.01)


def test_all_positive_start():
    """10.5: with every weight positive learning is late."""
    X, u = stream_x()
    booster = kaboost.build(spec(start="consistent"), d=4)
    booster.rule.A[:] = abs(booster.rule.A)
    booster.rule.a[:] = abs(booster.rule.a)
    assert errors(kaboost.learn_many(booster, X, u), u) == pytest.approx((1424, 468), rel=0.01)


@pytest.mark.parametrize(
    ("wrong", "whole", "half"),
    [
        ({"literal_A"}, 1268, 374),
        ({"literal_a"}, 1345, 470),
        ({"literal_A", "literal_a"}, 1494, 590),
        ({"wrong_sign"}, 1435, 415),
    ],
)
def test_printed_formulas_differ(wrong, whole, half):
    """10.5, errata E7 to E9: what the printed updates give, by the naive twin."""
    X, u = stream_x()
    twin = NaiveBooster(kaboost.normalise_spec(spec()), 4, 1)
    for switch in wrong:
        setattr(twin.rule, switch, True)
    predicted = [twin.learn(list(x), [label]) for x, label in zip(X, u, strict=True)]
    assert errors(predicted, u) == pytest.approx((whole, half), rel=0.01)


def test_latent_outputs():
    """Correlations are those of the rows of A; importances the mean of |a_p max(z_p, 0)|."""
    booster = small(1e-9)
    for h in ([0.9, 0.5], [-0.2, 1.5]):
        learn(booster, h, 1.0)
    z = np.maximum(booster.rule.A @ np.array([[0.9, -0.2], [0.5, 1.5]]), 0.0)

    np.testing.assert_allclose(
        importances(booster.rule), abs(booster.rule.a[:, None] * z).mean(axis=1), atol=1e-8
    )
    np.testing.assert_allclose(correlations(booster.rule), [[1, -1], [-1, 1]], atol=1e-12)


def test_dead_spaces_are_drawn_anew():
    """Where no space is active for so many events, all of them are sampled again."""
    X, u = stream_x()
    bank = {"kind": "linear", "n": 3, "step": "sgd", "lr": 1e-12}
    rule = {"kind": "latent", "spaces": 4, "redraw": 50}
    booster = kaboost.build({"rule": rule, "bank": bank, "loss": "logistic"}, d=4)
    before = booster.rule.A.copy()
    booster.rule.a[:] = 0.0
    booster.rule.A[:] = 0.0
    kaboost.learn_many(booster, X[:60], u[:60])

    assert booster.rule.redrawn == 1
    assert (abs(booster.rule.a) > 0).all()
    assert (abs(booster.rule.A) > 0).all()
    assert (booster.rule.A != before).all()
