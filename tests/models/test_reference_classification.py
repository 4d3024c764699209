"""The reference values of the specification, section 10.6: errors on stream C."""

from __future__ import annotations

import numpy as np
import pytest

import kaboost
from tests.models.reference_streams import stream_c


def errors(rule, n, *, lr=0.5, seed=1, loss=None):
    """Errors of the scores made before each event was learned, and the booster."""
    X, u = stream_c()
    bank = {"kind": "linear", "n": n, "step": "sgd", "lr": lr, "features": "cyclic"}
    given = {"rule": rule, "bank": bank, "seed": seed}
    booster = kaboost.build(given | ({"loss": loss} if loss else {}), d=6)
    scores = kaboost.learn_many(booster, X, u)[:, 0]
    return (np.where(scores >= 0, 1, -1) != u).sum(), booster


def test_stream():
    """2001 of 4000 labels are positive."""
    assert (stream_c()[1] > 0).sum() == 2001


@pytest.mark.parametrize(
    ("rule", "seed", "six", "thirty"),
    [
        ({"kind": "bbm"}, 1, 1446, 1061),
        ({"kind": "bbm", "weight": "raw"}, 1, 1223, 882),
        ({"kind": "adaboost_ol_w"}, 1, 1079, 1210),
        ({"kind": "adaboost_ol", "vote": "sampled"}, 5, 1084, 1091),
        ({"kind": "adaboost_ol"}, 1, 1088, 1083),
        ({"kind": "oza_boost"}, 6, 1293, 1233),
        ({"kind": "oza_bag"}, 6, 1459, 1417),
    ],
)
def test_votes(rule, seed, six, thirty):
    """The table of the vote rules, and the expected vote of AdaBoost.OL below it."""
    assert errors(rule, 6, seed=seed)[0] == pytest.approx(six, abs=2)
    assert errors(rule, 30, seed=seed)[0] == pytest.approx(thirty, abs=2)


def test_single_learners():
    """Errors of one learner per feature: what a learner of its own makes of the whole stream."""
    X, u = stream_c()
    found = []
    for j in range(6):
        bank = {"kind": "linear", "n": 1, "step": "sgd", "lr": 0.5}
        booster = kaboost.build({"rule": {"kind": "oza_bag", "feed": "weight"}, "bank": bank}, d=1)
        scores = kaboost.learn_many(booster, X[:, j : j + 1], u)[:, 0]
        found.append((np.where(scores >= 0, 1, -1) != u).sum())

    np.testing.assert_allclose(found, [1577, 1574, 1615, 1604, 1607, 1614], atol=2)


@pytest.mark.parametrize(
    ("rule", "six", "thirty"),
    [
        ({"alpha": 0.1, "w_max": "inf"}, 1258, 1061),
        ({"alpha": 0.5, "w_max": "inf"}, 1034, 870),
        ({"alpha": 1.0, "w_max": "inf"}, 1020, 882),
        ({"step": "exp", "w_max": "inf"}, 975, 766),
        ({"alpha": 0.1}, 1258, 1061),
        ({"alpha": 0.5}, 1034, 868),
        ({"alpha": 1.0}, 1020, 883),
        ({"alpha": 1.7}, 1095, 945),
        ({"step": "exp"}, 975, 766),
    ],
)
def test_gentle(rule, six, thirty):
    """GentleBoost, corrected, without and with the clip of the weight."""
    assert errors({"kind": "gentle", **rule}, 6, lr=0.1)[0] == pytest.approx(six, abs=2)
    assert errors({"kind": "gentle", **rule}, 30, lr=0.1)[0] == pytest.approx(thirty, abs=2)


@pytest.mark.parametrize(
    ("loss", "n", "eta", "expected", "mean"),
    [
        ("logistic", 6, 0.3, 1160, 0.6556),
        ("logistic", 6, 1.0, 1025, 0.5902),
        ("logistic", 6, 4.0, 820, 0.4859),
        ("logistic", 30, 0.3, 1038, 0.5726),
        ("logistic", 30, 1.0, 979, 0.5222),
        ("logistic", 30, 4.0, 1104, 0.8964),
        ("hinge", 30, 0.1, 1205, 0.7497),
        ("hinge", 30, 0.3, 1048, 0.6140),
        ("hinge", 30, 1.0, 1011, 0.6764),
    ],
)
def test_sgb(loss, n, eta, expected, mean):
    """SGB, Algorithm 1, on the same stream: errors and mean regularised loss."""
    rule = {"kind": "sgb", "eta": eta, "y0": 0.0}
    found, booster = errors(rule, n, lr=0.05, loss={"kind": loss, "l2": 0.01})

    assert found == pytest.approx(expected, abs=2)
    assert booster.progress.mean_loss == pytest.approx(mean, abs=6e-5)
