"""Slots: features that come and go, by name, as a vector of fixed length and in bounded memory."""

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

KEPT_LENGTH = 128  # longer texts are remembered by their hash: what is kept stays small

Key = tuple[Any, str | None]  # a feature's name; a text's value beside it


class NamedSlots:
    """Give a column to each number, each boolean and each value of a text, as they are first seen.

    A number is standardised by what came before it, a boolean is -1 or 1, a text is 1 in the column
    of its value, and what is missing is 0: as the encoder of `Model` does it. As there, a text has
    no column in the event that shows it first.

    Parameters
    ----------
    encoder
        Encoder of numbers only, one for each column.
    own
        Columns given away in order of first sight, within one event by name. The columns after them
        are shared by all that comes when these are taken, by a fixed hash; where there are none it
        is left out.

    Examples
    --------
    >>> slots = NamedSlots(Encoder({"0": "number", "1": "number", "2": "number"}), own=2)
    >>> slots.learn_one({"vip": True, "from": "PT"}).tolist()
    [[1.0, 0.0, 0.0]]
    >>> slots.encode_one({"vip": False, "from": "PT", "age": 31}).tolist()
    [[-1.0, 1.0, 0.0]]
    """

    def __init__(self, encoder: Encoder | Columns, own: int) -> None:
        self.encoder = encoder
        self.own = own
        self._columns: dict[Key, int] = {}

    def encode_one(self, x: Mapping[Any, Any]) -> Mat:
        """Return features x as a row (1, d); nothing changes."""
        numbers, marks = self._place(list(_read(x)))
        return _mark(self.encoder.encode_many(_table(numbers)), marks)

    def learn_one(self, x: Mapping[Any, Any]) -> Mat:
        """Return features x as a row (1, d) by what came before it, then remember them.

        Raises
        ------
        ModelError
            For a value that is neither a finite number, nor a boolean, nor a text; then nothing
            changed.
        """
        found = list(_read(x))
        self._admit(found, texts=False)
        numbers, marks = self._place(found)
        X = _mark(self.encoder.learn_many(_table(numbers), ONE), marks)
        self._admit(found, texts=True)
        return X

    def _admit(self, found: list[tuple[Key, Any]], *, texts: bool) -> None:
        columns = self._columns
        if len(columns) == self.own:
            return
        new = [key for key, _ in found if (key[1] is not None) == texts and key not in columns]
        # By name: the order in a dict says nothing, and must change nothing.
        for key in sorted(new, key=str)[: self.own - len(columns)]:
            columns[key] = len(columns)

    def _place(self, found: list[tuple[Key, Any]]) -> tuple[list[float], dict[int, float]]:
        """Return the numbers by column, NaN where there is none, and the marks to add."""
        numbers = [math.nan] * self.encoder.width
        marks: dict[int, float] = {}
        strangers = []
        for key, value in found:
            column = self._columns.get(key)
            if column is None:
                strangers.append((key, value))
            else:
                _put(numbers, marks, column, value)
        shared = self.encoder.width - self.own
        if strangers and shared and len(self._columns) == self.own:
            for key, value in sorted(strangers, key=str):  # sums of floats depend on their order
                _put(numbers, marks, self.own + _hash(key) % shared, value)
        return numbers, marks


ONE = np.ones(1)


def _read(x: Mapping[Any, Any]) -> Iterator[tuple[Key, Any]]:
    """Yield every feature that is there: a float, or -1, or 1 as an integer mark."""
    for name, given in x.items():
        value = given
        if type(value) is not float:
            value = to_python(value)
            if value is None:
                continue
            if isinstance(value, bool):
                yield (_brief(name), None), 2 * value - 1
                continue
            if isinstance(value, str):
                yield (_brief(name), _brief(value)), 1
                continue
        if value == value:
            yield (_brief(name), None), _number(name, value)


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


def _brief(name: Any) -> Any:
    if isinstance(name, str) and len(name) > KEPT_LENGTH:
        return blake2b(name.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
    return name


def _hash(key: Key) -> int:
    name, value = key
    text = str(name) if value is None else f"{name}={value}"
    digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little")
