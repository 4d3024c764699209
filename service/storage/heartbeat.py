"""The learner's heartbeat: a value that its readers see move; no wall clock is compared."""

import os
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path

NAME = ".learner"  # of its file, next to the snapshots
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


@cache
def clock_name() -> str:
    """Name the monotonic clock of this machine; processes with the same one share its values."""
    with suppress(OSError):
        return BOOT_ID.read_text(encoding="ascii").strip()
    return socket.gethostname().replace(" ", "-")


def write(path: Path, clock: Callable[[], float] = time.monotonic) -> None:
    """Replace the heartbeat: the process, its clock and the time of that."""
    # In place, which also a full disk allows, and of constant length: no reader sees a mixture.
    text = f"{os.getpid():<10d} {clock_name()} {clock():020.6f}\n"
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT, 0o644)
    try:
        os.pwrite(descriptor, text.encode(), 0)
    finally:
        os.close(descriptor)


class HeartbeatAge:
    """Tell how long ago a heartbeat moved, by the reader's monotonic clock.

    The first one that is read may be old. On the machine that wrote it, its own time says how old;
    elsewhere its age is unknown until it moves.
    """

    def __init__(
        self, read: Callable[[], str | None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._read = read
        self._clock = clock
        self._last: str | None = None
        self._moved_at: float | None = None

    def seconds(self) -> float | None:
        """Return the seconds since it moved; None where there is none, or none that moved."""
        heartbeat, now = self._read(), self._clock()
        if heartbeat != self._last:
            known = heartbeat is not None and self._last is not None
            self._moved_at = now if known else _written_at(heartbeat, now)
            self._last = heartbeat
        return None if self._moved_at is None else now - self._moved_at


def _written_at(heartbeat: str | None, now: float) -> float | None:
    """Return the time of a heartbeat, None where it is of another clock."""
    words = (heartbeat or "").split()
    if len(words) != 3 or words[1] != clock_name():
        return None
    try:
        return min(now, float(words[2]))
    except ValueError:
        return None
