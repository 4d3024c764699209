"""Learners that take turns: real processes with folders of their own, one broker, one S3 server."""

import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest
from botocore.session import get_session
from moto.server import ThreadedMotoServer

from kaboost.models.model import Model
from kaboost.service.config.settings import Settings
from kaboost.service.errors import Superseded
from kaboost.service.storage.led_store import LedCheckpointStore
from kaboost.service.storage.lock import FolderLock
from kaboost.service.storage.object_store import RemoteFiles
from kaboost.service.storage.state import State
from tests.kafka.broker import Reachable
from tests.kafka.client import create_topic, produce
from tests.ports import free_port
from tests.service.learning import SCHEMA, Rows, events, gauge, rows, settings_in, until
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
        produce(broker.bootstrap, topic, events(wanted[:2_000]))
        until(lambda: killed.events("progress") or (gauge(first, "kaboost_events_learned_total") or 0) > 0)
        killed.process.kill()
        until(lambda: leads(second), 30)
        assert 2.0 == gauge(second, "kaboost_leader_epoch")
        produce(broker.bootstrap, topic, events(wanted[2_000:]))
        expect_all_learned_once(store, tmp_path / "seen", wanted)
