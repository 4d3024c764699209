"""Learners that take turns: real processes with folders of their own, one broker, one S3 server."""

import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from botocore.session import get_session
from moto.server import ThreadedMotoServer

from kaboost.models.model import Model
from kaboost.service.config.settings import Kafka, Settings
from kaboost.service.errors import ConfigError, Superseded
from kaboost.service.http.follower import LearnerStatus
from kaboost.service.kafka import election
from kaboost.service.processes.roles import run_learner, run_serve
from kaboost.service.storage.led_store import LedCheckpointStore
from kaboost.service.storage.lock import FolderLock
from kaboost.service.storage.object_store import RemoteFiles
from kaboost.service.storage.snapshots import FolderSnapshotStore, Status
from kaboost.service.storage.state import State
from tests.kafka.broker import Broker, Reachable
from tests.kafka.client import create_topic, produce
from tests.kafka.toxiproxy import Toxiproxy
from tests.ports import free_port
from tests.service.learning import (
    SCHEMA,
    Rows,
    events,
    gauge,
    learned,
    learning,
    rows,
    settings_for,
    settings_in,
    until,
)
from tests.service.serving import Program
from tests.specs import LINEAR

Start = Callable[..., tuple[Settings, Program]]
KEYS = {"key": "k", "secret": "hush"}


@pytest.fixture(scope="module")
def s3() -> Iterator[str]:
    """The URL of an S3 server with one bucket."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    url = f"http://{host}:{port}"
    keys = {"aws_access_key_id": "k", "aws_secret_access_key": "hush"}
    client = get_session().create_client("s3", endpoint_url=url, region_name="us-east-1", **keys)
    client.create_bucket(Bucket="models")
    client.close()
    yield url
    server.stop()


@contextmanager
def pair(bootstrap: str, folder: Path, topic: str, store: dict[str, Any]) -> Iterator[Start]:
    """Start learners that take turns, each with folders of its own: `start("a", kafka={...})`."""
    with ExitStack() as stack:

        def start(name: str, **kafka: Any) -> tuple[Settings, Program]:
            own = folder / name
            own.mkdir(exist_ok=True)
            sections = {
                "kafka": {
                    "bootstrap_servers": bootstrap,
                    "topic": topic,
                    "group_id": topic,
                    **kafka,
                },
                "features": {"schema": SCHEMA},
                "checkpoints": {"cache": str(own / "cache"), "every_seconds": 0.3, **store},
                "snapshots": {
                    "directory": str(own / "snapshots"),
                    "every_seconds": 0.1,
                    "publish": [f"kafka:{topic}.snapshots"],
                },
            }
            wanted = settings_in(own / "kaboost.yaml", sections, {})
            program = Program("learner", wanted, flags=["--standby"])
            stack.callback(program.close)
            return wanted, program

        yield start


def on_s3(url: str, prefix: str) -> dict[str, Any]:
    """Return settings of checkpoints below a prefix."""
    return {"directory": f"s3://models/{prefix}", "options": {**KEYS, "endpoint_url": url}}


def led_store(store: dict[str, Any], folder: Path) -> LedCheckpointStore:
    """Open the store of checkpoints, as another machine would."""
    url = store["directory"]
    url = url if "://" in url else f"file://{url}"
    remote = RemoteFiles(url, store.get("options", {}))
    return LedCheckpointStore(remote, folder, 3, FolderLock(folder))


def expect_all_learned_once(store: dict[str, Any], folder: Path, wanted: Rows) -> None:
    """Compare the newest checkpoint with one learner's run over the same events, bit for bit."""
    opened = led_store(store, folder)

    def whole() -> State | None:
        opened.follow()
        found, _ = opened.restore()
        done = found is not None and found.state.offsets == {0: len(wanted)}
        return found.state if found is not None and done else None

    state = until(whole)
    twin = Model("binary", LINEAR, SCHEMA)
    twin.learn_many([features for features, _ in wanted], [label for _, label in wanted])
    ours, theirs = state.model.to_arrays(), twin.to_arrays()
    assert ours.keys() == theirs.keys()
    assert [] == [name for name in theirs if ours[name].tobytes() != theirs[name].tobytes()]


def leads(settings: Settings) -> bool:
    """Whether a learner's metrics name it as the leader; it may be between two ports."""
    try:
        return gauge(settings, "kaboost_leader") == 1.0
    except OSError:
        return False


def stands_by(settings: Settings, program: Program) -> bool:
    """Whether a learner has followed a checkpoint, and does not lead."""
    return bool(program.events("standby ready")) and not leads(settings)


def reported(settings: Settings) -> LearnerStatus:
    """Read what an API process next to a learner reports of it."""
    store = FolderSnapshotStore(settings.snapshots.directory)
    status = store.read_status() or Status("unknown", None, "")
    return LearnerStatus(**status._asdict(), condition=store.read_condition())


def test_a_standby_takes_over_from_a_killed_leader(
    broker: Reachable, s3: str, tmp_path: Path
) -> None:
    """kill -9 in the middle of learning: nothing is lost or learned twice. Then the other one."""
    topic, wanted = create_topic(broker.bootstrap), rows(3_000)
    store = on_s3(s3, tmp_path.name)
    with pair(broker.bootstrap, tmp_path, topic, store) as start:
        first, killed = start("a")
        until(lambda: leads(first))
        second, other = start("b")
        until(lambda: stands_by(second, other))
        until(lambda: "standby" == reported(second).state)
        produce(broker.bootstrap, topic, events(wanted[:2_000]))
        until(lambda: gauge(first, "kaboost_events_learned_total"))
        killed.process.kill()
        until(lambda: leads(second), 30)
        assert 2.0 == gauge(second, "kaboost_leader_epoch")
        until(lambda: reported(second).condition.leader_epoch == 2)
        assert f"process {other.process.pid} on " in reported(second).condition.leader
        produce(broker.bootstrap, topic, events(wanted[2_000:]))
        expect_all_learned_once(store, tmp_path / "seen", wanted)


def test_a_frozen_leader_is_refused_and_steps_down(broker: Reachable, tmp_path: Path) -> None:
    """SIGSTOP for longer than a session, with a shared folder: it wakes up as a standby."""
    topic, wanted = create_topic(broker.bootstrap), rows(3_000)
    store = {"directory": str(tmp_path / "shared")}
    with pair(broker.bootstrap, tmp_path, topic, store) as start:
        first, frozen = start("a")
        until(lambda: leads(first))
        second, other = start("b")
        until(lambda: stands_by(second, other))
        produce(broker.bootstrap, topic, events(wanted[:1_000]))
        until(lambda: gauge(first, "kaboost_events_learned_total") == 1_000.0)
        frozen.process.send_signal(signal.SIGSTOP)
        produce(broker.bootstrap, topic, events(wanted[1_000:2_000]))
        until(lambda: leads(second), 30)
        until(lambda: gauge(second, "kaboost_events_learned_total"))
        frozen.process.send_signal(signal.SIGCONT)
        until(lambda: frozen.events("stepped down"))
        until(lambda: len(frozen.events("standing by")) == 2)
        produce(broker.bootstrap, topic, events(wanted[2_000:]))
        expect_all_learned_once(store, tmp_path / "seen", wanted)
        other.process.terminate()  # an upgrade: the first one leads at once
        until(lambda: leads(first), 30)
        assert 3.0 == gauge(first, "kaboost_leader_epoch")
        assert 0 == other.process.wait(30)


def test_a_leader_cut_off_from_the_broker_steps_down(s3: str, tmp_path: Path) -> None:
    """It still reaches the store, and writes nothing to it once another one leads."""
    port, wanted = free_port(), rows(3_000)
    broker = Broker(proxy=port)
    try:
        broker.start()
        topic, store = create_topic(broker.bootstrap), on_s3(s3, tmp_path.name)
        with (
            closing(Toxiproxy(broker.proxied_port, port)) as network,
            pair(broker.bootstrap, tmp_path, topic, store) as start,
        ):
            first, cut_off = start("a", bootstrap_servers=f"127.0.0.1:{port}")
            until(lambda: leads(first))
            second, other = start("b")
            until(lambda: stands_by(second, other))
            produce(broker.bootstrap, topic, events(wanted[:1_000]))
            until(lambda: gauge(first, "kaboost_events_learned_total") == 1_000.0)
            network.cut()
            produce(broker.bootstrap, topic, events(wanted[1_000:2_000]))
            until(lambda: leads(second), 30)
            until(lambda: cut_off.events("stepped down"))
            network.heal()
            produce(broker.bootstrap, topic, events(wanted[2_000:]))
            expect_all_learned_once(store, tmp_path / "seen", wanted)
            assert not leads(first)
    finally:
        broker.close()


def state(count: int) -> State:
    """Return a state that has learned some events."""
    model = Model("binary", LINEAR, {"x": "number"})
    model.learn_many([{"x": float(k)} for k in range(count)], [k % 2 for k in range(count)])
    return State.initial(model, {0: count})


@pytest.mark.parametrize("kind", ["s3", "memory", "folder"])
def test_a_late_checkpoint_is_refused(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """Also one that was on its way while another claimed an epoch: its number is taken then."""
    places: dict[str, Callable[[], dict[str, Any]]] = {
        "s3": lambda: on_s3(request.getfixturevalue("s3"), tmp_path.name),
        "memory": lambda: {"directory": f"memory://{tmp_path.name}"},
        "folder": lambda: {"directory": str(tmp_path / "shared")},
    }
    place = places[kind]()
    old, new, third = (led_store(place, tmp_path / name) for name in ("a", "b", "c"))
    with old.lock(), new.lock():
        with pytest.raises(Superseded, match="leads now: what epoch 1 writes"):
            old.write({}, state(1))
        new.write({}, state(2))
        late = f"{new.run}/checkpoint-000000000002.safetensors"
        assert old._remote.create(late, b"late")  # between the look at the epochs and this one
        assert not old._remote.create(late, b"later")
        written = new.write({}, state(3))
    unsent = third._folder / new.run / "checkpoint-000000000003.safetensors"
    unsent.parent.mkdir(parents=True)
    unsent.write_bytes(b"of a process that was killed before it was sent")
    third.clear()
    with third.lock():
        checkpoint, damaged = third.restore()

    assert (1, 2, 3) == (old.leader_epoch, new.leader_epoch, third.leader_epoch)
    assert written.name.endswith("checkpoint-000000000003.safetensors")
    assert checkpoint is not None
    assert ({0: 3}, 0) == (checkpoint.state.offsets, damaged)


@pytest.mark.parametrize(
    ("run", "sections", "reason"),
    [
        (run_learner, {"labels": {"topic": "late"}}, "labels.topic = late"),
        (run_learner, {"snapshots": {"publish": []}}, "snapshots.publish is empty"),
        (partial(run_learner, cold_start=True), {}, "--cold-start with --standby"),
        (run_serve, {}, "kaboost serve share one folder"),
    ],
)
def test_what_cannot_be_taken_over_is_refused(
    run: Callable[[Settings], int], sections: dict[str, Any], reason: str, tmp_path: Path
) -> None:
    """Before anything is started, with the remedy."""
    base = {"snapshots": {"directory": str(tmp_path / "s"), "publish": ["kafka:snapshots"]}}
    base |= {"features": {"schema": SCHEMA}, "standby": {"enabled": True}}

    with pytest.raises(ConfigError, match=reason):
        run(settings_in(tmp_path / "kaboost.yaml", base, sections))


def test_a_learner_alone_continues_the_epoch(topic: str, broker: Reachable, tmp_path: Path) -> None:
    """Without --standby readers take its snapshots, and refuse those of the leader before."""
    settings = settings_for(broker.bootstrap, tmp_path, topic)
    store = led_store({"directory": str(settings.checkpoints.directory)}, tmp_path / "a")
    with store.lock():
        header = {"topic": topic, "epoch": 7, "version": 3, "leader_epoch": store.leader_epoch}
        model = Model("binary", LINEAR, SCHEMA)
        store.write(header, State.initial(model, {0: 0}))
    with learning(settings):
        until(lambda: learned(settings) == 0)
        newest = FolderSnapshotStore(settings.snapshots.directory).newest()

    assert newest is not None
    assert (2, 7) == (newest.header["leader_epoch"], newest.header["epoch"])


def test_a_topic_of_several_partitions_elects_nobody(broker: Reachable) -> None:
    """Each of them would have a leader."""
    topic = create_topic(broker.bootstrap, 2)
    kafka = Kafka(bootstrap_servers=broker.bootstrap, topic="t", group_id="t")

    with pytest.raises(ConfigError, match="has 2 partitions: two learners would lead"):
        election.create_topic(kafka, topic)
