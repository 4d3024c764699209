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

from models.banks.reboosted_regrow import APART, WAITING
from models.types import Ints
from models.verbs import kernel

MANY = 256  # events of a batch from which on a second thread is worth its start
LENT_PIECE = 50_000.0  # ns of work between two looks at whether to stop
FOREVER = 1 << 62
NEVER = np.zeros((), np.int64)  # stops nothing
HERE_ALL, LENT = (False, -1, NEVER), (True, -1, NEVER)  # how a batch is learned: alone, or helped


def processors() -> int:
    """Return how many processors this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@kernel
def next_due(pace: Any) -> int:
    """Return the first event at which a tree that is being grown apart takes its place."""
    until = FOREVER
    for k in range(pace.busy.shape[0]):
        if pace.busy[k] == APART:
            until = min(until, int(pace.due[k]))
    return until


class Helper:
    """A thread that grows trees for one batch, one after the other; it is started with the first.

    Parameters
    ----------
    pace
        That of the bank.
    grow
        Grows the tree of a structure till it is done, or till an array () is not 0.
    """

    def __init__(self, pace: Any, grow: Callable[[int, Ints], None]) -> None:
        self._pace, self._grow = pace, grow
        self._stop = np.zeros((), np.int64)
        self._thread: ThreadPoolExecutor | None = None
        self._lent: dict[int, Future[None]] = {}

    def __enter__(self) -> Helper:
        return self

    def __exit__(self, *_: object) -> None:
        self._stop[...] = 1
        if self._thread is not None:
            self._thread.shutdown(cancel_futures=True)

    def exchange(self) -> None:
        """Lend what has been begun, and take back what the next event needs.

        What is lent is not looked at before its thread has said that it is done: no field of it
        tells who has it.
        """
        pace = self._pace
        apart = np.flatnonzero(pace.busy == APART)
        for k in map(int, apart[np.argsort(pace.due[apart], kind="stable")]):
            if k not in self._lent:
                self._thread = self._thread or ThreadPoolExecutor(1, "kaboost-trees")
                self._lent[k] = self._thread.submit(self._grow, k, self._stop)
            if pace.due[k] <= pace.time + 1:
                self._lent.pop(k).result()
                pace.busy[k] = WAITING
