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

AUTO = "auto"  # labels: classes are learned as they come
MAX_CLASSES = 50  # learned by default
MAX_CLASSES_RANGE = (2, 1000)
FIRST_SHARES = 4  # classes that memory is shared by at first, where they are learned
LABEL_CHARS = 200  # of a label that is learned
EXACT_FLOATS = 2.0**53  # below, whole numbers are exact
EXACT_INTEGERS = 2**63  # below, formats have them exactly

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
    max_classes: int = 0  # that are learned as they come; 0 where all are declared

    @property
    def is_open(self) -> bool:
        """Whether classes are learned as they come."""
        return self.max_classes > 0

    @property
    def m(self) -> int:
        """Outputs of a new booster: one per class for several classes, else one; where classes are
        learned as they come, as many as share its memory at first.
        """
        if self.is_open:
            return min(max(FIRST_SHARES, len(self.classes)), self.max_classes)
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
        if self.is_open:
            fault = self._class_fault(label) or "is no class yet; learn it first"
            raise ValueError(f"label: {short_repr(label)} {fault}")
        known = ", ".join(map(short_repr, self.classes[:20]))
        remedy = (
            "send one of them, or begin a new model with it in task.labels (in Python labels=) or, "
            "multiclass, with labels: auto"
        )
        remedy = MISSING_REMEDY if is_missing(label) else remedy
        raise ValueError(f"label: {short_repr(label)} is not one of {known}; {remedy}")

    def new_class(self, label: object) -> Label | None:
        """Return the class that a label begins: a whole number as an integer. None if the label is
        known or refused, as always where classes are declared.

        Examples
        --------
        >>> labels("multiclass", "auto").new_class(3.0)
        3
        """
        if not self.is_open or self.knows(label) or self._class_fault(label):
            return None
        assert isinstance(label, bool | int | float | str)
        return int(label) if isinstance(label, float) else label

    def knows(self, label: object) -> bool:
        """Return whether a label is one of the classes."""
        same = isinstance(label, bool | int | float | str) and label in self.classes
        return same and self._matches(label, self.classes.index(label))

    def with_class(self, label: Label) -> Labels:
        """Return the labels with one more class, what `new_class` returned."""
        return self._replace(classes=(*self.classes, label))

    def _class_fault(self, label: object) -> str | None:
        """Return why an unknown label begins no class; None if it does."""
        kind = _kind_of(label)
        if is_missing(label):
            return f"is no label; {MISSING_REMEDY}"
        if kind is None:
            return (
                "names no class: with labels: auto a class is a text, a whole number below 2^63 or "
                "a boolean; correct it, or list the labels"
            )
        if isinstance(label, str) and not 0 < len(label) <= LABEL_CHARS:
            return (
                f"has {len(label):,} characters, and a class that is learned 1 to {LABEL_CHARS}; "
                "send a shorter name, or list the labels"
            )
        if self.classes and (usual := _kind_of(self.classes[0])) != kind:
            return f"is a {kind}, and the classes so far are {usual}s; send a {usual}"
        if len(self.classes) >= self.max_classes:
            return (
                f"is none of the {len(self.classes)} classes that were learned, and no more fit; "
                "correct it, or begin a new model with a larger task.max_classes (and "
                "model.bank.max_memory)"
            )
        return None

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

        Only the classes 0 and 1 accept both, where they are declared.
        """
        known = self.classes[index]
        if isinstance(label, bool):
            return isinstance(known, bool) or (self.classes == (0, 1) and not self.is_open)
        return not isinstance(known, bool)


def labels(
    kind: str, classes: Sequence[Label] | str | None = None, max_classes: int = MAX_CLASSES
) -> Labels:
    """Return the checked labels of a task.

    Parameters
    ----------
    kind
        `regression`, `binary` or `multiclass`.
    classes
        The labels of a classification; 0 and 1 (or false and true) when a binary task names none.
        `auto`, for `multiclass`: classes are learned as they come.
    max_classes
        How many of them at most.

    Raises
    ------
    ModelError
        For an unknown kind, and for classes that the kind cannot have.
    """
    if kind not in KINDS:
        raise ModelError(f"task.kind: {kind!r} is not one of {', '.join(KINDS)}")
    if isinstance(classes, str) and classes == AUTO:
        return _open(kind, max_classes)
    if isinstance(classes, str | bytes):
        raise ModelError(f"task.labels: {classes!r} is one text; give a list of labels")
    values = None if classes is None else tuple(map(to_python, classes))
    if kind == "regression":
        if values:
            raise ModelError(f"task.labels: {values!r} given for regression; leave them out")
        return Labels(kind, ())
    if values is None and kind == "multiclass":
        raise ModelError(
            "task.labels: missing; a multiclass task needs the list of its labels, or auto, which "
            "learns classes as they come"
        )
    return _classification(kind, (0, 1) if values is None else values)


def encode_many(labels: Labels, y: Any) -> Vec:
    """Return labels (B,) as class indices, or as numbers for regression.

    Raises
    ------
    ModelError
        For anything but a list of labels, and for a label the task does not know.
    """
    values = _listed(y)
    return np.array(
        [_encode(labels, label, k, len(values)) for k, label in enumerate(values)], np.float64
    )


def encode_growing(labels: Labels, y: Any, w: Vec) -> tuple[Vec, Labels]:
    """Return labels (B,) as class indices, and the labels with the classes that they begin.

    A label of weight 0 begins none; where it is unknown, it counts as that of the first class.

    Raises
    ------
    ModelError
        As for `encode_many`, and for a class too many.
    """
    if not labels.is_open:
        return encode_many(labels, y), labels
    values = _listed(y)
    encoded = np.zeros(len(values))
    for k, label in enumerate(map(to_python, values)):
        new = labels.new_class(label)
        if new is not None and k < len(w) and w[k] > 0.0:
            labels = labels.with_class(new)
        if new is None or labels.knows(label):
            encoded[k] = _encode(labels, label, k, len(values))
    return encoded, labels


def _listed(y: Any) -> list[Any]:
    try:
        return list(y)
    except TypeError as error:
        kind = type(y).__name__
        raise ModelError(
            f"y: {kind} is not a list of labels; pass one label for every row"
        ) from error


def _encode(labels: Labels, label: Any, k: int, B: int) -> float:
    """Return label k of B as a class index, or as a number for regression."""
    try:
        return labels.encode(to_python(label))
    except ValueError as error:
        raise ModelError(f"y[{k}]: {error}" if B > 1 else str(error)) from error


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


def _open(kind: str, max_classes: int) -> Labels:
    low, high = MAX_CLASSES_RANGE
    if kind == "regression":
        raise ModelError("task.labels: auto given for regression; leave them out")
    if kind == "binary":
        raise ModelError(
            "task.labels: auto for a binary task, whose second label decides which one is "
            "positive; list both, the negative first, or take multiclass"
        )
    given: object = max_classes
    if not isinstance(given, int) or isinstance(given, bool) or not low <= given <= high:
        raise ModelError(
            f"task.max_classes: {max_classes!r} is not a whole number from {low} to {high}"
        )
    return Labels(kind, (), max_classes=max_classes)


def restored(kind: str, classes: Sequence[Label], max_classes: int) -> Labels:
    """Return the labels of a description; those of max_classes > 0 are learned as they come."""
    if not max_classes:
        return labels(kind, classes or None)
    return _open(kind, max_classes)._replace(classes=tuple(classes))


def _kind_of(label: object) -> str | None:
    """Return what a label that names a class is; None for any other."""
    if isinstance(label, bool):
        return "boolean"
    if isinstance(label, str):
        return "text"
    if isinstance(label, float):
        return "whole number" if abs(label) < EXACT_FLOATS and label.is_integer() else None
    return "whole number" if isinstance(label, int) and abs(label) < EXACT_INTEGERS else None


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
