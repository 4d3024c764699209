"""River estimators: River's own checks pass; all ways to learn the same events say the same."""

import copy
import random
from typing import Any

import numpy as np
import pytest
from river import checks, compose, preprocessing

import kaboost
from kaboost.models.adapters.slots import NamedSlots
from kaboost.models.adapters.to_river import Classes, Classifier, Regressor
from kaboost.models.features.onehot import Encoder
from kaboost.models.features.rows import tabulate
from tests.specs import LINEAR

SMALL = {"kind": "linear", "n": 3}
ADAM = {"kind": "linear", "n": 3, "step": "adam", "lr": 0.05}
NETS = {"kind": "nets", "n": 3, "lr": 0.1}
SUBJECTS: dict[str, Any] = {
    "classifier": Classifier(bank=SMALL),
    "classifier-many": Classifier(bank=SMALL, labels=8),
    "classifier-rest": Classifier(rule="bbm", bank=SMALL, labels=8, multiclass="one_vs_rest"),
    "classifier-bag": Classifier(rule="oza_bag", bank=ADAM),
    "regressor": Regressor(bank=SMALL),
    "regressor-nets": Regressor(bank=NETS, slots=16, shared=2),
    "regressor-trees": Regressor(bank={"kind": "trees", "n": 3}, slots=4, shared=1),
}


LONG = ("classifier-many", "classifier-rest", "regressor-nets", "regressor-trees")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.long] * (name in LONG)) for name in SUBJECTS]
)
def test_conventions_hold(name: str) -> None:
    """Every check of River passes; the list of those that cannot is empty."""
    random.seed(1)  # River shuffles features by the module's generator
    subject = SUBJECTS[name]
    assert set() == subject._unit_test_skips()

    done = 0
    for check in checks.yield_checks(subject):
        check(subject.clone())
        done += 1

    assert done > 20


def test_all_ways_say_the_same() -> None:
    """build, Model, scikit-learn and River: the same events and seed, the same predictions."""
    rng = np.random.default_rng(3)
    X, w = rng.normal(size=(200, 3)), rng.integers(0, 3, 200).astype(float)
    y = X @ [1.0, -2.0, 0.5]
    spec = {"rule": "sgb", "bank": NETS, "loss": "squared", "seed": 7}
    schema = dict.fromkeys("abc", "number")
    rows = [dict(zip("abc", x, strict=True)) for x in X.tolist()]

    encoded = Encoder(schema).learn_many(tabulate(schema, rows), w)
    before = kaboost.learn_many(kaboost.build(spec, d=3), encoded, y, w)[:, 0].tolist()
    model = kaboost.Model("regression", spec, schema)
    river = Regressor(bank=NETS, seed=7, slots=3, shared=0)
    predicted = []
    for x, label, weight in zip(rows, y, w, strict=True):
        predicted.append(river.predict_one(x))
        river.learn_one(x, label, weight)

    assert before == model.learn_many(rows, y, w).tolist()
    assert before == predicted
    scikit = kaboost.Regressor(bank=NETS, seed=7).partial_fit(X, y, sample_weight=w)
    after = model.predict_many(rows).tolist()
    assert after == scikit.predict(X).tolist()
    assert after == [river.predict_one(x) for x in rows]


def test_kinds_are_encoded_as_in_model() -> None:
    """Numbers, booleans and texts that come without a schema teach what they teach with one."""
    rng = np.random.default_rng(5)
    rows = [
        {"a": float(a), "b": bool(b), "c": "uvw"[c]}
        for a, b, c in zip(
            rng.normal(size=99), rng.integers(0, 2, 99), np.arange(99) % 3, strict=True
        )
    ]
    y = [2.0 * row["a"] + row["b"] - (row["c"] == "w") for row in rows]
    schema = {"a": "number", "b": "boolean", "c": "category"}

    model = kaboost.Model("regression", LINEAR, schema)
    expected = model.learn_many(rows, y).tolist()
    river = Regressor(slots=5, shared=3)
    predicted = []
    for x, label in zip(rows, y, strict=True):
        predicted.append(river.predict_one(x))
        river.learn_one(x, label)

    assert expected == pytest.approx(predicted, rel=1e-12, abs=1e-12)


def slots(assigned: int, shared: int) -> NamedSlots:
    return NamedSlots(Encoder({str(j): "number" for j in range(assigned + shared)}), assigned)


def test_columns_are_given_by_first_sight() -> None:
    """The first features get columns, of one event by name; a text's value after its event."""
    columns = slots(assigned=3, shared=0)

    assert [[-1.0, 1.0, 0.0]] == columns.learn_one({"b": True, "a": False, "t": "x"}).tolist()
    assert [[0.0, -1.0, 1.0]] == columns.encode_one({"b": False, "t": "x", "new": True}).tolist()
    assert [[0.0, 0.0, 0.0]] == columns.encode_one(
        {"t": "y", "a": None, "b": float("nan")}
    ).tolist()


def test_later_features_share_columns() -> None:
    """Beyond the slots a fixed hash says which column, and memory stays as it is."""
    columns = slots(assigned=1, shared=2)
    columns.learn_one({"a": True})
    marks = {name: columns.encode_one({name: True})[0].tolist() for name in ("p", "q", "r", "s")}

    assert {(0.0, 1.0, 0.0), (0.0, 0.0, 1.0)} == set(map(tuple, marks.values()))
    assert marks == {name: columns.learn_one({name: True})[0].tolist() for name in marks}
    both = columns.encode_one(dict.fromkeys(marks, True))[0]
    assert np.sum(list(marks.values()), axis=0).tolist() == both.tolist()
    for k in range(200):
        columns.learn_one({f"n{k}": float(k), "text": "x" * 1000 + str(k)})
    assert 1 == len(columns._columns)


def test_order_of_features_says_nothing() -> None:
    """Shuffled dicts give the same bits, in shared columns as well."""
    rng = np.random.default_rng(8)
    straight, shuffled = slots(2, 2), slots(2, 2)
    for _ in range(30):
        x = {f"f{j}": float(rng.normal()) for j in range(9)}
        mixed = {name: x[name] for name in rng.permutation(list(x)).tolist()}
        assert straight.learn_one(x).tolist() == shuffled.learn_one(mixed).tolist()


@pytest.mark.parametrize("value", [float("inf"), [1], 1j])
def test_value_of_no_kind_is_refused(value: Any) -> None:
    """What is no number, boolean or text is named, and nothing was learned."""
    regressor = Regressor(slots=2)
    regressor.learn_one({"a": 1.0}, 1.0)
    before = copy.deepcopy(regressor._model.to_arrays())

    with pytest.raises(kaboost.ModelError, match=r"features\.b"):
        regressor.learn_one({"a": 2.0, "b": value}, 1.0)
    after = regressor._model.to_arrays()
    assert all(np.array_equal(before[name], after[name]) for name in before)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"w": -1.0}, "w: -1.0"),
        ({"w": float("nan")}, "w: nan"),
        ({"y": "text"}, "'text' is not a number"),
    ],
)
def test_label_and_weight_are_checked(change: dict[str, Any], named: str) -> None:
    """A label or weight that cannot be is refused by name."""
    with pytest.raises(kaboost.ModelError, match=named):
        Regressor(slots=2).learn_one(**{"x": {"a": 1.0}, "y": 1.0, **change})


def test_weight_zero_changes_nothing() -> None:
    """An event of weight 0 gives no column, no label and no step."""
    classifier = Classifier(slots=2, labels=3)

    classifier.learn_one({"a": True}, "spam", w=0.0)

    assert {} == classifier.predict_proba_one({"a": True})
    assert classifier.predict_one({}) is None
    assert [[0.0] * 10] == classifier._columns.encode_one({"a": True}).tolist()


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ([True], [(0, False), (1, True)]),
        ([1, -1], [(0, -1), (1, 1)]),
        ([2, 1], [(0, 2), (1, 1)]),
        (["spam"], [(0, "spam")]),
        ([], [(0, False), (1, True)]),
    ],
)
def test_two_labels_find_their_places(labels: list[Any], expected: list[Any]) -> None:
    """False and 0 are negative, true and 1 positive, others in order of first sight."""
    classes = Classes(2)
    for label in labels:
        classes.admit(label)

    assert expected == classes.known()


@pytest.mark.parametrize("labels", [2, ("a", "b")])
def test_one_label_too_many(labels: Any) -> None:
    """There is room for as many labels as were announced."""
    classifier = Classifier(slots=1, labels=labels)
    classifier.learn_one({}, "a")
    classifier.learn_one({}, "b")

    with pytest.raises(kaboost.ModelError, match="'c' is one more than the 2"):
        classifier.learn_one({}, "c")


@pytest.mark.parametrize("params", [{"slots": 0}, {"shared": -1}, {"labels": 1}, {"rule": "no"}])
def test_parameters_are_checked(params: dict[str, Any]) -> None:
    """What cannot be is refused when the estimator is made."""
    with pytest.raises(kaboost.ModelError, match=next(iter(params))):
        Classifier(**params)


def test_goes_into_a_pipeline() -> None:
    """It is a River estimator: after a transformer it learns as any other."""
    pipeline = compose.Select("a") | preprocessing.StandardScaler() | Regressor(slots=2)
    for k in range(100):
        pipeline.learn_one({"a": k % 5, "b": 1}, 3.0 * (k % 5))

    assert pytest.approx(6.0, abs=0.5) == pipeline.predict_one({"a": 2, "b": 1})


def test_long_texts_are_kept_by_their_hash() -> None:
    """A megabyte of text is told from another, and not kept."""
    columns = slots(assigned=2, shared=0)
    for text in ("x" * 10**6, "y" * 10**6):
        columns.learn_one({"t": text})

    assert [[0.0, 1.0]] == columns.encode_one({"t": "y" * 10**6}).tolist()
    assert max(len(str(key)) for key in columns._columns) < 100
