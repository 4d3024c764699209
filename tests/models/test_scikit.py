"""scikit-learn: its own checks pass, its extra is named, and it says what `Model` says."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.utils import estimator_checks

import kaboost

ADAM = {"kind": "linear", "n": 5, "step": "adam", "lr": 0.05}
SUBJECTS: dict[str, Any] = {
    "classifier": kaboost.Classifier(),
    "classifier-linear": kaboost.Classifier(bank="linear"),
    "classifier-bbm": kaboost.Classifier(rule="bbm"),
    "classifier-rest": kaboost.Classifier(rule="bbm", multiclass="one_vs_rest"),
    "classifier-bag": kaboost.Classifier(rule="oza_bag", bank=ADAM),
    "regressor": kaboost.Regressor(),
    "regressor-linear": kaboost.Regressor(bank="linear"),
    "regressor-residual": kaboost.Regressor(rule="sgb_residual", loss="absolute"),
    "regressor-span": kaboost.Regressor(rule="ogb_span"),
    "regressor-nets": kaboost.Regressor(bank={"kind": "nets", "n": 3, "lr": 0.1}),
    "regressor-trees": kaboost.Regressor(bank={"kind": "trees", "n": 3}),
}


@pytest.mark.parametrize("name", SUBJECTS)
def test_conventions_hold(name: str) -> None:
    """Every check of scikit-learn passes, but those the estimator names with a reason."""
    subject = SUBJECTS[name]

    found = estimator_checks.check_estimator(
        subject, expected_failed_checks=subject.cannot_hold, on_skip=None, on_fail=None
    )
    failed = {each["check_name"]: each["exception"] for each in found if each["status"] == "failed"}

    assert {} == failed
    assert len(found) > 50


@pytest.mark.parametrize(
    "subject", [kaboost.Classifier(bank="linear"), kaboost.Regressor(bank="linear")], ids=str
)
def test_what_cannot_hold_fails(subject: Any) -> None:
    """No check stands on the list that would pass."""
    assert subject.cannot_hold
    for check, reason in subject.cannot_hold.items():
        assert reason
        with pytest.raises(AssertionError):
            getattr(estimator_checks, check)(type(subject).__name__, subject)


def test_package_loads_no_other_library() -> None:
    """`import models` alone loads neither scikit-learn nor River."""
    code = "import sys, models; print(sorted({'sklearn', 'river', 'pandas'} & set(sys.modules)))"

    assert "[]\n" == python(code)


def test_missing_extra_is_named() -> None:
    """Without scikit-learn the estimators say what to install, the rest works."""
    code = (
        "import sys; sys.modules['sklearn'] = None\n"
        "import models\n"
        "kaboost.Model(features={'x': 'number'})\n"
        "try: kaboost.Classifier\n"
        "except kaboost.ModelError as err: print(err)"
    )

    assert "pip install 'kaboost[scikit-learn]'" in python(code)


def test_unknown_name_of_package() -> None:
    """A misspelt name is an AttributeError as everywhere."""
    with pytest.raises(AttributeError, match="Clasifier"):
        kaboost.Clasifier  # noqa: B018


def test_rule_of_two_classes_names_the_way_out() -> None:
    """A binary rule refuses three classes and names one_vs_rest; a misspelt wrapper is refused."""
    X, y = np.zeros((3, 1)), [0, 1, 2]

    with pytest.raises(ValueError, match="multiclass='one_vs_rest'"):
        kaboost.Classifier(rule="bbm").fit(X, y)
    with pytest.raises(kaboost.ModelError, match="'ovr' is not known"):
        kaboost.Classifier(multiclass="ovr").fit(X, [0, 1, 1])


def test_classes_of_the_first_call_stay() -> None:
    """partial_fit takes all classes at first, and refuses others later."""
    classifier = kaboost.Classifier().partial_fit([[0.0]], ["b"], classes=["a", "b"])

    assert ["a", "b"] == classifier.classes_.tolist()
    with pytest.raises(ValueError, match="'c' is not one of the classes"):
        classifier.partial_fit([[0.0]], ["c"])
    with pytest.raises(ValueError, match="of the first call"):
        classifier.partial_fit([[0.0]], ["a"], classes=["a", "c"])


@pytest.mark.parametrize("epochs", [0, 1.5, True])
def test_epochs_are_whole(epochs: Any) -> None:
    """No pass over the rows is no fit; numpy's whole numbers, which searches hand over, are."""
    with pytest.raises(ValueError, match="epochs"):
        kaboost.Regressor(epochs=epochs).fit([[0.0]], [0.0])
    assert kaboost.Regressor(epochs=np.int64(1), bank="linear").fit([[0.0]], [0.0])


def test_too_many_classes_are_told_as_that() -> None:
    """Where memory is short for the classes, it says so, and its remedies are ones."""
    X, y = np.zeros((180, 5)), np.arange(180) % 60
    for multiclass in (None, "one_vs_rest"):
        with pytest.raises(ValueError, match="of 60 classes; give 272 or more"):
            kaboost.Classifier(multiclass=multiclass).fit(X, y)
    for bank in ({"kind": "reboosted_trees", "max_memory": 272}, "linear"):
        assert kaboost.Classifier(bank=bank).fit(X, y).predict_proba(X).shape == (180, 60)


def test_a_seed_is_told() -> None:
    """None is no seed: two fits would not be equal."""
    with pytest.raises(ValueError, match="seed: None"):
        kaboost.Classifier(seed=None).fit([[0.0], [1.0]], [0, 1])


def test_default_is_that_of_a_model() -> None:
    """Nothing told is the default model, of two classes, of more and of numbers, in one pass."""
    r = np.random.default_rng(0)
    X = r.random((300, 3))
    for estimator, y in (
        (kaboost.Classifier(), X[:, 0] > 0.5),
        (kaboost.Classifier(), np.digitize(X[:, 0], [0.3, 0.6])),
        (kaboost.Regressor(), X[:, 0]),
    ):
        fitted = estimator.fit(X, y).model_
        classes = fitted.labels.classes or None
        default = kaboost.Model(fitted.task, features={"x": "number"}, labels=classes)
        assert fitted.spec["bank"] == default.spec["bank"]
        assert fitted.spec["loss"] == default.spec["loss"]
        assert int(fitted.booster.progress.events) == 300


def test_missing_values_are_learned() -> None:
    """What nan tells is learned; to linear learners it is a usual value. Infinity is refused."""
    r = np.random.default_rng(1)
    X = r.random((600, 2))
    X[r.random(600) < 0.5, 0] = np.nan

    gone, high = np.isnan(X[:, 0]), X[:, 1] > 0.5
    assert kaboost.Classifier().fit(X, gone).score(X, gone) > 0.95
    assert kaboost.Classifier(bank="linear").fit(X, high).score(X, high) > 0.9
    with pytest.raises(ValueError, match="infinity"):
        kaboost.Classifier().fit([[np.inf], [0.0]], [0, 1])


def test_rows_sorted_by_label_are_shuffled() -> None:
    """A table sorted by class is learned as well as another; told so, rows keep their order."""
    r = np.random.default_rng(2)
    y = np.sort(r.integers(0, 2, 600))
    X = 2.0 * y[:, None] + r.normal(size=(600, 2))

    assert kaboost.Classifier().fit(X, y).score(X, y) > 0.85
    kept = kaboost.Classifier(shuffle=False).fit(X, y)
    parts = kaboost.Classifier().partial_fit(X, y)
    np.testing.assert_array_equal(kept.predict_proba(X), parts.predict_proba(X))
    assert kept.score(X, y) < 0.8


@pytest.mark.timeout(600)  # it compiles reboosted trees
def test_library_page_runs() -> None:
    """The examples of docs/library.md run as they stand, one after another."""
    page = (Path(__file__).parents[2] / "docs" / "library.md").read_text()
    blocks = re.findall(r"^```python\n(.+?)^```", page, re.M | re.S)

    assert 6 == len(blocks)
    exec("\n".join(blocks), {})


def python(code: str) -> str:
    """Run code in a fresh interpreter and return what it prints."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout
