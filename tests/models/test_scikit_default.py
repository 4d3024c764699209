"""scikit-learn's estimators of the default model: its own checks pass, they predict as `Model`."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.utils import estimator_checks

import kaboost

ESTIMATORS = [kaboost.Classifier(), kaboost.Regressor()]
# Of what depends on the model below; test_scikit.py runs all of them on other models.
CHECKS = (
    "check_estimators_pickle",
    "check_fit2d_1sample",
    "check_fit_idempotent",
    "check_methods_subset_invariance",
    "check_sample_weights_shape",
)


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("subject", ESTIMATORS, ids=str)
def test_conventions_hold(subject: Any, check: str) -> None:
    """The checks in which a model can fail where another does not."""
    getattr(estimator_checks, check)(type(subject).__name__, subject)


@pytest.mark.long
@pytest.mark.parametrize("subject", ESTIMATORS, ids=str)
def test_all_conventions_hold(subject: Any) -> None:
    """Every check of scikit-learn passes, but those the estimator names with a reason."""
    found = estimator_checks.check_estimator(
        subject, expected_failed_checks=subject.cannot_hold, on_skip=None, on_fail=None
    )
    failed = {each["check_name"]: each["exception"] for each in found if each["status"] == "failed"}

    assert {} == failed
    assert len(found) > 50


def test_too_many_classes_are_told_as_that() -> None:
    """Where memory is short for the classes, it says so, and its remedies are ones."""
    X, y = np.zeros((180, 5)), np.arange(180) % 60
    for multiclass in (None, "one_vs_rest"):
        with pytest.raises(ValueError, match="of 60 classes; give 274 or more"):
            kaboost.Classifier(multiclass=multiclass).fit(X, y)
    for bank in ({"kind": "reboosted_trees", "max_memory": 274}, "linear"):
        assert kaboost.Classifier(bank=bank).fit(X, y).predict_proba(X).shape == (180, 60)


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

    assert 9 == len(blocks)
    exec("\n".join(blocks), {})
