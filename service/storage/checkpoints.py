"""Checkpoints in a folder: the learner's state with its next offsets, written and restored."""

import logging
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from kaboost.models.evaluation.history import History
from kaboost.models.model import Model
from kaboost.models.types import ModelError
from kaboost.service.errors import CheckpointError, Damaged, Incompatible
from kaboost.service.storage import files, kept
from kaboost.service.storage.candidate_state import expect_champion, read_candidates
from kaboost.service.storage.changes import ALIASES, Changes, find_changes
from kaboost.service.storage.comparison import require_equal
from kaboost.service.storage.key_influence import KeyInfluence
from kaboost.service.storage.lock import FolderLock
from kaboost.service.storage.recent_ids import RecentIds
from kaboost.service.storage.replayed import ReplayedOrigins
from kaboost.service.storage.state import LateState, State, read_validation

KIND = "checkpoint"
FIRST_RUN = "run-0001"
RUNS = "run-[0-9][0-9][0-9][0-9]"

log = logging.getLogger(__name__)


class Checkpoint(NamedTuple):
    """A state as it was written, whose arrays can learn on."""

    header: dict[str, Any]
    state: State
    changes: tuple[str, ...] = ()  # of the configuration, that it has taken over


class Written(NamedTuple):
    """One durable checkpoint, without its content."""

    name: str
    size: int  # bytes
    time: float  # seconds since 1970


class FolderCheckpointStore:
    """Keep the newest checkpoints of every run in folders below one folder."""

    leader = ""  # who leads, where learners take turns
    leader_epoch = 0  # of this writer; without a leader that of the state, which it continues

    def __init__(self, directory: Path, keep: int = 3, lock: FolderLock | None = None) -> None:
        self._directory = directory
        self._lock = lock or FolderLock(directory)
        self._keep = keep
        self._damaged: set[int] = set()  # numbers that were skipped when the state was restored

    @property
    def location(self) -> str:
        """The folder."""
        return str(self._directory.resolve())

    def lock(self) -> AbstractContextManager[None]:
        """Be the folder's only writer, or raise FolderBusy."""
        return self._lock

    def confirm(self) -> None:
        """Raise FolderBusy if another process has become the folder's writer."""
        self._lock.confirm()

    def holder(self) -> str | None:
        """Return which process writes to the folder, None where none does."""
        return self._lock.holder()

    @property
    def run(self) -> str:
        """The name of the current run: the highest, the first where there is none."""
        return self._run_folder.name

    @property
    def _run_folder(self) -> Path:
        return max(self._directory.glob(RUNS), default=self._directory / FIRST_RUN)

    def start_run(self) -> None:
        """Start a new run, for a new model; do nothing if the current one was just started.

        Its empty folder records the cold start over restarts, until the first checkpoint. The
        folders of other runs stay.
        """
        number = int(self.run.removeprefix("run-")) + (not self.is_new_run())
        files.make(self._directory / f"run-{number:04d}")

    def is_new_run(self) -> bool:
        """Return whether a run was started and has no checkpoint yet.

        An empty `run-0001` is not one: the checkpoints of a first start look so when lost.
        """
        run = self._run_folder
        return run.is_dir() and run.name != FIRST_RUN and not files.newest(run, KIND)

    def write(self, header: Mapping[str, Any], state: State) -> Written:
        """Write the next checkpoint of the current run, then remove the oldest.

        The file takes the next free number. A damaged file that was skipped stays beside it, as
        evidence, and does not count among those to keep.
        """
        run = files.make(self._run_folder)
        existing = [files.number(path) for path in files.newest(run, KIND)]
        sequence = next(iter(existing), 0) + 1
        damaged = [number for number in existing if number in self._damaged]
        whole = {
            **header,
            **state.describe_candidates(),
            "kind": KIND,
            "sequence": sequence,
            "damaged": damaged,
            "model": state.model.describe(),
            "offsets": {str(partition): offset for partition, offset in state.offsets.items()},
            "late": None if state.late is None else state.late.describe(),
        }
        path = files.numbered(run, KIND, sequence)
        history = state.history.to_arrays() if state.history else {}
        files.write(path, {**state.to_arrays(), **history}, whole, self.confirm)
        files.prune(run, KIND, self._keep, damaged)
        return _written(path)

    def restore(self, expected: Mapping[str, Any] | None = None) -> tuple[Checkpoint | None, int]:
        """Read the newest readable checkpoint, and count the damaged ones that were skipped.

        `expected` holds what its header must have, such as `model` (the description) and `topic`.
        """
        damaged: dict[int, str] = {}
        for path in files.newest(self._run_folder, KIND):
            try:
                checkpoint = load(path, expected)
            except Damaged as err:
                log.error("checkpoint damaged", extra={"path": str(path), "reason": str(err)})
                damaged[files.number(path)] = str(err)
            else:
                self._continue_epoch(checkpoint.header)
                self._damaged = {*damaged, *checkpoint.header.get("damaged", ())}
                return checkpoint, len(damaged)
        if damaged:
            reasons = "; ".join(damaged.values())
            raise CheckpointError(
                f"no checkpoint can be read, start again with --cold-start: {reasons}"
            )
        return None, 0

    def _continue_epoch(self, header: Mapping[str, Any]) -> None:
        """Take the epoch of the state, or the next one after that of an elected leader: readers
        refuse snapshots of an earlier one.
        """
        epoch = header.get("leader_epoch", 0) + bool(header.get("is_elected"))
        self.leader_epoch = max(self.leader_epoch, epoch)

    def load(self, number: int, expected: Mapping[str, Any]) -> Checkpoint:
        """Read one checkpoint of the current run, which may be one from before a rollback."""
        return load(kept.find(self._run_folder, KIND, number), expected)

    def keep_newest(self) -> int:
        """Keep the newest checkpoint whatever is written after it; return its number."""
        return kept.keep_newest(self._run_folder, KIND, self._keep)

    def newest(self) -> Written | None:
        """Find the newest checkpoint of all runs, without reading it."""
        path = next((path for path in self.paths() if path.exists()), None)  # not a dangling link
        return _written(path) if path else None

    def newest_header(self) -> dict[str, Any]:
        """Read the header of the newest readable checkpoint of all runs, empty without one."""
        for path in self.paths():
            with suppress(Damaged, Incompatible, FileNotFoundError):
                return files.read(path, mapped=True, verify=False)[0]
        return {}

    def paths(self) -> Iterator[Path]:
        """List the files of all runs, the newest first."""
        for run in sorted(self._directory.glob(RUNS), reverse=True):
            yield from files.newest(run, KIND)


def load(path: Path, expected: Mapping[str, Any] | None = None) -> Checkpoint:
    """Read one checkpoint file."""
    header, arrays = files.read(path)
    files.expect(path, header, KIND, header.get("sequence"))
    champion, wanted = expect_champion(header, expected or {})
    changes = _compare(path, header, wanted)
    writable = files.writable(arrays)
    try:
        described = changes.description if changes else header["model"]
        model = Model.from_arrays(described, writable)
        if model.serving_only:
            raise ModelError("it lacks arrays that learning needs")
        validation = read_validation(model.labels, writable)
    except ModelError as err:
        raise Incompatible(
            f"{path} was written by another Kaboost: {err}; use that one, or --cold-start"
        ) from err
    if changes:
        changes.carry_out(path, model)
    offsets = {int(partition): offset for partition, offset in header["offsets"].items()}
    ids = RecentIds.from_arrays(arrays)
    late = LateState.from_description(header["late"]) if header.get("late") else None
    replayed = ReplayedOrigins.from_arrays(arrays)
    notes = changes.notes if changes else ()
    influence = KeyInfluence.from_arrays(arrays)
    history = History.from_arrays(arrays)
    state = State(model, validation, offsets, ids, late, replayed, influence, history)
    others = read_candidates(path, header, writable, champion, expected or {})
    state = state._replace(candidates=others.states, champion=champion)
    return Checkpoint(header, state, (*notes, *others.notes))


def _compare(path: Path, header: dict[str, Any], expected: dict[str, Any]) -> Changes | None:
    """Return what may change; refuse a checkpoint that differs in anything else."""
    aliases = expected.pop(ALIASES, {})
    wanted, changes = expected.get("model"), None
    if wanted is not None and isinstance(header.get("model"), dict):
        changes = find_changes(path, header["model"], wanted, aliases)
        header = {**header, "model": changes.result}
    require_equal(path, header, expected)
    return changes


def _written(path: Path) -> Written:
    status = path.stat()
    return Written(str(path), status.st_size, status.st_mtime)
