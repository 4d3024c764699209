"""A wall clock that jumps, for all Python code of a process; the monotonic one goes on.

A file has the offset in seconds. Client library and kernel keep their own clocks: the machine's is
not changed.
"""

import datetime
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from kaboost.service.http import ingest
from kaboost.service.kafka import letters
from kaboost.service.learner import schedule
from kaboost.service.storage import audit, commands

POLL_SECONDS = 0.05

MODULES = (ingest, letters, schedule, audit, commands)  # that ask for the date

_true_time, _true_datetime = time.time, datetime.datetime
_offset = 0.0


def install(path: str) -> None:
    """Follow the offset in a file from now on."""
    time.time = lambda: _true_time() + _offset
    for module in MODULES:
        module.datetime = _Jumping  # type: ignore[attr-defined]
    _read(Path(path))
    threading.Thread(target=_follow, args=(Path(path),), daemon=True).start()


def _follow(path: Path) -> None:
    while True:
        _read(path)
        time.sleep(POLL_SECONDS)


def _read(path: Path) -> None:
    global _offset
    with suppress(OSError, ValueError):
        _offset = float(path.read_text())


class _Jumping(_true_datetime):
    """A datetime whose `now` jumps."""

    @classmethod
    def now(cls, tz: Any = None) -> Any:
        return _true_datetime.now(tz) + datetime.timedelta(seconds=_offset)
