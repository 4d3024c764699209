"""Shutdown by signal: SIGTERM and SIGINT request the end instead of causing it."""

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from kaboost.service.errors import Exit
from kaboost.service.processes.supervisor import POLL_SECONDS


class ShutdownSignal:
    """The request to stop, and the exit code that it leads to."""

    def __init__(self) -> None:
        self.stop = threading.Event()
        self._interrupted = False

    def handle(self, number: int, _: FrameType | None) -> None:
        """Handle one signal."""
        self._interrupted |= number == signal.SIGINT
        self.stop.set()

    def exit_code(self, code: int = Exit.DONE) -> int:
        """Return the exit code of a run that ended with `code`."""
        return Exit.INTERRUPTED if self._interrupted and code == Exit.DONE else code

    def wait(self, seconds: float) -> None:
        """Wait for so long, or until the signal.

        Not stop.wait: a signal handler that sets the event could deadlock on its lock.
        """
        until = time.monotonic() + seconds
        while time.monotonic() < until and not self.stop.is_set():
            time.sleep(POLL_SECONDS)


@contextmanager
def handle_signals() -> Iterator[ShutdownSignal]:
    """Handle SIGTERM and SIGINT as a request to stop."""
    shutdown = ShutdownSignal()
    numbers = (signal.SIGTERM, signal.SIGINT)
    previous = {number: signal.signal(number, shutdown.handle) for number in numbers}
    try:
        yield shutdown
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
