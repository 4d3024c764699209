"""Trees with a value per class at every leaf: kernels beside naive twins, and the contracts of a
booster.
"""

import math
from typing import Any

import numpy as np
import pytest

import kaboost
from kaboost import Model
from kaboost.models.build import build_open, from_arrays, serving_arrays, to_arrays
from kaboost.models.explain.interface import deviations, explain_many
from kaboost.models.reboosted.alarms import alarms
from kaboost.models.reboosted.classes.ensemble import ClassTrees
from kaboost.models.reboosted.classes.leaves import (
    learn_leaves,
    learner_logits,
    reset_leaves,
    sum_leaves,
    update_adagrad,
)
from kaboost.models.reboosted.classes.rows import draw_rows
from kaboost.models.reboosted.classes.scores import class_scratch, softmax, tree_logits
from kaboost.models.reboosted.component import sizes_of
from kaboost.models.reboosted.memory import state_bytes
from kaboost.models.spec import normalise_spec

D, C = 4, 3
BANK = {"kind": "reboosted_trees", "budget": 500.0, "max_memory": 24.0}
SPEC: dict[str, Any] = {"bank": BANK, "loss": "logistic", "multiclass": "shared_trees"}


def stream(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return rows (n, 4) and classes (n,): of a line with noise, and of another column."""
    r = np.random.default_rng(seed)
    X = r.standard_normal((n, D))
    y = (X[:, 0] + 0.3 * r.standard_normal(n) > 0).astype(int) + (X[:, 1] > 0.5)
    return X, y.astype(float)


def taught(n: int = 900) -> ClassTrees:
    """Return trees of classes that have learned n events."""
    booster = kaboost.build(SPEC, D, C)
    X, y = stream(900)
    kaboost.learn_many(booster, X[:n], y[:n])
    assert isinstance(booster, ClassTrees)
    return booster


def differing(a: ClassTrees, b: ClassTrees) -> list[str]:
    """Return the names of arrays whose bytes differ."""
    first, second = to_arrays(a), to_arrays(b)
    return [name for name in first if first[name].tobytes() != second[name].tobytes()]


def naive_sum(rows: np.ndarray, leaf: np.ndarray, base: np.ndarray) -> np.ndarray:
    """Return the logits (5, C) of leaf learners, one number after the other."""
    classes = len(base)
    logits = np.zeros((5, classes))
    for c in range(classes):
        value = 0.0
        offsets = [0.0] * 4
        for i, n in enumerate(leaf):
            value += float(rows[i, n, c])
            for e in range(4):
                offsets[e] += float(rows[i, n, (1 + e) * classes + c])
        for e in range(4):
            logits[e, c] = (float(base[c]) + value) + offsets[e]
        logits[4, c] = float(base[c]) + value
    return logits


@pytest.mark.parametrize("classes", [2, 3, 11])
def test_leaves_equal_their_naive_twin(classes: int) -> None:
    """Sums, steps and AdaGrad's roots of leaves are those of loops over single numbers."""
    r = np.random.default_rng(classes)
    trees, leaves = 6, 5
    rows = r.standard_normal((trees, leaves, 7 * classes + 1)).astype(np.float32)
    rows[:, :, 6 * classes :] = abs(rows[:, :, 6 * classes :])
    leaf = r.integers(0, leaves, trees).astype(np.int32)
    base, total, logits = r.standard_normal(classes), np.zeros(5 * classes), np.zeros((5, classes))
    sum_leaves(rows, leaf, 0, 2, total)
    sum_leaves(rows, leaf, 2, trees, total)
    learner_logits(total, base, logits)
    assert (logits == naive_sum(rows, leaf, base)).all()

    steps = r.standard_normal(5 * classes).astype(np.float32)
    squares = abs(r.standard_normal(classes)).astype(np.float32)
    expected = rows.copy()
    for i, n in enumerate(leaf):
        row = expected[i, n]
        for c in range(classes):
            row[classes + c] -= steps[classes + c] * row[5 * classes + c]
            for e in range(2, 5):
                row[e * classes + c] -= steps[e * classes + c]
            row[6 * classes + c] += squares[c]
            root = np.float32(math.sqrt(np.float32(1.0) + row[6 * classes + c]))
            row[5 * classes + c] = np.float32(1.0) / root
    learn_leaves(rows, leaf, steps)
    update_adagrad(rows, leaf, squares)
    assert (rows == expected).all()

    reset_leaves(rows[0], classes)
    lanes = rows[0, :, :-1].reshape(leaves, 7, classes)
    assert (lanes[:, 5] == 1.0).all()
    assert lanes.sum() == leaves * classes
    assert (rows[0, :, -1] == 0).all()


def test_gradients_are_those_of_the_softmax() -> None:
    """A row's gradients and hessians are the softmax's, and along the direction their sums."""
    booster = taught()
    bank, build = booster.trees, booster.builds[0]
    cursor = build.cursor[0]
    cursor.rows = cursor.events = 60
    cursor.first, cursor.drawn, cursor.columns = 100, 0, 0
    build.scale[0].mean_weight = 1.0
    draw_rows(bank.window, bank.window.prefix[0], build, 1e9)
    for i in range(60):
        z = bank.window.prefix[0, 100 + i].astype(float)
        p = np.exp(z - z.max()) / np.exp(z - z.max()).sum()
        g = p - (np.arange(C) == bank.window.labels[100 + i])
        assert build.class_gradients[i] == pytest.approx(g, rel=1e-5, abs=1e-7)
        assert build.class_hessians[i] == pytest.approx(p * (1 - p), rel=1e-5, abs=1e-7)
        assert build.gradients[i] == pytest.approx(build.direction @ g)
        assert build.hessians[i] == pytest.approx(build.direction**2 @ (p * (1 - p)), rel=1e-5)


def test_log_odds_are_those_of_the_probabilities() -> None:
    """The score of a class by a leaf learner is the log-odds of its softmax, to the last digits."""
    booster = taught()
    bank = booster.trees
    b = class_scratch(4, C, booster.stack)
    leaves = np.zeros((4, 100), np.int32)
    bank.base_score[0] = [-20.0, 0.0, 3.0]
    tree_logits(bank.structures, bank.base_score, leaves, bank.schedule.cursor, b)
    for k in range(4):
        for e in range(5):
            z, p = b.logits[k, e], np.empty(C)
            softmax(z, p)
            assert p.sum() == pytest.approx(1.0)
            for c in range(C):
                others = np.delete(z, c)
                odds = z[c] - others.max() - math.log(np.exp(others - others.max()).sum())
                expected = min(max(odds, -12.0), 12.0)
                assert b.scores[c, k * 5 + e] == pytest.approx(expected, rel=1e-9, abs=1e-9)


def test_batches_do_not_change_a_byte() -> None:
    """Any division into batches, and going on after a reload, gives the same bytes."""
    X, y = stream(900)
    whole, parts = taught(), kaboost.build(SPEC, D, C)
    half = from_arrays(SPEC, {k: v.copy() for k, v in to_arrays(taught(450)).items()})
    for first in range(0, 900, 37):
        kaboost.learn_many(parts, X[first : first + 37], y[first : first + 37])
    kaboost.learn_many(half, X[450:], y[450:])
    assert differing(whole, parts) == []
    assert differing(whole, half) == []


def test_probabilities_and_progress() -> None:
    """Scores made while learning are the predictions before; they beat the prior, and the mean
    loss is the log-loss of the probabilities.
    """
    booster = kaboost.build(SPEC, D, C)
    X, y = stream(900)
    scores = np.empty((900, C))
    for k in range(900):
        if k % 150 == 0:
            predicted = kaboost.predict_many(booster, X[k : k + 1])
            scores[k] = kaboost.learn_many(booster, X[k : k + 1], y[k : k + 1])
            assert (predicted == scores[k]).all()
        else:
            scores[k] = kaboost.learn_many(booster, X[k : k + 1], y[k : k + 1])
    p = kaboost.models.booster.predictions(booster, scores)
    assert p.sum(axis=1) == pytest.approx(1.0)
    losses = kaboost.models.booster.losses(booster, scores, y)
    assert losses == pytest.approx(-np.log(p[np.arange(900), y.astype(int)]))
    assert booster.progress.mean_loss == pytest.approx(losses.mean(), rel=1e-9)
    assert losses[450:].mean() < 0.4
    assert (scores.argmax(axis=1) == y)[450:].mean() > 0.8


def test_snapshots_predict_and_explain() -> None:
    """What predictions need is enough for scores and explanations, whose parts add up."""
    booster, (X, _) = taught(), stream(20, 5)
    served = from_arrays(SPEC, {k: v.copy() for k, v in serving_arrays(booster).items()})
    assert (kaboost.predict_many(served, X) == kaboost.predict_many(booster, X)).all()
    explained = explain_many(served, X[:4])
    total = explained.base + explained.contributions.sum(axis=2)
    assert total == pytest.approx(explained.scores)
    assert explained.contributions.shape == (4, C, D + 5)
    variances = np.square(deviations(served)).sum(axis=0)
    shares = variances / variances.sum()
    assert set(np.argsort(shares)[-2:]) == {0, 1}


def test_memory_stays_under_its_bound() -> None:
    """The bytes of all arrays are those that the window was chosen by, within the bound."""
    booster = taught(0)
    full = normalise_spec(SPEC) | {"classes": C, "columns": C}
    planned = state_bytes(sizes_of(full), D, len(booster.trees.window.labels))
    held = sum(array.nbytes for array in to_arrays(booster).values())
    assert held <= BANK["max_memory"] * 1e6
    assert held == pytest.approx(planned, rel=0.1)


def test_classes_come_up_later() -> None:
    """A class is learned from its first event on, whatever the batches, up to the last allowed."""
    X, y = stream(600)
    late = np.where(np.arange(600) < 300, np.minimum(y, 1.0), y)
    models = [
        Model("multiclass", SPEC, dict.fromkeys("abcd", "number"), "auto", max_classes=3)
        for _ in range(2)
    ]
    rows = [dict(zip("abcd", x, strict=True)) for x in X.tolist()]
    names = ["lmh"[int(k)] for k in late]
    models[0].learn_many(rows, names)
    for first in range(0, 600, 41):
        models[1].learn_many(rows[first : first + 41], names[first : first + 41])
    assert set(models[0].classes_) == set("lmh")
    assert differing(models[0].booster, models[1].booster) == []
    assert models[0].booster.columns == models[0].booster.outputs == 3
    shares = models[0].predict_proba_one({"a": 2.0, "b": 2.0, "c": 0.0, "d": 0.0})
    assert max(shares, key=lambda name: shares[name]) == "h"
    assert sum(shares.values()) == pytest.approx(1.0)


def test_labels_that_come_late_teach() -> None:
    """Late labels are learned, those of classes that came up meanwhile too."""
    booster = build_open(SPEC, D, 4)
    X, y = stream(400)
    booster = kaboost.models.booster.with_class(booster, 5)
    scores, captured = kaboost.models.booster.capture_many(booster, X[:50])
    assert scores.shape == (50, 2)
    booster = kaboost.models.booster.with_class(booster, 5)
    booster = kaboost.models.booster.with_class(booster, 5)
    kaboost.models.booster.learn_captured(booster, X[:50], captured, y[:50], np.ones(50))
    for first in range(50, 400, 50):
        part = slice(first, first + 50)
        _, captured = kaboost.models.booster.capture_many(booster, X[part])
        kaboost.models.booster.learn_captured(booster, X[part], captured, y[part], np.ones(50))
    served = kaboost.models.booster.predictions(booster, kaboost.predict_many(booster, X[350:]))
    assert booster.outputs == 3
    assert (served.argmax(axis=1) == y[350:]).mean() > 0.6


def test_features_are_added() -> None:
    """New features and other sizes keep what was learned."""
    booster, (X, y) = taught(), stream(300, 7)
    before = kaboost.predict_many(booster, X)
    full = normalise_spec(SPEC)
    wide = kaboost.models.booster.add_features(booster, full, D + 2)
    more = np.column_stack([X, np.full((300, 2), np.nan)])
    assert kaboost.predict_many(wide, more) == pytest.approx(before, abs=0.05)
    kaboost.learn_many(wide, more, y)


def test_other_banks_and_losses_are_refused() -> None:
    """Classes share the trees of reboosted trees only; the message names the alternative."""
    for more in ({"bank": "linear"}, {"loss": "hinge", "bank": "linear"}):
        with pytest.raises(kaboost.ModelError, match="one_vs_rest"):
            kaboost.build(SPEC | more, D, C)
    with pytest.raises(kaboost.ModelError, match="two classes or more"):
        kaboost.build(SPEC, D, 1)


def test_a_drift_is_an_alarm() -> None:
    """What the schedule of the trees notes is what the page and the metrics show."""
    booster = taught(300)
    assert alarms(booster).drift == 0
    booster.trees.schedule.drift_at[()] = 250

    assert alarms(booster).drift == 250
