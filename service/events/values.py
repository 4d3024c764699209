"""What the values of a record mean as features: scalars stay, all else becomes scalars with names.

docs/formats.md has the table.
"""

import base64
import math
import re
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

from kaboost.service.errors import EventError
from kaboost.service.events.numbers import MAX_DECIMAL_BYTES, decimal_of

MAX_ITEMS = 32  # of a list that become features; the others are left out
MAX_DEPTH = 32  # of objects in objects
SCALARS = frozenset({str, int, bool, type(None)})
DECIMAL_KEYS = frozenset({"scale", "value"})  # of a decimal with its scale
TRUTH = {
    "true": True, "yes": True, "y": True, "t": True, "on": True, "1": True,
    "false": False, "no": False, "n": False, "f": False, "off": False, "0": False,
}  # fmt: skip
PLAIN_TRUTH = ("true", "false", "yes", "no")  # texts that make an undeclared feature a boolean
# A point or a comma before decimals, the other of the two (or blanks) between groups of three.
DECIMAL_COMMA = re.compile(r"[+-]?(\d+|\d{1,3}(\.\d{3})+|\d{1,3}([ \u00a0\u202f']\d{3})+),\d+")
GROUPS = re.compile(r"[+-]?\d{1,3}(,\d{3}){2,}(\.\d+)?|[+-]?\d{1,3}(,\d{3})+\.\d+")
CODE = re.compile(r"[+-]?0\d")  # digits that begin so are a code, not a number

Scalar = str | int | float | bool | None


def flatten(record: Mapping[str, Any], skipped: frozenset[str], prefix: str = "") -> dict[str, Any]:
    """Return the scalars of a record by name; names of nested values have dots.

    Parameters
    ----------
    record
        The record, as a format read it.
    skipped
        Names that are left out, with all below them.
    prefix
        Goes before every name.

    Raises
    ------
    EventError
        For objects nested too deeply.
    """
    out: dict[str, Any] = {}
    _flatten(record, skipped, prefix, out, MAX_DEPTH)
    return out


def scalar(value: Any) -> Scalar:
    """Return a value of a library's type as a scalar; anything else unchanged."""
    cls = value.__class__
    if cls in SCALARS:
        plain: Scalar = value
        return plain
    convert = _SCALARS.get(cls)
    if convert is not None:
        return convert(value)
    for kind, function in _SCALARS.items():  # subclasses
        if isinstance(value, kind):
            return function(value)
    unchanged: Scalar = value
    return unchanged


def coerce(value: Any, kind: str | None) -> Any:
    """Return text as the schema's number or boolean, a number as its category, where it is one."""
    cls = value.__class__
    if kind == "number" and cls is str:
        return _to_number(value)
    if kind == "boolean":
        if cls is str:
            return TRUTH.get(value.strip().lower(), value)
        if value in (0, 1) and cls in (int, float):
            return bool(value)
    if kind in ("category", "text") and cls in (int, float, bool):
        return (
            str(value).lower() if cls is bool else f"{value:.17g}" if cls is float else str(value)
        )
    return value


def coerce_undeclared(value: Any) -> Any:
    """Return text of a feature whose kind is not sure as the number or boolean that it reads as.

    Examples
    --------
    >>> coerce_undeclared("1,5"), coerce_undeclared("yes"), coerce_undeclared("007")
    (1.5, True, '007')
    """
    if value.__class__ is not str:
        return value
    text = value.strip()
    if text.lower() in PLAIN_TRUTH:
        return TRUTH[text.lower()]
    if CODE.match(text) or not text[-1:].isdigit():
        return value
    return _to_number(value)


def _flatten(
    record: Mapping[str, Any], skipped: frozenset[str], prefix: str, out: dict[str, Any], depth: int
) -> None:
    if not depth:
        raise EventError(
            "schema",
            f"{prefix[:60]}: objects are nested more than {MAX_DEPTH} deep; name the paths of the "
            "features in events.features, or this one in events.ignore",
        )
    for key, value in record.items():
        name = f"{prefix}{key}"
        if name in skipped:
            continue
        cls = value.__class__
        if cls in SCALARS:
            out[name] = value
        elif cls is float:
            out[name] = None if value != value else value
        elif isinstance(value, Mapping):
            if value.keys() == DECIMAL_KEYS and (number := _scaled(value)) is not None:
                out[name] = number
            else:
                _flatten(value, skipped, f"{name}.", out, depth - 1)
        elif isinstance(value, list | tuple):
            _flatten_list(value, skipped, name, out, depth)
        else:
            out[name] = scalar(value)


def _flatten_list(
    items: Any, skipped: frozenset[str], name: str, out: dict[str, Any], depth: int
) -> None:
    """Add a list: numbers by position, texts as one text, objects by their number."""
    if any(isinstance(item, Mapping | list | tuple) for item in items):
        if (count := f"{name}.count") not in skipped:
            out[count] = len(items)
        return
    values = [scalar(item) for item in items]
    if values and all(isinstance(value, str) for value in values):
        out[name] = " ".join(map(str, values))
        return
    indexed = {str(k): value for k, value in enumerate(values[:MAX_ITEMS])}
    _flatten(indexed, skipped, f"{name}.", out, depth - 1)


def _to_number(text: str) -> Any:
    """Return the number that a text reads as, with a decimal comma or groups of three as well."""
    plain = text.strip()
    if DECIMAL_COMMA.fullmatch(plain):
        plain = re.sub(r"[.\s']", "", plain).replace(",", ".")
    elif GROUPS.fullmatch(plain):
        plain = plain.replace(",", "")
    try:
        number = float("_" if "_" in plain else plain)  # Python reads 1_000
    except ValueError:
        return text
    if math.isnan(number):
        return None
    return text if math.isinf(number) else number


def _scaled(value: Mapping[str, Any]) -> float | None:
    """Return a decimal of a scale and a big-endian integer, in bytes or base64."""
    scale, digits = value["scale"], value["value"]
    if not isinstance(scale, int) or isinstance(scale, bool) or not -400 < scale < 400:
        return None
    if isinstance(digits, str):
        try:
            digits = base64.b64decode(digits, validate=True)
        except ValueError:
            return None
    if not isinstance(digits, bytes) or len(digits) > MAX_DECIMAL_BYTES:
        return None
    return _from_decimal(decimal_of(digits, scale))


def _from_decimal(value: Decimal) -> float | None:
    return None if value.is_nan() else float(value)


def _from_datetime(value: datetime) -> str:
    return (value if value.tzinfo else value.replace(tzinfo=UTC)).isoformat()


def _from_time(value: time) -> float:
    return value.hour * 3600 + value.minute * 60 + value.second + value.microsecond / 1e6


def _from_bytes(value: Any) -> str:
    return base64.b64encode(value).decode("ascii")


def _from_float(value: float) -> float | None:
    return None if value != value else value


# Subclasses before their bases: a datetime is a date.
_SCALARS: dict[type, Callable[[Any], Scalar]] = {
    float: _from_float,
    Decimal: _from_decimal,
    datetime: _from_datetime,
    date: date.isoformat,
    time: _from_time,
    timedelta: timedelta.total_seconds,
    UUID: str,
    bytes: _from_bytes,
    bytearray: _from_bytes,
    Enum: lambda value: str(value.name),
}
