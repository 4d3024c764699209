"""Snapshots in a folder: immutable, versioned, mapped read-only by their readers."""

import json
import logging
import os
from collections.abc import Mapping
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from kaboost.models.evaluation.baselines import ProgressiveValidation
from kaboost.models.model import Model
from kaboost.service.errors import CheckpointError, Damaged, Incompatible, NotWritten
from kaboost.service.storage import files, heartbeat, source_status
from kaboost.service.storage.late_figures import LateFigures
from kaboost.service.storage.lock import FolderLock
from kaboost.service.storage.state import State, read_validation

KIND = "snapshot"
RECENT_RECORDS = 1_000  # that the learner's share of rejected records is of
MIN_RECORDS = 10  # below which a share of rejected records is no problem yet
MAX_FILES = 100  # with the highest versions: among them the newest is looked for
log = logging.getLogger(__name__)


class Numbering(NamedTuple):
    """A version among all: versions begin again in a later epoch, after all files were lost."""

    epoch: int = 0  # when the versions began, seconds since 1970
    version: int = 0


class Snapshot(NamedTuple):
    """One published version: all that a prediction needs, and the losses so far."""

    version: int
    model: Model
    header: dict[str, Any]
    validation: ProgressiveValidation

    @property
    def numbering(self) -> Numbering:
        """What its age is compared by."""
        return Numbering(self.header.get("epoch", 0), self.version)


class Status(NamedTuple):
    """The state of a learner's process, as it or its supervisor reports it."""

    state: str
    exit_code: int | None
    reason: str
    pid: int | None = None  # of the learner whose state it is


class Condition(NamedTuple):
    """What the learner reports of itself, next to its heartbeat."""

    records: int = 0  # the last ones of the events, at most RECENT_RECORDS
    events_rejected_ratio: float = 0.0
    problem: str = ""  # why it learns nothing
    compiling: str = ""  # step, steps and seconds left
    stalled: str = ""  # why nothing is read though it runs, and for how long
    late_labels: LateFigures | None = None  # where labels come later
    misfit_labels: int = 0  # the last ones, if they are so many that none seems to fit
    labels: int = 0  # the last records of the topic of labels, at most RECENT_RECORDS
    labels_rejected_ratio: float = 0.0
    paused: str = ""  # who has paused learning, when and why
    fallback: str = ""  # why answers are of an earlier model
    leader: str = ""  # who leads, where learners take turns
    leader_epoch: int = 0

    @property
    def rejected_ratio(self) -> float:
        """The share of rejected records of the topic that fares worse, if that has read some."""
        enough = [ratio for records, ratio in self._topics if records >= MIN_RECORDS]
        return max(enough, default=self.events_rejected_ratio)

    @property
    def _topics(self) -> list[tuple[int, float]]:
        return [
            (self.records, self.events_rejected_ratio),
            (self.labels, self.labels_rejected_ratio),
        ]

    def is_failing(self, max_rejected_ratio: float) -> bool:
        """Whether so many of the last RECENT_RECORDS records of a topic were rejected, or no label
        fits.
        """
        rejected = any(
            records >= RECENT_RECORDS and ratio >= max_rejected_ratio
            for records, ratio in self._topics
        )
        return rejected or self.misfit_labels > 0


class FolderSnapshotStore:
    """Keep the newest snapshots, the learner's heartbeat and its status in one folder."""

    def __init__(self, directory: Path, keep: int = 3, lock: FolderLock | None = None) -> None:
        self._directory = directory
        self._lock = lock or FolderLock(directory)
        self._epochs: dict[tuple[str, int, int], int] = {}  # by name, inode and time of a file
        self._keep = keep

    @property
    def location(self) -> str:
        """The folder."""
        return str(self._directory.resolve())

    def lock(self) -> AbstractContextManager[None]:
        """Be the folder's only writer, or raise FolderBusy."""
        return self._lock

    def publish(self, header: Mapping[str, Any], state: State, above: int = 0) -> int:
        """Publish the next version above one and return it, then remove the oldest."""
        files.make(self._directory)
        version, model = max(self.last_version(), above) + 1, state.model
        whole = {**header, "kind": KIND, "version": version, "model": model.describe()}
        path = files.numbered(self._directory, KIND, version)
        files.write(path, state.serving_arrays(), whole, self._lock.confirm)
        files.prune(self._directory, KIND, self._keep)
        return version

    def last_version(self) -> int:
        """Return the highest version, 0 where there is none."""
        return next(map(files.number, files.newest(self._directory, KIND)), 0)

    def newest(
        self, above: int = 0, unusable: set[int] | None = None, epoch: int | None = None
    ) -> Snapshot | None:
        """Map the newest snapshot above a version; report a damaged one and use the one before.

        With the epoch of that version, every version of a later epoch is above, and none of an
        earlier one.

        `unusable` belongs to the caller: its versions are neither read nor reported again.
        """
        skipped = set() if unusable is None else unusable
        for path in self._paths_above(above, epoch):
            version = files.number(path)
            if version in skipped:
                continue
            try:
                return load(path)
            except FileNotFoundError:
                continue  # pruned since the folder was listed
            except CheckpointError as err:
                skipped.add(version)
                log.error("snapshot unusable", extra={"version": version, "reason": str(err)})
        return None

    def _paths_above(self, above: int, epoch: int | None) -> list[Path]:
        """List the files above a version, the newest first."""
        epochs: dict[tuple[str, int, int], int] = {}
        found: list[tuple[Numbering, Path]] = []
        for path in files.newest(self._directory, KIND)[:MAX_FILES]:
            try:
                status = path.stat()
            except FileNotFoundError:
                continue  # pruned since the folder was listed
            key = path.name, status.st_ino, status.st_mtime_ns
            known = self._epochs.get(key)
            epochs[key] = _epoch(path, epoch or 0) if known is None else known
            found.append((Numbering(epochs[key], files.number(path)), path))
        self._epochs = epochs
        return [
            path
            for order, path in sorted(found, reverse=True)
            if order > Numbering(order.epoch if epoch is None else epoch, above)
        ]

    def newest_path(self) -> Path | None:
        """Return the file of the newest version of the latest epoch, None without one."""
        return next(iter(self._paths_above(-1, None)), None)

    def source_problem(self) -> str:
        """Describe why no newer snapshot comes from elsewhere; empty where none has to come."""
        return source_status.problem(self._directory)

    def heartbeat(self) -> None:
        """Show that the learner is alive, and which process it is."""
        path = files.make(self._directory) / heartbeat.NAME
        try:
            heartbeat.write(path)
        except OSError as err:
            raise NotWritten(
                f"{path} cannot be written ({err.strerror}): make room, or correct "
                "the folder's permissions"
            ) from err

    def last_heartbeat(self) -> str | None:
        """Return the learner's last heartbeat, which differs from all before; None without one."""
        try:
            return (self._directory / heartbeat.NAME).read_text(encoding="ascii", errors="replace")
        except FileNotFoundError:
            return None

    def heartbeat_pid(self) -> int | None:
        """Return the process id of the learner that gave the last heartbeat."""
        try:
            return int((self._directory / heartbeat.NAME).read_bytes().split()[0])
        except (OSError, ValueError, IndexError):
            return None

    def signs_of_life(self) -> tuple[str | None, float | None]:
        """Return what changes while a learner works, or waits for another one to leave.

        Any other status is written by its supervisor as well, and is no sign.
        """
        status, waits = self.read_status(), None
        if status is not None and status.state == "waiting":
            with suppress(FileNotFoundError):
                waits = (self._directory / ".status.json").stat().st_mtime
        return self.last_heartbeat(), waits

    def write_status(
        self, state: str, exit_code: int | None = None, reason: str = "", pid: int | None = None
    ) -> None:
        """Publish the state of a learner's process; readers never see half of it."""
        status = Status(state, exit_code, reason, pid)
        self._write_json(".status.json", status._asdict(), durable=state != "waiting")

    def read_status(self) -> Status | None:
        """Read the state of the learner's process, None where none can be read."""
        try:
            text = (self._directory / ".status.json").read_text(encoding="utf-8")
            return Status(**json.loads(text))
        except (FileNotFoundError, TypeError, ValueError):
            return None

    def write_condition(self, condition: Condition) -> None:
        """Publish what the learner reports of itself, or raise NotWritten."""
        late = condition.late_labels
        values = {**condition._asdict(), "late_labels": late and late._asdict()}
        try:
            self._write_json(".condition.json", values, durable=False)
        except OSError as err:
            raise NotWritten(
                f"{self._directory / '.condition.json'} cannot be written ({err.strerror}): make "
                "room, or correct the folder's permissions"
            ) from err

    def read_condition(self) -> Condition:
        """Read what the learner reports of itself, nothing where it cannot be read."""
        try:
            text = (self._directory / ".condition.json").read_text(encoding="utf-8")
            values = json.loads(text)
            late = values.pop("late_labels", None)
            known = {name: values[name] for name in Condition._fields if name in values}
            return Condition(**{**known, "late_labels": late and LateFigures(**late)})
        except (FileNotFoundError, AttributeError, TypeError, ValueError):
            return Condition()

    def _write_json(self, name: str, values: Mapping[str, Any], durable: bool = True) -> None:
        """Replace a small file; readers never see half of it."""
        # One name a process: the learner and its supervisor may write at the same moment.
        temporary = files.make(self._directory) / f"{name}.{os.getpid()}"
        with open(temporary, "w", encoding="utf-8") as file:
            json.dump(values, file)
            file.flush()
            if durable:
                files.sync(file.fileno())
        os.replace(temporary, self._directory / name)


def _epoch(path: Path, default: int) -> int:
    """Read the epoch of a snapshot; the default where it cannot be read, or has none."""
    try:
        header, _ = files.read(path, mapped=True, verify=False)
    except (Damaged, Incompatible, FileNotFoundError):
        return default
    epoch = header.get("epoch", default)
    return epoch if isinstance(epoch, int) else default


def load(path: Path) -> Snapshot:
    """Map one snapshot file, or refuse one that is not a snapshot of this Kaboost."""
    header, arrays = files.read(path, mapped=True)
    files.expect(path, header, KIND, header.get("version"))
    try:
        model = Model.from_arrays(header["model"], arrays)
        return Snapshot(header["version"], model, header, read_validation(model.labels, arrays))
    except KeyError as err:
        raise Incompatible(f"{path} was written by another Kaboost: it lacks {err}") from err
    except (TypeError, ValueError) as err:
        raise Incompatible(f"{path} was written by another Kaboost: {err}") from err
