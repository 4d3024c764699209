"""Rows that people pass to the table the encoder reads, as strict as the service's doors."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, NamedTuple

import numpy as np

from models.encoding import Table
from models.schema import KINDS, check_name, infer
from models.times import is_moment, wall_seconds
from models.types import Mat, ModelError, plain

VALUE_LIMIT = 1e308  # of a number, on every door


class Part(NamedTuple):
    """Rows of a batch, from `first` on."""

    first: int
    of: int  # rows of the whole batch

    def place(self, k: int) -> str:
        """Return which row of the batch a message speaks of; of one there is nothing to say."""
        return f" in rows[{k}]" if self.of > 1 else ""


def tabulate(
    schema: Mapping[str, str], rows: Any, *, lenient: bool = False, part: Part | None = None
) -> Table:
    """Return the features of rows, grouped by kind.

    Parameters
    ----------
    schema
        Feature name to kind.
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
    part = part or Part(0, len(rows))
    if hasattr(rows, "columns"):
        columns = _frame_columns(schema, rows, lenient)
    else:
        columns = _columns(schema, rows, lenient, part)
    of_kind: dict[str, list[list[Any]]] = {kind: [] for kind in KINDS}
    for name, kind in schema.items():
        of_kind[kind].append(_read(name, kind, columns[name], part))
    B = len(rows)
    return Table(
        numbers=_matrix(of_kind["number"], B),
        booleans=_matrix(of_kind["boolean"], B),
        categories=of_kind["category"],
        times=wall_seconds(of_kind["datetime"], B),
        texts=of_kind["text"],
    )


def discover(known: Mapping[str, str], rows: Any, w: Any) -> list[tuple[int, dict[str, str]]]:
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
    >>> discover({"age": "number"}, [{"age": 31}, {"vip": True, "job": "cook"}], [1.0, 1.0])
    [(1, {'vip': 'boolean', 'job': 'category'})]
    """
    seen, found = set(known), []
    for k, row in _with_unknown(known, rows):
        new = {name: value for name, value in row if name not in seen and value is not None}
        if new and w[k] > 0.0:
            place = Part(0, len(rows)).place(k)
            found.append((k, {str(name): _kind(name, value, place) for name, value in new.items()}))
            seen |= new.keys()
    return found


def _with_unknown(
    known: Mapping[str, str], rows: Any
) -> Iterator[tuple[int, Iterable[tuple[Any, Any]]]]:
    """Yield the rows that may hold unknown features, with the names and values of these."""
    if hasattr(rows, "columns"):
        unknown = {name: "" for name in rows.columns if name not in known}
        columns = _frame_columns(unknown, rows, lenient=True)
        for k in range(len(rows) if columns else 0):
            yield k, [(name, column[k]) for name, column in columns.items()]
        return
    for k, row in enumerate(rows):
        if isinstance(row, Mapping) and not row.keys() <= known.keys():
            yield k, row.items()


def _kind(name: Any, value: Any, place: str) -> str:
    if why := check_name(name):
        raise ModelError(f"features{place}: the name {name!r:.60} {why}")
    kind = infer(plain(value))
    if kind is None:
        raise ModelError(
            f"features.{name}{place}: {value!r} has no kind; pass a number, true, false or a text"
        )
    return kind


def check_rows(rows: Any) -> None:
    """Refuse what is no batch of rows.

    Raises
    ------
    ModelError
        For a single row, a text, and what cannot be counted, such as a generator.
    """
    if hasattr(rows, "columns"):
        return
    if isinstance(rows, Mapping):
        raise ModelError("rows: one dict where a list of them belongs; pass [row], or call ..._one")
    if not (isinstance(rows, list | tuple) or hasattr(rows, "__array__")):
        kind = type(rows).__name__
        raise ModelError(f"rows: a {kind} is no list of dicts; pass a list, or a DataFrame")


def _columns(
    schema: Mapping[str, str], rows: Sequence[Any], lenient: bool, part: Part
) -> dict[str, list[Any]]:
    for k, row in enumerate(rows, part.first):
        if not isinstance(row, Mapping):
            raise ModelError(
                f"rows[{k}]: {row!r} is not a dict of features; pass dicts or a DataFrame"
            )
        if not lenient:
            _refuse_unknown(schema, row, part.place(k))
    return {name: [row.get(name) for row in rows] for name in schema}


def _frame_columns(schema: Mapping[str, str], frame: Any, lenient: bool) -> dict[str, list[Any]]:
    if not lenient:
        _refuse_unknown(schema, frame.columns)
    columns = {name: [None] * len(frame) for name in schema}
    for name in columns.keys() & set(frame.columns):
        missing = frame[name].isna().to_list()
        values = frame[name].to_list()
        columns[name] = [None if gone else v for gone, v in zip(missing, values, strict=True)]
    return columns


def _refuse_unknown(schema: Mapping[str, str], names: Any, row: str = "") -> None:
    for name in names:
        if name not in schema:
            near = get_close_matches(str(name), schema, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(schema)}"
            raise ModelError(f"features.{name}{row}: unknown feature; {hint}")


def _read(name: str, kind: str, values: Sequence[Any], part: Part) -> list[Any]:
    read, found = READ[kind], []
    try:
        for value in values:
            found.append(read(value if kind == "datetime" else plain(value)))
    except ValueError as error:
        row = part.place(part.first + len(found))
        raise ModelError(f"features.{name}{row}: {error}") from error
    return found


def _number(value: Any) -> float:
    if value is None:
        return math.nan
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{value!r} is not a number; pass one, or None where it is missing")
    if not abs(value) <= VALUE_LIMIT:  # nan as well
        raise ValueError(f"{value!r} is not finite; pass |v| <= 1e308, or None where it is missing")
    return float(value)


def _boolean(value: Any) -> float:
    if value is None:
        return math.nan
    if not isinstance(value, bool):
        raise ValueError(f"{value!r} is not true or false; pass one, or None where it is missing")
    return float(value)


def _text(value: Any) -> str | None:
    if value is not None and not isinstance(value, str):
        raise ValueError(f"{value!r} is not a text; pass one, or None where it is missing")
    return value


def _moment(value: Any) -> str | None:
    """Return a date and time as a text; whatever can write itself so is one."""
    written = value
    if isinstance(value, np.datetime64):
        written = str(value.astype("datetime64[s]"))
    elif hasattr(value, "isoformat"):
        written = value.isoformat()[:19]  # without an offset, which no clock shows
    if written is not None and not (isinstance(written, str) and is_moment(written)):
        raise ValueError(
            f"{value!r} is not a date and time; pass a datetime, or a text such as "
            "'2026-11-20T10:00:00+01:00', or None where it is missing"
        )
    return written


READ: dict[str, Callable[[Any], Any]] = {
    "number": _number,
    "boolean": _boolean,
    "category": _text,
    "datetime": _moment,
    "text": _text,
}


def _matrix(columns: list[list[float]], B: int) -> Mat:
    matrix = np.empty((B, len(columns)))
    for j, values in enumerate(columns):
        matrix[:, j] = values
    return matrix
