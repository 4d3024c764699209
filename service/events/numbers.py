"""Numbers and times from the integers that formats write them as."""

from datetime import UTC, date, datetime, time, timedelta
from decimal import Context, Decimal

MAX_DECIMAL_BYTES = 160  # 385 digits: beyond the range of a float; a long one takes minutes
MAX_SCALE = 400
_EXACT = Context(prec=MAX_SCALE)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def decimal_of(unscaled: bytes, scale: int) -> Decimal:
    """Return a decimal of a big-endian signed integer and its scale."""
    if len(unscaled) > MAX_DECIMAL_BYTES:
        raise ValueError(f"a decimal of {len(unscaled):,} bytes, {MAX_DECIMAL_BYTES} are the most")
    if abs(scale) > MAX_SCALE:
        raise ValueError(f"a decimal of scale {scale}, {MAX_SCALE} is the largest")
    return Decimal(int.from_bytes(unscaled, "big", signed=True)).scaleb(-scale, _EXACT)


def date_of(days: int) -> date:
    """Return a date from days since 1970."""
    return _after_epoch(days=days).date()


def datetime_of(micros: int) -> datetime:
    """Return an instant from microseconds since 1970."""
    return _after_epoch(microseconds=micros)


def time_of(micros: int) -> time:
    """Return a time of day from microseconds since midnight."""
    if not 0 <= micros < 86_400_000_000:
        raise ValueError(f"{micros} microseconds are no time of day")
    return (_EPOCH + timedelta(microseconds=micros)).time()


def _after_epoch(**units: int) -> datetime:
    try:
        return _EPOCH + timedelta(**units)
    except OverflowError as err:
        unit, count = next(iter(units.items()))
        raise ValueError(f"{count} {unit} since 1970 are outside the years 1 to 9999") from err
