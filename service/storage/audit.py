"""The audit log: who has changed what of a running model, when and why; one JSON object a line."""

import json
import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kaboost.service.errors import NotWritten
from kaboost.service.storage import files

FILE = "audit.jsonl"
MAX_ENTRIES = 1_000  # at least that are kept
MAX_BYTES = 2_000_000  # of the file, above which only those are


class AuditLog:
    """Append to the log of one folder, and read it."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / FILE

    def append(self, **entry: object) -> dict[str, Any]:
        """Write one entry durably, and return it with its time."""
        now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        whole = {"time": now, **entry}
        line = json.dumps(whole, default=str) + "\n"
        try:
            files.make(self._path.parent)
            with open(self._path, "a", encoding="utf-8") as file:
                file.write(line)
                file.flush()
                files.sync(file.fileno())
            if self._path.stat().st_size > MAX_BYTES:
                self._shorten()
        except OSError as err:
            raise NotWritten(f"{self._path} cannot be written: {err.strerror}") from err
        return whole

    def read(self) -> list[dict[str, Any]]:
        """List the entries, the newest last; a damaged line is left out."""
        try:
            text = self._path.read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return []
        return list(_entries(text))

    def _shorten(self) -> None:
        temporary = self._path.with_name(f".{FILE}.{os.getpid()}")
        lines = self._path.read_text(encoding="utf-8", errors="replace").splitlines(keepends=True)
        with open(temporary, "w", encoding="utf-8") as file:
            file.writelines(lines[-MAX_ENTRIES:])
            file.flush()
            files.sync(file.fileno())
        os.replace(temporary, self._path)


def _entries(text: str) -> Iterator[dict[str, Any]]:
    for line in text.splitlines():
        try:
            entry = json.loads(line)
        except ValueError:
            continue  # half a line: the disk was full
        if isinstance(entry, dict):
            yield entry
