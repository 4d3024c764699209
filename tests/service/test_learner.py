"""The learner on a real broker: every event once in the state, whatever happens in between."""

import random
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import psutil
import pytest
from confluent_kafka.admin import NewPartitions

from kaboost.service.config.settings import Settings
from kaboost.service.demo import mock_broker as mockbroker
from kaboost.service.errors import ConfigError
from kaboost.service.kafka import consumer
from kaboost.service.kafka.dead_letters import MAX_PENDING_BYTES
from kaboost.service.processes.children import child_environment
from kaboost.service.storage import files
from kaboost.service.storage.heartbeat import HeartbeatAge
from kaboost.service.storage.snapshots import FolderSnapshotStore
from tests.kafka.broker import Reachable
from tests.kafka.client import PATIENCE, Letter, admin, create_topic, encode, produce
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
POISON = [b"{", None, b"[]", encode({"x": "one"}, 1), encode({"z": 1}, 1), encode({}, 7)]
CODES = ["json", "null_value", "schema", "feature_type", "feature_unknown", "label"]


def test_a_first_start_publishes_the_prior_and_learns(
    topic: str, make_settings: Make, send: Send
) -> None:
    """Version 1 is the prior; then every event is in the state, once and in order."""
    settings = make_settings(topic)
    stream = rows(1000)
    with learning(settings) as running:
        first = until(lambda: FolderSnapshotStore(settings.snapshots.directory).newest())
        send(topic, events(stream))
        until(lambda: learned(settings) == 1000)
        assert 0 == running.stop()

    header = first.header
    assert (1, True, 0) == (first.version, header["cold_start"], header["events_learned"])
    last = FolderSnapshotStore(settings.snapshots.directory).newest()
    assert last is not None
    assert not last.header["cold_start"]
    assert {"0": 1000} == last.header["offsets"]
    expect_state(settings, stream)


def test_offsets_are_committed_after_the_checkpoint_is_durable(
    topic: str, make_settings: Make, send: Send, broker: Reachable
) -> None:
    """Trap: lag tools still need the group's offsets; they never stand before the checkpoint's."""
    settings = make_settings(topic, checkpoints={"every_seconds": 0.05})
    seen = []
    with learning(settings) as running:
        for part in range(10):
            send(topic, events(rows(50, part)))
            shown = committed(settings)
            seen.append((shown, saved(settings).get(0, -1)))
        until(lambda: committed(settings) == 500)
        assert 0 == running.stop()

    assert [pair for pair in seen if pair[0] > pair[1]] == []


def test_a_metrics_port_in_use_is_a_configuration_error(topic: str, make_settings: Make) -> None:
    """Said at once, with the setting's name."""
    settings = make_settings(topic)
    with learning(settings) as first:
        until(lambda: learned(settings) == 0)
        other = {"directory": str(settings.snapshots.directory.with_name("other"))}
        second = make_settings(
            topic, snapshots=other, checkpoints=other, metrics={"port": settings.metrics.port}
        )
        with learning(second) as running, pytest.raises(ConfigError, match=r"metrics\.port"):
            running.wait()
        assert 0 == first.stop()


def test_unusable_events_are_dead_letters_and_teach_nothing(
    topic: str, make_settings: Make, send: Send, dead_letters: Callable[..., list[Letter]]
) -> None:
    """Each comes out as it went in, with its code; the state is that of the good ones alone."""
    settings = make_settings(topic)
    stream = rows(300)
    good = events(stream)
    mixed: list[bytes | None] = []
    for number, value in enumerate(good):
        mixed += [value, POISON[number % len(POISON)]]
    send(topic, mixed, key=b"k", headers=[("a", b"1"), ("a", b"2")])
    learn_all(settings, 300)
    letters = dead_letters(topic, 300)

    assert mixed[1::2] == [letter.value for letter in letters]
    assert CODES * 50 == [letter.code for letter in letters]
    assert [(topic, 0, offset) for offset in range(1, 600, 2)] == [one.origin for one in letters]
    assert {b"k"} == {letter.key for letter in letters}
    assert all(letter.headers[:2] == [("a", b"1"), ("a", b"2")] for letter in letters)
    assert {0: 600} == saved(settings)
    expect_state(settings, stream)


def test_many_dead_letters_are_told_again(
    topic: str, make_settings: Make, send: Send, caplog: pytest.LogCaptureFixture
) -> None:
    """A stream of which nothing can be used is no quiet one: the hundredth says so."""
    send(topic, [b"{"] * 120 + events(rows(1)))
    learn_all(make_settings(topic), 1)
    messages = [one.message for one in caplog.records if one.message.startswith("dead letter")]

    assert ["dead letter, the first of its code", "dead letter, number 100 of its code"] == messages


def test_learning_pauses_until_dead_letters_can_be_written(
    topic: str,
    make_settings: Make,
    send: Send,
    broker: Reachable,
    dead_letters: Callable[..., list[Letter]],
) -> None:
    """Rather late than lost: no checkpoint passes a dead letter that is not confirmed.

    Trap: a paused partition stays paused; it is resumed by itself when the topic is there.
    """
    slow = {"create_dlq": False, "dlq_timeout": 0.3}  # nobody creates the topic
    settings = make_settings(topic, kafka=slow, checkpoints={"every_seconds": 0.05})
    stream = rows(300)
    good = events(stream)
    with learning(settings) as running:
        send(topic, good[:100])
        until(lambda: saved(settings) == {0: 100})
        send(topic, [*good[100:150], b"{", *good[150:200]])
        until(lambda: gauge(settings, "kaboost_learning_paused") == 1.0)
        stood = gauge(settings, "kaboost_events_learned_total") or 0.0
        send(topic, good[200:])
        lag = f'kaboost_consumer_lag_records{{partition="0",topic="{topic}"}}'
        read = gauge(settings, "kaboost_events_consumed_total") or 0.0
        until(lambda: gauge(settings, lag) == 301 - read)  # the client itself knows 201
        behind = saved(settings)[0]
        assert 150.0 <= stood <= 200.0  # a batch need not be all that was sent
        assert gauge(settings, "kaboost_events_learned_total") == stood

        create_topic(broker.bootstrap, name=f"{topic}.dlq")
        until(lambda: gauge(settings, "kaboost_learning_paused") == 0.0)
        until(lambda: saved(settings) == {0: 301})
        assert 0 == running.stop()

    assert behind <= 150
    assert [(b"{", "json")] == [(one.value, one.code) for one in dead_letters(topic, 1)]
    expect_state(settings, stream)


def test_a_large_dead_letter_is_no_pause(
    make_topic: Callable[..., str],
    make_settings: Make,
    send: Send,
    dead_letters: Callable[..., list[Letter]],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """More than MAX_PENDING_BYTES on its way: reading waits for it, which is no error."""
    topic = make_topic(config={"max.message.bytes": "30000000"})
    settings = make_settings(topic, kafka={"dlq_timeout": 60.0})
    large = random.Random(1).randbytes(MAX_PENDING_BYTES + 1)
    paused: list[float] = []

    def done() -> bool:
        paused.append(gauge(settings, "kaboost_learning_paused") or 0.0)
        return learned(settings) == 100

    with learning(settings) as running:
        until(lambda: learned(settings) == 0)
        send(topic, [large, *events(rows(100))], client={"message.max.bytes": 30_000_000})
        until(done)
        assert 0 == running.stop()

    assert {0.0} == set(paused)
    assert [large] == [letter.value for letter in dead_letters(topic, 1)]
    assert "learning paused" not in [record.message for record in caplog.records]


def test_a_stop_while_paused_does_not_pass_the_dead_letter(
    topic: str,
    make_settings: Make,
    send: Send,
    broker: Reachable,
    dead_letters: Callable[..., list[Letter]],
) -> None:
    """The last checkpoint is left out: the next start reads the dead letter again."""
    slow = {"create_dlq": False, "dlq_timeout": 0.3}
    settings = make_settings(topic, kafka=slow, checkpoints={"every_seconds": 0.05})
    stream = rows(100)
    send(topic, [*events(stream[:50]), b"{", *events(stream[50:])])
    with learning(settings) as running:
        until(lambda: gauge_or_none(settings) == 1.0)
        assert 0 == running.stop()
    assert saved(settings)[0] <= 50
    create_topic(broker.bootstrap, name=f"{topic}.dlq")

    with learning(settings) as running:
        until(lambda: saved(settings) == {0: 101})
        assert 0 == running.stop()

    assert [(b"{", "json")] == [(one.value, one.code) for one in dead_letters(topic, 1)]
    expect_state(settings, stream)


def test_learning_pauses_until_a_checkpoint_can_be_written(
    topic: str, make_settings: Make, send: Send, caplog: pytest.LogCaptureFixture
) -> None:
    """Rather late than twice: it is tried again each second, counted, told once, and goes on."""
    settings = make_settings(topic, checkpoints={"every_seconds": 0.05})
    stream = rows(300)
    run = settings.checkpoints.directory / "run-0001"
    failures = 'kaboost_checkpoint_failures_total{reason="not_written"}'
    with learning(settings) as running:
        send(topic, events(stream[:100]))
        until(lambda: committed(settings) == 100)  # the file has its name earlier
        assert gauge(settings, failures) == 0.0
        run.rename(run.with_name("aside"))
        run.touch()  # a file where the folder was: as full a disk as root can have
        send(topic, events(stream[100:200]))
        until(lambda: gauge(settings, "kaboost_learning_paused") == 1.0)
        stood = gauge(settings, "kaboost_events_learned_total") or 0.0
        send(topic, events(stream[200:]))
        begin = time.monotonic()
        until(lambda: (gauge(settings, failures) or 0.0) >= 3.0)
        assert time.monotonic() - begin > 1.0
        assert 100.0 < stood <= 200.0  # a batch need not be all that was sent
        assert gauge(settings, "kaboost_events_learned_total") == stood

        run.unlink()
        run.with_name("aside").rename(run)
        until(lambda: saved(settings) == {0: 300})
        until(lambda: gauge(settings, "kaboost_learning_paused") == 0.0)
        assert 0 == running.stop()

    messages = [record.message for record in caplog.records if record.levelname == "ERROR"]
    assert ["checkpoint not written, it is tried again", "learning paused"] == messages
    expect_state(settings, stream)


def test_learning_goes_on_while_snapshots_cannot_be_written(
    topic: str, make_settings: Make, send: Send, caplog: pytest.LogCaptureFixture
) -> None:
    """Predictions stay on the older version, told once, until there is room again."""
    settings = make_settings(topic)
    stream = rows(300)
    with learning(settings) as running:
        until(lambda: learned(settings) == 0)
        block = settings.snapshots.directory / ".snapshot-000000000002.safetensors.tmp"
        block.mkdir()  # as full a disk as root can have
        for part in range(3):
            send(topic, events(stream[100 * part : 100 * (part + 1)]))
            until(lambda: saved(settings) == {0: 100 * (part + 1)})  # noqa: B023
            time.sleep(0.5)
        assert 0 == learned(settings)
        assert gauge(settings, "kaboost_learning_paused") == 0.0
        failures = 'kaboost_snapshot_failures_total{reason="not_written"}'
        assert (gauge(settings, failures) or 0.0) >= 1.0

        block.rmdir()
        until(lambda: learned(settings) == 300)
        assert 0 == running.stop()

    messages = [record.message for record in caplog.records if record.levelname == "ERROR"]
    assert ["snapshot not written, it is tried again"] == messages
    expect_state(settings, stream)


def test_the_prior_is_published_as_soon_as_there_is_room(
    make_settings: Make, broker: Reachable
) -> None:
    """Not even the first snapshot ends the learner, and a late one is the prior still."""
    settings = make_settings(f"late-{uuid.uuid4().hex}")
    folder = settings.snapshots.directory
    with learning(settings) as running:
        until(lambda: FolderSnapshotStore(folder).last_heartbeat() is not None)
        block = folder / ".snapshot-000000000001.safetensors.tmp"
        block.mkdir()
        create_topic(broker.bootstrap, name=settings.kafka.topic)
        until(lambda: not running.alive or saved(settings) == {0: 0})
        time.sleep(0.3)
        assert 0 == FolderSnapshotStore(folder).last_version()
        block.rmdir()
        prior = until(lambda: not running.alive or FolderSnapshotStore(folder).newest())
        assert 0 == running.stop()

    assert prior.header["cold_start"]


def test_a_slow_disk_leaves_the_heartbeat(
    topic: str, make_settings: Make, send: Send, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An fsync that takes seconds: heartbeats go on, and the reason is there."""
    settings = make_settings(topic)
    store, held = FolderSnapshotStore(settings.snapshots.directory), threading.Event()
    sync = files.sync

    def slow(descriptor: int) -> None:
        held.wait(PATIENCE)
        sync(descriptor)

    with learning(settings) as running:
        until(lambda: learned(settings) == 0)
        monkeypatch.setattr(files, "sync", slow)
        try:
            send(topic, events(rows(100)))
            until(lambda: "is being written" in store.read_condition().stalled)
            heartbeats = {store.last_heartbeat()}
            until(lambda: len(heartbeats) > 3 or heartbeats.add(store.last_heartbeat()))
        finally:
            held.set()
        until(lambda: saved(settings) == {0: 100})
        until(lambda: not store.read_condition().stalled)
        assert 0 == running.stop()


HOUR = 3600


def test_time_to_a_snapshot_is_that_of_the_first_event_learned(
    topic: str, make_settings: Make, broker: Reachable
) -> None:
    """Neither a dead letter nor an event of weight 0 has waited; an event's own time goes first.

    A timestamp of the year 1 is learned, and leaves the sum as it is.
    """
    settings = make_settings(topic)
    (features, label), now = rows(1)[0], time.time()
    event = encode(features, label)
    dated = encode(features, label, timestamp=(now - HOUR) * 1000)
    idle = [b"{", encode(features, label, weight=0)]
    delay, sums = "kaboost_event_to_snapshot_seconds", [0.0]
    with learning(settings) as running:
        until(lambda: learned(settings) == 0)
        produce(broker.bootstrap, topic, idle, timestamp=int(now - 3 * HOUR) * 1000)
        for value, age in ((event, 0), (dated, 0), (event, 2)):
            produce(broker.bootstrap, topic, [value], timestamp=int(now - age * HOUR) * 1000)
            until(lambda: gauge(settings, f"{delay}_count") == len(sums))
            sums.append(gauge(settings, f"{delay}_sum") or 0.0)
        ancient = encode(features, label, timestamp="0001-01-01T00:00:00Z")
        produce(broker.bootstrap, topic, [ancient])
        until(lambda: learned(settings) == 4)
        assert sums[-1] == gauge(settings, f"{delay}_sum")
        assert 0 == running.stop()

    assert [0, 1, 2] == [round((after - before) / HOUR) for before, after in pairwise(sums)]


def gauge_or_none(settings: Settings) -> float | None:
    """Read the pause while the port may not be open yet."""
    try:
        return gauge(settings, "kaboost_learning_paused")
    except OSError:
        return None


def test_several_partitions_and_new_ones(
    make_topic: Callable[..., str],
    make_settings: Make,
    send: Send,
    broker: Reachable,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One learner reads all partitions; the checkpoint has a number for each, empty ones too."""
    monkeypatch.setattr(consumer, "REFRESH_SECONDS", 0.2)
    topic = make_topic(partitions=3)
    settings = make_settings(topic)
    client = admin(broker.bootstrap)
    for partition in range(2):
        send(topic, events(rows(100, partition)), partition=partition)
    with learning(settings) as running:
        until(lambda: learned(settings) == 200)
        client.create_partitions([NewPartitions(topic, 4)])[topic].result(30)
        until(lambda: len(client.list_topics(topic).topics[topic].partitions) == 4)
        send(topic, events(rows(100, 3)), partition=3)
        until(lambda: learned(settings) == 300)
        assert 0 == running.stop()

    assert {0: 100, 1: 100, 2: 0, 3: 100} == saved(settings)


def test_the_mock_cluster_will_do(tmp_path: Path) -> None:
    """The demo's embedded broker: it creates topics by itself, but none on request."""
    stream = rows(300)
    with mockbroker.running(child_environment()) as address:
        produce(address, "t", events(stream[:100]))
        extra = {"fetch.wait.max.ms": 10}
        kafka = {"create_dlq": False, "extra": extra}
        settings = settings_for(address, tmp_path, "t", kafka=kafka)
        with learning(settings) as running:
            until(lambda: learned(settings) == 100)
            produce(address, "t", [*events(stream[100:]), b"{"])
            until(lambda: learned(settings) == 300 and saved(settings)[0] == 301)
            assert 0 == running.stop()

    assert {0: 301, 1: 0, 2: 0, 3: 0} == saved(settings)
    expect_state(settings, stream)


def test_a_sign_of_life_each_second(make_settings: Make) -> None:
    """While it waits for its topic, too; told to stop it is done at once, with nothing written."""
    settings = make_settings("never-there")
    folder = settings.snapshots.directory
    with learning(settings) as running:
        until(lambda: FolderSnapshotStore(folder).last_heartbeat() is not None)
        age = HeartbeatAge(FolderSnapshotStore(folder).last_heartbeat)
        for _ in range(10):
            seconds = age.seconds()
            assert seconds is not None
            assert seconds < 2.5
            time.sleep(0.2)
        assert 0 == running.stop()

    assert 0 == FolderSnapshotStore(folder).last_version()


def test_memory_stays_flat_behind_a_backlog(topic: str, tmp_path: Path, broker: Reachable) -> None:
    """Trap: with the client's default queue a learner stands at 290 MB; ours is flat and below."""
    settings = settings_for(broker.bootstrap, tmp_path, topic)
    values = events(rows(2000))
    padded = [value[:-1] + b', "note": "' + b"x" * 300 + b'"}' for value in values]
    for _ in range(150):
        produce(broker.bootstrap, topic, padded)
    code = (
        "import sys, threading, pathlib\n"
        "from kaboost.service.config import settings as config\n"
        "from kaboost.service.learner.run import run\n"
        "settings = config.load(pathlib.Path(sys.argv[1]))\n"
        "run(settings, cold_start=False, stop=threading.Event())\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path / "kaboost.json")],
        cwd=Path(__file__).parents[2],
    )
    sizes: list[tuple[int, float]] = []
    try:

        def finished() -> bool:
            sizes.append((learned(settings), psutil.Process(process.pid).memory_info().rss / 1e6))
            return sizes[-1][0] >= 300_000

        until(finished)
    finally:
        process.terminate()
        process.wait()

    print(sizes[::10])
    assert max(size for _, size in sizes) < 300
    early = max(size for count, size in sizes if 0 < count < 150_000)
    late = max(size for count, size in sizes if count >= 150_000)
    assert late < early + 30
