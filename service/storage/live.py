"""What a learner shows of itself while it runs: small files next to its snapshots, for the page.

They are written in place, once a second: a rename over a file makes some file systems write it to
the disk first, for which learning would wait. A reader checks what it has read, and reads again.
"""

import json
import os
import struct
import time
import zlib
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from kaboost.models.evaluation.history import History
from kaboost.models.types import Mat
from kaboost.service.errors import NotWritten
from kaboost.service.storage import files

FIGURES, RECORDS, HISTORY = ".live", ".records", ".history"
HEAD = struct.Struct("<QI")  # bytes of the content, and its CRC-32
ATTEMPTS = 5  # to read a file that is being written
PAUSE_SECONDS = 0.002  # between two of them
COLUMNS = 8  # of the history
MODE = 0o666  # less the umask


class LiveFiles:
    """The files of one folder of snapshots; a lost or damaged one is no fault, it comes again."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def write(self, name: str, values: Mapping[str, Any]) -> None:
        """Write a JSON file, not durably, or raise NotWritten."""
        self._write(name, json.dumps(values, separators=(",", ":")).encode())

    def read(self, name: str) -> dict[str, Any]:
        """Return the values of a JSON file; empty where it cannot be read."""
        with suppress(ValueError):
            found = json.loads(self._read(name))
            if isinstance(found, dict):
                return found
        return {}

    def write_history(self, history: History) -> None:
        """Write the file of the history, or raise NotWritten."""
        self._write(HISTORY, history.table().tobytes())

    def read_history(self) -> Mat:
        """Return the points, (n, 8) as of `History.table`; none where they cannot be read."""
        data = self._read(HISTORY)
        whole = len(data) // (8 * COLUMNS) * COLUMNS
        return np.frombuffer(data, np.float64, count=whole).reshape(-1, COLUMNS)

    def _write(self, name: str, content: bytes) -> None:
        path = self._directory / name
        data = HEAD.pack(len(content), zlib.crc32(content)) + content
        try:
            files.make(self._directory)
            descriptor = os.open(path, os.O_CREAT | os.O_RDWR, MODE)
            try:
                os.pwrite(descriptor, data, 0)
                os.ftruncate(descriptor, len(data))  # nothing of before may stay behind it
            finally:
                os.close(descriptor)
        except OSError as err:
            raise NotWritten(
                f"{path} cannot be written ({err.strerror}): make room, or correct the folder's "
                "permissions"
            ) from err

    def _read(self, name: str) -> bytes:
        for _ in range(ATTEMPTS):
            try:
                data = (self._directory / name).read_bytes()
            except OSError:
                return b""
            if len(data) >= HEAD.size:
                size, checksum = HEAD.unpack_from(data)
                content = data[HEAD.size : HEAD.size + size]
                if len(content) == size and zlib.crc32(content) == checksum:
                    return content
            time.sleep(PAUSE_SECONDS)
        return b""
