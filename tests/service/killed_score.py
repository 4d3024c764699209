"""Answer as `kaboost score` does, in processes that kill themselves with -9, and then in one that
does not: `python -m tests.service.killed_score FILE STEP=COUNT ...`.
"""

import os
import signal
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from kaboost.service.config.settings import Settings, load
from kaboost.service.kafka import transactions
from kaboost.service.processes.score_role import run_score

SIGNAL = signal.Signals[os.environ.get("KILL_SIGNAL", "SIGKILL")]
# After which records are written: not sent yet, without offsets, not committed, committed.
STEPS = ("flush", "send_offsets_to_transaction", "commit_transaction", "after:commit_transaction")


class Killed:
    """A producer that ends its process at a step, at the count-th time that it comes to it."""

    def __init__(self, producer: Any, step: str, count: int) -> None:
        self._producer = producer
        self._step = step
        self._left = count

    def __getattr__(self, name: str) -> Any:
        step = getattr(self._producer, name)
        if self._step == name:
            self._count()
        return partial(self._then_count, step) if self._step == f"after:{name}" else step

    def _then_count(self, step: Callable[..., Any], *arguments: Any) -> Any:
        result = step(*arguments)
        self._count()
        return result

    def _count(self) -> None:
        self._left -= 1
        if self._left == 0:
            os.kill(os.getpid(), SIGNAL)


def run_killed(settings: Settings, step: str, count: int) -> int:
    """Answer in a process of its own until it kills itself; return how it ended."""
    child = os.fork()  # from a process that has imported all this, and has no client yet
    if not child:
        make = transactions.Producer
        transactions.Producer = lambda config: Killed(make(config), step, count)  # type: ignore
        os._exit(run_score(settings))
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


if __name__ == "__main__":
    file, *kills = sys.argv[1:]
    wanted = load(Path(file))
    for kill in kills:
        at, _, times = kill.rpartition("=")
        if run_killed(wanted, at, int(times)) != -signal.SIGKILL:
            sys.exit(f"not killed at {at}")
    sys.exit(run_score(wanted))
