"""A pause of learning that somebody has asked for: a file, so that it survives restarts."""

from pathlib import Path
from typing import NamedTuple

from kaboost.service.storage import json_files

FILE = "paused.json"


class Pause(NamedTuple):
    """Who has paused learning, when and why."""

    by: str
    time: str
    reason: str = ""

    def describe(self) -> str:
        """Describe it for readiness, page and log."""
        why = f" ({self.reason})" if self.reason else ""
        return f"learning is paused by {self.by} since {self.time}{why}: kaboost resume ends it"


class PauseFile:
    """Read and write the pause of one folder of checkpoints."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / FILE

    def read(self) -> Pause | None:
        """Return the pause; None where there is none. An unreadable file is a pause by somebody."""
        if not self._path.exists():
            return None
        values = json_files.read(self._path) or {}
        texts = (str(values.get(name, "")) for name in Pause._fields)
        by, time, reason = texts
        return Pause(by or "somebody", time or "an unknown time", reason)

    def write(self, pause: Pause) -> None:
        """Begin a pause, durably."""
        json_files.write(self._path, pause._asdict())

    def remove(self) -> None:
        """End the pause."""
        self._path.unlink(missing_ok=True)
