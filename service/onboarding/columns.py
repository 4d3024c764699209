"""Describe the columns of sampled records: kind, distinct values, missing values."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from kaboost.models.features.datetimes import EPOCHS, is_datetime
from kaboost.service.events.values import flatten

FIRST_EPOCH = 6.3e8  # seconds: the year 1990
LAST_EPOCH = 4.1e9  # seconds: the year 2100
TEXT_WORDS = 4.0  # mean words of a text
WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
OPAQUE = re.compile(
    r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|[0-9a-f]{24,}", re.I
)
CODES = {"id", "code", "zip", "postcode", "sku", "mcc", "bin", "slot", "type", "status"}


class Column(NamedTuple):
    """One field of the records; nested fields have names with dots."""

    name: str
    path: tuple[str, ...]
    values: list[Any]  # one a record, None where it is missing

    @property
    def present(self) -> list[Any]:
        """The values that are there."""
        return [value for value in self.values if value is not None]

    @property
    def distinct(self) -> int:
        """How many different values there are."""
        return len(self.counts)

    @property
    def counts(self) -> Counter[Any]:
        """How often each value comes; 1 and true are different."""
        return Counter((value.__class__.__name__, value) for value in self.present)

    @property
    def is_complete(self) -> bool:
        """Whether every record has it."""
        return all(value is not None for value in self.values)

    @property
    def uniqueness(self) -> float:
        """The share of different values, 1 where every one is."""
        return self.distinct / max(len(self.present), 1)

    @property
    def words(self) -> list[str]:
        """The words of the last part of the name, in lower case."""
        return [word.lower() for word in WORDS.findall(self.path[-1])]

    @property
    def is_opaque(self) -> bool:
        """Whether its values are UUIDs or digests."""
        texts = self.present
        return bool(texts) and all(isinstance(v, str) and OPAQUE.fullmatch(v) for v in texts)


class Kind(NamedTuple):
    """The kind of a column as a feature."""

    name: str  # number, boolean, category, datetime, text, or auto where no value tells
    coerced: bool  # whether some values have to be converted
    reason: str = ""


def columns(records: Sequence[Mapping[str, Any]], root: tuple[str, ...]) -> list[Column]:
    """Return the columns of records below a path, in the order of their first record."""
    rows = [flatten(record, frozenset()) for record in records]
    paths: dict[str, tuple[str, ...]] = {}
    for record, row in zip(records, rows, strict=True):
        known = dict(_paths(record, ()))
        for name in row:
            paths.setdefault(name, known.get(name) or tuple(name.split(".")))
    return [
        Column(name, (*root, *path), [row.get(name) for row in rows])
        for name, path in paths.items()
    ]


def _paths(record: Mapping[str, Any], above: tuple[str, ...]) -> list[tuple[str, tuple[str, ...]]]:
    """List every name with its path: a key may have a dot itself."""
    found = []
    for key, value in record.items():
        path = (*above, key)
        found.append((".".join(path), path))
        if isinstance(value, Mapping):
            found += _paths(value, path)
    return found


def guess_kind(column: Column) -> Kind:
    """Return the kind that all values of a column have."""
    values = column.present
    if not values:
        return Kind("auto", False, "no value in the sample")
    classes = {value.__class__ for value in values}
    if classes == {bool}:
        return Kind("boolean", False)
    if classes <= {int, float}:
        if classes == {int} and CODES & set(column.words[-1:]):
            return Kind("category", True, "a code, by its name")
        return Kind("number", False)
    if classes == {str}:
        return _kind_of_text(values)
    if bool not in classes and all(_is_number(value) for value in values):
        return Kind("number", True, "numbers, some in text")
    if classes == {bool, str} and all(isinstance(v, bool) or is_truth(v) for v in values):
        return Kind("boolean", True, "booleans, some in text")
    return Kind("category", True, "values of several types")


def _kind_of_text(values: list[str]) -> Kind:
    if all(map(is_truth, values)):
        return Kind("boolean", True, "booleans in text")
    if all(map(_is_number, values)):
        return Kind("number", True, "numbers in text")
    if all(map(is_datetime, values)):
        return Kind("datetime", False)
    words = sum(len(value.split()) for value in values) / len(values)
    if words >= TEXT_WORDS and len(set(values)) > 0.3 * len(values):
        return Kind("text", False, "free text")
    return Kind("category", False)


def is_truth(value: str) -> bool:
    """Return whether a text is true or false."""
    return value.strip().lower() in ("true", "false")


def _is_number(value: Any) -> bool:
    """Return whether a value is a number; a text with leading zeros is a code."""
    if not isinstance(value, str):
        return isinstance(value, int | float) and not isinstance(value, bool)
    text = value.strip().lstrip("+-")
    if len(text) > 1 and text[0] == "0" and text[1].isdigit():
        return False
    return re.fullmatch(r"(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", text, re.I) is not None


def as_number(value: Any) -> float | None:
    """Return a number, or a number in text; None for anything else."""
    return float(value) if _is_number(value) else None


def is_time(column: Column) -> bool:
    """Return whether all values are dates, or seconds to nanoseconds since 1970."""
    values = column.present
    if values and all(isinstance(v, str) and is_datetime(v.strip()) for v in values):
        return True
    return bool(values) and all(_is_epoch(as_number(value)) for value in values)


def _is_epoch(number: float | None) -> bool:
    if number is None:
        return False
    for limit, factor in EPOCHS:
        if abs(number) < limit:
            return FIRST_EPOCH < number * factor / 1e3 < LAST_EPOCH
    return False
