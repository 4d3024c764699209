"""What a reader's mirror reports of its source, in a small file next to the snapshots.

Its times are of this machine's monotonic clock, which the mirror shares with who reads the file.
"""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from kaboost.service.storage import files

NAME = ".source.json"
SILENT_SECONDS = 3.0  # without an answer of the source before that is reported


class SourceStatus(NamedTuple):
    """How a mirror fares."""

    location: str
    since: float  # when it started
    reached: float | None = None  # when the source last answered
    version: int = 0  # that was received last
    received: int = 0  # snapshots
    damaged: int = 0  # attempts that found no whole snapshot
    failures: int = 0  # requests without an answer
    reason: str = ""  # of the last failure
    damage: str = ""  # why a newer snapshot than the last one is not taken
    damaged_since: float | None = None  # a store that lags behind has it in a moment

    def problem(self, now: float) -> str:
        """Describe why no newer snapshot comes; empty if the source answers."""
        last = self.since if self.reached is None else self.reached
        if now - last > SILENT_SECONDS:
            return f"snapshots are not received from {self.location}: {self.reason or 'no answer'}"
        if self.damaged_since is not None and now - self.damaged_since > SILENT_SECONDS:
            return f"a newer snapshot of {self.location} is not received: {self.damage}"
        return ""

    def write(self, directory: Path) -> None:
        """Replace the file; it need not survive a power cut."""
        files.replace(directory / NAME, json.dumps(self._asdict()).encode())


def read(directory: Path) -> SourceStatus | None:
    """Read the status; None where there is no mirror, or its file cannot be read."""
    try:
        return SourceStatus(**json.loads((directory / NAME).read_text(encoding="utf-8")))
    except (OSError, TypeError, ValueError):
        return None


def problem(directory: Path, clock: Callable[[], float] = time.monotonic) -> str:
    """Describe why no newer snapshot comes to a folder; empty where none has to come."""
    status = read(directory)
    return "" if status is None else status.problem(clock())
