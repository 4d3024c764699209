"""Commands to a learner, as files in a folder next to its checkpoints.

A command is a file that the learner takes between two batches, and answers with another one. So
commands need no port, and wait while a learner starts again. Each is carried out at most once.
"""

import os
import secrets
import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal, NamedTuple

from kaboost.service.errors import NotWritten
from kaboost.service.storage import files, json_files

FOLDER = "commands"
PAUSE, RESUME, CHECKPOINT, ROLLBACK, PROMOTE = NAMES = (
    "pause",
    "resume",
    "checkpoint",
    "rollback",
    "promote",
)
WAITS, TAKEN, RESULT = ".json", ".taken", ".result"  # endings of the files of a command
MAX_RESULTS = 100  # that are kept
POLL_SECONDS = 0.05
MAX_SKEW_SECONDS = 60.0  # between the clocks of two machines that share the folder
EXPIRED = "nobody has waited for this command since"
INTERRUPTED = "the learner ended while it carried the command out: look at its state, and repeat it"


class Command(NamedTuple):
    """What somebody asks of the learner."""

    name: str
    by: str  # who
    via: str  # how it came
    reason: str = ""
    arguments: Mapping[str, Any] = {}
    id: str = ""  # given by the queue; in the order of time
    time: str = ""
    expires: str = ""  # after this time nobody waits for it any more; empty: never


class Result(NamedTuple):
    """What became of a command."""

    state: Literal["done", "refused"]
    message: str
    details: Mapping[str, Any] = {}


class CommandQueue:
    """Pass commands to the one learner of a folder, and its results back."""

    def __init__(self, directory: Path) -> None:
        self._folder = directory / FOLDER

    def submit(self, command: Command, seconds: float | None = None) -> str:
        """Leave a command to the learner; return its id. After some seconds it is not carried out
        any more: who has sent it may have been killed before it was withdrawn.
        """
        now = datetime.now(UTC)
        if seconds is not None:
            until = now + timedelta(seconds=seconds + MAX_SKEW_SECONDS)
            command = command._replace(expires=until.isoformat(timespec="milliseconds"))
        number = f"{now:%Y%m%dT%H%M%S%f}-{secrets.token_hex(4)}"
        stamped = command._replace(id=number, time=now.isoformat(timespec="milliseconds"))
        json_files.write(self._path(number, WAITS), stamped._asdict())
        return number

    def wait(self, number: str, seconds: float) -> Result | None:
        """Wait for the result of a command; None if there is none after so many seconds."""
        deadline = time.monotonic() + seconds
        while True:
            values = json_files.read(self._path(number, RESULT))
            if values is not None:
                return Result(**values)
            if time.monotonic() > deadline:
                return None
            time.sleep(POLL_SECONDS)

    def withdraw(self, number: str) -> bool:
        """Take a command back; return false if a learner has taken it already."""
        try:
            self._path(number, WAITS).unlink()
        except FileNotFoundError:
            return False
        return True

    def take(self) -> Command | None:
        """Take the oldest command that waits, so that nobody else can."""
        for path in self._find(WAITS):
            number = path.name.removesuffix(WAITS)
            try:
                os.rename(path, self._path(number, TAKEN))
            except FileNotFoundError:
                continue  # withdrawn
            command = _parse(json_files.read(self._path(number, TAKEN)))
            if command is not None and command.id == number:
                if not _is_expired(command):
                    return command
                self.finish(number, Result("refused", f"{EXPIRED} {command.expires}: repeat it"))
                continue
            names = ", ".join(NAMES)
            self.finish(number, Result("refused", f"{path} is no command: write one of {names}"))
        return None

    def finish(self, number: str, result: Result) -> None:
        """Answer a command that was taken."""
        json_files.write(self._path(number, RESULT), result._asdict())
        self._path(number, TAKEN).unlink(missing_ok=True)
        for path in self._find(RESULT)[:-MAX_RESULTS]:
            path.unlink(missing_ok=True)

    def recover(self) -> list[Command]:
        """Answer what a learner had taken when it ended; return those commands."""
        found: list[Command] = []
        for path in self._find(TAKEN):
            command = _parse(json_files.read(path))
            found += [] if command is None else [command]
            self.finish(path.name.removesuffix(TAKEN), Result("refused", INTERRUPTED))
        return found

    def prepare(self) -> None:
        """Make the folder, or raise NotWritten."""
        files.make(self._folder)

    def _path(self, number: str, ending: str) -> Path:
        return self._folder / f"{number}{ending}"

    def _find(self, ending: str) -> list[Path]:
        try:
            names = sorted(name for name in os.listdir(self._folder) if name.endswith(ending))
        except FileNotFoundError:
            return []
        except OSError as err:
            raise NotWritten(f"{self._folder} cannot be read: {err.strerror}") from err
        return [self._folder / name for name in names if not name.startswith(".")]


def _is_expired(command: Command) -> bool:
    return bool(command.expires) and datetime.fromisoformat(command.expires) < datetime.now(UTC)


def _is_time(text: str) -> bool:
    try:
        return datetime.fromisoformat(text).tzinfo is not None
    except ValueError:
        return False


def _parse(values: Mapping[str, Any] | None) -> Command | None:
    """Return a command of its file's values; None where they are none."""
    if values is None or values.keys() - set(Command._fields):
        return None
    try:
        command = Command(**values)
    except TypeError:
        return None
    texts = (*command[:4], command.id, command.time, command.expires)
    valid = all(isinstance(text, str) for text in texts) and isinstance(command.arguments, dict)
    valid = valid and (not command.expires or _is_time(command.expires))
    return command if valid and command.name in NAMES else None
