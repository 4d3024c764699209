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
_HOUR = "(?:[01][0-9]|2[0-3]):[0-5][0-9]"
_TIME = rf"[Tt ]{_HOUR}:[0-5][0-9](?:\.[0-9]+)?(?:[Zz]|[+-]{_HOUR})?"
# RFC 3339 from the year 1 on, without leap seconds; the offset may be left out, the time as well.
# OpenAPI has the same pattern: it uses nothing that JavaScript reads differently.
PATTERN = rf"^(?!0000)(?:{_DATE}|(?:{_LEAP})-02-29)(?:{_TIME})?$(?!\n)"
_WRITTEN = re.compile(PATTERN)
_KEPT = len("2026-11-20T10:00:00")


def is_datetime(text: str) -> bool:
    """Return whether a text is a date, or a date and time, as RFC 3339 writes them.

    Examples
    --------
    >>> is_datetime("2026-11-20T10:00:00+01:00"), is_datetime("2026-02-29")
    (True, False)
    """
    return _WRITTEN.search(text) is not None


def wall_seconds(columns: Sequence[Sequence[str | None]], B: int) -> Mat:
    """Return the wall clocks (B, t) of t columns of B texts, in whole seconds since 1970.

    The offset is ignored: the local time of day is what matters.

    Parameters
    ----------
    columns
        Texts for which `is_datetime` holds; None where missing, which is NaN.
    B
        Events.

    Examples
    --------
    >>> wall_seconds([["1970-01-02T00:00:01.5+05:30", "1970-01-01", None]], 3).tolist()
    [[86401.0], [0.0], [nan]]
    """
    seconds = np.empty((B, len(columns)))
    for j, texts in enumerate(columns):
        heads = [text[:_KEPT].upper() if text else "" for text in texts]
        moments = np.array(heads, "datetime64[s]")
        seconds[:, j] = moments.view(np.int64)
        seconds[np.isnat(moments), j] = np.nan
    return seconds


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
