"""When a file is due: by events, by time, or soon after a failed attempt."""

import time
from datetime import UTC, datetime

RETRY_SECONDS = 1.0  # between attempts at a file that could not be written


class WriteSchedule:
    """Be due so many events or seconds after the last file, or one second after a failure."""

    def __init__(self, every_events: int, every_seconds: float) -> None:
        self._every_events = every_events
        self._every_seconds = every_seconds
        self.restart()

    def restart(self) -> None:
        """Start a new period: the file is written."""
        self.events = 0
        self._since = time.monotonic()
        self._retry_at: float | None = None

    def retry(self) -> None:
        """Be due again soon: the file could not be written."""
        self._retry_at = time.monotonic() + RETRY_SECONDS

    @property
    def due(self) -> bool:
        """Whether the file should be written now."""
        now = time.monotonic()
        if self._retry_at is not None:
            return now >= self._retry_at
        if not self.events:
            return False
        return self.events >= self._every_events or now - self._since >= self._every_seconds


def now_text() -> str:
    """Return the time of now, to the millisecond."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
