"""Rows that people pass to the table the encoder reads, as strict as the service's doors."""

from __future__ import annotations

import math
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from difflib import get_close_matches
from itertools import islice
from typing import Any, NamedTuple, NoReturn

import numpy as np

from kaboost.models.features.datetimes import is_datetime, wall_seconds
from kaboost.models.features.onehot import Table
from kaboost.models.features.schema import Layout, check_name, infer_kind, layout
from kaboost.models.types import Mat, ModelError, short_repr, to_python

COMPARED_NAMES = 100  # names that an unknown one is compared with, letter by letter
VALUE_LIMIT = 1e308  # of a number, on every door
INFERRED = "; its kind was inferred from its first value"
DECLARE = f"{INFERRED}: begin anew with it declared if that is wrong"
TEXT_KINDS = ("category", "datetime", "text")  # kinds of values that are texts


class BatchSlice(NamedTuple):
    """Rows of a batch, from `first` on."""

    first: int
    of: int  # rows of the whole batch

    def place(self, k: int) -> str:
        """Return which row of the batch a message speaks of; of one there is nothing to say."""
        return f" in rows[{k}]" if self.of > 1 else ""


def tabulate(
    schema: Mapping[str, str] | Layout,
    rows: Any,
    *,
    lenient: bool = False,
    part: BatchSlice | None = None,
) -> Table:
    """Return the features of rows, grouped by kind; what a dict does not hold costs little.

    Parameters
    ----------
    schema
        Feature name to kind; or a layout made from it, for who calls more than once.
    rows
        B dicts, where an absent key and None are missing; or a DataFrame, where absent columns,
        None and NaN are.
    lenient
        Whether features that the schema does not know are passed over.
    part
        Of which batch the rows are a part, for messages; they are a whole one where left out.

    Raises
    ------
    ModelError
        For what are no rows, a feature the schema does not know, and a value that is not of its
        feature's kind.

    Examples
    --------
    >>> table = tabulate({"age": "number", "country": "category"}, [{"age": 31}, {"country": "PT"}])
    >>> table.numbers.tolist(), table.categories
    ([[31.0], [nan]], [[None, 'PT']])
    """
    check_rows(rows)
    known = schema if isinstance(schema, Layout) else layout(schema)
    sheet = TableBuilder.of(known, len(rows))
    part = part or BatchSlice(0, len(rows))
    for k, row in enumerate(_dicts(known, rows, lenient)):
        if row.__class__ is not dict and not isinstance(row, Mapping):
            raise ModelError(
                f"rows[{part.first + k}]: {short_repr(row)} is not a dict of features; pass "
                "dicts or a DataFrame"
            )
        _fill(sheet, known, k, (row, lenient, part))
    return sheet.table()


class TableBuilder(NamedTuple):
    """A table that is being filled."""

    numbers: Mat  # (B, n)
    booleans: Mat  # (B, b)
    cells: tuple[Any, Any]  # their memory, (B n,) and (B b,): to put one value there costs less
    columns: dict[str, list[list[Any]]]  # of the kinds that are texts

    @classmethod
    def of(cls, known: Layout, B: int) -> TableBuilder:
        """Return a sheet of B rows on which all is missing."""
        numbers = np.full((B, known.counts["number"]), math.nan)
        booleans = np.full((B, known.counts["boolean"]), math.nan)
        return cls(
            numbers,
            booleans,
            (numbers.ravel().data, booleans.ravel().data),
            {kind: [[None] * B for _ in range(known.counts[kind])] for kind in TEXT_KINDS},
        )

    def table(self) -> Table:
        """Return the table."""
        return Table(
            numbers=self.numbers,
            booleans=self.booleans,
            categories=self.columns["category"],
            times=wall_seconds(self.columns["datetime"], len(self.numbers)),
            texts=self.columns["text"],
        )


def _fill(
    sheet: TableBuilder, known: Layout, k: int, what: tuple[Mapping[str, Any], bool, BatchSlice]
) -> None:
    """Put row k on the sheet."""
    row, lenient, part = what
    numbers, booleans = sheet.cells
    find, n, b = known.places.get, known.counts["number"], known.counts["boolean"]
    for name, value in row.items():
        place = find(name)
        if place is None:
            if not lenient:
                _refuse(known.kinds, name, part.place(part.first + k))
            continue
        kind, j = place
        if kind == "number" and value.__class__ is float and -VALUE_LIMIT <= value <= VALUE_LIMIT:
            numbers[k * n + j] = value  # what most values are
            continue
        try:
            read = READERS[kind](value if kind == "datetime" else to_python(value))
        except ValueError as error:
            amount = kind == "number" and _is_amount(to_python(value))  # its kind is right
            why = DECLARE if name in known.inferred and not amount else ""
            raise ModelError(
                f"features.{name}{part.place(part.first + k)}: {error}{why}"
            ) from error
        if kind == "number":
            numbers[k * n + j] = read
        elif kind == "boolean":
            booleans[k * b + j] = read
        else:
            sheet.columns[kind][j][k] = read


def find_new_features(
    known: Mapping[str, str], rows: Any, w: Any
) -> list[tuple[int, dict[str, str]]]:
    """Return the features that come up in rows, by the row of their first value.

    Parameters
    ----------
    known
        Feature name to kind; what it has is left out.
    rows
        As for `tabulate`.
    w
        Importances (B,): a row of weight 0 says nothing of kinds.

    Raises
    ------
    ModelError
        For a value that has no kind.

    Examples
    --------
    >>> find_new_features({"age": "number"}, [{"age": 31}, {"vip": True, "job": "cook"}], [1, 1])
    [(1, {'vip': 'boolean', 'job': 'category'})]
    """
    seen: set[Any] = set()
    found = []
    for k, row in _with_unknown(known, rows):
        new = {
            name: value
            for name, value in row
            if value is not None and name not in known and name not in seen
        }
        if new and w[k] > 0.0:
            place = BatchSlice(0, len(rows)).place(k)
            found.append((k, {str(name): _kind(name, value, place) for name, value in new.items()}))
            seen |= new.keys()
    return found


def _with_unknown(
    known: Mapping[str, str], rows: Any
) -> Iterator[tuple[int, Iterable[tuple[Any, Any]]]]:
    """Yield the rows that may hold unknown features, with the names and values of these."""
    if hasattr(rows, "columns"):
        unknown = [name for name in rows.columns if name not in known]
        for k, row in enumerate(_records(rows, unknown) if unknown else ()):
            yield k, row.items()
        return
    for k, row in enumerate(rows):
        if isinstance(row, Mapping) and not row.keys() <= known.keys():
            yield k, row.items()


def _kind(name: Any, value: Any, place: str) -> str:
    if why := check_name(name):
        raise ModelError(f"features{place}: the name {name!r:.60} {why}")
    kind = infer_kind(to_python(value))
    if kind is None and hasattr(value, "isoformat"):
        raise ModelError(
            f"features.{name}{place}: {short_repr(value)} is a date or time, which is never "
            f'inferred; declare it: features={{"{name}": "datetime", "*": "auto"}}'
        )
    if kind is None:
        raise ModelError(
            f"features.{name}{place}: {short_repr(value)} has no kind; pass a number, true, "
            "false or a text"
        )
    if kind == "category" and is_datetime(str(value)):
        warnings.warn(
            f"features.{name}{place}: {short_repr(value)} looks like a date and is read as a "
            f"category; for hour, weekday and month begin a new model with "
            f'features={{"{name}": "datetime", '
            '"*": "auto"}',
            stacklevel=2,
        )
    return kind


def check_rows(rows: Any) -> None:
    """Refuse what is no batch of rows.

    Raises
    ------
    ModelError
        For a single row, a text, what cannot be counted, such as a generator, and a DataFrame with
        a column twice.
    """
    if hasattr(rows, "columns"):
        for name, count in Counter(rows.columns).items():
            if count > 1:
                raise ModelError(f"rows: column {name!r} stands twice; rename or drop one")
        return
    if isinstance(rows, Mapping):
        raise ModelError("rows: one dict where a list of them belongs; pass [row], or call ..._one")
    if not (isinstance(rows, list | tuple) or getattr(rows, "ndim", 0) > 0):
        kind = type(rows).__name__
        raise ModelError(f"rows: a {kind} is no list of dicts; pass a list, or a DataFrame")


def _dicts(known: Layout, rows: Any, lenient: bool) -> Iterable[Any]:
    """Return rows as they are, or those of a DataFrame."""
    if not hasattr(rows, "columns"):
        checked: Iterable[Any] = rows  # by check_rows
        return checked
    names = [name for name in rows.columns if name in known.places]
    for name in () if lenient else rows.columns:
        if name not in known.places:
            _refuse(known.kinds, name)
    return _records(rows, names)


def _is_amount(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _records(frame: Any, names: Iterable[Any]) -> list[dict[Any, Any]]:
    """Return what is there of some columns of a DataFrame, row by row."""
    rows: list[dict[Any, Any]] = [{} for _ in range(len(frame))]
    for name in names:
        missing, values = frame[name].isna().to_list(), frame[name].to_list()
        for row, gone, value in zip(rows, missing, values, strict=True):
            if not gone:
                row[name] = value
    return rows


def check_frame(schema: Mapping[str, str], rows: Any) -> None:
    """Refuse a DataFrame none of whose columns is known, where some features are.

    Raises
    ------
    ModelError
        With the feature that was probably meant.
    """
    named: Any = rows.columns if hasattr(rows, "columns") and schema else ()
    if len(named) and not set(named) & schema.keys():
        _refuse(schema, named[0])


def _refuse(schema: Mapping[str, str], name: Any, row: str = "") -> NoReturn:
    looked = list(islice(schema, COMPARED_NAMES))
    near = get_close_matches(str(name), looked, 1)
    more = ", .." if len(schema) > len(looked) else ""
    hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(looked)}{more}"
    raise ModelError(f"features.{name}{row}: unknown feature; {hint}")


def _number(value: Any) -> float:
    if value is None:
        return math.nan
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(
            f"{short_repr(value)} is not a number; pass one, or None where it is missing"
        )
    if not abs(value) <= VALUE_LIMIT:  # nan as well
        raise ValueError(
            f"{short_repr(value)} is not finite; pass |v| <= 1e308, or None where it is missing"
        )
    return float(value)


def _boolean(value: Any) -> float:
    if value is None:
        return math.nan
    if not isinstance(value, bool):
        raise ValueError(
            f"{short_repr(value)} is not true or false; pass one, or None where it is missing"
        )
    return float(value)


def _text(value: Any) -> str | None:
    if value is not None and not isinstance(value, str):
        raise ValueError(
            f"{short_repr(value)} is not a text; pass one, or None where it is missing"
        )
    return value


def _moment(value: Any) -> str | None:
    """Return a date and time as a text; whatever can write itself so is one."""
    written = value
    if isinstance(value, np.datetime64):
        written = str(value.astype("datetime64[s]"))
    elif hasattr(value, "isoformat"):
        written = value.isoformat()[:19]  # without an offset, which no clock shows
    if written is not None and not (isinstance(written, str) and is_datetime(written)):
        raise ValueError(
            f"{short_repr(value)} is not a date and time; pass a datetime, or a text such as "
            "'2026-11-20T10:00:00+01:00' (seconds are needed) or '2026-11-20', or None where it is "
            "missing"
        )
    return written


READERS: dict[str, Callable[[Any], Any]] = {
    "number": _number,
    "boolean": _boolean,
    "category": _text,
    "datetime": _moment,
    "text": _text,
}
