"""Every error of the service, as one tree; each class has the exit code of the program.

KaboostError             5  an internal error at a named place
├ ConfigError            2  the configuration is refused: key, value, remedy
├ Refused                3  refused for safety: gap in offsets, missing checkpoint
│ ├ Gap                  3  the topic does not continue the state; `kafka.on_gap: accept` accepts it
│ └ FolderBusy           3  another process writes to the folder: it is waited for
├ BrokerError            4  broker or topic unreachable for good
│ └ RegistryAway         4  the schema registry gives no schema now: wait and ask again
├ EventError             5  one event cannot be used: goes to the dead-letter topic
│ └ InternalFault        5  one event makes our own code fail
├ RequestError           5  an HTTP request is invalid: the response is 422
├ NotTaken               1  no learner has taken a command: it is withdrawn
├ NotReady               5  there is no model yet: the response is 503
└ CheckpointError        3  no checkpoint can be used
  ├ Damaged              3  one file is damaged: the one before it is used
  ├ NotWritten           1  a file cannot be written: tried again, or by the next start
  │ └ StoreAway          1  an object store does not answer, after some tries
  └ Incompatible         3  another format or another model than configured
"""

from collections.abc import Sequence
from enum import IntEnum
from pathlib import Path


class Exit(IntEnum):
    """The exit codes of the program."""

    DONE = 0
    NOT_HELD = 1
    USAGE = 2
    REFUSED = 3
    BROKER = 4
    INTERNAL = 5
    INTERRUPTED = 130


class KaboostError(Exception):
    """Stop a command; the message names the place, the value and the remedy."""

    exit_code: Exit = Exit.INTERNAL


class ConfigError(KaboostError):
    """Refuse to start with this configuration."""

    exit_code = Exit.USAGE


class Refused(KaboostError):
    """Refuse to continue because data could be lost or written twice."""

    exit_code = Exit.REFUSED


GAP_KINDS = ("deleted", "recreated", "other_cluster", "truncated")


class Gap(Refused):
    """Refuse a topic that does not continue the state; `kind` is one of GAP_KINDS."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(f"{message}; or keep the model and accept the gap with --on-gap=accept")
        self.kind = kind


class FolderBusy(Refused):
    """Refuse to write to a folder that another process writes to."""

    def __init__(self, directory: Path | str, holder: str) -> None:
        super().__init__(
            f"{directory} is in use by {holder}: stop it, or give this learner another folder"
        )
        self.holder = holder


class Superseded(FolderBusy):
    """Refuse to write: another learner leads by now, in a later epoch."""

    def __init__(self, location: str, holder: str, epoch: int) -> None:
        super().__init__(location, holder)
        self.args = (f"{holder} leads now: what epoch {epoch} writes to {location} is refused",)


class BrokerError(KaboostError):
    """Give up on a broker or topic that cannot be reached."""

    exit_code = Exit.BROKER


class RegistryAway(BrokerError):
    """Wait for the schema registry: without an answer no record is read, and none is lost."""


class EventError(KaboostError):
    """Send one event to the dead-letter topic; `code` is the reason in one word."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class InternalFault(EventError):
    """Send an event to the dead-letter topic because learning fails at it.

    `raised` is the class of the exception, `stack` where it came from.
    """

    def __init__(self, message: str, raised: str, stack: str) -> None:
        super().__init__("internal", message)
        self.raised = raised
        self.stack = stack


class RequestError(KaboostError):
    """Refuse an HTTP request; every fault is a JSON pointer and a sentence."""

    def __init__(self, errors: Sequence[tuple[str, str]]) -> None:
        super().__init__("; ".join(f"{pointer}: {detail}" for pointer, detail in errors))
        self.errors = list(errors)


class NotTaken(KaboostError):
    """Report a command that no learner has carried out."""

    exit_code = Exit.NOT_HELD


class NoAnswer(KaboostError):
    """A service that is asked does not answer."""

    exit_code = Exit.NOT_HELD


class NotReady(KaboostError):
    """Refuse to predict: there is no model yet."""


class CheckpointError(KaboostError):
    """Stop: no checkpoint or snapshot file can be used."""

    exit_code = Exit.REFUSED


class Damaged(CheckpointError):
    """Report one damaged file; the one before it is used."""


class NotWritten(CheckpointError):
    """Report a file that cannot be written; a later attempt may find disk space."""

    exit_code = Exit.NOT_HELD


class StoreAway(NotWritten):
    """Report an object store that does not answer, or refuses, after some tries."""


class Incompatible(CheckpointError):
    """Stop: the file holds another format or another model than configured."""
