"""Trees grown beside the events: by a second thread, while a batch is learned.

A tree that takes long is grown from the window as it was when the tree was begun, and takes its
place at an event that was set then. Between the two nothing depends on it, so another thread may
grow it. It is stopped at the end of every batch: between batches nothing moves.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np

from kaboost.models.kernels.jit import kernel
from kaboost.models.reboosted.trees.rebuild import BACKGROUND, READY
from kaboost.models.types import Ints

MIN_WORKER_EVENTS = 512  # events of a batch from which on a second thread is worth its start
WORKER_SLICE_NS = 50_000.0  # ns of work between two looks at whether to stop
NO_EVENT = 1 << 62
NO_STOP = np.zeros((), np.int64)  # stops nothing
WITHOUT_WORKER, WITH_WORKER = (False, -1, NO_STOP), (True, -1, NO_STOP)  # how a batch is learned


def processors() -> int:
    """Return how many processors this process may use: NUMBA_NUM_THREADS bounds them, which joblib
    sets for its workers.
    """
    here = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return min(here or 1, int(os.environ.get("NUMBA_NUM_THREADS") or here or 1))


@kernel
def next_commit(schedule: Any) -> int:
    """Return the first event at which a tree that is being grown apart takes its place."""
    until = NO_EVENT
    for k in range(schedule.status.shape[0]):
        if schedule.status[k] == BACKGROUND:
            until = min(until, int(schedule.commit_at[k]))
    return until


class TreeWorker:
    """A thread that grows trees for one batch, one after the other; it is started with the first.

    Parameters
    ----------
    schedule
        That of the bank.
    grow
        Grows the tree of a structure till it is done, or till an array () is not 0.
    """

    def __init__(self, schedule: Any, grow: Callable[[int, Ints], None]) -> None:
        self._pace, self._grow = schedule, grow
        self._stop = np.zeros((), np.int64)
        self._thread: ThreadPoolExecutor | None = None
        self._lent: dict[int, Future[None]] = {}

    def __enter__(self) -> TreeWorker:
        return self

    def __exit__(self, *_: object) -> None:
        self._stop[...] = 1
        if self._thread is not None:
            self._thread.shutdown(cancel_futures=True)

    def exchange(self) -> bool:
        """Lend what has been begun, and take back what the next event needs; return False where
        there is no thread to be had: then nothing is lent any more.

        What is lent is not looked at before its thread has said that it is done: no field of it
        tells who has it.
        """
        schedule = self._pace
        apart = np.flatnonzero(schedule.status == BACKGROUND)
        for k in map(int, apart[np.argsort(schedule.commit_at[apart], kind="stable")]):
            if k not in self._lent and not self._lend(k):
                for each in self._lent.values():
                    each.result()
                return False
            if schedule.commit_at[k] <= schedule.time + 1:
                self._lent.pop(k).result()
                schedule.status[k] = READY
        return True

    def _lend(self, k: int) -> bool:
        try:
            self._thread = self._thread or ThreadPoolExecutor(1, "kaboost-trees")
            self._lent[k] = self._thread.submit(self._grow, k, self._stop)
        except RuntimeError:  # the interpreter is about to end, or the system has no thread left
            return False
        return True
