"""What every format has: a reader takes the bytes of a record and gives plain Python values."""

from collections.abc import Callable, Sequence
from typing import Protocol

from kaboost.service.errors import EventError, KaboostError
from kaboost.service.events.decoder import Headers
from kaboost.service.events.diagnosis import MESSAGE, shorten

Decode = Callable[[bytes], object]


class Skipped(Exception):
    """A record that is no event and no fault, such as a tombstone of a table's change stream."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Reader(Protocol):
    """Read the bytes of one format as plain Python values."""

    def prepare(self, values: Sequence[bytes | None]) -> None:
        """Fetch what reading these takes; raise RegistryAway if that cannot be had now."""

    def read(self, value: bytes | None, headers: Headers) -> object:
        """Return the record, or raise an EventError or Skipped."""


class PlainReader:
    """Read records that are one payload from the first byte to the last."""

    def __init__(self, decode: Decode) -> None:
        self._decode = decode

    def prepare(self, values: Sequence[bytes | None]) -> None:
        """Fetch nothing: all that is needed is there from the start."""

    def read(self, value: bytes | None, headers: Headers) -> object:
        """Return the record."""
        return self._decode(present(value))


class GuardedReader:
    """Check the size first, and make whatever a format's library raises a fault of the record."""

    def __init__(self, reader: Reader, max_bytes: int, name: str) -> None:
        self._reader = reader
        self._max_bytes = max_bytes
        self._name = name

    def prepare(self, values: Sequence[bytes | None]) -> None:
        """Fetch what reading these takes; those that are too large are not looked at."""
        self._reader.prepare([v for v in values if v is None or len(v) <= self._max_bytes])

    def read(self, value: bytes | None, headers: Headers) -> object:
        """Return the record, or raise an EventError or Skipped."""
        if value is not None and len(value) > self._max_bytes:
            detail = f"{len(value):,} bytes; kafka.max_event_bytes is {self._max_bytes:,}"
            raise EventError("too_large", f"{detail}: send less, or raise it")
        try:
            return self._reader.read(value, headers)
        except (KaboostError, Skipped):
            raise
        except RecursionError as err:
            raise fault(f"as {self._name}: nested too deeply", "send fewer levels") from err
        except Exception as err:
            detail = f"as {self._name}: {type(err).__name__}: {err}"
            raise fault(detail, f"send {self._name}, or set events.format") from err


def present(value: bytes | None) -> bytes:
    """Return a value that is there."""
    if value is None:
        raise EventError("null_value", "the record has no value; send the event as its value")
    return value


def fault(detail: str, remedy: str, code: str = "format") -> EventError:
    """Word a fault so that its remedy is never cut off."""
    return EventError(code, f"{shorten(detail, MESSAGE - len(remedy))}; {remedy}")
