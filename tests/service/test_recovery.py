"""The learner comes back: after a stop, a crash, a lost broker; or says why it must not."""

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
from confluent_kafka import TopicPartition

from kaboost.service.config.settings import Settings
from kaboost.service.errors import (
    BrokerError,
    CheckpointError,
    Exit,
    Incompatible,
    NotWritten,
    Refused,
)
from kaboost.service.storage import snapshots
from kaboost.service.storage.checkpoints import FolderCheckpointStore
from kaboost.service.storage.snapshots import FolderSnapshotStore
from tests.kafka.broker import Broker, Reachable
from tests.kafka.client import PATIENCE, admin, create_topic, encode, produce
from tests.ports import free_port
from tests.service import serving
from tests.service.learning import (
    committed,
    events,
    expect_state,
    gauge,
    learn_all,
    learned,
    learning,
    rows,
    saved,
    settings_for,
    until,
)

Make = Callable[..., Settings]
Send = Callable[..., None]


def test_a_stop_writes_a_last_checkpoint_and_a_start_goes_on(
    topic: str, make_settings: Make, send: Send, broker: Reachable
) -> None:
    """Told to stop, the learner leaves nothing unsaved; batches of any size give the same bytes."""
    hourly = {"every_seconds": 3600}
    stream = rows(900)
    for part, batch in enumerate((7, 2000, 100)):
        settings = make_settings(topic, checkpoints=hourly, kafka={"batch_events": batch})
        send(topic, events(stream[300 * part : 300 * (part + 1)]))
        learn_all(settings, 300 * (part + 1))

        assert {0: 300 * (part + 1)} == saved(settings)
        assert 300 * (part + 1) == committed(settings)
    expect_state(settings, stream)


def test_after_a_crash_the_state_is_that_of_an_uninterrupted_run(
    topic: str, make_settings: Make, send: Send
) -> None:
    """What came after the last checkpoint is read again; one that cannot be written ends a stop.

    Nothing is published on the way until it is newer than what was published before.
    """
    settings = make_settings(topic, checkpoints={"every_seconds": 0.05})
    stream = rows(600)
    run = settings.checkpoints.directory / "run-0001"
    with learning(settings) as running:
        send(topic, events(stream[:200]))
        until(lambda: committed(settings) == 200)  # the file has its name earlier
        run.rename(run.with_name("aside"))
        run.touch()  # a file where the folder was: as full a disk as root can have
        send(topic, events(stream[200:400]))
        # It may have learned only some of them when it could not write what it knew.
        until(lambda: learned(settings) > 200 and gauge(settings, "kaboost_learning_paused"))
        begin = time.monotonic()
        with pytest.raises(NotWritten, match="run-0001 cannot be made") as err:
            running.stop()
    assert time.monotonic() - begin < 3.0
    assert Exit.NOT_HELD == err.value.exit_code
    run.unlink()
    run.with_name("aside").rename(run)
    before = FolderSnapshotStore(settings.snapshots.directory).newest()
    assert before is not None

    send(topic, events(stream[400:]))
    learn_all(settings, 600)

    expect_state(settings, stream)
    for path in settings.snapshots.directory.glob("snapshot-*.safetensors"):
        after = snapshots.load(path)
        if after.version > before.version:
            assert after.header["events_learned"] > before.header["events_learned"]


def test_lost_state_is_refused(topic: str, make_settings: Make, send: Send, tmp_path: Path) -> None:
    """Committed offsets without a checkpoint: exit 3, unless a new model is asked for."""
    settings = make_settings(topic)
    stream = rows(100)
    send(topic, events(stream))
    learn_all(settings, 100)
    settings.checkpoints.directory.rename(tmp_path / "lost")
    with learning(settings) as running, pytest.raises(Refused, match="committed offsets") as err:
        running.wait()
    assert Exit.REFUSED == err.value.exit_code

    with learning(settings, cold_start=True) as running:
        until(lambda: learned(settings) == 100 and saved(settings) == {0: 100})
        assert 0 == running.stop()
    expect_state(settings, stream)


def test_a_cold_start_begins_a_new_model_beside_the_old(
    topic: str, make_settings: Make, send: Send
) -> None:
    """The changed model is refused; with --cold-start it learns in a folder of its own.

    It publishes its prior at once though the old model had learned more, and only the first
    start is cold: a supervisor that repeats the flag gets the state back.
    """
    settings = make_settings(topic)
    send(topic, events(rows(100)))
    learn_all(settings, 100)
    spec = {"model": {"rule": "sgb", "bank": {"kind": "linear", "n": 3}, "loss": "logistic"}}
    changed = make_settings(topic, **spec)
    with learning(changed) as running, pytest.raises(Incompatible, match=r"bank\.n is 20") as err:
        running.wait()
    assert Exit.REFUSED == err.value.exit_code

    version = FolderSnapshotStore(changed.snapshots.directory).last_version()
    with learning(changed, cold_start=True) as running:
        until(lambda: FolderSnapshotStore(changed.snapshots.directory).last_version() > version + 1)
        assert 0 == running.stop()
    cold = snapshots.load(changed.snapshots.directory / f"snapshot-{version + 1:012d}.safetensors")
    assert cold.header["cold_start"]
    send(topic, events(rows(50, seed=2)))
    learn_all(changed, 150, cold_start=True, restarts=1)

    assert {0: 150} == saved(changed)
    assert {"run-0001", "run-0002"} == {f.name for f in changed.checkpoints.directory.glob("run*")}


def test_a_new_run_is_published_even_when_the_old_one_knew_more(
    topic: str, make_settings: Make, send: Send
) -> None:
    """A cold start killed before its first snapshot is not taken for the old model behind."""
    settings = make_settings(topic)
    send(topic, events(rows(100)))
    learn_all(settings, 100)
    FolderCheckpointStore(settings.checkpoints.directory).start_run()
    with learning(settings, cold_start=True) as running:
        until(lambda: saved(settings) == {0: 100})
        assert 0 == running.stop()
    directory = settings.snapshots.directory
    for path in directory.glob("snapshot-*.safetensors"):
        if snapshots.load(path).header["run"] == "run-0002":
            path.unlink()
    newest = FolderSnapshotStore(directory).last_version()

    with learning(settings) as running:
        last = until(lambda: FolderSnapshotStore(directory).newest(above=newest))
        assert 0 == running.stop()

    assert ("run-0002", 100) == (last.header["run"], last.header["events_learned"])


def test_a_cold_start_is_kept_until_the_broker_is_there(
    topic: str, make_settings: Make, send: Send
) -> None:
    """A first attempt that finds no broker leaves the wish behind; nothing is begun twice."""
    settings = make_settings(topic)
    stream = rows(100)
    send(topic, events(stream[:60]))
    learn_all(settings, 60)
    nobody = {"bootstrap_servers": f"127.0.0.1:{free_port()}", "broker_timeout": 0.3}
    for restarts in range(2):
        away = learning(make_settings(topic, kafka=nobody), cold_start=True, restarts=restarts)
        with away as running, pytest.raises(BrokerError):
            running.wait()

    version = FolderSnapshotStore(settings.snapshots.directory).last_version()
    with learning(settings, cold_start=True, restarts=2) as running:
        until(lambda: saved(settings) == {0: 60} and learned(settings) == 60)
        assert 0 == running.stop()
    name = f"snapshot-{version + 1:012d}.safetensors"
    prior = snapshots.load(settings.snapshots.directory / name)
    send(topic, events(stream[60:]))
    learn_all(settings, 100, cold_start=True, restarts=3)

    assert ("run-0002", True) == (prior.header["run"], prior.header["cold_start"])
    assert {"run-0001", "run-0002"} == {f.name for f in settings.checkpoints.directory.glob("run*")}
    expect_state(settings, stream)


@pytest.mark.parametrize("options", [{}, {"cold_start": True, "restarts": 1}])
@pytest.mark.parametrize("lost", [False, True])
def test_a_cold_start_killed_before_its_first_checkpoint_goes_on(
    topic: str, make_settings: Make, send: Send, tmp_path: Path, options: Any, lost: bool
) -> None:
    """Its empty folder says that the committed offsets are another model's, which may be lost."""
    settings = make_settings(topic)
    stream = rows(100)
    send(topic, events(stream))
    learn_all(settings, 100)
    assert 100 == committed(settings)
    if lost:
        settings.checkpoints.directory.rename(tmp_path / "lost")
    FolderCheckpointStore(settings.checkpoints.directory).start_run()

    with learning(settings, **options) as running:
        until(lambda: not running.alive or saved(settings) == {0: 100})
        assert 0 == running.stop()

    assert "run-0002" == FolderCheckpointStore(settings.checkpoints.directory).run
    expect_state(settings, stream)


def test_a_cold_start_does_not_need_the_old_checkpoints(
    topic: str, make_settings: Make, send: Send
) -> None:
    """All of them damaged: refused, and with --cold-start they are not even looked at."""
    settings = make_settings(topic)
    stream = rows(100)
    send(topic, events(stream))
    learn_all(settings, 100)
    for path in FolderCheckpointStore(settings.checkpoints.directory).paths():
        path.write_bytes(path.read_bytes()[:-1])
    with learning(settings) as running, pytest.raises(CheckpointError, match="--cold-start"):
        running.wait()

    with learning(settings, cold_start=True) as running:
        until(lambda: FolderCheckpointStore(settings.checkpoints.directory).run == "run-0002")
        until(lambda: not running.alive or saved(settings) == {0: 100})
        assert 0 == running.stop()

    expect_state(settings, stream)


@pytest.mark.parametrize(("cold", "error"), [(True, Refused), (False, NotWritten)])
def test_a_cold_start_that_cannot_be_begun_is_refused(
    topic: str, make_settings: Make, cold: bool, error: type[Exception]
) -> None:
    """A supervisor would start it again, and the next attempt would not know of the wish."""
    settings = make_settings(topic)
    settings.checkpoints.directory.touch()

    pattern = "--cold-start .*checkpoints cannot be made" if cold else "checkpoints cannot be made"
    with learning(settings, cold_start=cold) as running, pytest.raises(error, match=pattern):
        running.wait()


def test_damaged_checkpoints_do_not_count_among_the_kept(
    topic: str, make_settings: Make, send: Send
) -> None:
    """After a fallback the learner keeps as many good ones as it was asked to."""
    settings = make_settings(topic, checkpoints={"keep": 2, "every_seconds": 3600})
    for part in range(2):
        send(topic, events(rows(50, part)))
        learn_all(settings, 50 * (part + 1))
    newest, before = FolderCheckpointStore(settings.checkpoints.directory).paths()
    newest.write_bytes(newest.read_bytes()[:-1])
    send(topic, events(rows(50, 2)))
    learn_all(settings, 150)

    assert [newest, before] == list(FolderCheckpointStore(settings.checkpoints.directory).paths())[
        1:
    ]


def test_a_second_learner_refuses(topic: str, make_settings: Make) -> None:
    """Two writers in one folder would overwrite each other: exit 3, and the first learns on."""
    settings = make_settings(topic, checkpoints={"lock_timeout": 0.1})
    with learning(settings) as first:
        until(lambda: learned(settings) == 0)
        with learning(settings) as second, pytest.raises(Refused, match=str(os.getpid())):
            second.wait()

        assert first.alive
        assert 0 == first.stop()


def test_a_gap_is_refused(topic: str, make_settings: Make, send: Send, broker: Reachable) -> None:
    """Retention went past the checkpoint while nobody learned: exit 3."""
    settings = make_settings(topic)
    send(topic, events(rows(100)))
    learn_all(settings, 100)
    send(topic, events(rows(100)))
    client, at = admin(broker.bootstrap), TopicPartition(topic, 0, 150)
    client.delete_records([at])[at].result(30)
    with learning(settings) as running, pytest.raises(Refused, match="goes on at 100") as err:
        running.wait()

    assert Exit.REFUSED == err.value.exit_code


def test_a_gap_does_not_cost_what_was_learned(
    tmp_path: Path, topic: str, send: Send, broker: Reachable
) -> None:
    """Trap: what was learned since the last checkpoint is in no topic any more, so the learner that
    finds a gap writes checkpoint and snapshot before it ends.
    """
    kafka = {"bootstrap_servers": broker.bootstrap, "topic": topic, "group_id": topic}
    rarely = {"every_seconds": 3600}
    wanted = serving.settings(tmp_path, kafka=kafka, checkpoints=rarely, snapshots=rarely)
    stream = [encode(serving.ROW, k % 2) for k in range(300)]
    client, at = admin(broker.bootstrap), TopicPartition(topic, 0, 250)
    with serving.running("learner", wanted) as program:
        until(lambda: program.events("learner ready"))
        send(topic, stream[:100])
        until(lambda: gauge(wanted, "kaboost_events_learned_total") == 100)
        program.process.suspend()
        until(lambda: program.process.status() == psutil.STATUS_STOPPED)
        send(topic, stream[100:101])  # a request that is on its way takes this one
        send(topic, stream[101:])
        client.delete_records([at])[at].result(30)
        program.process.resume()

        assert Exit.REFUSED == program.process.wait(PATIENCE)

    next_offset = saved(wanted)[0]
    assert next_offset in (100, 101)
    assert next_offset == learned(wanted)
    status = FolderSnapshotStore(wanted.snapshots.directory).read_status()
    assert status is not None
    assert f"the state goes on at {next_offset}: events between were deleted" in status.reason


def test_latest_is_resolved_once(topic: str, make_settings: Make, send: Send) -> None:
    """Trap: what is written between two starts from `latest` is learned."""
    settings = make_settings(topic, kafka={"start_from": "latest"})
    send(topic, events(rows(10)))
    learn_all(settings, 0)
    assert {0: 10} == saved(settings)
    stream = rows(20, seed=2)
    send(topic, events(stream))
    learn_all(settings, 20)

    expect_state(settings, stream)


def test_a_broker_that_dies_is_waited_for(own_broker: Broker, tmp_path: Path) -> None:
    """Killed and started again, it gets all events learned; gone for good, it is exit 4."""
    topic = create_topic(own_broker.bootstrap)
    settings = settings_for(own_broker.bootstrap, tmp_path, topic, kafka={"broker_timeout": 20.0})
    stream = rows(400)
    with learning(settings) as running:
        produce(own_broker.bootstrap, topic, events(stream[:200]))
        until(lambda: learned(settings) == 200)
        own_broker.kill()
        own_broker.start()
        produce(own_broker.bootstrap, topic, [*events(stream[200:]), b"{"])
        until(lambda: saved(settings) == {0: 401})
        own_broker.kill()
        with pytest.raises(BrokerError) as err:
            running.wait()

    assert Exit.BROKER == err.value.exit_code
    expect_state(settings, stream)
