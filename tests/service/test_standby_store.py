"""The store of learners that take turns: what comes late, what was left, and who signs."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from kaboost.models.model import Model
from kaboost.service.config.stores import Checkpoints, Snapshots
from kaboost.service.errors import FolderBusy, NotWritten, StoreAway, Superseded
from kaboost.service.storage.led_store import CLAIMS, LedCheckpointStore
from kaboost.service.storage.lock import FolderLock
from kaboost.service.storage.object_store import WRITER, RemoteFiles
from kaboost.service.storage.snapshots import FolderSnapshotStore
from kaboost.service.storage.state import State
from kaboost.service.storage.stores import make_stores
from tests.specs import LINEAR

Open = Callable[[str], LedCheckpointStore]


@pytest.fixture(params=["memory", "folder"])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Open:
    """Open the store as the learner of a name does: `opened("a")`."""
    url = f"memory://{tmp_path}" if request.param == "memory" else f"file://{tmp_path / 'shared'}"

    def make(name: str) -> LedCheckpointStore:
        folder = tmp_path / name
        return LedCheckpointStore(RemoteFiles(url, {}), folder, 3, FolderLock(folder))

    return make


def state(count: int = 1) -> State:
    """Return a state that has read some events."""
    return State.initial(Model("binary", LINEAR, {"x": "number"}), {0: count})


def numbers(store: LedCheckpointStore) -> list[int]:
    """List the numbers of the checkpoints in the store."""
    return [int(name[-24:-12]) for name in store._remote.names() if "checkpoint-" in name]


def write(store: LedCheckpointStore, *counts: int) -> None:
    """Write a checkpoint for each count of events."""
    for count in counts:
        store.write({"leader_epoch": store.leader_epoch}, state(count))


def overtaken(
    monkeypatch: pytest.MonkeyPatch, method: str, old: LedCheckpointStore, new: LedCheckpointStore
) -> None:
    """Let another learner lead, and write, while a leader is about to call a method."""
    call = getattr(old, method, None) or getattr(old._remote, method)
    owner = old if hasattr(old, method) else old._remote

    def late(*args: object) -> object:
        monkeypatch.setattr(owner, method, call)
        with new.lock():
            write(new, 11, 12, 13, 14)
        return call(*args)

    monkeypatch.setattr(owner, method, late)


@pytest.mark.parametrize("method", ["_prune", "create"])
def test_a_late_leader_removes_nothing_newer(
    method: str, opened: Open, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Whether it stands still before its checkpoint is sent, or before older ones are removed."""
    old, new = opened("a"), opened("b")
    with old.lock():
        write(old, 1, 2, 3)
        overtaken(monkeypatch, method, old, new)
        if method == "create":  # its number is free again
            with pytest.raises(Superseded):
                write(old, 4)
        else:
            write(old, 4)

    assert {"_prune": [6, 7, 8], "create": [4, 5, 6, 7]}[method] == numbers(new)
    third = opened("c")
    with third.lock():
        checkpoint, _ = third.restore()
        write(third, 15)
    assert checkpoint is not None
    assert {0: 14} == checkpoint.state.offsets
    assert 3 == len(numbers(third))


def test_a_late_signature_does_not_end_the_leader(opened: Open) -> None:
    """The leader signs again; one without an epoch, of a learner alone, ends it."""
    old, new = opened("a"), opened("b")
    with old.lock(), new.lock():
        new._remote.put(WRITER, old._claim())
        write(new, 1)
        assert 2 == json.loads(new._remote.get(WRITER))["epoch"]
        with pytest.raises(Superseded):
            old.require_leader()
        new._remote.put(WRITER, b'{"id": "x", "holder": "process 7"}')
        with pytest.raises(FolderBusy, match="process 7") as caught:
            write(new, 2)

    assert not isinstance(caught.value, Superseded)


def test_epochs_go_on_without_their_claims(opened: Open) -> None:
    """As after a lifecycle rule: readers would refuse what epoch 1 writes."""
    for name in "abc":
        store = opened(name)
        with store.lock():
            write(store, 1)
    for name in [*filter(lambda name: name.startswith(CLAIMS), store._remote.names()), WRITER]:
        store._remote.remove(name)
    with opened("d").lock(), (last := opened("e")).lock():
        checkpoint, _ = last.restore()

    assert checkpoint is not None
    assert (3, 5) == (checkpoint.header["leader_epoch"], last.leader_epoch)


def test_left_over_runs_are_removed(opened: Open, tmp_path: Path) -> None:
    """An empty one would begin a new model; a file of the same name may be of another model."""
    store = opened("a")
    with store.lock():
        write(store, 1)
    other = opened("b")
    left = tmp_path / "b" / "run-0001" / "checkpoint-000000000001.safetensors"
    (tmp_path / "b" / "run-0003").mkdir(parents=True)
    left.parent.mkdir()
    left.write_bytes(b"of another model")
    other.clear()
    (tmp_path / "b" / "run-0002").mkdir()
    with other.lock():
        checkpoint, damaged = other.restore()

    assert checkpoint is not None
    assert ("run-0001", False, 0) == (other.run, other.is_new_run(), damaged)


def test_temporary_files_stay_where_they_are(opened: Open, tmp_path: Path) -> None:
    """They are of a process that was killed: not copied, and removed with the old checkpoints."""
    store = opened("a")
    name = "run-0001/.checkpoint-000000000001.safetensors.7b1f.tmp"
    with store.lock():
        write(store, 1)
        store._remote.put(name, b"half")
        store.follow()
        assert not (tmp_path / "a" / name).exists()
        write(store, 2, 3)
        assert name in store._remote.names()
        write(store, 4)
        assert name not in store._remote.names()


def test_a_folder_that_cannot_be_written_is_named(
    opened: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk is no bug: the learner stands by again."""

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with (store := opened("a")).lock():
        write(store, 1)
    monkeypatch.setattr("kaboost.service.storage.files.replace", fail)
    with pytest.raises(NotWritten, match=r"checkpoints\.cache.*No space left"):
        opened("b").follow()


def test_no_epoch_is_claimed_while_a_folder_is_locked(tmp_path: Path) -> None:
    """The lock of the snapshots is asked for ten times a second."""
    checkpoints = Checkpoints(directory=tmp_path / "shared", cache=tmp_path / "cache")
    snapshots = Snapshots(directory=tmp_path / "snapshots")
    stores = make_stores(checkpoints, snapshots, led=True)
    with FolderLock(tmp_path / "snapshots"), pytest.raises(FolderBusy), stores.lock():
        pass

    assert not (tmp_path / "shared").exists()


def test_a_shared_folder_keeps_its_commands(tmp_path: Path) -> None:
    """They are sent to the folder of the settings; checkpoints are copied to the cache."""
    checkpoints = Checkpoints(directory=tmp_path / "shared", cache=tmp_path / "cache")
    stores = make_stores(checkpoints, Snapshots(directory=tmp_path / "snapshots"), led=True)
    with stores.lock():
        stores.checkpoints.write({}, state())

    name = "run-0001/checkpoint-000000000001.safetensors"
    assert tmp_path / "shared" == checkpoints.folder
    assert (tmp_path / "shared" / name).read_bytes() == (tmp_path / "cache" / name).read_bytes()


def test_an_object_that_exists_is_seen_whatever_the_store_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some stores answer a taken name with an error of their own; other failures stay failures."""
    remote = RemoteFiles(f"memory://{tmp_path}", {}, tries=1)
    assert remote.create("a", b"first")

    def fail(*_: object, **__: object) -> None:
        raise OSError(22, "PreconditionFailed")

    monkeypatch.setattr(remote._fs, "pipe_file", fail)

    assert remote.create("a", b"first")
    assert not remote.create("a", b"second")
    with pytest.raises(StoreAway, match="PreconditionFailed"):
        remote.create("b", b"first")


def test_a_condition_of_a_newer_learner_is_read(tmp_path: Path) -> None:
    """Readers of the version before show what they know of it."""
    (tmp_path / ".condition.json").write_text('{"paused": "by a test", "unheard_of": 1}')

    assert "by a test" == FolderSnapshotStore(tmp_path).read_condition().paused
