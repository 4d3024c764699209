"""Labels of a task: from what callers pass to the float that a loss learns, and back."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kaboost.models.types import ModelError, Vec, short_repr, to_python

KINDS = ("regression", "binary", "multiclass")
VALUE_LIMIT = 1e308  # of a regression label, as of every number of an event

MISSING_REMEDY = "leave the row out until it has one"
MISSING_TYPES = ("NAType", "NaTType")  # of pandas

Label = bool | int | float | str


class Labels(NamedTuple):
    """The labels of one task; made by `labels`, which checks them.

    Examples
    --------
    >>> spam = labels("binary", ["ham", "spam"])
    >>> spam.encode("spam"), spam.decode(0), spam.m
    (1.0, 'ham', 1)
    """

    kind: str  # regression, binary or multiclass
    classes: tuple[Label, ...]  # none for regression; the negative one first for binary
    least: float = -VALUE_LIMIT  # of a regression: the smallest label that the loss can learn

    @property
    def m(self) -> int:
        """Outputs of the booster: one per class for several classes, else one."""
        return len(self.classes) if self.kind == "multiclass" else 1

    def encode(self, label: object) -> float:
        """Return the class index of a label, or the number itself for regression.

        Raises
        ------
        ValueError
            For a label the task does not know; the message names the known ones.
        """
        if self.kind == "regression":
            return self._number(label)
        if isinstance(label, bool | int | float | str) and label in self.classes:
            index = self.classes.index(label)
            if self._matches(label, index):
                return float(index)
        known = ", ".join(map(short_repr, self.classes[:20]))
        remedy = "send one of them or add it to task.labels, in Python labels=, of a new model"
        remedy = MISSING_REMEDY if is_missing(label) else remedy
        raise ValueError(f"label: {short_repr(label)} is not one of {known}; {remedy}")

    def decode(self, index: float) -> Label:
        """Return the label of a class index; for regression the number itself."""
        return float(index) if self.kind == "regression" else self.classes[int(index)]

    def text(self, label: Label) -> str:
        """Return a label as a JSON key: `true` and `false` for booleans."""
        return _text(label)

    def _number(self, label: object) -> float:
        number = _number(label)
        if number < self.least:
            raise ValueError(
                f"label: {short_repr(label)} is below {self.least:g}; the loss learns nothing "
                "smaller, so send such events elsewhere or take another loss"
            )
        return number

    def _matches(self, label: object, index: int) -> bool:
        """Return whether a label equals a class in type too: True == 1 in Python.

        Only the classes 0 and 1 accept both.
        """
        known = self.classes[index]
        if isinstance(label, bool):
            return isinstance(known, bool) or self.classes == (0, 1)
        return not isinstance(known, bool)


def labels(kind: str, classes: Sequence[Label] | None = None) -> Labels:
    """Return the checked labels of a task.

    Parameters
    ----------
    kind
        `regression`, `binary` or `multiclass`.
    classes
        The labels of a classification; 0 and 1 (or false and true) when a binary task names none.

    Raises
    ------
    ModelError
        For an unknown kind, and for classes that the kind cannot have.
    """
    if kind not in KINDS:
        raise ModelError(f"task.kind: {kind!r} is not one of {', '.join(KINDS)}")
    if isinstance(classes, str | bytes):
        raise ModelError(f"task.labels: {classes!r} is one text; give a list of labels")
    values = None if classes is None else tuple(map(to_python, classes))
    if kind == "regression":
        if values:
            raise ModelError(f"task.labels: {values!r} given for regression; leave them out")
        return Labels(kind, ())
    if values is None and kind == "multiclass":
        raise ModelError("task.labels: missing; a multiclass task needs the list of its labels")
    return _classification(kind, (0, 1) if values is None else values)


def encode_many(labels: Labels, y: Any) -> Vec:
    """Return labels (B,) as class indices, or as numbers for regression.

    Raises
    ------
    ModelError
        For anything but a list of labels, and for a label the task does not know.
    """
    try:
        values = list(y)
    except TypeError as error:
        kind = type(y).__name__
        raise ModelError(
            f"y: {kind} is not a list of labels; pass one label for every row"
        ) from error
    encoded = np.empty(len(values))
    for k, label in enumerate(values):
        try:
            encoded[k] = labels.encode(to_python(label))
        except ValueError as error:
            raise ModelError(f"y[{k}]: {error}" if len(values) > 1 else str(error)) from error
    return encoded


def is_missing(label: object) -> bool:
    """Return whether a label is None, NaN, or the NA or NaT of pandas, which is not imported here.

    Examples
    --------
    >>> is_missing(None), is_missing(float("nan")), is_missing("NA")
    (True, True, False)
    """
    if label is None or type(label).__name__ in MISSING_TYPES:
        return True
    return isinstance(label, float) and math.isnan(label)


def class_array(classes: tuple[Label, ...]) -> NDArray[Any]:
    """Return classes (C,) as an array; of objects where their types differ."""
    mixed = len(set(map(type, classes))) > 1
    return np.array(classes, dtype=object if mixed else None)


def _classification(kind: str, classes: tuple[Any, ...]) -> Labels:
    if kind == "binary" and len(classes) != 2:
        raise ModelError(
            f"task.labels: {len(classes)} labels for a binary task; give two, the negative first"
        )
    if len(classes) < 2:
        raise ModelError(f"task.labels: {len(classes)} labels; a classification needs two or more")
    for label in classes:
        if not _can_name(label):
            raise ModelError(
                f"task.labels: {short_repr(label)} cannot be a label; take texts, numbers or "
                "booleans"
            )
    if len(set(classes)) < len(classes) or len(set(map(_text, classes))) < len(classes):
        raise ModelError(f"task.labels: {classes!r} has two labels that read the same; keep one")
    return Labels(kind, classes)


def _can_name(label: object) -> bool:
    return isinstance(label, int | str) or (isinstance(label, float) and math.isfinite(label))


def _text(label: Label) -> str:
    return str(label).lower() if isinstance(label, bool) else str(label)


def _number(label: object) -> float:
    if is_missing(label):
        raise ValueError(f"label: {short_repr(label)} is not a number; {MISSING_REMEDY}")
    if isinstance(label, bool) or not isinstance(label, int | float):
        raise ValueError(
            f"label: {short_repr(label)} is not a number; send one, as a regression needs"
        )
    if not abs(label) <= VALUE_LIMIT:
        raise ValueError(f"label: {short_repr(label)} is beyond +-1e308; send a finite number")
    return float(label)
