"""Losses: gradients against central differences, stable tails, links in their range, starts that
fit the labels.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import models
from models.verbs import assess, gradient, link, smoothness, start, tally, value

KINDS = sorted(models.LOSSES)
L2 = (0.0, 0.05)


def outputs(kind):
    return 3 if kind == "softmax" else 1


def labels(kind):
    return {"squared": (-1.3, 0.0, 2.0), "logistic": (-1.0, 1.0), "softmax": (0.0, 1.0, 2.0)}[kind]


@pytest.mark.parametrize("l2", L2)
@pytest.mark.parametrize("kind", KINDS)
@given(scores=st.lists(st.floats(-8, 8), min_size=3, max_size=3))
def test_gradient_is_the_difference_quotient(kind, l2, scores):
    """The gradient is the central difference of the value, and `assess` says the same of both."""
    loss, m, eps = models.LOSSES[kind].make(l2=l2), outputs(kind), 1e-6
    s = np.array(scores[:m])
    for label in labels(kind):
        y, g = np.array([label]), np.empty(m)
        gradient(loss, s, y, g)
        for c in range(m):
            step = np.where(np.arange(m) == c, eps, 0.0)
            quotient = (value(loss, s + step, y) - value(loss, s - step, y)) / (2 * eps)
            assert g[c] == pytest.approx(quotient, rel=1e-6, abs=2e-9)
        G, L = np.empty((m, 2)), np.empty(2)
        assess(loss, np.stack([s, s], axis=1), y, G, L)
        np.testing.assert_allclose(G[:, 1], g, rtol=1e-14, atol=1e-16)
        assert L[1] == pytest.approx(value(loss, s, y), rel=1e-14, abs=1e-300)


@pytest.mark.parametrize("kind", KINDS)
def test_tails_are_finite_and_links_in_range(kind):
    """At +-700 value and gradient are finite, and the link stays in its range."""
    loss, m = models.LOSSES[kind].make(l2=0.0), outputs(kind)
    for far in (-700.0, 700.0):
        for label in labels(kind):
            s, g, p = np.full(m, 0.0), np.empty(m), np.empty(m)
            s[0] = far
            gradient(loss, s, np.array([label]), g)
            link(loss, s, p)
            assert np.isfinite(value(loss, s, np.array([label])))
            assert np.isfinite(g).all()
            if kind != "squared":
                assert ((p >= 0) & (p <= 1)).all()


@pytest.mark.parametrize("kind", KINDS)
def test_start_is_a_constant_that_fits(kind):
    """y0 of 90 labels of one kind and 10 of another beats y0 = 0; of none it is 0; of one class it
    is finite.
    """
    loss, m = models.LOSSES[kind].make(l2=0.0), outputs(kind)
    first, second = labels(kind)[-1], labels(kind)[0]
    counts, y0 = np.zeros(m), np.full(m, 9.0)
    start(loss, 0.0, counts, y0)
    assert (y0 == 0.0).all()
    for total in range(1, 91):
        tally(loss, np.array([first]), 1.0, float(total), counts)
    start(loss, 90.0, counts, y0)
    assert np.isfinite(y0).all()
    for total in range(91, 101):
        tally(loss, np.array([second]), 1.0, float(total), counts)
    start(loss, 100.0, counts, y0)

    def mean(s):
        return 0.9 * value(loss, s, np.array([first])) + 0.1 * value(loss, s, np.array([second]))

    assert mean(y0) < mean(np.zeros(m))
    assert mean(y0) <= mean(y0 + 0.05) + 1e-3


@pytest.mark.parametrize("kind", KINDS)
def test_smoothness_is_the_largest_curvature(kind):
    """beta bounds |gradient difference| / |score difference| and l2 adds 2 r."""
    loss, m = models.LOSSES[kind].make(l2=0.5), outputs(kind)
    r = np.random.default_rng(1)
    for _ in range(200):
        a, b = r.normal(size=(2, m)) * 3
        ga, gb, y = np.empty(m), np.empty(m), np.array([labels(kind)[0]])
        gradient(loss, a, y, ga)
        gradient(loss, b, y, gb)
        assert np.linalg.norm(ga - gb) <= smoothness(loss) * np.linalg.norm(a - b) * (1 + 1e-12)


@pytest.mark.parametrize(
    ("kind", "m", "y", "says"),
    [
        ("logistic", 1, [0.0, 2.0], "0 and 1"),
        ("logistic", 1, [0.0, -1.0], "0 and 1"),
        ("softmax", 3, [0.0, 3.0], "0 to 2"),
        ("softmax", 3, [0.5, 1.0], "0 to 2"),
        ("squared", 1, [np.inf, 1.0], "not finite"),
        ("squared", 2, [1.0, 1.0], "m = 2"),
    ],
)
def test_labels_that_do_not_fit_are_refused(kind, m, y, says):
    """A label outside the loss's range is refused with what it takes."""
    booster = models.build({"loss": kind, "bank": {"kind": "linear", "n": 2}}, d=1, m=m)
    with pytest.raises(models.ModelError, match=says):
        models.learn_many(booster, np.ones((2, 1)), np.array(y))


def test_binary_labels_map_once():
    """0 and 1 teach what -1 and 1 teach."""
    X, y = np.random.default_rng(0).normal(size=(50, 2)), np.arange(50) % 2
    left, right = (models.build({"loss": "logistic"}, d=2) for _ in range(2))
    a, b = models.learn_many(left, X, y), models.learn_many(right, X, 2 * y - 1)

    np.testing.assert_array_equal(a, b)
