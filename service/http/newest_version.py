"""Monotonic reads over workers: the newest snapshot version that any of them serves."""

import mmap
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

SLOT_BYTES = 8
VERSION_BITS = 32  # of a slot; the others are for the epoch


def order(epoch: int, version: int) -> int:
    """Return one number for an epoch and a version in it, which a slot can hold."""
    return (epoch << VERSION_BITS) + min(version, (1 << VERSION_BITS) - 1)


class WorkerVersions:
    """Shared memory with one slot a worker; a worker writes only to its slot."""

    def __init__(self, descriptor: int = -1, slot: int = 0) -> None:
        size = SLOT_BYTES if descriptor == -1 else os.fstat(descriptor).st_size
        self._slots = memoryview(mmap.mmap(descriptor, size)).cast("Q")
        self._slot = slot

    @property
    def newest(self) -> int:
        """The highest version announced by any worker, with its epoch (`order`)."""
        return max(self._slots)

    def announce(self, version: int) -> None:
        """Publish a version before the first response from it; a slot only grows."""
        self._slots[self._slot] = max(version, self._slots[self._slot])


@contextmanager
def version_slots(workers: int) -> Iterator[int]:
    """Yield a file descriptor of the slots that worker processes inherit."""
    with tempfile.TemporaryFile() as file:
        file.write(
            bytes(SLOT_BYTES * workers)
        )  # no sparse file: a full disk must fail here, not at a write
        file.flush()
        yield file.fileno()
