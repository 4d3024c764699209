"""Versions of the model go on, whatever becomes of the folder of snapshots."""

import time
from collections.abc import Callable
from pathlib import Path
from shutil import rmtree
from typing import Any

import pytest

from kaboost.service.config.settings import Settings
from kaboost.service.http.follower import Follower
from kaboost.service.http.newest_version import WorkerVersions
from kaboost.service.learner.numbering import RESERVED_VERSIONS
from kaboost.service.storage.snapshots import FolderSnapshotStore, Numbering
from tests.kafka.broker import Reachable
from tests.kafka.client import encode
from tests.service.learning import events, learn_all, learning, rows, until
from tests.service.serving import ROW, Program, publish, running, settings, taught

Send = Callable[..., None]


def empty(folder: Path) -> None:
    """Remove everything in a folder, as someone who cleans up."""
    for path in folder.iterdir():
        path.unlink()


def numbering(settings: Settings) -> Numbering:
    """Return the numbering of the newest snapshot; 0 without one."""
    found = FolderSnapshotStore(settings.snapshots.directory).newest()
    return found.numbering if found else Numbering()


def test_an_emptied_folder_is_filled_again(
    tmp_path: Path, topic: str, broker: Reachable, send: Send
) -> None:
    """Trap: without an event there was no new snapshot, and then one of version 1, which workers
    took for an old one. A killed worker, too, serves no older version than was served before.
    """
    kafka = {"bootstrap_servers": broker.bootstrap, "topic": topic, "group_id": topic}
    wanted = settings(tmp_path, kafka=kafka, api={"workers": 2})
    seen: list[int] = []

    def version(program: Program) -> int:
        """Ask over a new connection, so that each worker is met."""
        program.reconnect()
        seen.append(program.predict()["model"]["version"])
        return seen[-1]

    with running("serve", wanted) as program:
        program.ready()
        for k in range(5):
            send(topic, [encode(ROW, j % 2) for j in range(10)])
            until(lambda k=k: program.events_learned() == 10 * (k + 1))
        until(lambda: len({version(program) for _ in range(8)}) == 1)  # both workers have it
        before = seen[-1]
        epoch = program.client.get("/model").json()["epoch"]
        empty(wanted.snapshots.directory)
        until(lambda: version(program) > before)
        for role in ("api-0", "api-1"):
            program.child(role).kill()
            until(lambda role=role: len(program.events("process running", role=role)) == 2)
            version(program)
        send(topic, [encode(ROW, j % 2) for j in range(10)])
        until(lambda: program.events_learned() == 60)
        until(lambda: version(program) > before + 1)

    assert before > 4
    assert epoch > 1_700_000_000
    assert sorted(seen) == seen
    assert program.events("the newest snapshot was removed, it is published again")


@pytest.mark.parametrize("cold_start", [False, True])
def test_versions_go_on_from_the_checkpoint(
    topic: str, make_settings: Callable[..., Settings], send: Send, cold_start: bool
) -> None:
    """Emptied while nobody learned: above all that may have been published since the checkpoint;
    also those of a new model.
    """
    wanted = make_settings(topic)
    send(topic, events(rows(100)))
    learn_all(wanted, 100)
    before = numbering(wanted)
    empty(wanted.snapshots.directory)
    with learning(wanted, cold_start=cold_start) as learner:
        until(lambda: numbering(wanted).version)
        assert 0 == learner.stop()
    after = numbering(wanted)
    learn_all(wanted, 100)

    assert before.epoch == after.epoch > 0
    assert before.version + RESERVED_VERSIONS < after.version
    assert after.version <= numbering(wanted).version < after.version + 10


def test_a_new_epoch_is_no_old_version(
    topic: str, make_settings: Callable[..., Settings], send: Send
) -> None:
    """All files lost, a new model begins at version 1: workers that serve a higher one take it."""
    wanted = make_settings(topic)
    send(topic, events(rows(100)))
    learn_all(wanted, 100)
    first, numbered = follow(wanted), numbering(wanted)
    for folder in (wanted.snapshots.directory, wanted.checkpoints.directory):
        rmtree(folder)
    until(lambda: time.time() > numbered.epoch + 1)  # epochs are whole seconds
    learn_all(make_settings(topic, kafka={"group_id": f"{topic}-2"}), 100)

    assert numbered.epoch < served(first).epoch
    assert numbering(wanted) == served(first)


def follow(wanted: Settings, versions: WorkerVersions | None = None) -> Follower:
    """Make a worker's follower that has read the newest snapshot."""
    follower = Follower(wanted, versions)
    follower.refresh()
    return follower


def test_workers_compare_epochs_before_versions(tmp_path: Path) -> None:
    """A lower version of a later epoch is newer, a higher one of an earlier epoch is older: for a
    worker that has served both, and for one that has just started.
    """
    wanted = settings(tmp_path)
    model, folder = taught(wanted), wanted.snapshots.directory
    for _ in range(3):
        publish(wanted, model, epoch=7)
    versions = WorkerVersions()
    worker = follow(wanted, versions)
    old = (folder / "snapshot-000000000003.safetensors").read_bytes()
    announced = versions.newest
    empty(folder)
    publish(wanted, model, epoch=8)

    assert Numbering(8, 1) == served(worker)
    assert versions.newest > announced
    (folder / "snapshot-000000000003.safetensors").write_bytes(old)  # from a backup
    assert Numbering(8, 1) == served(worker) == served(follow(wanted))
    publish(wanted, model, epoch=8)
    assert Numbering(8, 4) == served(worker)


def served(follower: Follower) -> Any:
    """Look for a newer snapshot; return the numbering of the one that is served."""
    found, _ = follower.refresh()
    assert found is not None
    return found.snapshot.numbering
