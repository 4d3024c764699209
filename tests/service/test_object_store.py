"""Checkpoints in an object store: a real S3 server on loopback, outages, and another writer."""

import json
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from botocore.session import get_session
from moto.server import ThreadedMotoServer
from typer.testing import CliRunner

from kaboost.models.model import Model
from kaboost.service.cli import app
from kaboost.service.config.settings import Settings, values
from kaboost.service.errors import CheckpointError, ConfigError, FolderBusy, StoreAway
from kaboost.service.storage import object_store
from kaboost.service.storage.checkpoints import FolderCheckpointStore
from kaboost.service.storage.lock import FolderLock
from kaboost.service.storage.object_store import ObjectCheckpointStore, RemoteFiles
from kaboost.service.storage.snapshots import FolderSnapshotStore
from kaboost.service.storage.state import State
from kaboost.service.storage.stores import make_stores
from tests.service.learning import events, gauge, learned, learning, rows, until
from tests.specs import LINEAR

KEYS = {"key": "k", "secret": "hush"}


@pytest.fixture(scope="module")
def server() -> Iterator[ThreadedMotoServer]:
    """An S3 server with one bucket."""
    started = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    started.start()
    host, port = started.get_host_and_port()
    started.url = f"http://{host}:{port}"
    client = get_session().create_client(
        "s3",
        endpoint_url=started.url,
        region_name="us-east-1",
        aws_access_key_id="k",
        aws_secret_access_key="hush",
    )
    client.create_bucket(Bucket="models")
    client.close()
    yield started
    started.stop()


@pytest.fixture
def remote(server: ThreadedMotoServer, tmp_path: Path) -> RemoteFiles:
    """A prefix of its own in that bucket."""
    return RemoteFiles(f"s3://models/{tmp_path.name}", {**KEYS, "endpoint_url": server.url})


def store_of(remote: RemoteFiles, folder: Path, keep: int = 2) -> ObjectCheckpointStore:
    return ObjectCheckpointStore(remote, folder, keep, FolderLock(folder))


def state(events: int) -> State:
    model = Model("binary", LINEAR, {"x": "number"})
    model.learn_many([{"x": float(k)} for k in range(events)], [k % 2 for k in range(events)])
    return State.initial(model, {0: events})


def test_what_is_written_is_listed_kept_and_restored(remote: RemoteFiles, tmp_path: Path) -> None:
    """On another machine, whose folder is empty; the newest ones are kept; runs as in folders."""
    store = store_of(remote, tmp_path / "here")
    with store.lock():
        assert store.restore()[0] is None
        names = [store.write({"topic": "t"}, state(count)).name for count in (1, 2, 3)]
    other = store_of(remote, tmp_path / "there")
    with other.lock():
        checkpoint, damaged = other.restore({"topic": "t"})
        other.start_run()
        assert other.is_new_run()
    again = store_of(remote, tmp_path / "third")
    with again.lock():
        assert again.is_new_run()
        assert "run-0002" == again.run
        assert 3 == again.newest_header()["sequence"]
        again.write({"topic": "t"}, state(4))

    assert f"{remote.url}/run-0001/checkpoint-000000000003.safetensors" == names[2]
    assert checkpoint is not None
    assert ({0: 3}, 0) == (checkpoint.state.offsets, damaged)
    expected = state(3).model.to_arrays()
    for name, array in checkpoint.state.model.to_arrays().items():
        np.testing.assert_array_equal(expected[name], array)
    assert [
        ".writer",
        "run-0001/checkpoint-000000000002.safetensors",
        "run-0001/checkpoint-000000000003.safetensors",
        "run-0002/.started",
        "run-0002/checkpoint-000000000001.safetensors",
    ] == remote.names()


def test_other_folders_below_the_url_are_left_alone(remote: RemoteFiles, tmp_path: Path) -> None:
    """Whatever their names; the newest run is found."""
    store = store_of(remote, tmp_path / "here")
    with store.lock():
        store.write({}, state(1))
    for name in ("training/x.csv", "tmp/y", "zoo/z"):
        remote.put(name, b"1")
    other = store_of(remote, tmp_path / "there")
    with other.lock():
        checkpoint, _ = other.restore()
        other.write({}, state(2))

    assert checkpoint is not None
    assert {0: 1} == checkpoint.state.offsets
    assert {"training/x.csv", "tmp/y", "zoo/z"} <= set(remote.names())
    assert 2 == sum(name.endswith(".safetensors") for name in remote.names())


def test_a_damaged_object_is_passed_over(remote: RemoteFiles, tmp_path: Path) -> None:
    """As a damaged file is: the one before it is used."""
    store = store_of(remote, tmp_path / "here")
    with store.lock():
        names = [store.write({}, state(count)).name for count in (1, 2)]
    name = names[1].removeprefix(f"{remote.url}/")
    remote.put(name, remote.get(name)[:-1] + b"x")
    other = store_of(remote, tmp_path / "there")
    with other.lock():
        checkpoint, damaged = other.restore()

    assert checkpoint is not None
    assert ({0: 1}, 1) == (checkpoint.state.offsets, damaged)


def test_what_comes_back_is_compared(
    remote: RemoteFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store that keeps other bytes than were sent has written nothing; the folder neither."""
    monkeypatch.setattr(object_store, "BACKOFF_SECONDS", 0.0)
    store = store_of(remote, tmp_path / "here")
    with store.lock():
        store.write({}, state(1))
        put = remote._fs.pipe_file
        monkeypatch.setattr(remote._fs, "pipe_file", lambda path, data: put(path, data[:-1]))
        with pytest.raises(StoreAway, match="other bytes than were sent"):
            store.write({}, state(2))
        monkeypatch.setattr(remote._fs, "pipe_file", put)
        assert [1] == [int(path.stem[-3:]) for path in store.paths()]
        assert store.write({}, state(2)).name.endswith("2.safetensors")


def test_a_second_writer_takes_over(remote: RemoteFiles, tmp_path: Path) -> None:
    """The first one writes nothing more; its holder is named."""
    first, second = (store_of(remote, tmp_path / name) for name in ("a", "b"))
    with first.lock():
        first.write({}, state(1))
        with second.lock():
            second.write({}, state(2))
            with pytest.raises(FolderBusy, match=r"s3://models/.* is in use by process \d+ on"):
                first.write({}, state(3))
        remote.put(".writer", b"?")
        with pytest.raises(CheckpointError, match=r"/\.writer says of no process"):
            second.write({}, state(3))
        remote.remove(".writer")
        remote.remove(".writer")
        second.write({}, state(3))  # it claims an emptied store


def test_requests_are_tried_again(
    remote: RemoteFiles, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A few times, then the error names the object and the remedy."""
    monkeypatch.setattr(object_store, "BACKOFF_SECONDS", 0.0)
    failures = [OSError("reset")] * 2
    put = remote._fs.pipe_file

    def flaky(path: str, data: bytes) -> None:
        if failures:
            raise failures.pop()
        put(path, data)

    monkeypatch.setattr(remote._fs, "pipe_file", flaky)
    with caplog.at_level(logging.WARNING):
        remote.put("a", b"1")
    assert b"1" == remote.get("a")
    assert 2 == sum("tried again" in one.message for one in caplog.records)

    failures += [OSError("reset")] * 3
    with pytest.raises(StoreAway, match=r"/a cannot be written \(OSError: reset\): see whether"):
        remote.put("a", b"2")
    with pytest.raises(FileNotFoundError):
        remote.get("b")


def test_a_missing_bucket_is_named(
    server: ThreadedMotoServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is no file that is not there, but a place that cannot be written."""
    monkeypatch.setattr(object_store, "BACKOFF_SECONDS", 0.0)
    remote = RemoteFiles("s3://nowhere/x", {**KEYS, "endpoint_url": server.url})
    with pytest.raises(StoreAway, match=r"s3://nowhere/x/\.writer cannot be written .*bucket"):
        store_of(remote, tmp_path).lock().__enter__()


def test_an_outage_pauses_learning_and_shows_it(
    server: ThreadedMotoServer,
    topic: str,
    make_settings: Callable[..., Settings],
    send: Callable[..., None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Log, metrics and condition; afterwards all is learned, and a start elsewhere goes on."""
    monkeypatch.setattr(object_store, "BACKOFF_SECONDS", 0.01)
    url = f"s3://models/{topic}"
    options = {**KEYS, "endpoint_url": server.url}
    section = {"directory": url, "options": options, "cache": str(tmp_path / "a")}
    settings = make_settings(topic, checkpoints={**section, "every_seconds": 0.1})
    stream = rows(300)
    put = RemoteFiles.put
    with learning(settings) as running:
        send(topic, events(stream[:100]))
        until(lambda: learned(settings) == 100)

        def away(self: RemoteFiles, name: str, data: bytes) -> None:
            raise StoreAway(f"{name} cannot be written")

        monkeypatch.setattr(RemoteFiles, "put", away)
        send(topic, events(stream[100:200]))
        until(lambda: gauge(settings, "kaboost_learning_paused") == 1)
        failed = 'kaboost_checkpoint_failures_total{reason="object_store"}'
        until(lambda: (gauge(settings, failed) or 0) > 0)
        store = FolderSnapshotStore(settings.snapshots.directory)
        until(lambda: "checkpoints cannot be written" in store.read_condition().stalled)
        monkeypatch.setattr(RemoteFiles, "put", put)
        send(topic, events(stream[200:]))
        until(lambda: learned(settings) == 300 and not gauge(settings, "kaboost_learning_paused"))
        assert 0 == running.stop()
    moved = make_settings(topic, checkpoints={**section, "cache": str(tmp_path / "b")})
    with learning(moved) as running:
        until(lambda: list((tmp_path / "b").rglob("checkpoint-*")))
        assert 0 == running.stop()
    look(tmp_path / "kaboost.json", url)
    assert "checkpoint not written, it is tried again" in [one.message for one in caplog.records]
    checkpoint, _ = FolderCheckpointStore(tmp_path / "b").restore()
    assert checkpoint is not None
    twin = Model("binary", LINEAR, settings.features.columns)
    twin.learn_many([features for features, _ in stream], [label for _, label in stream])
    expected = twin.to_arrays()
    for name, array in checkpoint.state.model.to_arrays().items():
        np.testing.assert_array_equal(expected[name], array)


def look(path: Path, url: str) -> None:
    """Read the store with the commands, which name files by their URL."""
    config = ["--config", str(path)]
    listed = CliRunner().invoke(app, ["checkpoints", "list", "--json", *config])
    shown = CliRunner().invoke(app, ["checkpoints", "show", "--json", *config])
    compared = CliRunner().invoke(app, ["checkpoints", "diff", *config])
    verified = CliRunner().invoke(app, ["checkpoints", "verify", *config])

    newest = json.loads(listed.stdout)[0]
    assert newest["file"].startswith(f"{url}/run-0001/checkpoint-")
    assert ("ok", {"0": 300}) == (newest["state"], newest["offsets"])
    fields = {row["key"]: row["value"] for row in json.loads(shown.stdout)}
    assert 300 == fields["events_learned"]
    assert "events_learned" in compared.output
    assert 0 == verified.exit_code


def test_urls_of_the_settings(make_settings: Callable[..., Settings], tmp_path: Path) -> None:
    """A file URL is a folder; memory is a store; what cannot be is named; secrets are hidden."""
    folder = make_settings("t", checkpoints={"directory": f"file://{tmp_path}/c"})
    assert tmp_path / "c" == folder.checkpoints.directory == folder.checkpoints.folder

    section = {"directory": "memory://kaboost", "cache": str(tmp_path / "cache")}
    memory = make_settings("t", checkpoints={**section, "options": {"asynchronous": False}})
    stores = make_stores(memory.checkpoints, memory.snapshots)
    with stores.lock():
        stores.checkpoints.write({}, state(1))
        assert {0: 1} == _restored(stores.checkpoints).offsets
    assert "memory://kaboost" == stores.checkpoints.location

    options: dict[str, Any] = {**section, "options": KEYS}
    assert "hush" not in str(values(make_settings("t", checkpoints=options)))
    unknown = make_settings("t", checkpoints={**section, "directory": "nope://x"})
    with pytest.raises(ConfigError, match=r"checkpoints\.directory: nope://x"):
        make_stores(unknown.checkpoints, unknown.snapshots)
    river = {"river": "linear_model.LogisticRegression", "one_hot": True}
    with pytest.raises(ConfigError, match="a River model has no checkpoints"):
        make_settings("t", checkpoints=section, model=river)


def _restored(store: Any) -> State:
    checkpoint, _ = store.restore({})
    assert checkpoint is not None
    found: State = checkpoint.state
    return found
