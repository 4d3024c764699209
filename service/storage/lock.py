"""The lock of a folder: one writer, held by the kernel for as long as its process lives."""

import fcntl
import logging
import os
import platform
from pathlib import Path
from typing import BinaryIO

from kaboost.service.errors import FolderBusy, NotWritten
from kaboost.service.storage import files

log = logging.getLogger(__name__)


class FolderLock:
    """Be a folder's only writer while entered; entered again it counts. One thread calls."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._path = directory / ".lock"
        self._file: BinaryIO | None = None
        self._depth = 0

    def __enter__(self) -> None:
        """Take the lock, or raise FolderBusy; clear what the last holder left."""
        if self._file is None:
            self._file = self._take()
            files.sweep(self._directory)
        self._depth += 1

    def __exit__(self, *_: object) -> None:
        """Leave the folder."""
        self._depth -= 1
        if self._depth == 0 and self._file is not None:
            self._file.truncate(0)
            self._file.close()
            self._file = None

    def confirm(self) -> None:
        """Raise FolderBusy if the lock file was removed and another process has locked a new one;
        if none has, lock one. Without a lock there is nothing to confirm.
        """
        if self._file is None or self._is_current(self._file):
            return
        log.warning("lock file was removed, it is made again", extra={"path": str(self._path)})
        removed, self._file = self._file, self._take()
        removed.close()

    def holder(self) -> str | None:
        """Return which process holds the lock, None where none does."""
        try:
            with open(self._path, "rb", buffering=0) as file:
                try:
                    fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
                except BlockingIOError:
                    return _name(file)
        except OSError:
            pass
        return None

    def _take(self) -> BinaryIO:
        files.make(self._directory)
        try:
            while True:
                file = open(self._path, "a+b", buffering=0)  # noqa: SIM115 # it stays open
                locked = False
                try:
                    locked = self._lock(file)
                finally:
                    if not locked:
                        file.close()
                if locked:
                    return file
        except OSError as err:
            raise NotWritten(
                f"{self._path} cannot be written ({err.strerror}): make room, or correct the "
                "folder's permissions"
            ) from err

    def _lock(self, file: BinaryIO) -> bool:
        """Lock an open file; return false if it was removed between opening and locking it."""
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as err:
            raise FolderBusy(self._directory, _name(file)) from err
        if not self._is_current(file):
            return False
        file.truncate(0)
        file.write(f"process {os.getpid()} on {platform.node()}\n".encode())
        return True

    def _is_current(self, file: BinaryIO) -> bool:
        """Return whether the path still leads to an open file."""
        try:
            return os.path.samestat(os.fstat(file.fileno()), os.stat(self._path))
        except FileNotFoundError:
            return False


def last_pid(directory: Path) -> int | None:
    """Return the process id that the lock file has, of a holder that lives or was killed; None
    without one.
    """
    try:
        return int((directory / ".lock").read_text(encoding="utf-8").split()[1])
    except (OSError, IndexError, ValueError):
        return None


def _name(file: BinaryIO) -> str:
    """Return what the holder has written into the lock file."""
    file.seek(0)
    return file.read().decode(errors="replace").strip() or "an unknown process"
