"""Online Gradient Boosting: the twin, the properties of section 9, the map of labels, refusals."""

from __future__ import annotations

import numpy as np
import pytest

import kaboost
from kaboost.models.verbs import bank_scratch_rows, combine, learn, predict, rule_scratch_size
from tests.boosters import restored, state_bytes
from tests.models.number_streams import scaled_columns
from tests.naive import losses as naive_losses
from tests.naive.booster import BANKS, RULES

SGD = {"kind": "linear", "n": 4, "step": "sgd", "lr": 0.1}
SQUARED = {"kind": "squared"}
SPAN = {"kind": "ogb_span", "label_bound": 2.0}
HULL = {"kind": "ogb_hull", "label_bound": 2.0}
LINEAR_FIT = {"fit": "linear", "bound": 0.5}
RESIDUAL = {"greedy_form": "residual", "bound": 0.8}


def built(rule, bank=SGD, loss=SQUARED, m=1, d=4):
    spec = kaboost.normalise_spec({"rule": rule, "bank": bank, "loss": loss, "seed": 7})
    return spec, kaboost.build(spec, d=d, m=m)


def twin_of(spec, m, d=4):
    bank = BANKS[spec["bank"]["kind"]](spec["bank"], d, m, spec["seed"])
    return RULES[spec["rule"]["kind"]](spec, d, m, naive_losses.twin(spec["loss"]), bank)


def follow(twin, X, y, w):
    """What the twin serves before each event, and its prefixes at the last one."""
    served = []
    for x, label, weight in zip(X.tolist(), y, w, strict=True):
        served.append(twin.combine(x)[1])
        if weight > 0.0:
            twin.learn(x, [float(v) for v in np.atleast_1d(label)], weight)
    return np.array(served), np.array(twin.combine(X[0].tolist())[0])


PAIRS = [
    (SPAN, SGD, SQUARED, 1),
    (SPAN | {"fit": "linear", "radius": 0.4}, SGD, SQUARED, 1),
    (SPAN | {"eta": 0.7, "scale": 3, "bound": 0.3}, SGD, {"kind": "squared", "l2": 0.02}, 3),
    (SPAN | LINEAR_FIT | {"t_max": 20}, SGD, SQUARED, 3),
    (SPAN | RESIDUAL | {"scale": 1.5}, SGD, {"kind": "squared", "l2": 0.1}, 3),
    (HULL, SGD, {"kind": "squared", "l2": 0.02}, 3),
    (HULL | LINEAR_FIT, SGD, SQUARED, 1),
    (HULL | RESIDUAL | {"scale": 2}, SGD, {"kind": "squared", "l2": 0.1}, 3),
    (SPAN, SGD, {"kind": "absolute"}, 1),
    (SPAN | {"bound": 1.5}, SGD, {"kind": "logistic"}, 1),
    (HULL | LINEAR_FIT, SGD, {"kind": "huber", "k": 0.4}, 1),
    (SPAN, SGD, {"kind": "poisson"}, 1),
    (HULL, {"kind": "linear", "n": 3, "step": "nag"}, {"kind": "hinge"}, 1),
    (
        SPAN | {"nonsmooth": "heuristic"},
        {"kind": "nets", "n": 3, "lr": 0.01},
        {"kind": "quantile", "q": 0.8},
        1,
    ),
    (HULL, {"kind": "nets", "n": 3, "lr": 0.01}, SQUARED, 3),
    (SPAN | {"bound": 1.5}, {"kind": "stumps", "n": 3}, SQUARED, 1),
    (SPAN | {"greedy_form": "gradient", "bound": 1.5}, {"kind": "stumps", "n": 3}, SQUARED, 1),
    (HULL | {"greedy_form": "gradient"}, {"kind": "stumps", "n": 3}, SQUARED, 3),
    (SPAN, {"kind": "stumps", "n": 3}, {"kind": "logistic"}, 1),
    (SPAN | LINEAR_FIT, {"kind": "hedge", "n": 4}, SQUARED, 3),
    (HULL, {"kind": "hedge", "n": 3, "rate": 0.3}, {"kind": "exponential"}, 1),
]


@pytest.mark.parametrize(("rule", "bank", "loss", "m"), PAIRS)
def test_twin(rule, bank, loss, m):
    """Scores, prefixes, shrinkage and constants are those of the slow rule from the paper."""
    spec, booster = built(rule, bank, loss, m)
    twin = twin_of(spec, m)
    X, y, w = scaled_columns(loss["kind"], m)
    scores = kaboost.learn_many(booster, X, y, w)
    served, prefixes = follow(twin, X, y, w)

    np.testing.assert_allclose(booster.rule.L, twin.L, rtol=1e-12)
    np.testing.assert_allclose(scores, served, rtol=1e-9, atol=1e-11)
    predicted = kaboost.prefixes_many(booster, X[:1])[0]
    np.testing.assert_allclose(predicted, prefixes, rtol=1e-9, atol=1e-11)
    if spec["rule"]["kind"] == "ogb_span":
        np.testing.assert_allclose(booster.rule.sigma, twin.sigma, rtol=1e-9, atol=1e-12)


def test_shrinkage_and_radius():
    """Property 6: sigma stays in [0, 1], the first at 0; partial sums stay in the ball, weak
    predictions in theirs.
    """
    _, booster = built(SPAN | {"radius": 0.6, "bound": 0.9, "eta": 0.8}, m=3)
    X, y, w = scaled_columns("squared", 3)
    for k in range(len(X)):
        kaboost.learn_many(booster, X[k : k + 1], 0.5 * y[k : k + 1], w[k : k + 1])
        assert (booster.rule.sigma >= 0.0).all()
        assert (booster.rule.sigma <= 1.0).all()
        assert booster.rule.sigma[0] == 0.0
    lengths = np.linalg.norm(kaboost.prefixes_many(booster, 100.0 * X), axis=2)
    assert lengths.max() == pytest.approx(0.6, rel=1e-12)
    assert booster.rule.sigma.max() > 0.0

    _, hull = built(HULL | {"bound": 0.9}, m=3)
    kaboost.learn_many(hull, X, 3.0 * y, w)
    lengths = np.linalg.norm(kaboost.prefixes_many(hull, 100.0 * X), axis=2)
    assert lengths.max() == pytest.approx(0.9, rel=1e-12)


def test_weights_of_the_hull():
    """3.2: learner j of N counts 2j / (N (N + 1)), the later the more."""
    N = 7
    _, booster = built(HULL, SGD | {"n": N})
    for j in range(N):
        h, F, yhat = np.zeros((1, N)), np.empty((1, N + 1)), np.empty(1)
        h[0, j] = 1.0
        combine(booster.rule, h, F, yhat, np.empty(rule_scratch_size(booster.rule)))
        assert yhat[0] == pytest.approx(2 * (j + 1) / (N * (N + 1)), rel=1e-14)


def test_a_hull_of_one_is_its_learner():
    """Property 11: with N = 1 the hull serves, and teaches, the weak learner alone."""
    _, booster = built(HULL | {"bound": 100.0}, SGD | {"n": 1})
    alone = built(HULL, SGD | {"n": 1})[1].bank
    X, y, _ = scaled_columns("squared")
    scores = kaboost.learn_many(booster, X, y)
    h, bank_scratch = np.empty((1, 1)), np.empty((bank_scratch_rows(alone), 1))
    for x, z, score in zip(X, y, scores[:, 0], strict=True):
        predict(alone, x, h, bank_scratch)
        assert h[0, 0] == score
        learn(alone, x, h, np.array([[z]]), np.ones(1), 0, bank_scratch)
    np.testing.assert_array_equal(booster.bank.w, alone.w)


def test_learners_that_are_taught_alike_stay_alike():
    """Property 12: under the deterministic reduction N learners stay the same arrays, and one that
    stands for them gives the same bits.
    """
    loss = {"kind": "absolute"}
    spec, one = built(SPAN, loss=loss)
    bank = kaboost.BANKS["linear"].make(spec["bank"], 4, 1, 7)
    many = built(SPAN, loss=loss)[1]._replace(bank=bank)
    X, y, w = scaled_columns("absolute")

    assert kaboost.learn_many(one, X, y, w).tobytes() == kaboost.learn_many(many, X, y, w).tobytes()
    assert one.bank.bank.w.shape[2] == 1
    for i in range(4):
        np.testing.assert_array_equal(bank.w[:, :, i], one.bank.bank.w[:, :, 0])
    np.testing.assert_array_equal(one.rule.sigma, many.rule.sigma)


@pytest.mark.parametrize("fit", ["greedy", "linear"])
def test_prefixes_are_smaller_ensembles(fit):
    """Property 7: prefix k of N learners is the ensemble of k, with the same eta, B and L."""
    rule = SPAN | {"eta": 0.4, "radius": 0.9, "fit": fit}
    X, y, w = scaled_columns("squared")
    for small, large in ((rule, rule), (HULL | {"fit": fit}, HULL | {"fit": fit})):
        few, many = built(small, SGD | {"n": 3})[1], built(large, SGD | {"n": 6})[1]
        kaboost.learn_many(few, X, y, w)
        kaboost.learn_many(many, X, y, w)

        assert few.progress.loss_sum == many.progress.prefix_loss_sum[3]
        np.testing.assert_array_equal(
            kaboost.predict_many(few, X), kaboost.prefixes_many(many, X)[:, 3]
        )


def test_importance_multiplies_the_step_of_sigma():
    """Section 0: an event of importance w moves sigma w times as far, and counts once."""
    X, y, _ = scaled_columns("squared")
    moved = []
    for w in (1.0, 0.25):
        _, booster = built(SPAN | {"fit": "linear"}, SGD | {"lr": 1e-12})
        booster.bank.w[:, -1, :] = 1.0
        booster.rule.sigma[:] = 0.0
        kaboost.learn_many(booster, X[:3], y[:3] - 2.0, np.full(3, w))
        moved.append(booster.rule.sigma.copy())
        assert booster.rule.t == 3.0
    np.testing.assert_allclose(moved[1][1], 0.25 * moved[0][1], rtol=0.05)
    assert moved[0][1] > 0.0


def test_mapped_labels():
    """7.8: the running mean for 500 labels, nothing learned; then what the twin says of mapped
    labels, in the units of the labels.
    """
    X, y, w = scaled_columns("squared", 3, n=700)
    y = 40.0 + 7.0 * y
    y[650] += 900.0
    rule = SPAN | {"labels": "mapped", "label_bound": 1.0, "eta": 1.0}
    spec, booster = built(rule, SGD | {"lr": 0.02}, m=3)
    learned = int(np.flatnonzero(np.cumsum(w > 0) == 500)[0]) + 1
    first = kaboost.learn_many(booster, X[:learned], y[:learned], w[:learned])
    means = np.cumsum(w[:, None] * y, axis=0) / np.cumsum(w)[:, None]

    np.testing.assert_allclose(first[1:], means[: learned - 1], rtol=1e-12)
    assert not booster.bank.w.any()
    assert booster.rule.t == 0.0
    assert booster.progress.edge_missed.sum() == 0.0
    seen = y[:learned][w[:learned] > 0]
    middle = np.median(seen, axis=0)
    np.testing.assert_allclose(booster.rule.labels.centre, middle, rtol=1e-14)
    np.testing.assert_allclose(
        booster.rule.labels.spread, 2.0 * abs(seen - middle).max(axis=0), rtol=1e-14
    )

    rest = kaboost.learn_many(booster, X[learned:], y[learned:], w[learned:])
    expected, prefixes = follow(twin_of(spec, 3), X, y, w)
    np.testing.assert_allclose(np.concatenate([first, rest]), expected, rtol=1e-9)
    np.testing.assert_allclose(kaboost.prefixes_many(booster, X[:1])[0], prefixes, rtol=1e-9)
    assert booster.rule.labels.outside == 1.0
    missed, constant = abs(rest - y[learned:])[100:, 0], abs(middle - y[learned:])[100:, 0]
    assert np.median(missed) < 0.7 * np.median(constant)


def test_equal_labels_are_mapped():
    """500 equal labels leave learners untouched, and a map that only shifts."""
    _, booster = built(HULL | {"labels": "mapped"}, {"kind": "linear", "n": 3, "step": "nag"})
    X = np.ones((600, 4))
    scores = kaboost.learn_many(booster, X[:500], np.full(500, 3.0))

    assert scores[0, 0] == 0.0
    np.testing.assert_allclose(scores[1:, 0], 3.0, rtol=1e-12)
    assert not booster.bank.step.t.any()
    assert booster.rule.labels.spread[0] == 1.0
    later = kaboost.learn_many(booster, X[500:], np.full(100, 3.0))
    np.testing.assert_allclose(later[:, 0], 3.0, rtol=1e-12)
    assert (booster.bank.step.t == 100.0).all()


def test_mapped_labels_do_not_depend_on_batches():
    """The map is state: any batching, and a copy of the arrays half way, give the same bits."""
    X, y, w = scaled_columns("squared", n=620)
    rule = SPAN | {"labels": "mapped"}
    spec, whole = built(rule)
    kaboost.learn_many(whole, X, y, w)
    _, parts = built(rule)
    kaboost.learn_many(parts, X[:333], y[:333], w[:333])
    parts = restored(parts, spec)
    kaboost.learn_many(parts, X[333:], y[333:], w[333:])

    assert state_bytes(whole) == state_bytes(parts)


@pytest.mark.parametrize(
    ("given", "task", "expected"),
    [
        ({"loss": "squared"}, None, ("greedy", "gradient", "given")),
        ({}, "regression", ("greedy", "gradient", "mapped")),
        ({"loss": "poisson"}, "regression", ("greedy", "gradient", "given")),
        ({}, "binary", ("greedy", "gradient", "given")),
        ({"loss": "absolute"}, "regression", ("linear", "gradient", "mapped")),
        ({"loss": "squared", "bank": "stumps"}, None, ("greedy", "residual", "given")),
        ({"loss": "squared_full", "bank": "trees"}, None, ("greedy", "residual", "given")),
        ({"loss": "logistic", "bank": "trees"}, None, ("linear", "gradient", "given")),
        ({"loss": "logistic", "bank": "stumps"}, None, ("greedy", "gradient", "given")),
    ],
)
@pytest.mark.parametrize("kind", ["ogb_span", "ogb_hull"])
def test_defaults(kind, given, task, expected):
    """Defaults by bank, loss and task are written out, and stay when they are filled in again."""
    full = kaboost.normalise_spec({"rule": kind, **given}, task)

    assert tuple(full["rule"][word] for word in ("fit", "greedy_form", "labels")) == expected
    assert kaboost.normalise_spec(full) == full


def test_default_step():
    """eta is ln(N)/N, and 1 below three learners."""
    for n, eta in ((1, 1.0), (2, 1.0), (3, np.log(3) / 3), (50, np.log(50) / 50)):
        full = kaboost.normalise_spec({"rule": "ogb_span", "bank": SGD | {"n": n}, "loss": SQUARED})
        assert full["rule"]["eta"] == pytest.approx(eta, rel=1e-15)


@pytest.mark.parametrize(
    ("rule", "bank", "loss", "says"),
    [
        ({}, SGD, "softmax", "one_vs_rest"),
        ({}, "nets", "hinge", "take nonsmooth: heuristic"),
        ({}, SGD | {"features": "cyclic"}, "absolute", "take nonsmooth: heuristic"),
        ({"fit": "greedy"}, SGD, "quantile", "take fit: linear"),
        ({"greedy_form": "residual"}, SGD, "logistic", "take gradient"),
        ({"labels": "mapped"}, SGD, "logistic", "take labels: given"),
        ({"labels": "mapped"}, SGD, "poisson", "take labels: given"),
        ({}, "coordinate_ftl", "logistic", "cannot be fed slopes"),
        ({"scale": 0.5}, SGD, "squared", "rule.scale"),
    ],
)
@pytest.mark.parametrize("kind", ["ogb_span", "ogb_hull"])
def test_refusals(kind, rule, bank, loss, says):
    """What the theory or the bank does not allow is refused with what to take instead."""
    spec = {"rule": {"kind": kind, **rule}, "bank": bank, "loss": loss}
    with pytest.raises(kaboost.ModelError, match=says):
        kaboost.build(spec, d=4, m=3 if loss == "softmax" else 1)


def test_extremes_stay_finite():
    """Enormous features, labels and importances leave sums, shrinkage and answers finite."""
    X, y, w = scaled_columns("squared", 3)
    for rule in (SPAN, HULL | LINEAR_FIT, SPAN | {"labels": "mapped"}):
        _, booster = built(rule, m=3)
        large = y.copy()
        large[::5], large[1::5] = 1e308, -1e308
        with np.errstate(all="ignore"):  # plain Python warns where compiled code saturates
            kaboost.learn_many(booster, np.where(w > 1, 1e200, 1.0)[:, None] * X, large, 1e300 * w)
            kaboost.learn_many(booster, X, y, w)
        assert np.isfinite(kaboost.predict_many(booster, X)).all()
        assert np.isfinite(booster.progress.edges).all() or rule.get("labels") == "mapped"
