"""The newest version that any worker answers from: for a caller of several it only grows."""

import mmap
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

SLOT_BYTES = 8  # bytes


class WorkerVersions:
    """A slot for each worker, in memory that all of them see; each writes to its own alone."""

    def __init__(self, descriptor: int = -1, slot: int = 0) -> None:
        size = SLOT_BYTES if descriptor == -1 else os.fstat(descriptor).st_size
        self._slots = memoryview(mmap.mmap(descriptor, size)).cast("Q")
        self._slot = slot

    @property
    def newest(self) -> int:
        """The highest version that was announced."""
        return max(self._slots)

    def announce(self, version: int) -> None:
        """Tell the others before the first answer from a version; a slot only grows."""
        self._slots[self._slot] = max(version, self._slots[self._slot])


@contextmanager
def version_slots(workers: int) -> Iterator[int]:
    """Keep a descriptor of the slots for workers to inherit."""
    with tempfile.TemporaryFile() as file:
        file.write(
            bytes(SLOT_BYTES * workers)
        )  # not a hole: a full disk must show here, not on a write
        file.flush()
        yield file.fileno()
