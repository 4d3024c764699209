"""Dates and times: a text to seconds of its wall clock, and to hour, weekday and month."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

import numpy as np

from kaboost.models.kernels.jit import kernel
from kaboost.models.types import Ints, Mat, Vec

CLOCK_FIELDS = ("hour", "weekday", "month")  # weekday 0 is Monday, month 1 is January
_CYCLE = 2.0 * math.pi

_DAY = "(?:0[1-9]|1[0-2])-(?:0[1-9]|1[0-9]|2[0-8])|(?:0[13-9]|1[0-2])-(?:29|30)"
_DATE = f"[0-9]{{4}}-(?:{_DAY}|(?:0[13578]|1[02])-31)"
_LEAP = "[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00"
_HOUR = "(?:[01][0-9]|2[0-3])"
_FRACTION = "(?:\\.[0-9]+)?"
_LEAP_SECOND = "(?:14|29|44|59):60"  # 23:59:60 UTC, at any offset of whole quarters of an hour
_CLOCK = f"{_HOUR}:(?:[0-5][0-9](?::[0-5][0-9]{_FRACTION})?|{_LEAP_SECOND}{_FRACTION})"
_OFFSET = "[Zz]|[+-](?:[01][0-9]|2[0-3])(?::?[0-5][0-9])?"
_TIME = f"[Tt ]{_CLOCK}(?:{_OFFSET})?"
# RFC 3339 from the year 1 on; a leap second is the second after it. The offset may be left out, the
# seconds and the time as well.
_WRITTEN = rf"(?!0000)(?:{_DATE}|(?:{_LEAP})-02-29)(?:{_TIME})?"
# Eight digits that are a date, as 20261120, are no seconds since 1970.
_COMPACT_DATE = r"(?:19|2[01])[0-9]{2}(?:0[1-9]|1[0-2])(?:0[1-9]|[12][0-9]|3[01])(?:\.0*)?"
_NUMBER = rf"(?!{_COMPACT_DATE}$)-?[0-9]{{1,20}}(?:\.[0-9]+)?"
# OpenAPI has the same pattern: it uses nothing that JavaScript reads differently.
PATTERN = rf"^(?:{_WRITTEN}|{_NUMBER})$(?!\n)"
EPOCH_LIMIT = 1e20  # of a number that is a time
# An epoch is in seconds, milliseconds, microseconds or nanoseconds by its size: to 1973 or 5138.
EPOCHS = ((1e11, 1e3), (1e14, 1.0), (1e17, 1e-3), (EPOCH_LIMIT, 1e-6))
COMPACT_DATES = (19_000_101, 22_000_000)  # the range of these numbers
_COMPACT_DATE_TEXT = re.compile(rf"^{_COMPACT_DATE}$(?!\n)")
_DATE_TEXT = re.compile(rf"^(?:{_WRITTEN})$(?!\n)")
_NUMBER_TEXT = re.compile(rf"^(?:{_NUMBER})$(?!\n)")
_KEPT, _MINUTES = len("2026-11-20T10:00:00"), len("2026-11-20T10:00")


def is_datetime(text: str) -> bool:
    """Return whether a text is a date, or a date and time, as RFC 3339 writes them.

    Examples
    --------
    >>> is_datetime("2026-11-20T10:00:00+01:00"), is_datetime("2026-02-29")
    (True, False)
    """
    return _DATE_TEXT.search(text) is not None


def is_number_text(text: str) -> bool:
    """Return whether a text is a number of seconds, milliseconds and so on.

    Examples
    --------
    >>> is_number_text("1760000000123"), is_number_text("1e9")
    (True, False)
    """
    return _NUMBER_TEXT.search(text) is not None


def is_time(value: object) -> bool:
    """Return whether a value is a time: a date, or a number since 1970, also as text.

    Examples
    --------
    >>> is_time("2026-11-20 10:00+0100"), is_time(1_760_000_000), is_time("soon"), is_time(True)
    (True, True, False, False)
    """
    if isinstance(value, str):
        return is_datetime(value) or is_number_text(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return abs(value) < EPOCH_LIMIT and not is_compact_date(value)


def is_compact_date(value: object) -> bool:
    """Return whether a number, or a text, is a date without hyphens.

    Examples
    --------
    >>> is_compact_date(20261120), is_compact_date("20261120"), is_compact_date(20261320)
    (True, True, False)
    """
    if isinstance(value, int | float):
        if not COMPACT_DATES[0] <= value < COMPACT_DATES[1] or value != int(value):
            return False
        return is_compact_date(str(int(value)))
    return isinstance(value, str) and _COMPACT_DATE_TEXT.search(value) is not None


def to_milliseconds(epoch: float) -> float:
    """Return a number since 1970 in milliseconds: its size says in which unit it is.

    Examples
    --------
    >>> to_milliseconds(1_760_000_000), to_milliseconds(1_760_000_000_000_000)
    (1760000000000.0, 1760000000000.0)
    """
    return next((epoch * factor for limit, factor in EPOCHS if abs(epoch) < limit), math.nan)


def wall_seconds(columns: Sequence[Sequence[str | float | None]], B: int) -> Mat:
    """Return the wall clocks (B, t) of t columns of B texts, in whole seconds since 1970.

    The offset is ignored: the local time of day is what matters. Numbers are of the clock of UTC.

    Parameters
    ----------
    columns
        Values for which `is_time` holds; None where missing, which is NaN.
    B
        Events.

    Examples
    --------
    >>> wall_seconds([["1970-01-02T00:00:01.5+05:30", "1970-01-01", None]], 3).tolist()
    [[86401.0], [0.0], [nan]]
    """
    seconds = np.empty((B, len(columns)))
    for j, cells in enumerate(columns):
        moments = np.array(list(map(_head, cells)), "datetime64[s]")
        seconds[:, j] = moments.view(np.int64)
        for k in np.flatnonzero(np.isnat(moments)).tolist():
            cell = cells[k]
            epoch = math.nan if cell is None or cell == "" else float(cell)
            seconds[k, j] = to_milliseconds(epoch) // 1e3
    return seconds


def _head(cell: str | float | None) -> str:
    """Return date and time without fraction and offset; an empty text for numbers."""
    if not isinstance(cell, str) or cell[4:5] != "-":
        return ""
    head = cell[:_KEPT]
    if head.endswith(":60"):  # a leap second
        return str(np.datetime64(head[:_MINUTES].upper(), "s") + 60)
    return (head if head[_MINUTES : _MINUTES + 1] == ":" else head[:_MINUTES]).upper()


@kernel
def clock_fields(second: float) -> tuple[float, float, float]:
    """Return hour with its fraction, weekday and month of a wall clock; NaN where it is NaN."""
    if second != second:
        return math.nan, math.nan, math.nan
    day = math.floor(second / 86_400.0)
    hour = (second - 86_400.0 * day) / 3_600.0
    # Years that begin in March, in eras of 400: a leap day is the last of its year.
    since = (day + 719_468) % 146_097
    year = (since - since // 1_460 + since // 36_524 - since // 146_096) // 365
    of_year = since - (365 * year + year // 4 - year // 100)
    month = (5 * of_year + 2) // 153
    return hour, float((day + 3) % 7), float((month + 2) % 12 + 1)


def clock_fields_many(times: Mat) -> Mat:
    """Return hour, weekday and month (B, 3 t) of wall clocks (B, t)."""
    B, t = times.shape
    fields = np.empty((B, 3 * t))
    fill_clock_fields(times, fields, 3 * np.arange(t))
    return fields


@kernel
def fill_clock_fields(times: Mat, X: Mat, places: Ints) -> None:
    """Fill three columns of X (B, d) for every clock of times (B, t), from `places` (t,) on."""
    for k in range(times.shape[0]):
        for j in range(times.shape[1]):
            at = places[j]
            X[k, at], X[k, at + 1], X[k, at + 2] = clock_fields(times[k, j])


@kernel
def fill_cycles(times: Mat, X: Mat, first: int) -> None:
    """Fill six columns for every wall clock: sine and cosine of its fields; 0 where missing."""
    for k in range(times.shape[0]):
        for j in range(times.shape[1]):
            at = first + 6 * j
            hour, weekday, month = clock_fields(times[k, j])
            _fill_cycle(hour / 24.0, X[k], at)
            _fill_cycle(weekday / 7.0, X[k], at + 2)
            _fill_cycle(month / 12.0, X[k], at + 4)


@kernel
def _fill_cycle(share: float, row: Vec, at: int) -> None:
    known = share == share
    row[at] = math.sin(_CYCLE * share) if known else 0.0
    row[at + 1] = math.cos(_CYCLE * share) if known else 0.0
