"""Id and time of an event: they teach nothing, so what cannot be read is ignored and counted."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import msgspec

from kaboost.models.features.datetimes import is_compact_date, is_number_text, to_milliseconds
from kaboost.service.events.diagnosis import EPOCH_MS, show

CONVERTED, IGNORED, REPLACED = "converted", "ignored", "replaced"
FIELDS = ("id", "timestamp")

Instant = datetime | float | None


class Repairs(NamedTuple):
    """What was done to one field of some events."""

    events: int
    example: str  # the last value, as it came


RepairCounts = dict[tuple[str, str], Repairs]  # by field, and `converted` or `ignored`


def read_time(value: Any) -> Instant:
    """Return an instant, or milliseconds since 1970; None for anything that is no time.

    Without an offset a time is UTC; numbers, also in text, are seconds, milliseconds, microseconds
    or nanoseconds by their size. A date without hyphens, as 20261120, is neither.

    Examples
    --------
    >>> read_time("2026-11-20T10:00:00+0100").isoformat(), read_time(1_763_632_800_000_000)
    ('2026-11-20T10:00:00+01:00', 1763632800000.0)
    """
    if isinstance(value, str):
        text = value.strip()
        if is_compact_date(text):
            return None
        if is_number_text(text):
            return read_time(float(text))
        moment = _moment(text.upper())
        return moment if moment is None or moment.tzinfo else moment.replace(tzinfo=UTC)
    if isinstance(value, datetime):
        return value if value.tzinfo else value.replace(tzinfo=UTC)
    if isinstance(value, int | float) and not isinstance(value, bool):
        if is_compact_date(value):
            return None
        millis = to_milliseconds(value)
        return millis if EPOCH_MS[0] <= millis <= EPOCH_MS[1] else None
    return None


def _moment(text: str) -> datetime | None:
    """Read a date and time; a leap second is the second after it."""
    leap = _LEAP_SECOND.match(text)
    if leap:
        text = f"{leap[1]}:59{leap[2]}"
    try:
        return datetime.fromisoformat(text) + timedelta(seconds=1 if leap else 0)
    except (ValueError, OverflowError):
        return None


def read_id(value: Any) -> str | int | None:
    """Return an id, which is text or a whole number; None for anything else."""
    if isinstance(value, str) or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    return int(value) if isinstance(value, float) and value.is_integer() else None


def normalise(event: Any, counts: RepairCounts) -> None:
    """Replace id and timestamp of an event, as they came, by what they mean; count the repairs."""
    for field, read in _READERS:
        sent = getattr(event, field)
        if sent.__class__ is msgspec.Raw:
            sent = _parsed(sent)
        value = None if sent is None else read(sent)
        setattr(event, field, value)
        if sent is None:
            continue
        if value is None:
            _count(counts, field, IGNORED, sent)
        elif not _is_usual(sent, value):
            _count(counts, field, CONVERTED, sent)


def _parsed(raw: msgspec.Raw) -> Any:
    """Return JSON as a value; what no value can hold is the text itself, which is no time."""
    try:
        return msgspec.json.decode(raw)
    except (msgspec.DecodeError, RecursionError):
        return [bytes(raw).decode("utf-8", "replace")]


def _is_usual(sent: Any, value: Any) -> bool:
    """Return whether a value came as docs/events.md asks for it."""
    if sent == value:
        return True
    if isinstance(sent, str):
        return _HAS_OFFSET.search(sent) is not None
    return False


def _count(counts: RepairCounts, field: str, action: str, sent: Any) -> None:
    before = counts.get((field, action))
    counts[field, action] = Repairs(1 + (before.events if before else 0), show(sent))


_LEAP_SECOND = re.compile(r"(.{10}[T ]\d\d:(?:14|29|44|59)):60((?![:\d]).*)")
_HAS_OFFSET = re.compile(r"[Tt ]..:..:.*([Zz]|[+-]..:?..)$")
_READERS = (("id", read_id), ("timestamp", read_time))
