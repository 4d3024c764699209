"""Supervise processes: start them, restart them with backoff, drain them at the end."""

import logging
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, NamedTuple

from kaboost.service.errors import Exit

# After 2, 3 and 5 a restart would fail again or do harm: a person must look.
FINAL_EXIT_CODES = frozenset({Exit.USAGE, Exit.REFUSED, Exit.INTERNAL})
FIRST_DELAY_SECONDS = 0.2  # doubled after every further exit in a row
MAX_DELAY_SECONDS = 10.0
HEALTHY_SECONDS = 5.0  # a process that ran this long restarts after the first delay
SIGNAL_NAMES = {int(number): number.name for number in signal.Signals}
POLL_SECONDS = 0.05
HANG_SECONDS = 30.0  # without a sign of life, after which a process is killed
START_SECONDS = 60.0  # the same before its first one: it is loading
SILENT_SECONDS = 8.0  # after which the log has it
LOOK_SECONDS = 1.0  # between two looks for one
DRAIN_SECONDS = 30.0  # for the learner's last checkpoint and for requests in flight

log = logging.getLogger(__name__)


class Role(NamedTuple):
    """One process to supervise."""

    name: str
    command: Callable[[int], Sequence[str]]  # from the number of restarts to the argv
    env: Mapping[str, str]
    pass_fds: tuple[int, ...] = ()
    final: frozenset[int] = frozenset()  # exit codes after which it is not restarted
    sign: Callable[[], object] | None = None  # differs from the last while the process works


class Report(NamedTuple):
    """A change of one process's state."""

    role: str
    pid: int
    state: Literal["running", "restarting", "stopped"]
    exit_code: int | None  # negative: the signal that ended it
    reason: str


class Watch:
    """Look for signs of life of one process."""

    def __init__(self, sign: Callable[[], object] | None) -> None:
        self.seconds = 0.0  # without a sign
        self._read = sign
        self._last = sign() if sign else None
        self._has_begun = False
        self._looked_at = time.monotonic()

    def look(self) -> bool:
        """Look about once a second; return whether it did."""
        now = time.monotonic()
        if self._read is None or now - self._looked_at < LOOK_SECONDS:
            return False
        # At most two looks' worth: this process may have been stopped as well.
        self.seconds += min(now - self._looked_at, 2.0 * LOOK_SECONDS)
        self._looked_at, sign = now, self._read()
        if sign != self._last:
            self._last, self.seconds, self._has_begun = sign, 0.0, True
        return True

    @property
    def hangs(self) -> bool:
        """Whether there was none for so long that the process must be killed."""
        return self.seconds > (HANG_SECONDS if self._has_begun else START_SECONDS)


class Child:
    """One role's process: running, waiting for its restart, or stopped."""

    _process: subprocess.Popen[bytes]

    def __init__(self, role: Role, lifeline: int, on_report: Callable[[Report], None]) -> None:
        self.role = role
        self.restarts = 0
        self._lifeline = lifeline
        self._on_report = on_report
        self._exits_in_a_row = 0
        self._restart_at: float | None = None
        self._start()

    def poll(self) -> None:
        """Handle an exit, or restart when the delay is over."""
        if self._restart_at is not None and time.monotonic() >= self._restart_at:
            self.restarts += 1
            self._start()
        elif self._restart_at is None and not self._stopped and self._process.poll() is not None:
            self._handle_exit(self._process.returncode)
        elif self._restart_at is None and not self._stopped and self._watch.look():
            self._judge_silence()

    def terminate(self) -> bool:
        """Send SIGTERM; return whether the process was running."""
        is_running = self._process.poll() is None
        if is_running:
            self._process.terminate()
        return is_running

    def finish(self, deadline: float) -> bool:
        """Wait until `deadline`, then kill; return whether it ended well by itself."""
        try:
            # SIGTERM before its handler is installed ends it: then it had not started any work.
            clean = self._wait(deadline - time.monotonic()) in (Exit.DONE, -signal.SIGTERM)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._wait()
            clean = False
        if not clean:
            reason = describe_exit(self._process.returncode)
            log.error("not drained", extra={"role": self.role.name, "reason": reason})
        return clean

    def _judge_silence(self) -> None:
        """Log that the process gives no sign of life, and kill it after a longer time."""
        seconds = self._watch.seconds
        fields = {"role": self.role.name, "pid": self._process.pid, "seconds": round(seconds)}
        if self._watch.hangs:
            log.error("process hangs: it is killed and started again", extra=fields)
            self._process.kill()
            self._process.wait()
        elif seconds <= SILENT_SECONDS:
            self._is_silent = False
        elif not self._is_silent:
            self._is_silent = True
            log.warning("process gives no sign of life", extra=fields)

    def _wait(self, seconds: float | None = None) -> int:
        return self._process.wait(None if seconds is None else max(0.0, seconds))

    def _start(self) -> None:
        self._restart_at, self._stopped = None, False
        self._started = time.monotonic()
        self._watch, self._is_silent = Watch(self.role.sign), False
        # A new session: Ctrl-C reaches the supervisor alone, which then drains in order.
        self._process = subprocess.Popen(
            self.role.command(self.restarts),
            stdin=self._lifeline,
            env=dict(self.role.env),
            pass_fds=self.role.pass_fds,
            start_new_session=True,
        )
        self._report("running", None, "started")

    def _handle_exit(self, code: int) -> None:
        reason = describe_exit(code)
        if code in self.role.final:
            self._stopped = True
            self._report("stopped", code, f"{reason}: not restarted")
            return
        uptime = time.monotonic() - self._started
        self._exits_in_a_row = 1 if uptime >= HEALTHY_SECONDS else self._exits_in_a_row + 1
        delay = backoff(self._exits_in_a_row)
        self._restart_at = time.monotonic() + delay
        self._report("restarting", code, f"{reason}: restarts in {delay:.1f} s")

    def _report(
        self,
        state: Literal["running", "restarting", "stopped"],
        code: int | None,
        reason: str,
    ) -> None:
        self._on_report(Report(self.role.name, self._process.pid, state, code, reason))


def backoff(exits: int) -> float:
    """Return the seconds to wait before a restart after so many exits in a row."""
    return min(MAX_DELAY_SECONDS, FIRST_DELAY_SECONDS * 2.0 ** min(exits - 1, 16))


def describe_exit(code: int) -> str:
    """Describe how a process ended."""
    if code >= 0:
        return f"ended with exit code {code}"
    return f"killed by {SIGNAL_NAMES.get(-code, f'signal {-code}')}"


def supervise(
    roles: Sequence[Role],
    stop: threading.Event,
    on_report: Callable[[Report], None],
    on_stop: Callable[[], None] = lambda: None,
) -> int:
    """Keep the roles running until `stop` is set; return 0 if all of them then ended well.

    1. Start every role with the reading end of one pipe, the lifeline, as its standard input:
       it is closed as soon as this process ends, whatever the reason.
    2. Until `stop`: restart what ended, with backoff, unless its exit code is final.
    3. `on_stop` releases what this process shares with them: a listening socket that it kept would
       take connections that nobody serves.
    4. SIGTERM to all at once, wait, SIGKILL to what still runs after DRAIN_SECONDS.
    """
    lifeline, write_end = os.pipe()
    children: list[Child] = []
    try:
        children.extend(Child(role, lifeline, on_report) for role in roles)
        while not stop.is_set():
            for child in children:
                child.poll()
            # Not stop.wait: a signal handler that sets the event could deadlock on its lock.
            time.sleep(POLL_SECONDS)
    finally:
        on_stop()
        clean = drain(children)
        os.close(write_end)
        os.close(lifeline)
    return Exit.DONE if clean else Exit.NOT_HELD


def drain(children: Sequence[Child]) -> bool:
    """Stop all children; return whether every running one ended well."""
    running = [child for child in children if child.terminate()]
    deadline = time.monotonic() + DRAIN_SECONDS
    ended = [child.finish(deadline) for child in running]  # all, also after a failure
    return all(ended)
