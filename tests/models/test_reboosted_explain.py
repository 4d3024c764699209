"""Explanations of reboosted trees: Shapley values of the linear part, and what stands beside it."""

from __future__ import annotations

import numpy as np
import pytest
import shap

import kaboost
from kaboost.models.explain.interface import deviations, explain_many
from kaboost.models.reboosted.ensemble import LINEAR_SCORES
from kaboost.models.reboosted.explain import (
    explain_linear,
    explain_linear_part,
    export_trees,
    linear_part,
)
from kaboost.models.reboosted.predict import linear_scores
from kaboost.models.reboosted.scratch import allocate
from kaboost.models.reboosted.state import Trees
from kaboost.models.reboosted.trees.binning import MAX_NUMBER, to_key
from kaboost.models.reboosted.trees.binning import to_keys as keys_of
from kaboost.models.reboosted.trees.shap import explain_trees, shap_scratch
from tests.boosters import copied
from tests.models.number_streams import product_with_gaps
from tests.models.test_reboosted import LOSSES, SMALL, build, learned, plainly
from tests.naive.shapley import expected, shapley


def full_rows(booster, X):
    """The columns that exported trees look at: float32, then the label lags."""
    lags = np.tile(booster.trees.label_means, (len(X), 1))
    return np.clip(np.hstack([X, lags]), -MAX_NUMBER, MAX_NUMBER).astype(np.float32).astype(float)


def oracle(exported, rows):
    """What shap's TreeExplainer says of exported trees, by the path that rows take."""
    trees = [
        {
            "children_left": np.array(one["children_left"]),
            "children_right": np.array(one["children_right"]),
            "children_default": np.where(
                one["missing_left"], one["children_left"], one["children_right"]
            ),
            "features": np.array(one["features"]),
            "thresholds": np.array(one["thresholds"]),
            "values": np.array(one["values"])[:, None],
            "node_sample_weight": np.array(one["covers"]),
        }
        for one in exported["trees"]
    ]
    expected_values = {"trees": trees, "base_offset": exported["base"], "tree_output": "raw_value"}
    explainer = shap.TreeExplainer(
        expected_values | {"internal_dtype": np.float64, "input_dtype": np.float64},
        feature_perturbation="tree_path_dependent",
    )
    return float(np.ravel(explainer.expected_value)[0]), explainer.shap_values(rows)


@pytest.mark.parametrize("loss", LOSSES)
def test_equals_shap(loss):
    """Contributions and base are those of shap's TreeExplainer on the exported trees."""
    booster = learned(2000, loss=loss)
    X, _ = product_with_gaps(200, loss=loss, seed=9)
    X[:, 3] = np.where(np.arange(200) % 7, X[:, 3], np.inf)
    found_base, found, _ = explain_linear_part(booster, X)
    base, phi = oracle(export_trees(booster), full_rows(booster, X))
    straight, lines = explain_linear(booster, X)

    assert abs(phi).max() > 1e-3  # a sharp stack may leave trees little of a smooth stream
    assert abs(lines).max() > 0.01
    np.testing.assert_allclose(found_base, base + straight, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(found, phi + lines, rtol=1e-7, atol=1e-9)


def test_equals_shap_where_missing_decides():
    """Cuts that part only what is missing are exported as what they are."""
    r = np.random.default_rng(4)
    X = r.normal(size=(2000, 5))
    gone = r.random(2000) < 0.3
    X[gone, 0] = np.nan
    booster = build()
    kaboost.learn_many(booster, X, gone ^ (X[:, 1] > 0.0))
    _, found, _ = explain_linear_part(booster, X[:100])
    _, phi = oracle(export_trees(booster), full_rows(booster, X[:100]))
    _, lines = explain_linear(booster, X[:100])

    assert abs(phi[:, 0]).mean() > 0.1
    np.testing.assert_allclose(found, phi + lines, rtol=1e-7, atol=1e-9)


def test_equals_all_sets_of_features():
    """Contributions are the mean marginal values over all orders of the features, by definition."""
    booster = learned(2000)
    X, _ = product_with_gaps(12, seed=9)
    exported, rows = export_trees(booster), full_rows(booster, X)
    phi = [sum(np.array(shapley(one, x)) for one in exported["trees"]) for x in rows]
    base = exported["base"] + sum(expected(one, rows[0], set()) for one in exported["trees"])
    found_base, found, _ = explain_linear_part(booster, X)
    straight, lines = explain_linear(booster, X)

    np.testing.assert_allclose(found_base, base + straight, atol=1e-12)
    np.testing.assert_allclose(found, phi + lines, atol=1e-12)


@pytest.mark.parametrize("loss", LOSSES)
def test_lines_explain_what_the_linear_learners_say(loss):
    """Base and contributions of the lines are the linear learners' scores and the last label's, by
    their weights; what is missing adds nothing.
    """
    booster = learned(2000, loss=loss)
    X, _ = product_with_gaps(50, loss=loss, seed=9)
    X[:5] = np.nan
    own, L = linear_part(booster).lines, booster.linear
    base, phi = explain_linear(booster, X)
    K, link = len(booster.trees.structures), int(booster.trees.params.link)
    a = allocate(booster.trees, booster.stack, 5)
    for x, expected_values in zip(X, phi, strict=True):
        linear_scores(L, keys_of(x[None])[0], booster.trees.label_means, link, booster.labels, a)
        assert own @ a.scores[5 * K :] == pytest.approx(
            base + expected_values.sum(), rel=1e-9, abs=1e-9
        )

    assert abs(phi[5:, :5]).max() > 0.01
    assert (phi[:5, :5] == 0.0).all()
    assert len(own) == LINEAR_SCORES


@pytest.mark.parametrize("loss", LOSSES)
def test_adds_up(loss):
    """Base and contributions come to the served score. What they do not with the linear part alone
    is spread in proportion to their sizes; with numbers it is only rounding.
    """
    X, y = product_with_gaps(2500, loss=loss)
    y = y if loss in ("logistic", "poisson") else 40.0 * y + 300.0
    booster = build(loss=loss)
    kaboost.learn_many(booster, X[:2000], y[:2000])
    found = explain_many(booster, X[2000:])
    base, phi, total = explain_linear_part(booster, X[2000:])
    rest = found.scores[:, 0] - total

    assert (found.scores == kaboost.predict_many(booster, X[2000:])).all()
    np.testing.assert_allclose(
        found.base + found.contributions.sum(axis=2), found.scores, rtol=0.0, atol=1e-9
    )
    part = (rest / (abs(base) + abs(phi).sum(axis=1)))[:, None]
    np.testing.assert_allclose(found.contributions[:, 0], phi + part * abs(phi), atol=1e-9)
    if loss == "logistic":
        assert 1e-3 < abs(rest).max() < 1.0
    elif loss == "poisson":
        assert abs(rest).mean() < 0.1
    else:
        np.testing.assert_allclose(rest, 0.0, atol=1e-9)


def test_exported_trees_say_the_linear_part():
    """The exported trees sum up to what the contributions explain."""
    booster = learned(2000)
    X, _ = product_with_gaps(50, seed=9)
    exported, rows = export_trees(booster), full_rows(booster, X)
    everything = set(range(rows.shape[1]))
    predicted = [sum(expected(one, x, everything) for one in exported["trees"]) for x in rows]
    _, _, found = explain_linear_part(booster, X)

    straight, lines = explain_linear(booster, X)

    np.testing.assert_allclose(
        found,
        exported["base"] + np.array(predicted) + straight + lines.sum(axis=1),
        atol=1e-12,
    )


def test_weights_are_those_of_the_mixture():
    """Before any loss the linear part is between what the filters start from, which trust the lines
    with two fifths, and the average's plain mean.
    """
    weights, lines, _ = linear_part(build())

    np.testing.assert_allclose(weights, np.full((4, 5), 0.75 * 0.03 + 0.25 / 23), atol=1e-15)
    plain = 0.25 / 23
    np.testing.assert_allclose(lines, [0.075 + plain, 0.075 + plain, 0.15 + plain], atol=1e-15)


def test_covers_count_the_events_of_each_tree():
    """A tree's root covers the rows it was grown from, an inner node what its children do."""
    booster = learned(2000)
    exported = export_trees(booster)
    last = int(booster.trees.schedule.cursor[0]) - 1
    work, covers = booster.builds[0], exported["trees"][last]["covers"]

    assert covers[0] == work.cursor[0].drawn > 100
    assert min(covers) >= 1.0
    for one in exported["trees"]:
        for left, right, cover in zip(
            one["children_left"], one["children_right"], one["covers"], strict=True
        ):
            assert left < 0 or cover == one["covers"][left] + one["covers"][right]


def node(threshold, feature, left):
    """A cut as trees hold it."""
    return (to_key(threshold) << 32) + (feature << 16) + left


def leaf(number, place):
    """A leaf as trees hold it."""
    return (2147483647 << 32) + (number << 16) + place


def grown(nodes, values, covers):
    """A structure of one tree."""
    rows = np.zeros((1, len(values), 8), np.float32)
    rows[0, :, 0], rows[0, :, 5] = values, covers
    return Trees(np.array([nodes]), rows)


def explained(trees, x):
    """What the kernel says of one row of a structure whose learners weigh 1 in all."""
    d = len(x)
    keys = keys_of(np.array([x]))
    laid = np.hstack([keys, np.where(keys == 2147483647, -2147483647, keys)]).astype(np.int32)
    phi, predicted = np.zeros((1, d)), np.zeros(1)
    base = explain_trees(
        trees,
        np.array([0.0, 0.0, 0.0, 0.0, 1.0]),
        laid,
        shap_scratch(trees.nodes.shape[1]),
        phi,
        predicted,
    )
    return base, phi[0], predicted[0]


def test_equal_features_get_equal_shares():
    """Symmetry: `x0 and x1` with equal covers owes as much to one as to the other; x2 adds none."""
    nodes = [node(0.0, 0, 1), leaf(0, 1), node(0.0, 1, 3), leaf(1, 3), leaf(2, 4)]
    trees = grown(nodes, [0.0, 0.0, 4.0], [20.0, 10.0, 10.0])
    base, phi, predicted = explained(trees, [1.0, 1.0, 1.0])

    assert (1.0, 4.0) == (base, predicted)
    np.testing.assert_allclose(phi, [1.5, 1.5, 0.0], atol=1e-14)


def test_the_deepest_tree_is_exact():
    """Eight points integrate the polynomial of sixteen features on one way without an error."""
    D, r = 16, np.random.default_rng(3)
    values, covers = r.normal(size=D + 1), 32.0 ** np.arange(D, -1, -1)  # few go on
    nodes = [node(0.0, 0, 1)]  # at each cut the left child is a leaf and the right one goes on
    for k in range(D):
        going = node(0.0, k + 1, 2 * k + 3) if k + 1 < D else leaf(D, 2 * k + 2)
        nodes += [leaf(k, 2 * k + 1), going]
    trees = grown(nodes, values, covers)
    x = np.ones(D)
    _, phi, _ = explained(trees, x)
    total = np.cumsum(covers[::-1])[::-1]
    exported = {"base": 0.0, "trees": [chain(D, trees.rows[0, :, 0], covers, total)]}
    _, expected_values = oracle(exported, x[None, :])

    np.testing.assert_allclose(phi, expected_values[0], atol=1e-11)


def chain(D, values, covers, total):
    """The same tree as exported ones are."""
    one = {name: [] for name in ("children_left", "children_right", "features", "thresholds")}
    one |= {"missing_left": [], "values": [], "covers": []}
    for n in range(2 * D + 1):
        inner = n % 2 == 0 and n < 2 * D
        k = n // 2
        one["children_left"].append(n + 1 if inner else -1)
        one["children_right"].append(n + 2 if inner else -1)
        one["features"].append(k if inner else -1)
        one["thresholds"].append(0.0)
        one["missing_left"].append(False)
        one["values"].append(0.0 if inner else float(values[k]))
        one["covers"].append(float(total[k] if inner else covers[k]))
    return one


def test_a_constant_feature_adds_nothing():
    """Dummy: what never varies is cut nowhere and gets exactly 0."""
    X, y = product_with_gaps(2000)
    X[:, 4] = 7.0
    booster = build()
    kaboost.learn_many(booster, X, y)

    assert (explain_many(booster, X[:50]).contributions[:, 0, 4] == 0.0).all()
    assert (deviations(booster)[:, 4] == 0.0).all()


def test_deviations_are_those_of_sampled_events():
    """Of features: contributions of the sampled rows, less their means. Of label lags, of which no
    past values are kept: contributions of lags of labels that are drawn.
    """
    booster = learned(3000)
    phi = explain_many(booster, booster.imputation.rows).contributions[:, 0, :5]
    variances = np.square(deviations(booster)).sum(axis=0)

    np.testing.assert_allclose(variances[:5], phi.var(axis=0), rtol=1e-9)
    assert set(np.argsort(-variances)[:3]) == {0, 1, 2}


@pytest.mark.parametrize("loss", LOSSES)
def test_the_last_label_matters_where_labels_follow_it(loss):
    """Where every label is mostly the one before, lags lead; where labels are independent of it,
    they have hardly anything.
    """
    r = np.random.default_rng(2)
    X, follows, labels = r.normal(size=(3000, 2)), r.random(3000) < 0.95, [0.0]
    fresh = r.poisson(3.0, 3000) if loss == "poisson" else (r.random(3000) < 0.5).astype(float)
    for follow, label in zip(follows, fresh, strict=True):
        labels.append(labels[-1] if follow else float(label))
    stuck, free = build(d=2, loss=loss), build(d=2, loss=loss)
    kaboost.learn_many(stuck, X, np.array(labels[1:]))
    own = X[:, 0] > 0.0 if loss == "logistic" else np.exp(X[:, 0])
    kaboost.learn_many(free, X, np.asarray(own, np.float64))
    of_stuck, of_free = (np.square(deviations(each)).sum(axis=0) for each in (stuck, free))

    assert of_stuck[2:].sum() > 0.8 * of_stuck.sum()
    assert of_free[2:].sum() < 0.05 * of_free.sum()


def test_a_snapshot_explains_the_same():
    """Serving arrays, read-only, are all that an explanation needs."""
    booster = learned(2000)
    spec = {"bank": {"kind": "reboosted_trees", "structures": SMALL}, "loss": "logistic"}
    kept = copied(kaboost.serving_arrays(booster), writeable=False)
    served = kaboost.from_arrays(spec, kept)
    X, _ = product_with_gaps(20, seed=9)

    for mine, theirs in zip(explain_many(booster, X), explain_many(served, X), strict=True):
        assert mine.tobytes() == theirs.tobytes()
    assert deviations(booster).tobytes() == deviations(served).tobytes()


def test_compiled_equals_plain():
    """Compiled and plain Python explain to the same bits."""
    program = (
        "from tests.models import test_reboosted as t;"
        "from kaboost.models.explain.interface import *;"
        "b = t.learned(); e = explain_many(b, t.product_with_gaps(5, seed=9)[0]);"
        "print(e.contributions.tobytes().hex(), deviations(b).tobytes().hex())"
    )
    booster = learned()
    found = explain_many(booster, product_with_gaps(5, seed=9)[0])

    assert plainly("-c", program).split() == [
        found.contributions.tobytes().hex(),
        deviations(booster).tobytes().hex(),
    ]


def test_other_banks_are_refused():
    """A bank without trees says which one can be explained."""
    booster = kaboost.build({"bank": "linear", "loss": "squared"}, 2)
    for ask in (lambda: explain_many(booster, np.zeros((1, 2))), lambda: deviations(booster)):
        with pytest.raises(kaboost.ModelError, match="bank: reboosted_trees"):
            ask()
