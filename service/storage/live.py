"""What a learner shows of itself while it runs: small files next to its snapshots, for the page."""

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from kaboost.models.evaluation.history import History
from kaboost.models.types import Mat
from kaboost.service.errors import NotWritten
from kaboost.service.storage import files

FIGURES, RECORDS, HISTORY = ".live.json", ".records.json", ".history"


class LiveFiles:
    """The files of one folder of snapshots; a lost or damaged one is no fault, it comes again."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def write(self, name: str, values: Mapping[str, Any]) -> None:
        """Replace a JSON file, not durably, or raise NotWritten."""
        self._replace(name, json.dumps(values, separators=(",", ":")).encode())

    def read(self, name: str) -> dict[str, Any]:
        """Return the values of a JSON file; empty where it cannot be read."""
        with suppress(OSError, ValueError):
            found = json.loads((self._directory / name).read_bytes())
            if isinstance(found, dict):
                return found
        return {}

    def write_history(self, history: History) -> None:
        """Replace the file of the history, or raise NotWritten."""
        self._replace(HISTORY, history.table().tobytes())

    def read_history(self) -> Mat:
        """Return the points, (n, 8) as of `History.table`; none where they cannot be read."""
        width = 8
        try:
            data = (self._directory / HISTORY).read_bytes()
        except OSError:
            return np.zeros((0, width))
        whole = len(data) // (8 * width) * width
        return np.frombuffer(data, np.float64, count=whole).reshape(-1, width)

    def _replace(self, name: str, data: bytes) -> None:
        path = self._directory / name
        temporary = path.with_name(f"{name}.{os.getpid()}")
        try:
            files.make(self._directory)
            temporary.write_bytes(data)
            os.replace(temporary, path)
        except OSError as err:
            raise NotWritten(
                f"{path} cannot be written ({err.strerror}): make room, or correct the folder's "
                "permissions"
            ) from err
