"""What workers share: the newest snapshot version that any of them serves, for monotonic reads, and
their heartbeats.
"""

import mmap
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

SLOT_BYTES = 8
SLOTS = 2  # of a worker: its version and its heartbeats
VERSION_BITS = 32  # of a slot; the others are for the epoch


def order(epoch: int, version: int) -> int:
    """Return one number for an epoch and a version in it, which a slot can hold."""
    return (epoch << VERSION_BITS) + min(version, (1 << VERSION_BITS) - 1)


class WorkerVersions:
    """Shared memory with slots for every worker; a worker writes only to its own."""

    def __init__(self, descriptor: int = -1, slot: int = 0) -> None:
        size = SLOTS * SLOT_BYTES if descriptor == -1 else os.fstat(descriptor).st_size
        slots = memoryview(mmap.mmap(descriptor, size)).cast("Q")
        self._versions = slots[: len(slots) // SLOTS]
        self._heartbeats = slots[len(slots) // SLOTS :]
        self._slot = slot

    @property
    def newest(self) -> int:
        """The highest version announced by any worker, with its epoch (`order`)."""
        return max(self._versions)

    def announce(self, version: int) -> None:
        """Publish a version before the first response from it; a slot only grows."""
        self._versions[self._slot] = max(version, self._versions[self._slot])

    @property
    def heartbeats(self) -> int:
        """How many heartbeats the worker has given, over all restarts."""
        return self._heartbeats[self._slot]

    def beat(self) -> None:
        """Show that the worker serves."""
        self._heartbeats[self._slot] += 1


@contextmanager
def version_slots(workers: int) -> Iterator[int]:
    """Yield a file descriptor of the slots that worker processes inherit."""
    with tempfile.TemporaryFile() as file:
        # No sparse file: a full disk must fail here, not at a write.
        file.write(bytes(SLOTS * SLOT_BYTES * workers))
        file.flush()
        yield file.fileno()
