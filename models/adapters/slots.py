"""Slots: features that come and go as a vector of fixed length, in bounded memory."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from hashlib import blake2b
from typing import Any

import numpy as np

from kaboost.models.features.columns import Columns
from kaboost.models.features.onehot import Encoder, Table
from kaboost.models.features.values import READERS
from kaboost.models.types import Mat, ModelError, to_python

KEPT_LENGTH = 128  # characters; longer texts are kept as hashes, to bound the memory

Key = tuple[Any, str | None]  # a feature's name, and the value of a text


class NamedSlots:
    """Assign a column to every number, boolean and value of a text, in order of first sight.

    As in the encoder of `Model`, a number is standardised by its earlier values, a boolean is -1 or
    1, a text is 1 in the column of its value, and missing values are 0. A value of a text has no
    column in its first event.

    Parameters
    ----------
    encoder
        Encoder of as many numbers as there are columns.
    assigned
        Columns assigned in order of first sight, within one event by name. All later features
        share the other columns by a fixed hash; without other columns they are ignored.

    Examples
    --------
    >>> slots = NamedSlots(Encoder({"0": "number", "1": "number", "2": "number"}), assigned=2)
    >>> slots.learn_one({"vip": True, "from": "PT"}).tolist()
    [[1.0, 0.0, 0.0]]
    >>> slots.encode_one({"vip": False, "from": "PT", "age": 31}).tolist()
    [[-1.0, 1.0, 0.0]]
    """

    def __init__(self, encoder: Encoder | Columns, assigned: int) -> None:
        self.encoder = encoder
        self.assigned = assigned
        self._columns: dict[Key, int] = {}

    def encode_one(self, x: Mapping[Any, Any]) -> Mat:
        """Return features x as a row (1, d); the state does not change."""
        numbers, marks = self._place(list(_read(x)))
        return _mark(self.encoder.encode_many(_table(numbers)), marks)

    def learn_one(self, x: Mapping[Any, Any]) -> Mat:
        """Return features x as a row (1, d) by the statistics before it, then update them.

        Raises
        ------
        ModelError
            For a value that is neither a finite number, nor a boolean, nor a text; then nothing
            changed.
        """
        features = list(_read(x))
        self._assign(features, texts=False)
        numbers, marks = self._place(features)
        X = _mark(self.encoder.learn_many(_table(numbers), ONE), marks)
        self._assign(features, texts=True)
        return X

    def _assign(self, features: list[tuple[Key, Any]], *, texts: bool) -> None:
        columns = self._columns
        if len(columns) == self.assigned:
            return
        new = [key for key, _ in features if (key[1] is not None) == texts and key not in columns]
        # By name, so that the order of a dict does not matter.
        for key in sorted(new, key=str)[: self.assigned - len(columns)]:
            columns[key] = len(columns)

    def _place(self, features: list[tuple[Key, Any]]) -> tuple[list[float], dict[int, float]]:
        """Return the numbers by column, NaN where there are none, and the marks to add."""
        numbers = [math.nan] * self.encoder.width
        marks: dict[int, float] = {}
        unassigned = []
        for key, value in features:
            column = self._columns.get(key)
            if column is None:
                unassigned.append((key, value))
            else:
                _put(numbers, marks, column, value)
        shared = self.encoder.width - self.assigned
        if unassigned and shared and len(self._columns) == self.assigned:
            for key, value in sorted(unassigned, key=str):  # sums of floats depend on their order
                _put(numbers, marks, self.assigned + _hash(key) % shared, value)
        return numbers, marks


ONE = np.ones(1)


def _read(x: Mapping[Any, Any]) -> Iterator[tuple[Key, Any]]:
    """Yield every feature that is not missing: a float, or the integer mark -1 or 1."""
    for name, raw in x.items():
        value = raw
        if type(value) is not float:
            value = to_python(value)
            if value is None:
                continue
            if isinstance(value, bool):
                yield (_shorten(name), None), 2 * value - 1
                continue
            if isinstance(value, str):
                yield (_shorten(name), _shorten(value)), 1
                continue
        if value == value:
            yield (_shorten(name), None), _number(name, value)


def _number(name: Any, value: Any) -> float:
    try:
        number: float = READERS["number"](value)
    except ValueError as err:
        raise ModelError(f"features.{name}: {err}") from err
    return number


def _put(numbers: list[float], marks: dict[int, float], column: int, value: Any) -> None:
    if isinstance(value, int):
        marks[column] = marks.get(column, 0.0) + value
    else:
        before = numbers[column]
        numbers[column] = value if before != before else before + value


def _table(numbers: list[float]) -> Table:
    return Table(np.array([numbers]), NOTHING, [])


NOTHING = np.empty((1, 0))


def _mark(X: Mat, marks: dict[int, float]) -> Mat:
    for column, value in marks.items():
        X[0, column] += value
    return X


def _shorten(name: Any) -> Any:
    if isinstance(name, str) and len(name) > KEPT_LENGTH:
        return blake2b(name.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
    return name


def _hash(key: Key) -> int:
    name, value = key
    text = str(name) if value is None else f"{name}={value}"
    digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little")
