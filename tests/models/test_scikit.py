"""scikit-learn: its own checks pass on every other than the default model, its extra is named."""

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from sklearn.utils import estimator_checks

import kaboost

ADAM = {"kind": "linear", "n": 3, "step": "adam", "lr": 0.05}
LINEAR = {"kind": "linear", "n": 3}
SUBJECTS: dict[str, Any] = {
    "classifier": kaboost.Classifier(bank=LINEAR),
    "classifier-bbm": kaboost.Classifier(rule="bbm", bank=LINEAR),
    "classifier-rest": kaboost.Classifier(rule="bbm", bank=LINEAR, multiclass="one_vs_rest"),
    "classifier-bag": kaboost.Classifier(rule="oza_bag", bank=ADAM),
    "regressor": kaboost.Regressor(bank=LINEAR),
    "regressor-residual": kaboost.Regressor(rule="sgb_residual", bank=LINEAR, loss="absolute"),
    "regressor-span": kaboost.Regressor(rule="ogb_span", bank=LINEAR),
    "regressor-nets": kaboost.Regressor(bank={"kind": "nets", "n": 3, "lr": 0.1}),
    "regressor-trees": kaboost.Regressor(bank={"kind": "trees", "n": 3}),
}


SHORT = ("classifier", "regressor")


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.long] * (name not in SHORT)) for name in SUBJECTS],
)
def test_conventions_hold(name: str) -> None:
    """Every check of scikit-learn passes, but those the estimator names with a reason."""
    subject = SUBJECTS[name]

    found = estimator_checks.check_estimator(
        subject, expected_failed_checks=subject.cannot_hold, on_skip=None, on_fail=None
    )
    failed = {each["check_name"]: each["exception"] for each in found if each["status"] == "failed"}

    assert {} == failed
    assert len(found) > 50


@pytest.mark.parametrize("subject", [SUBJECTS["classifier"], SUBJECTS["regressor"]], ids=str)
def test_what_cannot_hold_fails(subject: Any) -> None:
    """No check stands on the list that would pass."""
    assert subject.cannot_hold
    for check, reason in subject.cannot_hold.items():
        assert reason
        with pytest.raises(AssertionError):
            getattr(estimator_checks, check)(type(subject).__name__, subject)


def test_package_loads_no_other_library() -> None:
    """`import kaboost` alone loads neither scikit-learn nor River."""
    code = "import sys, kaboost; print(sorted({'sklearn', 'river', 'pandas'} & set(sys.modules)))"

    assert "[]\n" == python(code)


def test_missing_extra_is_named() -> None:
    """Without scikit-learn the estimators say what to install, the rest works."""
    code = (
        "import sys; sys.modules['sklearn'] = None\n"
        "import kaboost\n"
        "kaboost.Model(features={'x': 'number'})\n"
        "try: kaboost.Classifier\n"
        "except kaboost.ModelError as err: print(err)"
    )

    assert "pip install '.[scikit-learn]'" in python(code)


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


def test_a_seed_is_told() -> None:
    """None is no seed: two fits would not be equal."""
    with pytest.raises(ValueError, match="seed: None"):
        kaboost.Classifier(seed=None).fit([[0.0], [1.0]], [0, 1])


def python(code: str) -> str:
    """Run code in a fresh interpreter and return what it prints."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout
