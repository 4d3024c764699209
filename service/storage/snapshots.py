"""Snapshots in a folder: immutable, versioned, mapped read-only by their readers."""

import json
import logging
import os
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NamedTuple

from kaboost.models.evaluation.baselines import ProgressiveValidation
from kaboost.models.model import Model
from kaboost.service.errors import CheckpointError, Incompatible, NotWritten
from kaboost.service.storage import files
from kaboost.service.storage.late_figures import LateFigures
from kaboost.service.storage.state import State, read_validation

KIND = "snapshot"
RECENT_RECORDS = 1_000  # that the learner's share of rejected records is of
log = logging.getLogger(__name__)


class Snapshot(NamedTuple):
    """One published version: all that a prediction needs, and the losses so far."""

    version: int
    model: Model
    header: dict[str, Any]
    validation: ProgressiveValidation


class Status(NamedTuple):
    """The state of the learner's process, as its supervisor reports it."""

    state: str
    exit_code: int | None
    reason: str


class Condition(NamedTuple):
    """What the learner reports of itself, next to its heartbeat."""

    records: int = 0  # the last ones, at most RECENT_RECORDS
    rejected_ratio: float = 0.0
    problem: str = ""  # why it learns nothing
    compiling: str = ""  # step, steps and seconds left
    stalled: str = ""  # why nothing is read though it runs, and for how long
    late_labels: LateFigures | None = None  # where labels come later
    unmatched_labels: int = 0  # without features, where none has found any

    def is_failing(self, max_rejected_ratio: float) -> bool:
        """Whether so many of the last RECENT_RECORDS records were rejected, or as many labels came
        and none has found its features.
        """
        rejected = self.records >= RECENT_RECORDS and self.rejected_ratio >= max_rejected_ratio
        return rejected or self.unmatched_labels >= RECENT_RECORDS


class FolderSnapshotStore:
    """Keep the newest snapshots, the learner's heartbeat and its status in one folder."""

    def __init__(self, directory: Path, keep: int = 3) -> None:
        self._directory = directory
        self._keep = keep

    @property
    def location(self) -> str:
        """The folder."""
        return str(self._directory.resolve())

    def lock(self) -> AbstractContextManager[None]:
        """Be the folder's only writer, or raise Refused."""
        return files.lock(self._directory)

    def publish(self, header: Mapping[str, Any], state: State) -> int:
        """Publish the next version and return it, then remove the oldest."""
        files.make(self._directory)
        version, model = self.last_version() + 1, state.model
        whole = {**header, "kind": KIND, "version": version, "model": model.describe()}
        path = files.numbered(self._directory, KIND, version)
        files.write(path, state.serving_arrays(), whole)
        files.prune(self._directory, KIND, self._keep)
        return version

    def last_version(self) -> int:
        """Return the highest version, 0 where there is none."""
        return next(map(files.number, files.newest(self._directory, KIND)), 0)

    def newest(self, above: int = 0, unusable: set[int] | None = None) -> Snapshot | None:
        """Map the newest snapshot above a version; report a damaged one and use the one before.

        `unusable` belongs to the caller: its versions are neither read nor reported again.
        """
        skipped = set() if unusable is None else unusable
        for path in files.newest(self._directory, KIND):
            version = files.number(path)
            if version <= above:
                return None
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

    def heartbeat(self) -> None:
        """Show that the learner is alive."""
        path = files.make(self._directory) / ".learner"
        try:
            path.touch()
        except OSError as err:
            raise NotWritten(
                f"{path} cannot be touched ({err.strerror}): make room, or correct "
                "the folder's permissions"
            ) from err

    def learner_age(self, clock: Callable[[], float] = time.time) -> float | None:
        """Return the seconds since the learner's last heartbeat, None if there was none."""
        last = self.last_heartbeat()
        return None if last is None else max(0.0, clock() - last)

    def last_heartbeat(self) -> float | None:
        """Return when the learner last showed that it is alive, None if it never did."""
        try:
            return (self._directory / ".learner").stat().st_mtime
        except FileNotFoundError:
            return None

    def write_status(self, state: str, exit_code: int | None = None, reason: str = "") -> None:
        """Publish the state of the learner's process; readers never see half of it."""
        self._write_json(".status.json", Status(state, exit_code, reason)._asdict())

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
            return Condition(**values, late_labels=late and LateFigures(**late))
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
