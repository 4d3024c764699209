"""A model learns event by event, predicts without a trace, goes on as if never stopped."""

import doctest
import json
import re
from collections import deque
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kaboost
from kaboost import Model, ModelError
from kaboost.models import table_model as module
from kaboost.models.features.rows import tabulate
from kaboost.models.state.format import FormatError, pack, unpack
from tests.boosters import digest
from tests.models import streams
from tests.models.streams import CLASSES, SCHEMA
from tests.specs import LINEAR

BANKS = {
    "nag": {"kind": "linear", "n": 3, "step": "nag"},
    "sgd": {"kind": "linear", "n": 3, "step": "sgd"},
    "adam": {"kind": "nets", "n": 2},
}
SMALL = {"bank": BANKS["nag"]}


def fresh(task="binary", spec=SMALL):
    """Return a small model of the test stream's schema that has seen nothing."""
    return Model(task, spec, SCHEMA, CLASSES[task])


def learned(task="binary", count=60, spec=SMALL):
    """Return a model that learned the test stream."""
    model = fresh(task, spec)
    learn(model, 0, count)
    return model


def learn(model, begin, end):
    """Let a model learn a part of the test stream; return its scores."""
    part, count = slice(begin, end), max(end, 1)
    table = tabulate(SCHEMA, streams.rows(count)[part])
    y, w = streams.targets(model.task, 300)[part], streams.weights(300)[part]
    return model.learn(table, y, w).scores


@pytest.mark.parametrize("task", CLASSES)
@settings(derandomize=True, deadline=None, max_examples=15)
@given(cuts=st.sets(st.integers(0, 60)))
def test_any_batching_gives_the_same_bytes(task, cuts):
    """Scores and state do not tell where the stream was cut into batches."""
    whole, cut = fresh(task), fresh(task)
    expected = learn(whole, 0, 60)
    parts = [learn(cut, begin, end) for begin, end in pairwise([0, *sorted(cuts), 60])]

    assert expected.tobytes() == np.vstack(parts).tobytes()
    assert digest(whole.to_arrays()) == digest(cut.to_arrays())


def test_plain_python_gives_the_same_bytes():
    """With numba's compiler off not a bit differs."""
    assert streams.models() == streams.digest_of_other_mode("model")


@pytest.mark.parametrize("bank", BANKS)
@pytest.mark.parametrize("task", CLASSES)
def test_load_goes_on_as_if_never_stopped(tmp_path, task, bank):
    """Save, load, continue: scores, answers and every byte of the state are those of one run."""
    whole, stopped = fresh(task, {"bank": BANKS[bank]}), fresh(task, {"bank": BANKS[bank]})
    learn(whole, 0, 30), learn(stopped, 0, 30)
    stopped.save(tmp_path / "model")
    again = Model.load(tmp_path / "model")

    assert learn(whole, 30, 60).tobytes() == learn(again, 30, 60).tobytes()
    assert digest(whole.to_arrays()) == digest(again.to_arrays())
    assert whole.describe() == again.describe()
    assert ["model"] == [path.name for path in tmp_path.iterdir()]


@pytest.mark.parametrize("task", CLASSES)
def test_snapshot_predicts_alike_and_cannot_learn(task):
    """The serving arrays, read-only from a file, give the same answers and refuse to learn."""
    model = learned(task)
    header, arrays = unpack(pack(model.serving_arrays(), {"model": model.describe()}))
    reader = Model.from_arrays(header["model"], arrays)
    table = tabulate(SCHEMA, streams.rows(50, seed=9))
    before = digest(arrays)

    assert model.predict(table).tobytes() == reader.predict(table).tobytes()
    assert before == digest(arrays)
    with pytest.raises(ModelError, match="only serve"):
        learn(reader, 0, 10)


def test_writable_arrays_of_a_snapshot_cannot_learn_either():
    """Copies of serving arrays lack what only learning reads; learning would write astray."""
    model = learned(spec={"bank": BANKS["adam"]})
    arrays = {name: array.copy() for name, array in model.serving_arrays().items()}
    reader = Model.from_arrays(model.describe(), arrays)

    assert arrays.keys() < model.to_arrays().keys()
    assert model.predict_one({"a": 1.0}) == reader.predict_one({"a": 1.0})
    with pytest.raises(ModelError, match="only serve"):
        reader.learn_one({"a": 1.0}, 1)


def test_read_only_arrays_cannot_learn():
    """A whole state that is mapped read-only says so in a sentence, not from inside a kernel."""
    model = learned()
    arrays = {name: array.copy() for name, array in model.to_arrays().items()}
    for array in arrays.values():
        array.flags.writeable = False

    with pytest.raises(ModelError, match="only serve"):
        Model.from_arrays(model.describe(), arrays).learn_one({"a": 1.0}, 1)


@pytest.mark.parametrize("task", CLASSES)
def test_predicting_changes_nothing(task):
    """Any number of predictions leaves every byte of the state as it was."""
    model = learned(task)
    before = digest(model.to_arrays())
    rows = streams.rows(200, seed=8)
    model.predict_many(rows)
    for row in rows[:20]:
        model.predict_one(row)

    assert before == digest(model.to_arrays())


@pytest.mark.parametrize("task", CLASSES)
@pytest.mark.parametrize("together", [1, 50, 100])
def test_many_are_predicted_in_parts(monkeypatch, task, together):
    """However many events are taken at once, a batch is answered as its events one by one, all
    kinds of features among them; an empty one too.
    """
    model, rows = learned(task), streams.rows(41)
    alone = np.vstack([model.predict(tabulate(SCHEMA, [row])) for row in rows])
    monkeypatch.setattr(module, "CHUNK_NUMBERS", together)

    assert model.predict(tabulate(SCHEMA, rows)).tobytes() == alone.tobytes()
    assert model.predict(tabulate(SCHEMA, [])).shape == (0, model.labels.m)


@pytest.mark.parametrize("task", CLASSES)
def test_weight_0_is_answered_and_moves_nothing(task):
    """The answer is that of a prediction, and the state keeps its bytes."""
    model = learned(task)
    before, rows = digest(model.to_arrays()), streams.rows(20, seed=7)
    expected = model.predict(tabulate(SCHEMA, rows))
    answered = model.learn(tabulate(SCHEMA, rows), np.zeros(20), np.zeros(20)).scores

    assert expected.tobytes() == answered.tobytes()
    assert before == digest(model.to_arrays())


@pytest.mark.parametrize("task", CLASSES)
def test_extreme_features_are_answered(task):
    """Features of 1e308, unseen values and empty events never give nan or inf."""
    model = learned(task)
    rows = [{"a": 1e308}, {"a": -1e308, "b": 1e308}, {"place": "new"}, {}, {"kind": None}]
    model.learn(tabulate(SCHEMA, rows), np.ones(5), np.ones(5))

    assert np.isfinite(model.predictions(model.predict(tabulate(SCHEMA, rows)))).all()
    assert all(np.isfinite(array).all() for array in model.to_arrays().values())


def test_people_and_service_teach_the_same():
    """learn_one, learn_many on dicts and learn on columns end in the same state."""
    rows, names = streams.rows(30), ["spam" if label else "ham" for label in range(2)] * 15
    one, many, table = (Model("binary", SMALL, SCHEMA, ["ham", "spam"]) for _ in range(3))
    for row, name in zip(rows, names, strict=True):
        one.learn_one(row, name, 2.0)
    predicted = many.learn_many(rows, names, [2.0] * 30)
    y = np.array([0.0, 1.0] * 15)
    outcome = table.learn(tabulate(SCHEMA, rows), y, np.full(30, 2.0))

    assert digest(one.to_arrays()) == digest(many.to_arrays())
    assert digest(one.to_arrays()) == digest(table.to_arrays())
    assert predicted.tobytes() == outcome.predictions.tobytes()


@pytest.mark.parametrize("classes", [None, ["no", "yes"], [False, True], ["x", "y", 3]])
def test_answers_are_labels_and_probabilities(classes):
    """The likeliest label in its own type; probabilities by label, in order, of sum 1."""
    task = "multiclass" if classes and len(classes) == 3 else "binary"
    model = Model(task, SMALL, SCHEMA, classes)
    rows = streams.rows(40)
    first, *_, last = model.classes_
    model.learn_many(rows, [last if "a" in row else first for row in rows])
    P = model.predict_proba_many(rows)

    assert (40, len(model.classes_)) == P.shape
    np.testing.assert_allclose(P.sum(axis=1), 1.0)
    for row, p, label in zip(rows, P, model.predict_many(rows), strict=True):
        assert model.predict_one(row) == label == model.classes_[p.argmax()]
        assert type(model.predict_one(row)) is type(model.classes_[p.argmax()])
        assert dict(zip(model.classes_, p, strict=True)) == model.predict_proba_one(row)


def test_regression_answers_numbers():
    """A number for one, an array for many, and no probabilities."""
    model = Model("regression", SMALL, {"x": "number"})
    predicted = model.learn_many([{"x": 1.0}, {"x": 2.0}], [4.0, 4.0])

    assert predicted.shape == (2,)
    assert type(model.predict_one({"x": 1.0})) is float
    assert model.predict_many([{"x": 1.0}]).shape == (1,)
    with pytest.raises(ModelError, match="no probabilities"):
        model.predict_proba_one({"x": 1.0})


@pytest.mark.parametrize("task", CLASSES)
def test_losses_are_those_of_the_answers(task):
    """Log-loss of the label's probability, or half the square; wrong class, or distance; no l2."""
    loss = {"kind": fresh(task).spec["loss"]["kind"], "l2": 1.0}
    model = learned(task, spec=SMALL | {"loss": loss})
    scores = model.predict(tabulate(SCHEMA, streams.rows(50)))
    y = streams.targets(task, 50)
    _, predicted, lost, wrong, _ = model.outcome(scores, y)

    if task == "regression":
        expected, mistaken = (predicted - y) ** 2 / 2, abs(predicted - y)
    else:
        expected = -np.log(predicted[np.arange(50), y.astype(int)])
        mistaken = [p.argmax() != label for p, label in zip(predicted, y, strict=True)]
    np.testing.assert_allclose(lost, expected, rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(wrong, mistaken)


@pytest.mark.parametrize(
    ("x", "y", "w", "message"),
    [
        ({"nope": 1}, 1, 1.0, "features.nope"),
        ({"a": "1"}, 1, 1.0, "features.a"),
        ({"a": float("inf")}, 1, 1.0, "features.a"),
        ({"a": 1}, 2, 1.0, "label: 2"),
        ({"a": 1}, None, 1.0, "label: None"),
        ({"a": 1}, 1, -1.0, r"w\[1\]: "),
        ({"a": 1}, 1, float("nan"), r"w\[1\]: "),
        ({"a": 1}, 1, float("inf"), r"w\[1\]: "),
    ],
)
def test_what_cannot_be_learned_leaves_no_trace(x, y, w, message):
    """A refused event is named, and the good one before it in the batch is not learned either."""
    model = learned()
    before = digest(model.to_arrays())
    with pytest.raises(ModelError, match=message):
        model.learn_many([{"a": 1.0}, x], [1, y], [1.0, w])

    assert before == digest(model.to_arrays())


@pytest.mark.parametrize(
    ("rows", "y", "w", "message"),
    [
        ([{"x": 1.0}, {"x": "a"}], [1, 2], None, r"features.x in rows\[1\]: 'a' is not a number"),
        ([{"x": 1.0}, {"z": 1.0}], [1, 2], None, r"features.z in rows\[1\]: unknown feature"),
        ([{"x": 1.0}, {"x": 2.0}], [1, "b"], None, r"y\[1\]: label: 'b' is not a number"),
        ([{"x": 1.0}, {"x": 2.0}], [1, 2], [1, -1], r"w\[1\]: the importance -1 is negative"),
        ([{"x": 1.0}], [1], ["x"], "w: holds a value that is not a number"),
        ([{"x": 1.0}], [1], [[1.0]], "w: has shape"),
        ([{"x": 1.0}], 1, None, "y: int is not a list of labels"),
        ([{"x": 1.0}] * 2, (each for each in (1, "b")), None, r"y\[1\]: label: 'b'"),
        (deque([{"x": 1.0}]), [1], None, "rows: a deque"),
        ({"x": 1.0}, [1], None, "rows: is one dict"),
        ("text", [1], None, "rows: a str"),
        (({"x": 1.0} for _ in range(1)), [1], None, "rows: a generator"),
    ],
)
def test_what_is_wrong_in_a_batch_is_pointed_at(rows, y, w, message):
    """The message tells which row, label or weight it was; nothing was learned."""
    model = Model("regression", {"bank": "linear"}, {"x": "number"})
    with pytest.raises(ModelError, match=message):
        model.learn_many(rows, y, w)
    assert model.booster.progress.events == 0


def test_the_row_is_counted_from_the_first_of_the_batch():
    """Also where features join in between, and the batch is learned in parts."""
    model = Model(spec={"bank": {"kind": "reboosted_trees", "max_memory": 16}})
    late = [{"a": 1}, {"a": 2}, *[{"late": 0.5}] * 200, {"late": "bad"}]
    with pytest.raises(ModelError, match=r"features.late in rows\[202\]: 'bad' is not a number"):
        model.learn_many(late, [0, 1] * 101 + [0])
    model.learn_many([{"a": 1}] * 200, [0, 1] * 100)
    with pytest.raises(ModelError, match=r"features.a in rows\[0\]"):
        model.learn_many([{"a": "bad"}, {"late": 1}], [0, 1])
    with pytest.raises(ModelError, match=r"features.late in rows\[1\]: \[1\] has no kind"):
        model.learn_many([{"a": 1}, {"late": [1]}], [0, 1])


@pytest.mark.parametrize("level", ["a", None, True, 0.4, float("nan")])
def test_a_level_that_is_none_is_refused(level):
    """Words and numbers out of range alike."""
    model = Model("regression", {"bank": "linear"}, {"x": "number"})
    with pytest.raises(ModelError, match=r"interval: .* is not a level"):
        model.predict_interval_one({"x": 1.0}, level)


def test_numbers_of_rows_labels_and_weights_must_agree():
    """One label and one weight for each row."""
    with pytest.raises(ModelError, match="y: 1 labels for 2 rows; pass as many of each"):
        fresh().learn_many([{}, {}], [1])
    with pytest.raises(ModelError, match="y: 2 labels, 1 importances in w for 2 rows"):
        fresh().learn_many([{}, {}], [1, 0], [1.0])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"features": None}, "features: None"),
        ({"features": "auto", "spec": {"bank": "linear"}}, "features: kinds are inferred"),
        ({"features": {"a": "numbr"}}, "features.a"),
        ({"features": SCHEMA, "task": "multiclass"}, "task.labels: missing"),
        ({"features": SCHEMA, "task": "ranking"}, "task"),
        ({"features": SCHEMA, "spec": {"bnk": {}}}, "bnk"),
        ({"features": SCHEMA, "spec": {"loss": "softmax"}}, "softmax"),
    ],
)
def test_impossible_model_is_refused(arguments, message):
    """The sentence names what cannot be."""
    with pytest.raises(ModelError, match=message):
        Model(**arguments)


def test_description_survives_sorted_json():
    """The order of the schema is part of the model and comes back from a file's header."""
    features = {"z": "number", "a": "number", "m": "category"}
    model = Model("binary", LINEAR, features, [False, True])
    text = json.dumps(model.describe(), sort_keys=True)
    again = Model.from_arrays(json.loads(text), model.to_arrays())

    assert list(features) == list(again.encoder.kinds)
    assert model.describe() == json.loads(text) == again.describe()
    assert again.classes_ == (False, True)
    assert type(again.classes_[0]) is bool


def test_damaged_and_foreign_files_are_refused(tmp_path):
    """A flipped byte anywhere, another program's file, a file without a model."""
    path = tmp_path / "model"
    learned().save(path)
    file = path.read_bytes()
    for place in range(0, len(file), 97):
        path.write_bytes(file[:place] + bytes([file[place] ^ 1]) + file[place + 1 :])
        with pytest.raises(FormatError, match=re.escape(str(path))):
            Model.load(path)
    path.write_bytes(pack({}, {"kind": "other"}))
    with pytest.raises(FormatError, match="holds no model"):
        Model.load(path)


def test_arrays_of_another_model_are_refused():
    """A description and arrays that do not belong together never make a model."""
    model = learned()
    other = Model("binary", SMALL, SCHEMA | {"more": "number"})
    with pytest.raises(ModelError):
        Model.from_arrays(other.describe(), model.to_arrays())


def test_examples_run():
    """The examples in the docstrings give what they show."""
    assert doctest.testmod(module).failed == 0
    assert kaboost.Model is Model


def test_a_score_of_zero_is_positive():
    """Of two classes the positive one is said from 1/2 on; of several the first of equals."""
    binary = Model("binary", LINEAR, {"x": "number"})
    several = Model("multiclass", LINEAR, {"x": "number"}, ["a", "b", "c"])

    assert binary.predict_proba_one({"x": 1.0}) == {0: 0.5, 1: 0.5}
    assert binary.predict_one({"x": 1.0}) == 1
    assert several.predict_one({"x": 1.0}) == "a"


def test_a_value_never_seen_is_judged_by_the_rest():
    """A new country is predicted as if its name were not told, not by what first sights taught."""
    r = np.random.default_rng(2)
    model = Model("binary", LINEAR, {"amount": "number", "country": "category"})
    countries = ["PT", "DE", "FR", "US", "NG", "BR"]
    rows = [
        {"amount": a, "country": c}
        for a, c in zip(r.normal(30, 9, 5000), r.choice(countries, 5000), strict=True)
    ]
    model.learn_many(rows, (r.random(5000) < 0.3).astype(int))
    predicted = {
        c: model.predict_proba_one({"amount": 30, "country": c})[1]
        for c in [*countries, "ZZ", "ES"]
    }

    known = [predicted[c] for c in countries]
    assert min(known) - 0.25 < predicted["ZZ"] < max(known) + 0.25
    assert predicted["ZZ"] == predicted["ES"]
