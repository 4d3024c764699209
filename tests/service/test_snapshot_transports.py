"""Snapshots by a topic and by object stores: only whole and newer ones reach a reader's folder."""

import logging
import uuid
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from moto.server import ThreadedMotoServer

from kaboost.service.errors import StoreAway
from kaboost.service.http.follower import Follower
from kaboost.service.kafka import snapshot_topic
from kaboost.service.kafka.snapshot_topic import TopicSource
from kaboost.service.learner.snapshot_sender import Sender
from kaboost.service.processes.readers import open_source
from kaboost.service.storage.manifest import LearnerFiles, Manifest, SnapshotSource, decode
from kaboost.service.storage.mirror import Mirror
from kaboost.service.storage.object_snapshots import ObjectTarget
from kaboost.service.storage.object_store import RemoteFiles
from kaboost.service.storage.snapshots import FolderSnapshotStore, Numbering, Status
from kaboost.service.storage.source_status import SILENT_SECONDS
from tests.kafka.broker import Reachable
from tests.kafka.client import create_topic
from tests.service.learning import until
from tests.service.readers import Learner, newest, options_of, start_s3, version
from tests.service.serving import ROW, settings

Make = Callable[..., tuple[Learner, Callable[..., Mirror]]]
PLACES = ("kafka", "s3", "memory")


class Clock:
    """A monotonic clock that a test moves."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture(scope="module")
def s3() -> Iterator[ThreadedMotoServer]:
    """An S3 server with one bucket."""
    server = start_s3()
    yield server
    server.stop()


@pytest.fixture
def make(tmp_path: Path, broker: Reachable, s3: ThreadedMotoServer) -> Iterator[Make]:
    """Make a learner of one place, and a function that makes readers of it."""
    opened: list[SnapshotSource] = []

    def make(kind: str, name: str = "learner") -> tuple[Learner, Callable[..., Mirror]]:
        own = tmp_path.name + uuid.uuid4().hex[:8]
        place = {"kafka": f"kafka:{own}", "s3": f"s3://models/{own}", "memory": f"memory://{own}"}
        sections: dict[str, Any] = {"kafka": {"bootstrap_servers": broker.bootstrap}}
        sections["snapshots"] = {"options": options_of(s3) if kind == "s3" else {}}
        learner = Learner(tmp_path / name, place[kind], **sections)

        def reader(name: str = "reader", **options: Any) -> Mirror:
            snapshots = learner.settings.snapshots.model_copy(update={"source": place[kind]})
            source = open_source(learner.settings.model_copy(update={"snapshots": snapshots}))
            opened.append(source)
            return Mirror(source, tmp_path / name, keep=3, **options)

        return learner, reader

    yield make
    for source in opened:
        source.close()


def receive(mirror: Mirror, expected: int) -> None:
    """Let a mirror look until it has a version."""

    def has() -> bool:
        mirror.step()
        return version(mirror) == expected

    until(has)


@pytest.mark.parametrize("kind", PLACES)
def test_what_is_sent_is_received(make: Make, kind: str) -> None:
    """The same model, the newest version, and what is known of the learner."""
    learner, reader = make(kind)
    first, late = reader(), reader("late")
    first.step()
    assert newest(first) is None
    for _ in range(3):
        receive(first, learner.send())
    learner.store.write_status("running", pid=7)
    learner.store.heartbeat()
    learner.sender._announced = 0.0
    assert learner.sender.step()
    receive(late, 3)

    found, sent = newest(late), learner.store.newest()
    assert found
    assert sent
    assert sent.model.predict_one(ROW) == found.model.predict_one(ROW)
    assert sent.header == found.header
    store = FolderSnapshotStore(late._directory)
    assert Status("running", None, "", 7) == store.read_status()
    assert learner.store.last_heartbeat() == store.last_heartbeat()
    assert (3, 0, 0) == (learner.sent("sent"), learner.sent("failed"), learner.sent("skipped"))
    assert (1, 0, 3) == (late.status.received, late.status.damaged, late.status.version)


@pytest.mark.parametrize("kind", PLACES)
def test_the_newest_wins(make: Make, kind: str) -> None:
    """What was published while a place was slow is skipped, and counted."""
    learner, reader = make(kind)
    learner.send()
    for _ in range(4):
        learner.publish()
    assert learner.sender.step()
    receive(reader(), 5)

    assert (2, 3) == (learner.sent("sent"), learner.sent("skipped"))


@pytest.mark.parametrize("kind", PLACES)
@pytest.mark.parametrize("fault", ["truncated", "changed", "absent"])
def test_torn_uploads_are_never_served(
    make: Make, kind: str, fault: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A manifest without its chunk, with a truncated or another one: the version before is kept,
    and the next whole one is taken.
    """
    clock = Clock()
    learner, reader = make(kind)
    mirror = reader(clock=clock)
    receive(mirror, learner.send())
    path = learner.directory / "snapshot-000000000002.safetensors"
    learner.publish()
    data = path.read_bytes()
    bad = {"truncated": data[:-1], "changed": data[:-1] + bytes([data[-1] ^ 1]), "absent": data}
    manifest = learner.target.send(Numbering(0, 2 if fault != "absent" else 99), bad[fault])
    honest = learner.target.send(Numbering(0, 51), data)  # its digest and size
    wrong = manifest._replace(numbering=Numbering(0, 2), size=honest.size, digest=honest.digest)
    if fault == "absent":
        gone = {"name": "snapshot-000000000000-000000000002.safetensors"}
        wrong = wrong._replace(place=wrong.place if kind == "kafka" else gone)
    learner.target.announce(wrong)
    with caplog.at_level(logging.WARNING):
        for _ in range(200):
            clock.now += 0.5
            mirror.step()
            if mirror.status.damaged:
                break
    assert 1 == version(mirror)
    assert mirror.status.damaged
    assert not mirror.status.problem(clock.now)
    assert "not received" in mirror.status.problem(clock.now + SILENT_SECONDS + 1.0)
    assert "snapshot not received, it is tried again" in [one.message for one in caplog.records]

    third = learner.send()
    clock.now += 20.0
    receive(mirror, third)


@pytest.mark.parametrize("kind", PLACES)
def test_older_epochs_are_not_newer(make: Make, kind: str) -> None:
    """A late learner of an older epoch, with a higher version, changes nothing; a later epoch does,
    with any version.
    """
    learner, reader = make(kind)
    for _ in range(5):
        learner.publish(epoch=100)
    assert learner.sender.step()
    mirror = reader()
    receive(mirror, 5)

    other, _ = make(kind, "other")
    other.target, other.sender._target = learner.target, learner.target
    other.publish(epoch=200)
    assert other.sender.step()
    until(lambda: (mirror.step(), newest(mirror).header["epoch"] == 200)[1])
    assert [1] == [int(path.stem[-3:]) for path in mirror._directory.glob("snapshot-*")]

    learner.publish(epoch=100)
    heartbeat = FolderSnapshotStore(mirror._directory).last_heartbeat()
    assert (kind == "kafka") == learner.sender.step()
    for _ in range(3):
        mirror.step()
    assert 200 == newest(mirror).header["epoch"]
    assert heartbeat == FolderSnapshotStore(mirror._directory).last_heartbeat()
    late = reader("late")  # of a topic it reads the last manifests: both learners' are among them
    receive(late, 1)
    assert 200 == newest(late).header["epoch"]


def test_old_versions_leave_an_object_store(make: Make) -> None:
    """The newest ones are kept, also those of a writer before; other objects are left alone."""
    learner, reader = make("s3")
    remote = learner.target._remote
    remote.replace("notes.txt", b"1")
    keep = learner.settings.snapshots.keep
    for _ in range(keep + 2):
        learner.send()
    again = Learner(learner.directory.parent, learner.target.location, snapshots={})
    assert keep == sum(name.startswith("snapshot-") for name in remote.names())
    again.target = ObjectTarget(remote, keep)
    again.sender._target = again.target
    for _ in range(2):
        again.send()

    names = [name for name in remote.names() if name.startswith("snapshot-")]
    assert [keep + 4 - n for n in range(keep)][::-1] == [int(name[-24:-12]) for name in names]
    assert {"notes.txt", "manifest.json"} <= set(remote.names())
    receive(reader(), keep + 4)


@pytest.mark.parametrize("lag", ["object", "listing", "manifest"])
def test_a_store_that_lags_behind(make: Make, lag: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Objects that are not seen yet, listings of before, an older manifest: the last whole version
    is kept until the next one can be seen.
    """
    learner, reader = make("memory")
    mirror, remote = reader(), learner.target._remote
    receive(mirror, learner.send())
    seen = {name: remote.get(name) for name in remote.names()}
    hidden, get, names = [True], type(remote).get, type(remote).names

    def stale_get(self: Any, name: str) -> bytes:
        is_lagging = {"object": name not in seen, "manifest": name == "manifest.json"}
        if hidden and is_lagging.get(lag):
            if name in seen:
                return seen[name]
            raise FileNotFoundError(name)
        return get(self, name)

    def stale_names(self: Any) -> list[str]:
        return sorted(seen) if hidden and lag == "listing" else names(self)

    monkeypatch.setattr(type(remote), "get", stale_get)
    monkeypatch.setattr(type(remote), "names", stale_names)
    second = learner.send()
    for _ in range(3):
        mirror.step()
    assert (2 if lag == "listing" else 1) == version(mirror)
    hidden.clear()
    receive(mirror, second)


def test_a_topic_is_compacted(
    make: Make, broker: Reachable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its old versions go, and who joins afterwards gets the newest, in several chunks."""
    monkeypatch.setattr(snapshot_topic, "CHUNK_BYTES", 3_000)
    learner, reader = make("kafka")
    topic = learner.target.location.removeprefix("kafka:")
    quick = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01", "segment.ms": "100"}
    create_topic(broker.bootstrap, 2, quick, topic)
    for _ in range(12):
        learner.send()
    chunks = newest_manifest(reader("look")).place["chunks"]
    assert chunks > 1
    until(
        lambda: learner.send() and len(keys(broker, topic)) <= (snapshot_topic.SLOTS + 2) * chunks
    )
    receive(reader(), learner.store.last_version())


def newest_manifest(mirror: Mirror) -> Manifest:
    found = until(lambda: mirror._source.newest(0.1))
    assert isinstance(found, Manifest)
    return found


def keys(broker: Reachable, topic: str) -> list[bytes | None]:
    """Read the keys of all chunks that a topic still has."""
    client = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "x"})
    at = TopicPartition(topic, snapshot_topic.CHUNKS, 0)
    _, high = client.get_watermark_offsets(at)
    client.assign([at])
    found = []
    while (message := client.poll(5.0)) is not None:
        found.append(message.key())
        if message.offset() + 1 >= high:
            break
    client.close()
    return found


def test_a_copied_topic_has_other_offsets(make: Make, broker: Reachable) -> None:
    """As a tool that copies topics makes it: the chunks are found by their headers."""
    learner, _ = make("kafka")
    for _ in range(2):
        learner.send()
    source, copy = learner.target.location.removeprefix("kafka:"), f"copy-{uuid.uuid4().hex[:8]}"
    create_topic(broker.bootstrap, 2, {}, copy)
    client = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "x"})
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for _ in range(7):  # what the copy alone has
        producer.produce(copy, b"?", b"x", snapshot_topic.CHUNKS, headers=[("kaboost.chunk", b"?")])
    for partition in (0, 1):
        client.assign([TopicPartition(source, partition, 0)])
        while (message := client.poll(3.0)) is not None:
            producer.produce(
                copy, message.value(), message.key(), partition, headers=message.headers()
            )
            _, high = client.get_watermark_offsets(TopicPartition(source, partition))
            if message.offset() + 1 >= high:
                break
    assert 0 == producer.flush(10)
    client.close()
    reading = TopicSource({"bootstrap.servers": broker.bootstrap}, copy)
    mirror = Mirror(reading, learner.directory.parent / "copied", keep=3)
    receive(mirror, 2)
    reading.close()


def test_records_of_others_are_passed_over(make: Make, broker: Reachable) -> None:
    """A record that is no manifest is reported, and hides no manifest."""
    learner, reader = make("kafka")
    learner.send()
    topic = learner.target.location.removeprefix("kafka:")
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for value in (b"{", b"[]", b'{"format": 1}', None, b'{"format": 2}'):
        producer.produce(topic, value, b"other", snapshot_topic.MANIFESTS)
    assert 0 == producer.flush(10)
    receive(reader(), 1)


@pytest.mark.parametrize("kind", PLACES)
def test_what_a_replaced_leader_sends_is_refused(make: Make, kind: str) -> None:
    """By readers that saw the newer leader, by those that join, and by object stores."""
    learner, reader = make(kind)
    early = reader("early")
    learner.publish(leader_epoch=1)
    assert learner.sender.step()
    receive(early, 1)
    learner.publish(leader_epoch=2)
    assert learner.sender.step()
    receive(early, 2)
    data = learner.store.newest_path().read_bytes()  # type: ignore[union-attr]
    refusal = pytest.raises(StoreAway, match="a later leader, epoch 2")
    with nullcontext() if kind == "kafka" else refusal:
        late = learner.target.send(Numbering(0, 50), data, 1)
        learner.target.announce(late._replace(learner=LearnerFiles(status='{"state": "late"}')))
    joining = reader("joining")
    for _ in range(3):
        early.step()
    receive(joining, 2)

    assert (2, 2) == (version(early), version(joining))
    assert (2, 2) == (early.status.version, joining.status.version)
    for mirror in (early, joining):
        status = FolderSnapshotStore(mirror._directory).read_status()
        assert status is None or status.state != "late"


def test_an_earlier_leadership_is_not_sent(make: Make) -> None:
    """A learner that leads again begins with what it publishes now."""
    learner, reader = make("memory")
    learner.publish(leader_epoch=1)
    again = Sender(learner.target, learner.directory, learner.metrics, leader_epoch=3)
    assert again.step()
    assert 0 == learner.sent("sent")
    learner.publish(leader_epoch=3)
    assert again.step()
    receive(reader(), 2)


def test_a_topic_that_cannot_be_used_is_named(make: Make, broker: Reachable) -> None:
    """One partition is one too few; the failure is counted, and learning would go on."""
    learner, _ = make("kafka")
    create_topic(broker.bootstrap, 1, {}, learner.target.location.removeprefix("kafka:"))
    learner.publish()

    with pytest.raises(StoreAway, match="has 1 partition: create it with 2"):
        learner.target.send(Numbering(0, 1), b"x")
    assert not learner.sender.step()
    assert 1 == learner.sent("failed")


@pytest.mark.parametrize("kind", PLACES)
def test_the_manifest_is_written_last(
    make: Make, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever reads between any two writes finds whole versions only."""
    monkeypatch.setattr(snapshot_topic, "CHUNK_BYTES", 3_000)
    learner, reader = make(kind)
    mirror, writes = reader(), list[str]()

    def look(what: str) -> None:
        writes.append(what)
        for _ in range(3):
            mirror.step()

    class Watched(Producer):
        def produce(self, *args: Any, **options: Any) -> None:
            super().produce(*args, **options)
            super().flush(10)
            look("record")

    def watched(write: Callable[..., None]) -> Callable[..., None]:
        def write_and_look(self: RemoteFiles, name: str, data: bytes) -> None:
            write(self, name, data)
            look(name)

        return write_and_look

    monkeypatch.setattr(snapshot_topic, "Producer", Watched)
    for name in ("put", "replace"):
        monkeypatch.setattr(RemoteFiles, name, watched(getattr(RemoteFiles, name)))
    for _ in range(3):
        learner.send()
    receive(mirror, 3)
    assert len(writes) >= 6
    assert (3, 0) == (mirror.status.received, mirror.status.damaged)


def test_a_reader_reports_its_source(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """While the store is away the last version is served, as stale, with the reason."""
    learner, reader = make("memory")
    mirror = reader("snapshots")
    receive(mirror, learner.send())
    wanted = settings(tmp_path, api={"stale_after_seconds": 3_600})
    follower = Follower(wanted)
    served, _ = follower.refresh()
    assert served
    assert not served.stamp.stale
    assert not follower.reason

    def away(self: Any, name: str) -> bytes:
        raise StoreAway("no answer at all")

    get = type(learner.target._remote).get
    monkeypatch.setattr(type(learner.target._remote), "get", away)
    with caplog.at_level(logging.INFO):
        mirror.step()
        old = mirror.status.reached
        assert old is not None
        mirror.status = mirror.status._replace(reached=old - SILENT_SECONDS)
        mirror.step()
        served, _ = follower.refresh()
        assert served
        assert served.stamp.stale
        assert follower.reason.endswith(": no answer at all")
        monkeypatch.setattr(type(learner.target._remote), "get", get)
        learner.send()
        mirror.step()
    served, _ = follower.refresh()

    assert served
    assert not served.stamp.stale
    assert 2 == served.stamp.version
    messages = [one.message for one in caplog.records if one.name.endswith("mirror")]
    assert 1 == sum("does not answer" in one for one in messages)
    assert 1 == sum("answers again" in one for one in messages)
    assert 2 == mirror.status.failures


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b"null", b'{"format":1,"learner":[]}'])
def test_no_manifest(text: bytes) -> None:
    """What is none is named as such."""
    with pytest.raises(Exception, match="manifest"):
        decode(text)
