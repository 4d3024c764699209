"""Labels turn what users write into what a loss wants, and refuse the rest by name."""

import doctest
from typing import Any

import numpy as np
import pandas as pd
import pytest

from kaboost import ModelError
from kaboost.models.features import labels as module
from kaboost.models.features.labels import encode_many, labels


@pytest.mark.parametrize(
    ("task", "label", "expected"),
    [
        (labels("binary"), 0, 0.0),
        (labels("binary"), 1.0, 1.0),
        (labels("binary"), True, 1.0),
        (labels("binary"), False, 0.0),
        (labels("binary", ["ham", "spam"]), "spam", 1.0),
        (labels("binary", ["spam", "ham"]), "spam", 0.0),
        (labels("binary", [False, True]), True, 1.0),
        (labels("binary", [-1, 1]), -1, 0.0),
        (labels("multiclass", ["a", 2, True]), 2, 1.0),
        (labels("multiclass", ["a", 2, True]), True, 2.0),
        (labels("regression"), 3, 3.0),
        (labels("regression"), -1e308, -1e308),
    ],
)
def test_known_label_is_encoded(task, label, expected):
    """A label becomes its class index, the negative one 0; a number stays itself."""
    assert expected == task.encode(label)
    assert type(task.encode(label)) is float
    assert label == task.decode(expected)


@pytest.mark.parametrize(
    ("task", "label"),
    [
        (labels("binary"), 2),
        (labels("binary"), "1"),
        (labels("binary"), None),
        (labels("binary"), float("nan")),
        (labels("binary", [False, True]), 1),
        (labels("binary", [1, 2]), True),
        (labels("multiclass", ["a", "b", "c"]), ["a"]),
        (labels("multiclass", ["a", "b", "c"]), {}),
        (labels("regression"), True),
        (labels("regression"), "3"),
        (labels("regression"), None),
        (labels("regression"), float("inf")),
        (labels("regression"), float("nan")),
        (labels("regression"), 1.1e308),
        (labels("regression"), 10**400),
    ],
)
def test_unknown_label_is_refused_by_name(task, label):
    """The message names the label, what is known and the remedy."""
    with pytest.raises(ValueError, match="label: ") as refused:
        task.encode(label)

    assert all(str(known) in str(refused.value) for known in task.classes)


def test_message_stays_short():
    """A label of a megabyte and a task of a thousand classes still make one readable sentence."""
    task = labels("multiclass", [f"class {i}" for i in range(1000)])
    with pytest.raises(ValueError, match="label: ") as refused:
        task.encode("x" * 10**6)

    assert len(str(refused.value)) < 500


@pytest.mark.parametrize(
    ("kind", "classes", "message"),
    [
        ("ranking", None, "task.kind: 'ranking'"),
        ("multiclass", None, "task.labels: missing"),
        ("binary", "ab", "task.labels: 'ab' is one text; give a list"),
        ("multiclass", [], "0 labels"),
        ("multiclass", ["a"], "1 labels"),
        ("binary", ["a", "b", "c"], "3 labels"),
        ("binary", ["a", "a"], "read the same"),
        ("binary", [1, True], "read the same"),
        ("binary", [1, "1"], "read the same"),
        ("binary", [True, "true"], "read the same"),
        ("binary", [0, None], "None"),
        ("binary", [0, float("nan")], "nan"),
        ("binary", [0, [1]], r"\[1\]"),
        ("regression", [0, 1], "leave them out"),
    ],
)
def test_impossible_labels_are_refused(kind, classes, message):
    """What a task cannot have is said at its making, not at the first event."""
    with pytest.raises(ModelError, match=message):
        labels(kind, classes)


def test_outputs_and_texts():
    """One output, or one per class; booleans read true and false."""
    assert labels("regression").m == labels("binary").m == 1
    assert labels("multiclass", ["a", "b", "c"]).m == 3
    assert [labels("binary").text(label) for label in (True, False, 1, 0.5, "x")] == [
        "true",
        "false",
        "1",
        "0.5",
        "x",
    ]


def test_examples_run():
    """The examples in the docstrings give what they show."""
    assert doctest.testmod(module).failed == 0


@pytest.mark.parametrize(
    "y",
    [
        pd.array([1, None], dtype="Int64"), pd.array([True, None], dtype="boolean"),
        pd.array(["a", None], dtype="string"), pd.array([1.0, None], dtype="Float64"),
        [1, None], [1, np.nan], [1, pd.NaT], ["a", pd.NA], np.array([1.0, np.nan]),
        pd.Series([1, None]), pd.Categorical(["a", None]), [1, np.datetime64("NaT")],
    ],
)  # fmt: skip
@pytest.mark.parametrize("task", ["binary", "multiclass", "regression"])
def test_a_missing_label_has_its_place(y: Any, task: str) -> None:
    """Whatever a library writes for it; nothing is learned."""
    classes = {"binary": ["a", 1], "multiclass": ["a", 1, 2], "regression": None}[task]
    kind = labels(task, classes)
    with pytest.raises(ModelError, match=r"y\[1\]: label: .*leave the row out"):
        encode_many(kind, [1, list(y)[1]])


@pytest.mark.parametrize("label", [[1], {"a": 1}, (1,), np.array([1, 2]), b"a", 1j])
def test_what_cannot_be_a_label_is_refused(label: Any) -> None:
    """Also what cannot be compared or hashed."""
    with pytest.raises(ModelError, match=r"y\[1\]: label: .* is not one of 0, 1"):
        encode_many(labels("binary"), [1, label])
