"""Values of features as callers pass them: checked against a kind, and read."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np

from kaboost.models.features.datetimes import is_compact_date, is_time
from kaboost.models.features.readings import UNREADABLE, is_missing_text, reading
from kaboost.models.types import short_repr, to_python

COMPACT_REMEDY = "write it as '2026-11-20', as it could be seconds since 1970"
VALUE_LIMIT = 1e308  # of a number, here as in the service


def is_number(value: object) -> bool:
    """Return whether a value is an int or a float, and no boolean."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def _number(value: Any) -> float:
    if value is None:
        return math.nan
    if not is_number(value):
        if is_missing_text(value):
            return math.nan
        raise ValueError(
            f"{short_repr(value)} is not a number; pass one, or None where it is missing"
        )
    if not abs(value) <= VALUE_LIMIT:  # nan as well
        raise ValueError(
            f"{short_repr(value)} is not finite; pass |v| <= 1e308, or None where it is missing"
        )
    return float(value)


def _boolean(value: Any) -> float:
    if value is None or is_missing_text(value):
        return math.nan
    if not isinstance(value, bool):
        raise ValueError(
            f"{short_repr(value)} is not true or false; pass one, or None where it is missing"
        )
    return float(value)


def _name(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    name = reading(value, "category")
    if name is UNREADABLE:
        raise ValueError(
            f"{short_repr(value)} is not a name; pass a text, a whole number or a boolean, or None "
            "where it is missing"
        )
    read: str = name
    return read


def _text(value: Any) -> str | None:
    if value is not None and not isinstance(value, str):
        raise ValueError(
            f"{short_repr(value)} is not a text; pass one, or None where it is missing"
        )
    return value


def _datetime(value: Any) -> str | float | None:
    """Return a date and time: of `datetime64`, of anything with `isoformat`, or of a number."""
    text = to_python(value) if isinstance(value, np.number | Decimal) else value
    if isinstance(value, np.datetime64):
        text = str(value.astype("datetime64[s]"))
    elif hasattr(value, "isoformat"):
        text = value.isoformat()[:19]  # without the offset: features are of the local clock
    if is_compact_date(text):
        raise ValueError(f"{short_repr(value)} is a date without hyphens; {COMPACT_REMEDY}")
    if text is not None and not is_time(text):
        raise ValueError(
            f"{short_repr(value)} is not a date and time; pass a datetime, a text such as "
            "'2026-11-20T10:00:00+01:00' or '2026-11-20', seconds or milliseconds since 1970, or "
            "None where it is missing"
        )
    checked: str | float | None = text
    return checked


READERS: dict[str, Callable[[Any], Any]] = {  # by kind; ValueError for a value of another kind
    "number": _number,
    "boolean": _boolean,
    "category": _name,
    "datetime": _datetime,
    "text": _text,
}
