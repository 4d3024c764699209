"""`kaboost api --from`: real processes that serve from a topic or an object store, with faults."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest

from kaboost.service.config.settings import Settings
from kaboost.service.errors import ConfigError, Exit
from kaboost.service.processes import readers
from kaboost.service.processes.readers import local_snapshots
from kaboost.service.processes.roles import run_learner, run_serve
from kaboost.service.processes.settings_pipe import to_plain
from kaboost.service.storage import object_store, source_status
from kaboost.service.storage.snapshots import FolderSnapshotStore
from tests.kafka.broker import Broker, Reachable
from tests.service.learning import SCHEMA as EVENT_SCHEMA
from tests.service.learning import events, learning, rows, until
from tests.service.readers import Learner, options_of, start_s3
from tests.service.serving import PATIENCE, Program, settings
from tests.service.test_drain import Load

EVENT = {"x": 1.0, "y": 0.5, "colour": "red", "flag": True}


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Program]]:
    """Start readers: `start("a", "kafka:topic", kafka={...})`."""
    started: list[Program] = []

    def start(name: str, place: str, **sections: Any) -> Program:
        folder = tmp_path / name
        folder.mkdir()
        wanted = settings(folder, **sections)
        env = {"TMPDIR": str(folder)}
        started.append(Program("api", wanted, env=env, flags=["--from", place]))
        return started[-1]

    yield start
    for program in started:
        program.close()


@contextmanager
def sending(learner: Learner) -> Iterator[None]:
    """Send in a thread, as a learner does."""
    stop = Event()
    thread = Thread(target=learner.sender.run, args=(stop,))
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(PATIENCE)


def serves(program: Program, version: int) -> dict[str, Any] | None:
    model: dict[str, Any] = program.predict()["model"]
    return model if model["version"] == version else None


def test_readers_of_a_learner_that_dies(
    broker: Reachable, tmp_path: Path, topic: str, send: Callable[..., None], start: Any
) -> None:
    """A learner with a folder of its own, two readers without it: they serve what it learns, and
    its state; after its end they go on, stale.
    """
    place = f"kafka:{topic}.snapshots"
    kafka = {"bootstrap_servers": broker.bootstrap, "topic": topic, "group_id": topic}
    common = {"kafka": kafka, "features": {"schema": EVENT_SCHEMA}}
    folder = tmp_path / "learner"
    folder.mkdir()
    own = settings(folder, **common, snapshots={"publish": [place]})
    serving = {"stale_after_seconds": 2.0, "drain_seconds": 0.0}
    pair = [start(name, place, **common, api=serving) for name in "ab"]
    with learning(own) as running:
        send(topic, events(rows(100)))
        for program in pair:
            program.ready()
            until(lambda program=program: program.events_learned() == 100)
            until(lambda program=program: not program.ready()["stale"])
            assert "running" == program.ready()["learner"]["state"]
        status = pair[0].client.get("/status").json()
        assert 100 == status["events_learned"]
        answers = [program.predict(EVENT) for program in pair]
        assert answers[0] == answers[1]
        assert not (folder.parent / "a" / "snapshots").exists()
        assert Exit.DONE == running.stop()
    for program in pair:
        until(lambda program=program: program.predict(EVENT)["model"]["stale"])
        assert 100 == program.predict(EVENT)["model"]["events_learned"]
        assert 1 == program.metric("kaboost_snapshot_source_up")
    joins = start("c", place, **common, api=serving)
    joins.ready()
    assert answers[0]["prediction"] == joins.predict(EVENT)["prediction"]
    assert 0 == joins.metric("kaboost_snapshot_source_failures_total")


def test_a_broker_that_goes_and_comes_back(own_broker: Broker, tmp_path: Path, start: Any) -> None:
    """The reader answers all the time, says what is missing, and takes the next version."""
    kafka = {"bootstrap_servers": own_broker.bootstrap}
    learner = Learner(tmp_path / "learner", "kafka:snapshots", kafka=kafka)
    with sending(learner):
        first = learner.publish()
        reader = start("reader", "kafka:snapshots", kafka=kafka)
        reader.ready()
        assert serves(reader, first)
        own_broker.kill()
        second = learner.publish()
        until(lambda: "not received from kafka:snapshots" in reader.ready()["reason"])
        assert reader.predict()["model"]["stale"]
        assert 0 == reader.metric("kaboost_snapshot_source_up")
        assert reader.metric("kaboost_snapshot_source_failures_total", reason="unreachable") > 0
        assert serves(reader, first)
        own_broker.start()
        until(lambda: serves(reader, second))
        until(lambda: reader.metric("kaboost_snapshot_source_up") == 1)
        assert not reader.ready()["reason"]


def test_an_object_store_that_goes_and_comes_back(tmp_path: Path, start: Any) -> None:
    """The same with S3; the sender counts its failures, and sends the newest afterwards."""
    server = start_s3()
    _, port = server.get_host_and_port()
    section = {"options": options_of(server)}
    learner = Learner(tmp_path / "learner", "s3://models/fraud", snapshots=section)
    try:
        with sending(learner):
            first = learner.publish()
            reader = start("reader", "s3://models/fraud", snapshots=section)
            reader.ready()
            assert serves(reader, first)
            server.stop()
            until(lambda: "not received from s3://models/fraud" in reader.ready()["reason"])
            newest = [learner.publish() for _ in range(3)][-1]
            until(lambda: learner.sent("failed") > 0)
            assert serves(reader, first)
            server = start_s3(port)  # it has forgotten everything: a bucket that was lost
            until(lambda: serves(reader, newest))
            assert not any("hush" in str(line) for line in reader.log())
    finally:
        server.stop()


def test_a_reader_drains(broker: Reachable, tmp_path: Path, topic: str, start: Any) -> None:
    """SIGTERM under load: not ready first, no request fails, and its folder is removed."""
    place, kafka = f"kafka:{topic}.snapshots", {"bootstrap_servers": broker.bootstrap}
    learner = Learner(tmp_path / "learner", place, kafka=kafka)
    learner.send()
    reader = start("reader", place, kafka=kafka, api={"drain_seconds": 1.0, "workers": 2})
    reader.ready()
    assert list((tmp_path / "reader").glob("kaboost-snapshots-*"))
    load = Load(reader)
    until(lambda: load.results["200"] > 100)
    reader.process.send_signal(signal.SIGTERM)
    load.wait()

    assert Exit.DONE == reader.process.wait(PATIENCE)
    assert {"200", "refused"} == set(load.results)
    assert {200, 503} == set(load.probes)
    assert [] == list((tmp_path / "reader").glob("kaboost-snapshots-*"))


def test_a_folder_is_a_source(tmp_path: Path) -> None:
    """That of a learner, on a shared disk: nothing is copied."""
    wanted = settings(tmp_path, snapshots={"source": str(tmp_path / "shared")})
    with local_snapshots(wanted) as local:
        assert tmp_path / "shared" == local.snapshots.directory
    assert "" == FolderSnapshotStore(tmp_path / "shared").source_problem()


def test_missing_packages_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before anything starts; wrong options are reported as a source that does not answer."""
    wanted = settings(tmp_path, snapshots={"source": "nope://x"})
    with pytest.raises(ConfigError, match="no protocol of fsspec is called nope"):
        local_snapshots(wanted).__enter__()
    wanted = settings(tmp_path, snapshots={"source": "s3://x/y"})
    with monkeypatch.context() as patched:
        patched.setattr(object_store, "find_spec", lambda name: None)
        with pytest.raises(ConfigError, match=r"snapshots.source: s3://x/y needs the package s3fs"):
            local_snapshots(wanted).__enter__()

    def refuse(_: Settings) -> None:
        raise ConfigError("snapshots.source: no such option")

    monkeypatch.setattr(readers, "open_source", refuse)
    with local_snapshots(wanted) as local:
        status = until(lambda: source_status.read(local.snapshots.directory))
        problem = status.problem(status.since + source_status.SILENT_SECONDS + 1.0)
    assert "snapshots are not received from s3://x/y: snapshots.source: no such option" == problem


@pytest.mark.parametrize("source", ["kafka:", "kafka:no such topic", "s3:/models"])
def test_no_source(tmp_path: Path, source: str) -> None:
    """What is no place is refused, and named with the remedy."""
    with pytest.raises(ConfigError, match=r"snapshots.source.*write kafka:TOPIC, a URL"):
        settings(tmp_path, snapshots={"source": source})


def test_places_that_are_refused(tmp_path: Path) -> None:
    """A topic of events, a River model, a learner that would read its snapshots from elsewhere."""
    with pytest.raises(ConfigError, match="topic fraud has other records"):
        settings(tmp_path, kafka={"topic": "fraud"}, snapshots={"publish": ["kafka:fraud"]})
    river = {"river": "linear_model.LogisticRegression", "one_hot": True}
    with pytest.raises(ConfigError, match="a River model has no snapshots"):
        settings(tmp_path, model=river, snapshots={"publish": ["kafka:fraud"]})
    wanted = settings(tmp_path, snapshots={"source": "kafka:fraud"})
    for command in (run_learner, run_serve):
        with pytest.raises(ConfigError, match="makes snapshots itself"):
            command(wanted)


def test_secrets_reach_the_processes(tmp_path: Path) -> None:
    """Keys of object stores, which `config show` hides, are passed to child processes."""
    options = {"key": "k", "secret": "hush"}
    wanted: Settings = settings(
        tmp_path,
        snapshots={"options": options},
        checkpoints={"directory": "s3://models/x", "options": options},
    )
    plain: Any = to_plain(wanted)

    assert options == plain["snapshots"]["options"] == plain["checkpoints"]["options"]
