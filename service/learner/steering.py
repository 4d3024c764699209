"""Carry out the commands that people give to a running learner, and remember a pause."""

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kaboost.service.errors import KaboostError, NotWritten, Refused
from kaboost.service.learner.rollback import POSITIONS
from kaboost.service.storage import commands
from kaboost.service.storage.audit import AuditLog
from kaboost.service.storage.commands import Command, CommandQueue, Result
from kaboost.service.storage.pause import Pause, PauseFile

POLL_SECONDS = 0.1  # between two looks for a command

Details = Mapping[str, Any]
Action = Callable[[Command], Details]

log = logging.getLogger(__name__)


class Steering:
    """Take commands between two batches; one thread calls.

    Parameters
    ----------
    directory
        The folder of the checkpoints, which holds commands, pause and audit log.
    actions
        What carries out the commands that need more than a pause.
    """

    def __init__(self, directory: Path, actions: Mapping[str, Action]) -> None:
        self._queue = CommandQueue(directory)
        self._audit = AuditLog(directory)
        self._file = PauseFile(directory)
        self._pause = self._file.read()
        self._polled_at = -POLL_SECONDS
        self._is_failing = False
        own = {commands.PAUSE: self._do_pause, commands.RESUME: self._do_resume}
        self._actions: dict[str, Action] = {**own, **actions}

    @property
    def paused(self) -> bool:
        """Whether somebody has paused learning."""
        return self._pause is not None

    @property
    def description(self) -> str:
        """Who has paused learning, when and why; empty while it is not paused."""
        return "" if self._pause is None else self._pause.describe()

    def begin(self) -> None:
        """Answer what an earlier learner has left unfinished; repeat in the log that it is paused.

        The folder's lock must be held.
        """
        self._pause = self._file.read()
        if self._pause is not None:
            log.warning("learning is paused by command", extra=self._pause._asdict())
        with self._logging_failures():
            for command in self._queue.recover():
                self._record(command, Result("refused", commands.INTERRUPTED))

    def poll(self) -> None:
        """Carry out the commands that wait."""
        now = time.monotonic()
        if now - self._polled_at < POLL_SECONDS:
            return
        self._polled_at = now
        with self._logging_failures():
            while (command := self._queue.take()) is not None:
                result = self._carry_out(command)
                self._record(command, result)
                self._queue.finish(command.id, result)

    def note(self, what: str, by: str, reason: str, details: Details) -> None:
        """Record a change that the learner itself has made, such as an accepted gap."""
        self._append(
            command=what, arguments={}, by=by, via="configuration", reason=reason,
            state="done", outcome="", details=details,
        )  # fmt: skip

    @contextmanager
    def _logging_failures(self) -> Iterator[None]:
        """Log the first failure in a row: a folder that cannot be used stops no learning."""
        try:
            yield
        except (NotWritten, OSError) as err:
            if not self._is_failing:
                log.error("commands cannot be taken or answered", extra={"reason": str(err)})
            self._is_failing = True
        else:
            self._is_failing = False

    def _carry_out(self, command: Command) -> Result:
        try:
            details = self._actions[command.name](command)
        except (KaboostError, OSError) as err:
            return Result("refused", str(err))
        return Result("done", str(details.get("message", "")), details)

    def _record(self, command: Command, result: Result) -> None:
        fields = {
            "command": command.name,
            "arguments": command.arguments,
            "by": command.by,
            "via": command.via,
            "reason": command.reason,
            "requested": command.time,
            "state": result.state,
            "outcome": result.message,
            "details": result.details,
        }
        done = result.state == "done"
        log.log(logging.INFO if done else logging.ERROR, f"command {result.state}", extra=fields)
        self._append(**fields)

    def _append(self, **fields: object) -> None:
        try:
            self._audit.append(**fields)
        except NotWritten as err:  # the log has the same line
            log.error("audit log not written", extra={"reason": str(err)})

    def _do_pause(self, command: Command) -> Details:
        if self._pause is not None:
            return {"message": self._pause.describe(), "paused": True}
        pause = Pause(command.by, command.time, command.reason)
        self._file.write(pause)
        self._pause = pause
        return {"message": "learning is paused, also over restarts", "paused": True}

    def _do_resume(self, command: Command) -> Details:
        if self._pause is None:
            return {"message": "learning was not paused", "paused": False}
        self._file.remove()
        self._pause = None
        return {"message": "learning goes on", "paused": False}


def rollback_arguments(command: Command) -> tuple[int, Any]:
    """Return the number of the checkpoint and the positions of a rollback, or refuse them."""
    number, positions = command.arguments.get("version"), command.arguments.get("positions")
    if not isinstance(number, int) or isinstance(number, bool) or number < 1:
        raise Refused(f"version {number!r} is no number of a checkpoint: write one, such as 12")
    if positions not in POSITIONS:
        raise Refused(f"positions {positions!r}: write {' or '.join(POSITIONS)}")
    return number, positions
