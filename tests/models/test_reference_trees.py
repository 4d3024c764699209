"""Regression trees: the reference values of sections 10.2 and 10.4, bins in force from the first
event.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

import kaboost
from kaboost.models.banks.histogram_trees.binning import fit_edges
from tests.models.reference_streams import stream_f


def booster_of(rule, X, n, depth, **more):
    bank = {"kind": "trees", "n": n, "depth": depth, "grace": 100, **more}
    booster = kaboost.build({"rule": rule, "bank": bank, "loss": "squared"}, d=10)
    fit_edges(
        X[:500] + 0.0, booster.bank.binning.edges, booster.bank.binning.cuts
    )  # instead of a warm-up
    booster.bank.binning.ready[()] = 1
    return booster


def second_half(booster, X, z):
    """Mean squared error of every prefix on the second half of the stream."""
    kaboost.learn_many(booster, X[:4000], z[:4000])
    before = booster.progress.prefix_loss_sum.copy()
    kaboost.learn_many(booster, X[4000:], z[4000:])
    return 2 * (booster.progress.prefix_loss_sum - before) / 4000


@pytest.mark.parametrize(
    ("n", "depth", "eta", "rho", "grace", "errors", "splits"),
    [
        (20, 1, 0.3, 1.0, 100, (23.857, 20.828, 19.323, 18.057, 15.059, 10.971), 20),
        (20, 3, 0.3, 1.0, 100, (23.857, 17.146, 13.864, 11.199, 9.457, 7.556), 132),
        (50, 3, 0.1, 1.0, 100, (23.857, 21.352, 19.323, 15.284, 12.357, 8.648), 343),
        (50, 3, 0.3, 1.0, 100, (23.857, 17.146, 13.864, 11.199, 9.457, 6.761), 225),
        (20, 3, 0.3, 1.0, 50, (23.857, 17.025, 13.672, 10.930, 8.453, 6.875), 130),
        (20, 3, 0.3, 0.995, 50, (23.857, 17.107, 13.786, 11.011, 8.992, 6.267), 129),
        (20, 4, 0.3, 0.999, 50, (23.857, 16.043, 12.222, 9.193, 7.192, 5.711), 235),
    ],
)
def test_trees(n, depth, eta, rho, grace, errors, splits):
    """10.2: errors of prefixes 0, 1, 2, 5, 10 and n on stream F, and how often trees split."""
    X, z = stream_f(8000)
    rule = {"kind": "sgb", "eta": eta, "y0_freeze": 2**53}
    booster = booster_of(rule, X, n, depth, rho=rho, grace=grace)
    found = second_half(booster, X, z)[[0, 1, 2, 5, 10, n]]

    np.testing.assert_allclose(found, errors, rtol=0.01)
    assert (booster.bank.feat >= 0).sum() == pytest.approx(splits, abs=2)


@pytest.mark.parametrize(("depth", "error"), [(1, 18.6633), (2, 15.5309), (3, 11.4111)])
def test_single_tree(depth, error):
    """10.2: one tree alone."""
    X, z = stream_f(8000)
    booster = booster_of({"kind": "sgb", "eta": 1.0, "y0": 0.0}, X, 1, depth)

    assert second_half(booster, X, z)[1] == pytest.approx(error, rel=0.01)


@pytest.mark.parametrize(
    ("n", "rule", "error"),
    [
        (1, {"kind": "ogb_hull"}, 5.853),
        (20, {"kind": "ogb_hull", "bound": 0.3}, 0.4447),
        (20, {"kind": "ogb_span", "bound": 0.3, "radius": 1.0, "eta": math.log(21) / 20}, 0.3401),
    ],
)
def test_linear_mode(n, rule, error):
    """10.4: trees fed slopes, error of the second half over the variance of its labels."""
    X, z = stream_f(6000)
    y = np.clip((z - 14.4) / 15, -1, 1)
    booster = booster_of({**rule, "fit": "linear"}, X, n, 3)
    missed = kaboost.learn_many(booster, X, y)[3000:, 0] - y[3000:]

    assert booster.bank.params.bound == rule.get("bound", 1.0)
    assert (missed**2).mean() / y[3000:].var() == pytest.approx(error, rel=0.01)
