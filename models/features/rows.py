"""Rows that callers pass to the table that encoders read, checked as strictly as in the service."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from kaboost.models.features.checks import check_rows, refuse_unknown
from kaboost.models.features.datetimes import wall_seconds
from kaboost.models.features.onehot import Table
from kaboost.models.features.readings import OPEN, UNREADABLE, is_odd, name_of, reading
from kaboost.models.features.schema import Layout, layout
from kaboost.models.features.values import READERS, VALUE_LIMIT, is_number
from kaboost.models.types import Mat, ModelError, short_repr, to_python

INFERRED = "; its kind was inferred from its first values"
DECLARE = f"{INFERRED}: if that is wrong, declare it in a new model"
TEXT_KINDS = ("category", "datetime", "text")  # kinds whose values are texts


class BatchSlice(NamedTuple):
    """Rows of a batch, from `first` on."""

    first: int
    of: int  # rows of the whole batch

    def place(self, k: int) -> str:
        """Return which row of the batch a message is about; nothing in a batch of one."""
        return f" in rows[{k}]" if self.of > 1 else ""


def tabulate(
    schema: Mapping[str, str] | Layout,
    rows: Any,
    *,
    lenient: bool = False,
    part: BatchSlice | None = None,
) -> Table:
    """Return the features of rows, grouped by kind; absent features cost little.

    Parameters
    ----------
    schema
        Feature name to kind; or a layout of it, for callers that call more than once.
    rows
        B dicts, where an absent key and None are missing; or a DataFrame, where absent columns,
        None and NaN are.
    lenient
        Ignore features that the schema does not know.
    part
        Where the rows stand in a larger batch, for messages.

    Returns
    -------
    Table
        Groups of B rows, one column for every feature of the schema.

    Raises
    ------
    ModelError
        For anything but rows, a feature the schema does not know, and a value that is not of its
        feature's kind.

    Examples
    --------
    >>> table = tabulate({"age": "number", "country": "category"}, [{"age": 31}, {"country": "PT"}])
    >>> table.numbers.tolist(), table.categories
    ([[31.0], [nan]], [[None, 'PT']])
    """
    check_rows(rows)
    known = schema if isinstance(schema, Layout) else layout(schema)
    builder = TableBuilder.of(known, len(rows))
    part = part or BatchSlice(0, len(rows))
    for k, row in enumerate(_dicts(known, rows, lenient)):
        if row.__class__ is not dict and not isinstance(row, Mapping):
            raise ModelError(
                f"rows[{part.first + k}]: {short_repr(row)} is not a dict of features; pass "
                "dicts or a DataFrame"
            )
        _fill(builder, known, k, (row, lenient, part))
    return builder.table()


class TableBuilder(NamedTuple):
    """A table that is being filled."""

    numbers: Mat  # (B, n)
    booleans: Mat  # (B, b)
    cells: Any  # memory of the numbers, (B n,): faster to assign to
    columns: dict[str, list[list[Any]]]  # of the kinds whose values are texts
    odd: list[tuple[int, str, Any]]

    @classmethod
    def of(cls, known: Layout, B: int) -> TableBuilder:
        """Return a builder of B rows in which every value is missing."""
        numbers = np.full((B, known.counts["number"]), math.nan)
        booleans = np.full((B, known.counts["boolean"]), math.nan)
        return cls(
            numbers,
            booleans,
            numbers.ravel().data,
            {kind: [[None] * B for _ in range(known.counts[kind])] for kind in TEXT_KINDS},
            [],
        )

    def put(self, kind: str, j: int, k: int, value: Any) -> None:
        """Fill event k of column j of a kind, which is missing until then."""
        if value is None:
            return
        if kind == "number":
            self.numbers[k, j] = value
        elif kind == "boolean":
            self.booleans[k, j] = value
        else:
            self.columns[kind][j][k] = value

    def table(self) -> Table:
        """Return the table."""
        return Table(
            numbers=self.numbers,
            booleans=self.booleans,
            categories=self.columns["category"],
            times=wall_seconds(self.columns["datetime"], len(self.numbers)),
            texts=self.columns["text"],
            odd=self.odd,
        )


def _fill(
    builder: TableBuilder,
    known: Layout,
    k: int,
    source: tuple[Mapping[str, Any], bool, BatchSlice],
) -> None:
    """Fill row k of the table."""
    row, lenient, part = source
    numbers = builder.cells
    find, n = known.places.get, known.counts["number"]
    for name, value in row.items():
        place = find(name)
        if place is None:
            if not lenient:
                refuse_unknown(known.kinds, name, part.place(part.first + k))
            continue
        kind, j = place
        if kind == "number" and value.__class__ is float and -VALUE_LIMIT <= value <= VALUE_LIMIT:
            numbers[k * n + j] = value  # the fast path: most values are such floats
            continue
        builder.put(kind, j, k, _read(builder, known, (k, name, value), part))


def _read(
    builder: TableBuilder, known: Layout, cell: tuple[int, str, Any], part: BatchSlice
) -> Any:
    """Return what a value means for its feature; note one that speaks against an open kind."""
    k, name, sent = cell
    kind = known.kinds[name]
    value = sent if kind == "datetime" else to_python(sent)
    try:
        if name in known.open and is_odd(value, kind):
            builder.odd.append((k, name, value))
            value = reading(value, kind, OPEN)
        return READERS[kind](value)
    except ValueError as error:
        read = reading(value, kind, known.sureness(name))
        kind_is_right = kind == "number" and is_number(value)
        if read is not UNREADABLE and not kind_is_right:
            return read
        remedy = DECLARE if name in known.inferred and not kind_is_right else ""
        raise ModelError(f"features.{name}{part.place(part.first + k)}: {error}{remedy}") from error


def recast(table: Table, before: Layout, now: Layout) -> Table:
    """Return a table whose features have other kinds now; each value is read by its new kind."""
    B = len(table.numbers)
    builder = TableBuilder.of(now, B)
    groups = (table.numbers, table.booleans)
    for name, (kind, j) in now.places.items():
        old, i = before.places[name]
        if kind == old and kind in ("number", "boolean"):
            source = groups[kind == "boolean"]
            (builder.booleans if kind == "boolean" else builder.numbers)[:, j] = source[:, i]
        elif kind == old and kind == "category":
            builder.columns[kind][j] = list(table.categories[i])
        elif kind == old and kind == "text":
            builder.columns[kind][j] = list(table.texts[i])
        elif kind != old:
            for k, value in enumerate(_sent(table, name, (old, i))):
                if is_odd(value, kind):
                    builder.odd.append((k, name, value))
                builder.put(kind, j, k, reading(value, kind, OPEN))
    kept = [(k, name, v) for k, name, v in table.odd if before.kinds[name] == now.kinds[name]]
    odd = sorted(kept + builder.odd, key=lambda cell: cell[:2])
    return builder.table()._replace(times=table.times, odd=odd)


def _sent(table: Table, name: str, place: tuple[str, int]) -> list[Any]:
    """Return the values (B,) of a number, a boolean or a category as they came."""
    kind, i = place
    if kind == "category":
        values: list[Any] = list(table.categories[i])
    else:
        column = (table.numbers if kind == "number" else table.booleans)[:, i].tolist()
        values = [None if x != x else bool(x) if kind == "boolean" else x for x in column]
    for k, of, value in table.odd:
        if of == name:
            values[k] = value
    return values


def _dicts(known: Layout, rows: Any, lenient: bool) -> Iterable[Any]:
    """Return rows unchanged, or those of a DataFrame as dicts."""
    if not hasattr(rows, "columns"):
        checked: Iterable[Any] = rows  # by check_rows
        return checked
    names = [name for name in rows.columns if name in known.places]
    for name in () if lenient else rows.columns:
        if name not in known.places:
            refuse_unknown(known.kinds, name)
    return frame_rows(rows, names, known.kinds)


def frame_rows(frame: Any, names: Iterable[Any], kinds: Mapping[Any, str]) -> list[dict[Any, Any]]:
    """Return some columns of a DataFrame as B dicts, without missing values.

    The values of a categorical column are names, unless the feature's kind is another one.
    """
    rows: list[dict[Any, Any]] = [{} for _ in range(len(frame))]
    for name in names:
        missing, values = frame[name].isna().to_list(), frame[name].to_list()
        categorical = type(getattr(frame[name], "dtype", None)).__name__ == "CategoricalDtype"
        if categorical and kinds.get(name, "category") == "category":
            values = [
                name_of(x) if isinstance(x, bool | int | float) else x
                for x in map(to_python, values)
            ]
        for row, is_missing, value in zip(rows, missing, values, strict=True):
            if not is_missing:
                row[name] = value
    return rows
