"""Files that are read again when they change; while damaged, what was read before counts."""

import logging
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Generic, TypeVar

from kaboost.service.errors import ConfigError

LOOK_SECONDS = 0.5  # between two looks at a file
SETTLED_SECONDS = 1.0  # after which nobody is still writing a file in place

log = logging.getLogger(__name__)
T = TypeVar("T")
Signature = list[tuple[int, int, int]]


def signature(paths: Sequence[Path]) -> Signature:
    """Return what changes when one of the files does."""
    return [_stat(path) for path in paths]


def _stat(path: Path) -> tuple[int, int, int]:
    """Return time, size and number of a file; zeros if it is missing."""
    try:
        found = os.stat(path)
    except OSError:
        return (0, 0, 0)
    return (found.st_mtime_ns, found.st_size, found.st_ino)


class WatchedFile(Generic[T]):
    """What was read of one file, or of several that belong together.

    Parameters
    ----------
    paths
        The files.
    read
        Reads them, or raises ConfigError; at the first time that error is raised on.
    """

    def __init__(self, paths: Sequence[Path], read: Callable[[], T]) -> None:
        self._paths = paths
        self._read = read
        self._seen = signature(paths)
        self._next_look = time.monotonic() + LOOK_SECONDS
        self.value = read()

    def current(self) -> T:
        """Return it as it is now: at most every LOOK_SECONDS the file is looked at (2 µs)."""
        if time.monotonic() >= self._next_look:
            self.look()
        return self.value

    def look(self) -> None:
        """Read the files if one has changed and nobody is writing it.

        A file that was renamed into its place is whole, and read when it is seen; one whose time is
        of this second may be half written.
        """
        self._next_look = time.monotonic() + LOOK_SECONDS
        seen = signature(self._paths)
        age = time.time() - max(seen)[0] / 1e9
        if seen == self._seen or 0.0 <= age < SETTLED_SECONDS:
            return
        self._seen = seen
        try:
            self.value = self._read()
        except ConfigError as err:
            log.error("file not read, the earlier content counts", extra={"reason": str(err)})
        else:
            log.info("file read again", extra={"path": str(self._paths[0])})
