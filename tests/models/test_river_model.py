"""River's estimators behind the verbs of Model: what they learn, what is refused."""

import math
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kaboost.models.adapters import river_spec
from kaboost.models.adapters.from_river import RiverModel
from kaboost.models.features.onehot import Table
from kaboost.models.features.rows import tabulate
from kaboost.models.types import ModelError

ROOT = Path(__file__).parents[2]
SCHEMA = {"a": "number", "b": "number", "flag": "boolean", "colour": "category"}
NUMBERS = {"a": "number", "b": "number", "flag": "boolean"}
TREE = {"river": "tree.HoeffdingTreeClassifier", "params": {"grace_period": 20}}
LINEAR = {"river": "linear_model.LogisticRegression", "scale": True}
EVERY = {"scale": True, "one_hot": True}

BINARY: dict[str, dict[str, Any]] = {
    "logistic regression": {"river": "linear_model.LogisticRegression", **EVERY},
    "Adam": {
        "river": "linear_model.LogisticRegression",
        "params": {"optimizer": {"river": "optim.Adam", "params": {"lr": 0.05}}},
        **EVERY,
    },
    "ALMA": {"river": "linear_model.ALMAClassifier", **EVERY},
    "passive-aggressive": {"river": "linear_model.PAClassifier", **EVERY},
    "naive Bayes": {"river": "naive_bayes.GaussianNB", **EVERY},
    "Hoeffding tree": TREE,
    "adaptive Hoeffding tree": {"river": "tree.HoeffdingAdaptiveTreeClassifier"},
    "ARF": {"river": "forest.ARFClassifier", "params": {"n_models": 3}},
    "AMF": {"river": "forest.AMFClassifier", "params": {"n_estimators": 3}, "one_hot": True},
    "SRP": {"river": "ensemble.SRPClassifier", "params": {"n_models": 3, "model": TREE}},
    "ADWIN boosting": {
        "river": "ensemble.ADWINBoostingClassifier",
        "params": {"model": TREE, "n_models": 3},
    },
    "BOLE": {"river": "ensemble.BOLEClassifier", "params": {"model": TREE, "n_models": 3}},
    "bagging of pipelines": {
        "river": "ensemble.BaggingClassifier",
        "params": {"model": {**LINEAR, "one_hot": True}, "n_models": 3},
    },
    "labels only": {"river": "ensemble.VotingClassifier", "params": {"models": [TREE, TREE]}},
    "neighbours": {"river": "neighbors.KNNClassifier", **EVERY},
}
CLASSES = {
    "softmax": {"river": "linear_model.SoftmaxRegression", **EVERY},
    "forest of three": BINARY["ARF"],
    "one versus rest": {
        "river": "multiclass.OneVsRestClassifier",
        "params": {"classifier": {**LINEAR, "one_hot": True}},
    },
}
NUMBER = {
    "linear": {"river": "linear_model.LinearRegression", **EVERY},
    "Hoeffding regressor": {"river": "tree.HoeffdingTreeRegressor", "one_hot": True},
    "ARF regressor": {"river": "forest.ARFRegressor", "params": {"n_models": 3}, "one_hot": True},
    "AMRules": {"river": "rules.AMRules", **EVERY},
}
CASES = [
    *(pytest.param("binary", spec, id=name) for name, spec in BINARY.items()),
    *(pytest.param("multiclass", spec, id=name) for name, spec in CLASSES.items()),
    *(pytest.param("regression", spec, id=name) for name, spec in NUMBER.items()),
]
LABELS: dict[str, Any] = {"binary": ["stays", "leaves"], "multiclass": list("abc")}


def make(spec: dict[str, Any], task: str = "binary", **more: Any) -> RiverModel:
    """Make a model over the schema of these tests."""
    return RiverModel(
        task, spec, more.pop("features", SCHEMA), more.pop("labels", LABELS.get(task))
    )


def rows_with_gaps(task: str, count: int = 300) -> tuple[list[dict[str, Any]], list[Any]]:
    """Draw events with something to learn; every fifth value is missing."""
    draw = random.Random(7)
    rows, labels = [], []
    for _ in range(count):
        a, colour = draw.gauss(0, 2), draw.choice(["red", "green"])
        row = {"a": a, "b": draw.gauss(5, 1), "flag": a > 0, "colour": colour}
        rows.append({name: value for name, value in row.items() if draw.random() > 0.2})
        score = a + (colour == "red")
        by_task = {"regression": score, "binary": LABELS["binary"][score > 0.5]}
        labels.append(by_task.get(task, "abc"[int(np.digitize(score, [-1, 1]))]))
    return rows, labels


def loss(model: RiverModel, predicted: Any, labels: list[Any]) -> Any:
    """Give the loss of every prediction."""
    y = np.array([model.labels.encode(label) for label in labels])
    if model.task == "regression":
        return 0.5 * (predicted - y) ** 2
    return -np.log(predicted[np.arange(len(y)), y.astype(int)])


@pytest.mark.parametrize(("task", "spec"), CASES)
def test_estimator_learns(task: str, spec: dict[str, Any]) -> None:
    """Progressive predictions get better, are probabilities, and a twin comes to the same ones."""
    model, twin = make(spec, task), make(spec, task)
    model.rehearse()
    rows, labels = rows_with_gaps(task)
    predicted = model.learn_many(rows, labels)
    losses = loss(model, predicted, labels)
    for row, label in zip(rows, labels, strict=True):
        twin.predict_many([row, rows[0]])  # a prediction between two events changes nothing
        twin.learn_one(row, label)

    assert len(rows) == model.events
    assert losses[-100:].mean() < losses[:20].mean()
    np.testing.assert_array_equal(model.predict_many(rows), twin.predict_many(rows))
    if task != "regression":
        np.testing.assert_allclose(1.0, predicted.sum(axis=1))
        assert set(model.predict_many(rows)) == set(labels)


def test_features_reach_river_as_they_are() -> None:
    """Numbers, booleans and texts by name, in no other form; what is missing is left out."""
    model = make(TREE)
    table = Table(
        numbers=np.array([[1.5, np.nan], [np.nan, np.nan]]),
        booleans=np.array([[1.0], [np.nan]]),
        categories=[["red", None]],
    )

    assert [{"a": 1.5, "flag": True, "colour": "red"}, {}] == model._rows(table, 2)
    assert model._rows(table, 2)[0]["flag"] is True


def test_clocks_and_texts_reach_river() -> None:
    """A clock as three numbers, a text as it is; of a missing text there is nothing to read."""
    model = make(TREE, features={"when": "datetime", "note": "text"})
    rows = [{"when": "2026-11-22T06:30:00Z", "note": "To be"}, {}]

    assert [
        {"when hour": 6.5, "when weekday": 6.0, "when month": 11.0, "note": "To be"},
        {"note": ""},
    ] == model._rows(tabulate(model.encoder.kinds, rows), 2)


BAG = {"river": "feature_extraction.BagOfWords", "params": {"on": "note"}}


@pytest.mark.parametrize(
    "spec",
    [
        {"river": "naive_bayes.MultinomialNB", "steps": [BAG]},
        {**LINEAR, "steps": [{**BAG, "on": "category"}]},
    ],
)
def test_river_counts_words(spec: dict[str, Any]) -> None:
    """River's own counters of words learn from a declared text."""
    features = {"note": "text", "when": "datetime", "a": "number"}
    model = make(spec, features=features)
    model.rehearse()
    draw = random.Random(7)
    rows = [
        {
            "note": " ".join(draw.sample(["one", "two", "three", "four", "five"], 2)),
            "a": draw.random(),
        }
        for _ in range(400)
    ]
    labels = ["leaves" if "five" in row["note"] else "stays" for row in rows]
    model.learn_many(rows, labels)

    assert labels == model.predict_many(rows).tolist()


def test_what_takes_no_texts_is_told_what_counts_them() -> None:
    """The refusal names the transformer."""
    model = make(LINEAR, features={"note": "text"})
    with pytest.raises(ModelError, match=r"start the steps with feature_extraction\.BagOfWords"):
        model.rehearse()


def test_losses_are_those_of_the_baselines() -> None:
    """Log-loss of the label's probability, half the square; wrong labels, distances."""
    binary, number = make(TREE), make(NUMBER["linear"], "regression")
    odds = np.array([[math.log(3.0)], [math.log(3.0)]])
    classes = binary.outcome(odds, np.array([1.0, 0.0]))
    numbers = number.outcome(np.array([[3.0]]), np.array([1.0]))

    np.testing.assert_allclose([-math.log(0.75), -math.log(0.25)], classes.losses)
    assert [0.0, 1.0] == classes.errors.tolist()
    assert ([2.0], [2.0]) == (numbers.losses.tolist(), numbers.errors.tolist())


def test_first_prediction_says_nothing() -> None:
    """Before any event all classes are equally likely, and a number is 0."""
    row = {"a": 1.0}

    assert {"a": 1 / 3, "b": 1 / 3, "c": 1 / 3} == pytest.approx(
        make(BINARY["ARF"], "multiclass").predict_proba_one(row)
    )
    assert 0.0 == make(NUMBER["linear"], "regression").predict_one(row)


def test_certain_answers_lose_a_bounded_amount() -> None:
    """A tree that has seen one label is sure; being wrong then costs what River's LogLoss says."""
    model = make(TREE)
    model.learn_many([{"a": 1.0}] * 5, ["stays"] * 5)
    predicted = model.predict_proba_one({"a": 1.0})

    assert 1e-15 == pytest.approx(predicted["leaves"], rel=1e-3)


def test_weight_is_rivers_own_where_it_takes_one() -> None:
    """Weight 3 is what River makes of w=3; weight 0 teaches nothing."""
    rows, labels = rows_with_gaps("binary")
    model, plain = make(TREE), make(TREE)
    direct = river_spec.build_estimator(plain.spec)
    weights = [3.0, 0.0, 0.5] + [1.0] * 7
    model.learn_many(rows[:10], labels[:10], weights)
    for k, w in enumerate(weights):
        if w == 0.0:
            continue
        direct.learn_one(rows[k], labels[k] == "leaves", w=w)

    assert (9, 0) == (model.events, model.weights_ignored)
    assert direct.predict_proba_one(rows[0])[True] == pytest.approx(
        model.predict_proba_one(rows[0])["leaves"], abs=1e-12
    )


def test_weight_is_counted_where_river_takes_none() -> None:
    """ALMA has no weights: such an event is learned once, and counted."""
    spec = BINARY["ALMA"]
    rows, labels = rows_with_gaps("binary", 3)
    model, plain = make(spec), make(spec)
    model.learn_many(rows, labels, [2.0, 1.0, 0.0])
    plain.learn_many(rows[:2], labels[:2])

    assert (2, 1) == (model.events, model.weights_ignored)
    assert plain.predict_proba_one(rows[0]) == model.predict_proba_one(rows[0])


def test_diverged_model_says_no_number() -> None:
    """Probabilities that are no numbers stay so: whoever answers must see it."""
    model = make(LINEAR, features=NUMBERS)
    model.estimator = type("Diverged", (), {"predict_proba_one": lambda *_: {True: math.nan}})()

    assert np.isnan(model.predict_proba_many([{"a": 1.0}])).all()


REFUSED: dict[str, tuple[dict[str, Any], str, str]] = {
    "misspelt": ({"river": "forest.ARFClasifier"}, "binary", "mean forest.ARFClassifier?"),
    "no module": ({"river": "ARFClassifier"}, "binary", "did you mean forest.ARFClassifier?"),
    "not River": ({"river": "os.system"}, "binary", "'os.system' is not a usable part of River"),
    "unlisted": ({"river": "compose.Pipeline"}, "binary", "not a usable part of River"),
    "abstract": ({"river": "base.Classifier"}, "binary", "not a usable part of River"),
    "dunder": ({"river": "tree.__builtins__"}, "binary", "not a usable part of River"),
    "no text": ({"river": 3}, "binary", "model.river: 3 is not a usable part"),
    "regressor": (
        {"river": "forest.ARFRegressor"},
        "binary",
        "not a classifier, which the task binary needs; did you mean forest.ARFClassifier?",
    ),
    "classifier": ({"river": "forest.ARFClassifier"}, "regression", "mean forest.ARFRegressor?"),
    "scaler": ({"river": "preprocessing.StandardScaler"}, "binary", "not a classifier"),
    "two classes": (LINEAR, "multiclass", "river: multiclass.OneVsRestClassifier"),
    "key": (
        {**TREE, "parms": {}},
        "binary",
        "model.parms: unknown key next to river; did you mean",
    ),
    "parameter": (
        {"river": "forest.ARFClassifier", "params": {"n_model": 3}},
        "binary",
        "model.params.n_model: forest.ARFClassifier has no such parameter; did you mean n_models?",
    ),
    "missing": ({"river": "ensemble.BOLEClassifier"}, "binary", "model.params.model: missing"),
    "nested": (
        {"river": "ensemble.BOLEClassifier", "params": {"model": {"river": "tree.Oak"}}},
        "binary",
        "model.params.model.river: 'tree.Oak' is not a usable part",
    ),
    "params": ({**TREE, "params": [1]}, "binary", "model.params: [1] is not a mapping"),
    "value": ({**TREE, "params": {"delta": print}}, "binary", "model.params.delta: <built-in"),
    "constructor": (
        {"river": "forest.ARFClassifier", "params": {"n_models": "ten"}},
        "binary",
        "refuses {'n_models': 'ten'} (TypeError",
    ),
    "scale": ({**TREE, "scale": 1}, "binary", "model.scale: 1 is not true or false"),
    "steps": ({**TREE, "steps": ["scale"]}, "binary", "model.steps: ['scale'] is not a list"),
    "step": ({**TREE, "steps": [TREE]}, "binary", "is not a transformer"),
    "on": (
        {**TREE, "steps": [{"river": "preprocessing.StandardScaler", "on": "a"}]},
        "binary",
        "model.steps[0].on: 'a' is not number or category",
    ),
    "seed": ({**TREE, "seed": 1.5}, "binary", "model.seed: 1.5 is not a whole number"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case: str) -> None:
    """What cannot be is refused with field, value and remedy; nothing but River is imported."""
    spec, task, words = REFUSED[case]
    with pytest.raises(ModelError) as caught:
        make(spec, task)

    assert words in str(caught.value)


def test_rehearsal_finds_what_the_schema_brings() -> None:
    """A linear model cannot take texts: said before any event, with the remedy."""
    with pytest.raises(ModelError, match="one_hot: true"):
        make(LINEAR).rehearse()
    make({**LINEAR, "one_hot": True}).rehearse()
    make(LINEAR, features=NUMBERS).rehearse()


def test_specification_is_spelled_out_once() -> None:
    """Short words become steps, the seed is named; spelled out, it stays as it is."""
    full = river_spec.normalise_spec(BINARY["bagging of pipelines"], "binary")

    assert ["number", "category"] == [s["on"] for s in full["params"]["model"]["steps"]]
    assert river_spec.SEED == full["seed"]
    assert full == river_spec.normalise_spec(full, "binary")


def test_seed_reaches_every_part() -> None:
    """One seed decides everything random, a part's own goes before it."""
    spec = BINARY["SRP"]

    assert 5 == river_spec.build_estimator(make({**spec, "seed": 5}).spec).seed
    own = {**spec, "params": {**spec["params"], "seed": 9}}
    assert 9 == river_spec.build_estimator(make(own).spec).seed


def test_no_file_of_it(tmp_path: Path) -> None:
    """It has no arrays: saving and loading refuse with the reason."""
    with pytest.raises(ModelError, match="pickled"):
        make(TREE).save(tmp_path / "model")
    with pytest.raises(ModelError, match="pickled"):
        RiverModel.load(tmp_path / "model")


def test_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the extra the refusal says what to install."""
    for name in [name for name in sys.modules if name.split(".")[0] == "river"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "river", None)
    with pytest.raises(ModelError, match=r"model.river.*pip install 'kaboost\[river\]'"):
        make(TREE)


def test_nobody_else_loads_it() -> None:
    """Kaboost's own models do without River, the settings too."""
    code = (
        "import kaboost.models.model, kaboost.service.config.settings, sys;"
        "import kaboost.service.processes.roles; sys.exit('river' in sys.modules)"
    )

    assert 0 == subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode
