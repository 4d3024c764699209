"""Ctrl-C between two batches: what was learned stays whole, and is reported."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Self


class Interrupts:
    """While `held`, the first Ctrl-C only asks to stop; elsewhere it interrupts, as the second."""

    def __init__(self) -> None:
        self.asked = False
        self._held = False
        self._before: object = None

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGINT, self._handle)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)  # type: ignore[arg-type] # it was there

    @contextmanager
    def held(self) -> Iterator[None]:
        """Let a step end before an interruption counts."""
        self._held = True
        try:
            yield
        finally:
            self._held = False

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self._held and not self.asked:
            self.asked = True
            return
        raise KeyboardInterrupt
