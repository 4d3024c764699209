"""A learner in a thread of the tests, with settings and files of its own."""

import json
import random
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from confluent_kafka import Consumer, TopicPartition

from kaboost.models.model import Model
from kaboost.service.config import settings as config
from kaboost.service.config.settings import Settings
from kaboost.service.learner import run as learner
from kaboost.service.storage.checkpoints import FolderCheckpointStore
from kaboost.service.storage.snapshots import FolderSnapshotStore
from tests.kafka.client import PATIENCE, encode
from tests.ports import free_port
from tests.specs import LINEAR

Rows = list[tuple[dict[str, Any], int]]
SCHEMA = {"x": "number", "y": "number", "colour": "category", "flag": "boolean"}


def settings_for(bootstrap: str, folder: Path, topic: str, **sections: Any) -> Settings:
    """Make settings that keep every file in one folder; a section's keys go over the defaults."""
    whole: dict[str, dict[str, Any]] = {
        "kafka": {"bootstrap_servers": bootstrap, "topic": topic, "group_id": topic},
        "features": {"schema": SCHEMA},
    }
    if "labels" in sections:
        whole["labels"] = {"directory": str(folder / "labels")}
    return settings_in(folder / "kaboost.json", whole, sections)  # every JSON text is YAML


def settings_in(
    file: Path, base: Mapping[str, Mapping[str, Any]], sections: Mapping[str, Mapping[str, Any]]
) -> Settings:
    """Write a file of settings and load it; its folder keeps the files of the service.

    Keys of `sections` go over those of `base`, and these over the defaults of the tests.
    """
    folder = file.parent
    whole: dict[str, Mapping[str, Any]] = {
        "task": {"kind": "binary"},
        "snapshots": {"directory": str(folder / "snapshots"), "every_seconds": 0.1},
        "checkpoints": {"directory": str(folder / "checkpoints"), "every_seconds": 0.2},
        "metrics": {"port": free_port()},
        **base,
    }
    merged = whole | {name: {**whole.get(name, {}), **given} for name, given in sections.items()}
    merged.setdefault("model", LINEAR)
    file.write_text(json.dumps(merged))
    return config.load(file)


class Running:
    """A learner in a thread of the tests."""

    def __init__(self, settings: Settings, **options: Any) -> None:
        self.result: int | BaseException | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(settings, options))
        self._thread.start()

    def stop(self) -> int:
        """Tell it to stop, as SIGTERM would; give the exit code or raise what it raised."""
        self._stop.set()
        return self.wait()

    def wait(self) -> int:
        """Wait until it ends by itself."""
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive(), "the learner did not stop"
        if isinstance(self.result, BaseException):
            raise self.result
        assert self.result is not None
        return self.result

    @property
    def alive(self) -> bool:
        """Whether it runs still."""
        return self._thread.is_alive()

    def _run(self, settings: Settings, options: dict[str, Any]) -> None:
        try:
            self.result = learner.run(
                settings, **{"cold_start": False, "stop": self._stop, **options}
            )
        except BaseException as err:
            self.result = err


@contextmanager
def learning(settings: Settings, **options: Any) -> Iterator[Running]:
    """Run a learner in a thread; it is stopped at the end, whatever happened."""
    running = Running(settings, **options)
    try:
        yield running
    finally:
        running._stop.set()
        running._thread.join(PATIENCE)


def until(holds: Callable[[], Any], timeout: float = PATIENCE) -> Any:
    """Wait until something holds; give what it gave."""
    rest = threading.Event()
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        got = holds()
        if got:
            return got
        rest.wait(0.02)
    pytest.fail(f"did not come about in {timeout:g} s: {holds}")


def rows(count: int, seed: int = 1) -> Rows:
    """Draw events that can be learned from."""
    draw = random.Random(seed)
    made = []
    for _ in range(count):
        x, y = draw.gauss(0, 1), draw.gauss(0, 1)
        colour = draw.choice(["red", "green", "blue"])
        label = int(x + (colour == "red") + draw.gauss(0, 0.3) > 0.5)
        made.append(({"x": x, "y": y, "colour": colour, "flag": y > 0}, label))
    return made


def events(rows: Rows) -> list[bytes]:
    return [encode(features, label) for features, label in rows]


def learned(settings: Settings) -> int:
    """Say how many events the newest snapshot has learned, -1 without one."""
    found = FolderSnapshotStore(settings.snapshots.directory).newest()
    return found.header["events_learned"] if found else -1


def expect_state(settings: Settings, rows: Rows) -> None:
    """Compare the newest checkpoint with the same events learned in-process, bit for bit."""
    twin = Model("binary", LINEAR, SCHEMA)
    twin.learn_many([features for features, _ in rows], [label for _, label in rows])
    checkpoint, _ = FolderCheckpointStore(settings.checkpoints.directory).restore()
    assert checkpoint is not None
    ours, theirs = checkpoint.state.model.to_arrays(), twin.to_arrays()

    assert ours.keys() == theirs.keys()
    for name in theirs:
        np.testing.assert_array_equal(ours[name], theirs[name], err_msg=name)


def learn_all(settings: Settings, count: int, **options: Any) -> None:
    """Run a learner until its snapshot has learned so many events, then stop it."""
    with learning(settings, **options) as running:
        until(lambda: not running.alive or learned(settings) >= count)
        assert 0 == running.stop()


def saved(settings: Settings) -> dict[int, int]:
    """Read the newest checkpoint's offsets."""
    checkpoint, _ = FolderCheckpointStore(settings.checkpoints.directory).restore()
    return checkpoint.state.offsets if checkpoint else {}


def committed(settings: Settings, partition: int = 0) -> int:
    """Ask how far lag tools think that the group is; -1001 for nowhere."""
    kafka = settings.kafka
    client = Consumer({"bootstrap.servers": kafka.bootstrap_servers, "group.id": kafka.group_id})
    (at,) = client.committed([TopicPartition(kafka.topic, partition)], 10)
    client.close()
    return int(at.offset)


def gauge(settings: Settings, name: str) -> float | None:
    """Read one metric without labels from the learner's own port."""
    opened = urllib.request.urlopen(f"http://127.0.0.1:{settings.metrics.port}/metrics")
    with opened as page:
        lines = page.read().decode().splitlines()
    return next((float(line.split()[1]) for line in lines if line.split()[0] == name), None)
