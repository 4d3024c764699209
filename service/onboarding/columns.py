"""Describe the columns of sampled records: kind, distinct values, missing values."""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from kaboost.models.features.datetimes import EPOCHS, is_datetime
from kaboost.models.features.readings import is_missing_text
from kaboost.service.events.metadata import read_time
from kaboost.service.events.values import flatten

FIRST_EPOCH = 6.3e8  # seconds: the year 1990
LAST_EPOCH = 4.1e9  # seconds: the year 2100
TEXT_WORDS = 4.0  # mean words of a text
MAJORITY = 0.98  # the share of values that decides; the others are faults of single records
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
        """Whether nearly every record has it."""
        return nearly_all(value is not None for value in self.values)

    @property
    def is_constant(self) -> bool:
        """Whether nearly every record has it, with the same value."""
        return self.distinct == 1 and self.is_complete

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
        return nearly_all(isinstance(v, str) and OPAQUE.fullmatch(v) for v in self.present)


class Kind(NamedTuple):
    """The kind of a column as a feature."""

    name: str  # number, boolean, category, datetime, text, or auto where no value tells
    coerced: bool  # whether some values have to be converted
    reason: str = ""


def nearly_all(tests: Iterable[object]) -> bool:
    """Return whether at least 98 % of tests hold, and there is one."""
    results = list(map(bool, tests))
    return bool(results) and sum(results) >= MAJORITY * len(results)


def usual(values: Sequence[Any]) -> list[Any]:
    """Return the values of the type that nearly all have; all values where no type prevails.

    Texts that stand for a missing value are left out among numbers and booleans.
    """
    types = [_value_type(value) for value in values]
    counts = Counter(types)
    missing = counts.pop("missing", 0)
    name, count = counts.most_common(1)[0] if counts else ("missing", missing)
    if name not in ("number", "boolean"):
        count, missing = (count + missing, 0) if name == "text" else (count, 0)
    if "code" in counts or count < MAJORITY * (len(values) - missing):
        return list(values)
    taken = {name, "missing"} if name == "text" else {name}
    return [value for value, type_ in zip(values, types, strict=True) if type_ in taken]


def _value_type(value: Any) -> str:
    """Return the type that a value reads as."""
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, str):
        return next((name for name, test in _TEXT_TYPES if test(value)), "text")
    return "number" if isinstance(value, int | float) else "other"


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
    """Return the kind that nearly all values of a column have."""
    values = usual(column.present)
    if not values:
        return Kind("auto", False, "no value in the sample")
    kind = _kind_of(values, column)
    types = {"missing", *map(_value_type, values)}
    odd = [value for value in column.present if _value_type(value) not in types]
    if not odd or kind.name in ("category", "text"):
        return kind
    example = json.dumps(odd[0], ensure_ascii=False, default=str)
    note = f"{len(odd)} of {len(column.present)} are no {kind.name}, such as {example}"
    return kind._replace(reason=f"{kind.reason}; {note}" if kind.reason else note)


def _kind_of(values: Sequence[Any], column: Column) -> Kind:
    classes = {value.__class__ for value in values}
    if classes == {bool}:
        return Kind("boolean", False)
    # The same of a CSV file, whose numbers are text, and of what was written as numbers.
    if CODES & set(column.words[-1:]) and all(map(_is_whole, values)):
        return Kind("category", int in classes, "a code, by its name")
    if classes <= {int, float}:
        return Kind("number", False)
    if classes == {str}:
        return _kind_of_text(values)
    if bool not in classes and all(_is_number(value) for value in values):
        return Kind("number", True, "numbers, some in text")
    if classes == {bool, str} and all(isinstance(v, bool) or is_truth(v) for v in values):
        return Kind("boolean", True, "booleans, some in text")
    return Kind("category", True, "values of several types")


def _kind_of_text(values: Sequence[Any]) -> Kind:
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


def _is_whole(value: Any) -> bool:
    """Return whether a value is a whole number, perhaps in text."""
    if isinstance(value, str):
        return value.strip().isdecimal()
    return isinstance(value, int) and not isinstance(value, bool)


def _is_code(value: str) -> bool:
    """Return whether a text is digits with a zero before them."""
    text = value.strip().lstrip("+-")
    return len(text) > 1 and text[0] == "0" and text[1].isdigit()


def _is_number(value: Any) -> bool:
    """Return whether a value is a number; a text with leading zeros is a code."""
    if not isinstance(value, str):
        return isinstance(value, int | float) and not isinstance(value, bool)
    if _is_code(value):
        return False
    text = value.strip().lstrip("+-")
    return re.fullmatch(r"(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", text, re.I) is not None


def as_number(value: Any) -> float | None:
    """Return a number, or a number in text; None for anything else."""
    return float(value) if _is_number(value) else None


def is_time(column: Column) -> bool:
    """Return whether nearly all values are dates, or seconds to nanoseconds since 1970."""
    values = column.present
    if nearly_all(isinstance(v, str) and is_datetime(v.strip()) for v in values):
        return True
    return nearly_all(_is_epoch(as_number(value)) for value in values)


def is_time_value(value: Any) -> bool:
    """Return whether the learner reads a value as a time, and not as one of about 1970."""
    number = as_number(value)
    return read_time(value) is not None if number is None else _is_epoch(number)


def _is_epoch(number: float | None) -> bool:
    if number is None:
        return False
    for limit, factor in EPOCHS:
        if abs(number) < limit:
            return FIRST_EPOCH < number * factor / 1e3 < LAST_EPOCH
    return False


_TEXT_TYPES: list[tuple[str, Callable[[str], bool]]] = [
    ("missing", is_missing_text),
    ("code", _is_code),
    ("boolean", is_truth),
    ("number", _is_number),
    ("datetime", is_datetime),
]
