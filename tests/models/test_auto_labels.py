"""Classes that are learned as they come: in order of first sight, as if they had been declared."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kaboost
from kaboost.models.features.labels import Labels, labels
from kaboost.models.types import ModelError

KINDS = {"a": "number", "b": "number", "c": "category"}
LINEAR = {
    "rule": "sgb",
    "bank": {"kind": "linear", "n": 4},
    "loss": "logistic",
    "multiclass": "one_vs_rest",
}
SMALL = {"window": 0, "trees": 3, "leaves": 4, "depth": 2}
TREES = {
    "bank": {"kind": "reboosted_trees", "structures": [SMALL], "max_memory": 40.0},
    "loss": "logistic",
    "multiclass": "one_vs_rest",
}
BOTH = pytest.mark.parametrize("spec", [LINEAR, TREES], ids=["linear", "trees"])


def rows_of_new_classes(events: int = 160) -> tuple[list[dict[str, Any]], list[str]]:
    """Draw events of two classes, from event 40 on of three, from 80 on of six."""
    r = np.random.default_rng(1)
    rows = [
        {"a": float(a), "b": float(b), "c": "xyz"[int(abs(b) * 2) % 3]}
        for a, b in r.normal(size=(events, 2))
    ]
    cuts = [2 if k < 40 else 3 if k < 80 else 6 for k in range(events)]
    y = ["dcbafe"[int((np.tanh(x["a"]) + 1) / 2 * n)] for x, n in zip(rows, cuts, strict=True)]
    return rows, y


def auto(spec: dict[str, Any] | None = LINEAR, **more: Any) -> kaboost.Model:
    return kaboost.Model("multiclass", spec, KINDS, labels="auto", **more)


def equal(ours: kaboost.Model, theirs: kaboost.Model, but: tuple[str, ...] = ()) -> None:
    """Compare two states bit for bit."""
    a, b = ours.to_arrays(), theirs.to_arrays()
    assert a.keys() >= b.keys() - {*but}
    for name in b.keys() - {*but}:
        np.testing.assert_array_equal(a[name], b[name], err_msg=name)


@BOTH
def test_a_new_class_is_what_a_declared_one_would_be(spec: dict[str, Any]) -> None:
    """Every booster is that of a model whose labels were declared, where windows are as long."""
    rows, y = rows_of_new_classes()
    ours = auto(spec, max_classes=8)
    predicted = ours.learn_many(rows, y)
    declared = kaboost.Model("multiclass", spec, KINDS, labels=ours.classes_)
    theirs = declared.learn_many(rows, y)
    sizes = [name for name in ours.to_arrays() if "window" in name or "builds" in name]

    assert tuple(dict.fromkeys(y)) == ours.classes_
    equal(ours, declared, ("shape", *(sizes if spec is TREES else ())))
    np.testing.assert_array_equal(predicted[-1], theirs[-1])
    np.testing.assert_allclose(predicted.sum(axis=1), 1.0)


@BOTH
def test_batches_and_files_do_not_matter(spec: dict[str, Any], tmp_path: Any) -> None:
    """Batches of any size give the same bytes, also with a file between two of them."""
    rows, y = rows_of_new_classes()
    whole = auto(spec)
    whole.learn_many(rows, y)
    for size in (1, 33):
        parts = auto(spec)
        for k in range(0, len(rows), size):
            parts.learn_many(rows[k : k + size], y[k : k + size])
            if k in (33, 66):
                parts.save(tmp_path / "model")
                parts = kaboost.Model.load(tmp_path / "model")

        equal(parts, whole)
        assert parts.classes_ == whole.classes_
        assert parts.describe() == whole.describe()


def test_predictions_before_two_classes_are_known() -> None:
    """None before the first class, then the only one; probabilities are 0 before a class came."""
    rows, _ = rows_of_new_classes()
    model = auto()

    assert model.predict_one(rows[0]) is None
    assert {} == model.predict_proba_one(rows[0])
    assert (2, 0) == model.predict_proba_many(rows[:2]).shape
    with pytest.raises(ModelError, match="no class is known yet"):
        model.explain_one(rows[0])

    predicted = model.learn_many(rows[:3], ["a", "a", "b"])

    np.testing.assert_array_equal(predicted[:2], [[1.0, 0.0], [1.0, 0.0]])
    assert 0.0 < predicted[2, 1] < 0.5
    only = auto()
    only.learn_one(rows[0], "a")
    assert only.predict_one(rows[1]) == "a"
    assert {"a": 1.0} == only.predict_proba_one(rows[1])


def test_a_new_class_hardly_disturbs_the_others() -> None:
    """Its first prediction has a small share, which the others give in equal parts."""
    rows, _ = rows_of_new_classes(120)
    model = auto(max_classes=10)
    model.learn_many(rows[:119], ["a" if x["a"] < 0 else "b" for x in rows[:119]])
    before = model.predict_proba_many(rows[119:])[0]
    predicted = model.learn_many(rows[119:], ["new"])[0]

    assert predicted[2] < 0.1
    np.testing.assert_allclose(predicted[:2] / (1.0 - predicted[2]), before)


@BOTH
def test_late_labels_begin_classes(spec: dict[str, Any]) -> None:
    """Labels 20 rows late teach the same as where all classes were declared."""
    rows, y = (part[:110] for part in rows_of_new_classes())
    ours = auto(spec, max_classes=6)
    predicted = ours.learn_many(rows, y, delay=20)
    declared = kaboost.Model("multiclass", spec, KINDS, labels=ours.classes_)
    theirs = declared.learn_many(rows, y, delay=20)
    sizes = [name for name in ours.to_arrays() if "window" in name or "builds" in name]

    assert 6 == len(ours.classes_)
    equal(ours, declared, ("shape", *(sizes if spec is TREES else ())))
    np.testing.assert_array_equal(predicted[-1], theirs[-1])


@BOTH
def test_a_late_row_counts_as_it_was_predicted(spec: dict[str, Any]) -> None:
    """Also where a class came meanwhile: the others keep their odds, and it has a small share."""
    rows, _ = rows_of_new_classes(60)
    model = auto(spec)
    model.learn_many(rows[:58], ["a" if x["a"] < 0 else "b" for x in rows[:58]])
    row = {"a": 2.0, "b": 0.0, "c": "x"}
    before = model.predict_proba_many([row])[0]
    model.learn_one(rows[59], "c")
    late = model.learn_many([row], ["a"])[0]

    assert 0.0 < late[2] < 0.1
    np.testing.assert_allclose(late[:2] / (1.0 - late[2]), before, rtol=1e-6)
    assert abs(before[0] - 0.5) > 0.001


def test_more_classes_than_allowed_are_refused() -> None:
    """The bound is named, nothing of the batch is learned, and the known classes go on."""
    rows, y = rows_of_new_classes()
    model = auto(max_classes=3)
    model.learn_many(rows[:80], y[:80])
    before = {name: array.copy() for name, array in model.to_arrays().items()}

    with pytest.raises(ModelError, match=r"y\[\d+\]: .*3 classes.*task\.max_classes"):
        model.learn_many(rows[80:], y[80:])
    for name, array in model.to_arrays().items():
        np.testing.assert_array_equal(array, before[name])
    model.learn_many(rows[80:], [y[0]] * 80)
    assert 3 == len(model.classes_)
    assert 160 == model.booster.progress.events


def test_an_event_of_weight_0_begins_no_class() -> None:
    """Nothing moves for it, before the first class and after."""
    rows, _ = rows_of_new_classes()
    weighty, model = auto(), auto()
    model.learn_many(rows[:4], ["z", "a", "y", "b"], [0.0, 1.0, 0.0, 1.0])
    weighty.learn_many([rows[1], rows[3]], ["a", "b"])

    assert ("a", "b") == model.classes_
    equal(model, weighty)


def test_memory_bounds_classes() -> None:
    """The windows shrink as classes come, and a class without memory is refused with the remedy."""
    bank = {**TREES["bank"], "structures": [{**SMALL, "trees": 1}], "max_memory": 12.0}
    rows, _ = rows_of_new_classes(60)
    model = auto({**TREES, "bank": bank}, max_classes=1000)
    lengths = []
    while model.affords_classes(len(lengths) + 1):
        model.learn_one(rows[len(lengths)], len(lengths))
        lengths.append(len(model.booster.boosters[0].trees.window.labels))

    assert lengths == sorted(lengths, reverse=True)
    assert lengths[0] > lengths[-1]
    assert 4 < len(model.classes_) < 60
    assert sum(array.nbytes for array in model.to_arrays().values()) < 12e6
    with pytest.raises(ModelError, match="max_memory"):
        model.learn_many(rows[:2], [0, 999])
    assert len(lengths) == model.booster.progress.events


@pytest.mark.parametrize(
    ("task", "spec", "message"),
    [
        ("binary", None, "list both"),
        ("regression", None, "leave them out"),
        ("multiclass", {"bank": "linear", "loss": "softmax"}, "one_vs_rest"),
    ],
)
def test_where_auto_is_refused(task: str, spec: Any, message: str) -> None:
    """The message has the remedy."""
    with pytest.raises(ModelError, match=message):
        kaboost.Model(task, spec, KINDS, labels="auto")


@pytest.mark.parametrize("most", [1, 1001, 2.0, True])
def test_the_bound_is_checked(most: Any) -> None:
    """A whole number from 2 to 1,000."""
    with pytest.raises(ModelError, match=r"task\.max_classes: .* from 2 to 1000"):
        auto(max_classes=most)


@pytest.mark.parametrize(
    ("first", "label", "message"),
    [
        ("a", 1, "whole number, and the classes so far are texts"),
        (1, "a", "text, and the classes so far are whole numbers"),
        (1, True, "boolean, and"),
        (True, 0, "whole number, and the classes so far are booleans"),
        ("a", None, "is no label"),
        ("a", float("nan"), "is no label"),
        ("a", "", "0 characters"),
        ("a", "b" * 201, "201 characters"),
        (1, 1.5, "names no class"),
        (1, 2**63, "names no class"),
        (1, float("inf"), "names no class"),
        ("a", ["b"], "names no class"),
    ],
)
def test_what_begins_no_class(first: Any, label: Any, message: str) -> None:
    """One type of labels; a mixture and what is no name are refused."""
    known = labels("multiclass", "auto").with_class(first)

    assert known.new_class(label) is None
    with pytest.raises(ValueError, match=message):
        known.encode(label)


LABELS = st.one_of(st.integers(-3, 3), st.floats(-2.0, 2.0), st.booleans(), st.text(max_size=2))


@given(st.lists(LABELS, max_size=30), st.integers(2, 5))
def test_labels_grow_in_order_of_first_sight(seen: list[Any], most: int) -> None:
    """Whatever comes, codes are those of the first sight, of one type, and at most the bound."""
    known: Labels = labels("multiclass", "auto", most)
    for label in seen:
        begun = known.new_class(label)
        if begun is not None:
            known = known.with_class(begun)
            assert len(known.classes) - 1 == known.encode(label)
        elif known.knows(label):
            assert known.decode(known.encode(label)) == label
        else:
            with pytest.raises(ValueError, match="; "):
                known.encode(label)

    assert len(known.classes) <= most
    assert len({type(label) for label in known.classes}) <= 1
    assert len(set(known.classes)) == len(known.classes)


@pytest.mark.parametrize("class_weight", [None, "balanced"])
def test_partial_fit_learns_classes(class_weight: Any) -> None:
    """`classes="auto"` in the first call; `classes_` grows in order of first sight."""
    rows, y = rows_of_new_classes()
    X, names = np.array([[row["a"], row["b"]] for row in rows]), np.array(y)
    parts = {word: LINEAR[word] for word in ("bank", "loss", "multiclass")}
    classifier = kaboost.Classifier(**parts, class_weight=class_weight)
    with pytest.raises(ValueError, match="one_vs_rest"):
        kaboost.Classifier(bank="linear").partial_fit(X, names, classes="auto")

    classifier.partial_fit(X[:40], names[:40], classes="auto")
    assert 2 == len(classifier.classes_)
    classifier.partial_fit(X[40:], names[40:])

    assert list(dict.fromkeys(y)) == classifier.classes_.tolist()
    assert {*classifier.predict(X)} <= {*y}
    assert (160, 6) == classifier.predict_proba(X).shape
    declared = kaboost.Classifier(**parts, class_weight=class_weight)
    declared.partial_fit(X[:40], names[:40], classes=classifier.classes_)
    declared.partial_fit(X[40:], names[40:])
    assert declared.predict(X).tolist() == classifier.predict(X).tolist()
    with pytest.raises(ValueError, match="first call"):
        kaboost.Classifier(**parts).partial_fit(X, names).partial_fit(X, names, classes="auto")


def test_classes_and_features_come_together() -> None:
    """Inferred features and classes in one batch give the bytes of one event at a time."""
    rows, y = rows_of_new_classes(100)
    rows = [{**row, "d": row["a"]} if k > 30 else row for k, row in enumerate(rows)]
    rows = [{**row, "e": "xy"[k % 2]} if k > 39 else row for k, row in enumerate(rows)]
    weights = np.ones(100)
    weights[::7] = 0.0
    together, apart = (kaboost.Model("multiclass", TREES, labels="auto") for _ in range(2))
    together.learn_many(rows, y, weights)
    for row, label, weight in zip(rows, y, weights.tolist(), strict=True):
        apart.learn_one(row, label, weight)

    assert {"a", "b", "c", "d", "e"} == together.kinds.keys()
    equal(apart, together)
    assert apart.describe() == together.describe()
