"""New features: those of rows that the schema does not know, and their inferred kinds."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from kaboost.models.features.datetimes import is_datetime
from kaboost.models.features.readings import is_missing_text
from kaboost.models.features.rows import BatchSlice, frame_rows
from kaboost.models.features.schema import check_name, infer_kind
from kaboost.models.types import ModelError, short_repr, to_python

Additions = Sequence[tuple[int, Mapping[str, str]]]  # new features and kinds, by row


def find_new_features(
    known: Mapping[str, str], rows: Any, w: Any
) -> list[tuple[int, dict[str, str]]]:
    """Return the new features of rows with their kinds, by the row of their first value.

    Parameters
    ----------
    known
        Feature name to kind; these features are left out.
    rows
        As for `tabulate`.
    w
        Importances (B,): a row of weight 0 infers no kind.

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
    additions = []
    for k, row in _rows_with_unknown(known, rows):
        new = {
            name: value
            for name, value in row
            if value is not None
            and name not in known
            and name not in seen
            and not is_missing_text(value)
        }
        if new and w[k] > 0.0:
            place = BatchSlice(0, len(rows)).place(k)
            additions.append(
                (k, {str(name): _kind(name, value, place) for name, value in new.items()})
            )
            seen |= new.keys()
    return additions


def split_rows(
    rows: Any, additions: Additions
) -> Iterator[tuple[Any, BatchSlice, Mapping[str, str]]]:
    """Yield rows in parts, each with its place in the batch and the features to add after it.

    The next part starts with the first values of these features.
    """
    first = 0
    last_part: tuple[int, Mapping[str, str]] = (len(rows), {})
    for last, new in [*additions, last_part]:
        part = rows.iloc[first:last] if hasattr(rows, "iloc") else rows[first:last]
        yield part, BatchSlice(first, len(rows)), new
        first = last


def _rows_with_unknown(
    known: Mapping[str, str], rows: Any
) -> Iterator[tuple[int, Iterable[tuple[Any, Any]]]]:
    """Yield the rows that may hold unknown features: index, and names and values."""
    if hasattr(rows, "columns"):
        unknown = [name for name in rows.columns if name not in known]
        for k, row in enumerate(frame_rows(rows, unknown, known) if unknown else ()):
            yield k, row.items()
        return
    for k, row in enumerate(rows):
        if isinstance(row, Mapping) and not row.keys() <= known.keys():
            yield k, row.items()


def _kind(name: Any, value: Any, place: str) -> str:
    if reason := check_name(name):
        raise ModelError(f"features{place}: the name {name!r:.60} {reason}")
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
            "category; for hour, weekday and month start a new model with "
            f'features={{"{name}": "datetime", "*": "auto"}}',
            stacklevel=2,
        )
    return kind
