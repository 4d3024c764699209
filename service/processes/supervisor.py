"""Keeps processes alive: starts them, brings back the dead with backoff, drains them at the end."""

import logging
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, NamedTuple

from kaboost.service.errors import Exit

# 2, 3 and 5 say that a person must look: starting again would only fail again, or do harm.
FINAL_EXIT_CODES = frozenset({Exit.USAGE, Exit.REFUSED, Exit.INTERNAL})
FIRST_DELAY_SECONDS = 0.2  # seconds; doubled with every death in a row
MAX_DELAY_SECONDS = 10.0
HEALTHY_SECONDS = 5.0  # a process that lived this long starts again from the first delay
SIGNAL_NAMES = {int(each): each.name for each in signal.Signals}
POLL_SECONDS = 0.05
DRAIN_SECONDS = 30.0  # for the learner's final checkpoint and for requests in flight

log = logging.getLogger(__name__)


class Role(NamedTuple):
    """One process to keep alive."""

    name: str
    command: Callable[[int], Sequence[str]]  # from how often it was restarted to its argv
    env: Mapping[str, str]
    pass_fds: tuple[int, ...] = ()
    final: frozenset[int] = frozenset()  # exit codes after which it stays down


class Report(NamedTuple):
    """What happened to one process: told to whoever asked, in order."""

    role: str
    pid: int
    state: Literal["running", "restarting", "stopped"]
    exit_code: int | None  # negative: the signal that ended it
    reason: str


class Child:
    """One role's process: alive, due to start again, or down for good."""

    def __init__(self, role: Role, lifeline: int, tell: Callable[[Report], None]) -> None:
        self.role = role
        self.restarts = 0
        self._lifeline = lifeline
        self._tell = tell
        self._deaths = 0
        self._due: float | None = None
        self._start()

    def tend(self) -> None:
        """Notice a death, or start again what is due."""
        if self._due is not None and time.monotonic() >= self._due:
            self.restarts += 1
            self._start()
        elif self._due is None and not self._down and self._process.poll() is not None:
            self._bury(self._process.returncode)

    def terminate(self) -> bool:
        """Ask it to end; whether there was anyone to ask."""
        living = self._process.poll() is None
        if living:
            self._process.terminate()
        return living

    def finish(self, deadline: float) -> bool:
        """Wait for the end until `deadline`, then kill; whether it ended well by itself."""
        try:
            # It dies by the signal when that comes before it can listen: then nothing was begun.
            clean = self._wait(deadline - time.monotonic()) in (Exit.DONE, -signal.SIGTERM)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._wait()
            clean = False
        if not clean:
            reason = describe_exit(self._process.returncode)
            log.error("not drained", extra={"role": self.role.name, "reason": reason})
        return clean

    def _wait(self, seconds: float | None = None) -> int:
        return self._process.wait(None if seconds is None else max(0.0, seconds))

    def _start(self) -> None:
        self._due, self._down = None, False
        self._started = time.monotonic()
        # A session of its own: Ctrl-C reaches the supervisor alone, which then drains in order.
        self._process = subprocess.Popen(
            self.role.command(self.restarts),
            stdin=self._lifeline,
            env=dict(self.role.env),
            pass_fds=self.role.pass_fds,
            start_new_session=True,
        )
        self._report("running", None, "started")

    def _bury(self, code: int) -> None:
        reason = describe_exit(code)
        if code in self.role.final:
            self._down = True
            self._report("stopped", code, f"{reason}: not started again")
            return
        lived = time.monotonic() - self._started
        self._deaths = 1 if lived >= HEALTHY_SECONDS else self._deaths + 1
        delay = backoff(self._deaths)
        self._due = time.monotonic() + delay
        self._report("restarting", code, f"{reason}: starts again in {delay:.1f} s")

    def _report(
        self,
        state: Literal["running", "restarting", "stopped"],
        code: int | None,
        reason: str,
    ) -> None:
        self._tell(Report(self.role.name, self._process.pid, state, code, reason))


def backoff(deaths: int) -> float:
    """Seconds to wait before the start after so many deaths in a row."""
    return min(MAX_DELAY_SECONDS, FIRST_DELAY_SECONDS * 2.0 ** min(deaths - 1, 16))


def describe_exit(code: int) -> str:
    """Say how a process ended."""
    if code >= 0:
        return f"ended with exit code {code}"
    return f"died by {SIGNAL_NAMES.get(-code, f'signal {-code}')}"


def supervise(roles: Sequence[Role], stop: threading.Event, tell: Callable[[Report], None]) -> int:
    """Keep the roles alive until `stop` is set; 0 if all of them then ended well.

    1. Start every role with the reading end of one pipe, the lifeline, as its standard input:
       it reads as closed as soon as this process is gone, however it went.
    2. Until `stop`: bring back what died, with backoff, unless its exit code is final.
    3. SIGTERM to all at once, wait, SIGKILL to what is still there after the grace.
    """
    lifeline, held = os.pipe()
    children: list[Child] = []
    try:
        children.extend(Child(role, lifeline, tell) for role in roles)
        while not stop.is_set():
            for child in children:
                child.tend()
            # Not stop.wait: a signal's handler that sets the event could meet its lock taken.
            time.sleep(POLL_SECONDS)
    finally:
        clean = drain(children)
        os.close(held)
        os.close(lifeline)
    return Exit.DONE if clean else Exit.NOT_HELD


def drain(children: Sequence[Child]) -> bool:
    """End all children; whether every one that was alive ended well."""
    living = [child for child in children if child.terminate()]
    deadline = time.monotonic() + DRAIN_SECONDS
    ended = [child.finish(deadline) for child in living]  # every one, also after a failure
    return all(ended)
