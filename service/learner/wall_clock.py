"""Times of the wall clock in messages."""

from datetime import UTC, datetime


def minutes_of(seconds: float) -> str:
    """Return a time of seconds since 1970, to the minute.

    Examples
    --------
    >>> minutes_of(1_700_000_000.0)
    '2023-11-14 22:13 UTC'
    """
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M UTC")
