"""The protocols of the two stores: where checkpoints and snapshots are kept, and how they are read.

`FolderCheckpointStore` and `FolderSnapshotStore` are the implementation on a file system.
"""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple, Protocol

from kaboost.service.storage.checkpoints import Checkpoint, FolderCheckpointStore, Written
from kaboost.service.storage.led_store import LedCheckpointStore
from kaboost.service.storage.lock import FolderLock
from kaboost.service.storage.object_store import ObjectCheckpointStore, RemoteFiles
from kaboost.service.storage.snapshots import Condition, FolderSnapshotStore, Snapshot, Status
from kaboost.service.storage.state import State


class Store(Protocol):
    """A place with one writer."""

    @property
    def location(self) -> str:
        """Where it is, for messages; stores of one location share their lock."""

    def lock(self) -> AbstractContextManager[None]:
        """Be the only writer, or raise FolderBusy."""


class CheckpointStore(Store, Protocol):
    """Keep the learner's states: runs of numbered checkpoints, one run a model."""

    def confirm(self) -> None:
        """Raise FolderBusy if another process has become the writer."""

    def holder(self) -> str | None:
        """Return which process is the writer, None where none is."""

    @property
    def leader(self) -> str:
        """Who leads; empty where learners do not take turns."""

    @property
    def leader_epoch(self) -> int:
        """The epoch in which this writer leads, or has the state of; 0 where there was none."""

    @property
    def run(self) -> str:
        """The name of the current run."""

    def start_run(self) -> None:
        """Start a new run, for a new model; do nothing if the current one was just started."""

    def is_new_run(self) -> bool:
        """Return whether a run was started and has no checkpoint yet."""

    def restore(self, expected: Mapping[str, Any]) -> tuple[Checkpoint | None, int]:
        """Read the newest readable checkpoint, and count the damaged ones that were skipped."""

    def write(self, header: Mapping[str, Any], state: State) -> Written:
        """Write the next checkpoint durably."""

    def load(self, number: int, expected: Mapping[str, Any]) -> Checkpoint:
        """Read one checkpoint of the current run, which may be one from before a rollback."""

    def keep_newest(self) -> int:
        """Keep the newest checkpoint whatever is written after it; return its number."""

    def newest(self) -> Written | None:
        """Find the newest checkpoint of all runs, without reading it."""

    def newest_header(self) -> Mapping[str, Any]:
        """Read the header of the newest readable checkpoint of all runs, empty without one."""


class SnapshotStore(Store, Protocol):
    """Keep published versions of the model, and what is known of the learner."""

    def publish(self, header: Mapping[str, Any], state: State, above: int = 0) -> int:
        """Publish the next version above one, and return it."""

    def last_version(self) -> int:
        """Return the highest version, 0 where there is none."""

    def newest(
        self, above: int = 0, unusable: set[int] | None = None, epoch: int | None = None
    ) -> Snapshot | None:
        """Read the newest snapshot above a version, with its epoch those of later epochs as well;
        skip unusable ones and add to them.
        """

    def source_problem(self) -> str:
        """Describe why no newer snapshot comes from elsewhere; empty where none has to come."""

    def heartbeat(self) -> None:
        """Show that the learner is alive."""

    def last_heartbeat(self) -> str | None:
        """Return the last heartbeat, which differs from all before; None if there was none."""

    def heartbeat_pid(self) -> int | None:
        """Return the process id of the learner that gave the last heartbeat."""

    def signs_of_life(self) -> object:
        """Return what changes while a learner works, or waits for another one to leave."""

    def write_status(
        self, state: str, exit_code: int | None = None, reason: str = "", pid: int | None = None
    ) -> None:
        """Publish the state of a learner's process."""

    def read_status(self) -> Status | None:
        """Read the state of the learner's process, None where there is none."""

    def write_condition(self, condition: Condition) -> None:
        """Publish what the learner reports of itself."""

    def read_condition(self) -> Condition:
        """Read what the learner reports of itself, nothing where there is none."""


class Stores(NamedTuple):
    """Both stores of one learner."""

    checkpoints: CheckpointStore
    snapshots: SnapshotStore

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Be the only writer of both, or raise FolderBusy."""
        # An epoch is claimed last: a lock on this machine may be refused ten times a second.
        stores = reversed(self) if self.checkpoints.leader else self
        with ExitStack() as stack:
            for store in stores:
                stack.enter_context(store.lock())
            yield


class Folder(Protocol):
    """The settings of one store on a file system."""

    @property
    def directory(self) -> Path:
        """Where the files are."""

    @property
    def keep(self) -> int:
        """How many files are kept."""


def snapshot_store(snapshots: Folder) -> SnapshotStore:
    """Choose the transport of snapshots, for the learner, the API and the supervisor alike."""
    return FolderSnapshotStore(snapshots.directory, snapshots.keep)


class CheckpointSettings(Protocol):
    """The settings of checkpoints: a folder, or a URL with a folder for copies."""

    @property
    def directory(self) -> Path | str:
        """Where the files are: a folder, or the URL of an object store."""

    @property
    def options(self) -> Mapping[str, Any]:
        """Options of the object store's client."""

    @property
    def folder(self) -> Path:
        """The folder on this machine."""

    @property
    def cache(self) -> Path:
        """The folder for copies of an object store, or of a folder that learners share."""

    @property
    def keep(self) -> int:
        """How many files are kept."""


def make_stores(checkpoints: CheckpointSettings, snapshots: Folder, *, led: bool = False) -> Stores:
    """Make the two stores of one learner; both may be in one folder, but for those that are led."""
    if led:
        return Stores(led_store(checkpoints), snapshot_store(snapshots))
    lock = FolderLock(checkpoints.folder)
    store = _checkpoint_store(checkpoints, checkpoints.folder, lock)
    if checkpoints.folder.resolve() != snapshots.directory.resolve():
        return Stores(store, snapshot_store(snapshots))
    return Stores(store, FolderSnapshotStore(snapshots.directory, snapshots.keep, lock))


def checkpoint_store(checkpoints: CheckpointSettings) -> CheckpointStore:
    """Make the store of the folder on this machine, to see who holds its lock."""
    return FolderCheckpointStore(checkpoints.folder, checkpoints.keep)


def led_store(checkpoints: CheckpointSettings) -> LedCheckpointStore:
    """Make the store of learners that take turns; a folder is used by its URL, with a copy in
    `cache`, too. Commands, pause and audit log stay in `folder`.
    """
    place, copy = checkpoints.directory, checkpoints.cache
    url = place if isinstance(place, str) else f"file://{place.resolve()}"
    remote = RemoteFiles(url, _options(checkpoints))
    return LedCheckpointStore(remote, copy, checkpoints.keep, FolderLock(copy))


@contextmanager
def readable_folder(checkpoints: CheckpointSettings) -> Iterator[Path]:
    """Yield a folder that has all checkpoints: theirs, or a copy of the object store's."""
    if isinstance(checkpoints.directory, Path):
        yield checkpoints.directory
        return
    with TemporaryDirectory() as name:
        folder = Path(name)
        store = _checkpoint_store(checkpoints, folder, FolderLock(folder))
        assert isinstance(store, ObjectCheckpointStore)
        store.fetch()
        yield folder


def _checkpoint_store(
    checkpoints: CheckpointSettings, folder: Path, lock: FolderLock
) -> FolderCheckpointStore:
    if isinstance(checkpoints.directory, Path):
        return FolderCheckpointStore(folder, checkpoints.keep, lock)
    remote = RemoteFiles(checkpoints.directory, _options(checkpoints))
    return ObjectCheckpointStore(remote, folder, checkpoints.keep, lock)


def _options(checkpoints: CheckpointSettings) -> dict[str, Any]:
    return {key: reveal(value) for key, value in checkpoints.options.items()}


def reveal(value: Any) -> Any:
    """Return the value of a secret, without knowing the settings' classes."""
    return value.get_secret_value() if hasattr(value, "get_secret_value") else value
