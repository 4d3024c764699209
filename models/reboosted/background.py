"""A worker thread that grows trees in the background, while a batch is learned.

A tree that takes long is grown from the window as it was when the tree was started, and is
committed at an event that was set then. Nothing depends on it between the two, so another thread
may grow it. The thread stops at the end of every batch: between batches nothing changes.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np

from kaboost.models.kernels.jit import kernel
from kaboost.models.reboosted.state import BACKGROUND, READY, Schedule
from kaboost.models.types import Ints

NO_EVENT = 1 << 62
NO_STOP = np.zeros((), np.int64)  # a stop flag that nobody sets
WITHOUT_WORKER, WITH_WORKER = (
    (False, -1, NO_STOP),
    (True, -1, NO_STOP),
)  # the last argument of a batch


def processors() -> int:
    """Return how many processors this process may use; NUMBA_NUM_THREADS, which joblib sets for its
    workers, bounds them.
    """
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return min(usable or 1, int(os.environ.get("NUMBA_NUM_THREADS") or usable or 1))


@kernel
def next_commit(schedule: Schedule) -> int:
    """Return the first event at which a tree of the background is committed."""
    first = NO_EVENT
    for k in range(schedule.status.shape[0]):
        if schedule.status[k] == BACKGROUND:
            first = min(first, int(schedule.commit_at[k]))
    return first


class TreeWorker:
    """A thread that grows trees for one batch, one after the other; the first one starts it.

    Parameters
    ----------
    schedule
        That of the bank.
    grow
        Grows the tree of a structure until it is done, or until a stop flag () is not 0.
    """

    def __init__(self, schedule: Schedule, grow: Callable[[int, Ints], None]) -> None:
        self._schedule, self._grow = schedule, grow
        self._stop = np.zeros((), np.int64)
        self._thread: ThreadPoolExecutor | None = None
        self._submitted: dict[int, Future[None]] = {}

    def __enter__(self) -> TreeWorker:
        return self

    def __exit__(self, *_: object) -> None:
        self._stop[...] = 1
        if self._thread is not None:
            self._thread.shutdown(cancel_futures=True)

    def sync(self) -> bool:
        """Submit what has been started, and wait for what the next event commits; return False
        where no thread can be started: then nothing is submitted any more.

        Nothing of a submitted build is read before its future is done: no field of it shows which
        thread has it.
        """
        schedule = self._schedule
        growing = np.flatnonzero(schedule.status == BACKGROUND)
        for k in map(int, growing[np.argsort(schedule.commit_at[growing], kind="stable")]):
            if k not in self._submitted and not self._submit(k):
                for future in self._submitted.values():
                    future.result()
                return False
            if schedule.commit_at[k] <= schedule.time + 1:
                self._submitted.pop(k).result()
                schedule.status[k] = READY
        return True

    def _submit(self, k: int) -> bool:
        try:
            self._thread = self._thread or ThreadPoolExecutor(1, "kaboost-trees")
            self._submitted[k] = self._thread.submit(self._grow, k, self._stop)
        except RuntimeError:  # the interpreter is about to end, or the system has no thread left
            return False
        return True
