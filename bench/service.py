"""The real service for benchmarks: a filled topic, its commands as processes, their reports."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from confluent_kafka import Producer

from tests.kafka.client import create_topic
from tests.service.learning import free_port
from tests.service.serving import metric

ROOT = Path(__file__).parents[1]
SCHEMA = {f"x{j}": "number" for j in range(5)} | {f"c{j}": "category" for j in range(4)}
SCHEMA["flag"] = "boolean"
DISTINCT = 10_000  # events; a longer backlog repeats them
PATIENCE = 120.0  # seconds

Row = dict[str, Any]


def rows(count: int) -> list[Row]:
    """Draw rows of 5 numbers, 4 categories, a boolean; one value in ten is missing."""
    draw = np.random.default_rng(7)
    numbers = draw.standard_normal((count, 5)).round(4).tolist()
    cities = draw.integers(0, 40, (count, 4)).tolist()
    missing = draw.random((count, len(SCHEMA))) < 0.1
    made = []
    for k in range(count):
        values = [*numbers[k], *(f"city-{c}" for c in cities[k]), k % 3 == 0]
        pairs = zip(SCHEMA, values, missing[k], strict=True)
        made.append({name: value for name, value, gone in pairs if not gone})
    return made


def fill(bootstrap: str, events: int) -> str:
    """Write a topic of that many labelled events and return its name."""
    topic = create_topic(bootstrap)
    labelled = [{"features": row, "label": int(row.get("x0", 0) > 0)} for row in rows(DISTINCT)]
    values = [json.dumps(event).encode() for event in labelled]
    client = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20})
    for k in range(events):
        client.produce(topic, values[k % DISTINCT], partition=0)
        if k % 1000 == 0:
            client.poll(0.01)
    client.flush(PATIENCE)
    return topic


class Service:
    """One configuration in a folder of its own, and the commands that run on it."""

    def __init__(self, folder: Path, bootstrap: str, topic: str) -> None:
        self.port, self.metrics_port = free_port(), free_port()
        self._folder = folder
        self._config = folder / "kaboost.yaml"
        kafka = {"bootstrap_servers": bootstrap, "topic": topic, "group_id": folder.name}
        whole = {
            "kafka": kafka,
            "task": {"kind": "binary"},
            "features": {"schema": SCHEMA},
            "snapshots": {"directory": str(folder / "snapshots")},
            "checkpoints": {"directory": str(folder / "checkpoints")},
            "api": {"port": self.port},
            "metrics": {"port": self.metrics_port},
        }
        self._config.write_text(json.dumps(whole))  # every JSON text is YAML

    @contextmanager
    def running(
        self, command: str, *flags: str, env: Mapping[str, str] | None = None
    ) -> Iterator[subprocess.Popen[bytes]]:
        """Run one command, and stop it at the end."""
        words = [
            sys.executable,
            "-m",
            "kaboost.service.cli",
            command,
            "--config",
            str(self._config),
        ]
        with open(self._folder / f"{command}.log", "ab") as log:
            process = subprocess.Popen(
                [*words, *flags],
                stdout=log,
                stderr=log,
                cwd=self._folder,
                env={**os.environ, "PYTHONPATH": str(ROOT), **(env or {})},
            )
        try:
            yield process
        except TimeoutError:
            print((self._folder / f"{command}.log").read_text()[-2000:], file=sys.stderr)
            raise
        finally:
            process.terminate()
            process.wait(PATIENCE)

    def ready(self, process: subprocess.Popen[bytes]) -> None:
        """Wait until predictions are served."""
        wait(lambda: answers(f"http://127.0.0.1:{self.port}/healthz/ready"), process)

    def told(self, name: str) -> float:
        """Read one of the learner's own metrics; -1 while it has none."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.metrics_port}/metrics") as page:
                return sum(metric(page.read().decode(), name))
        except OSError:
            return -1.0

    def learned(self, process: subprocess.Popen[bytes], events: int) -> None:
        """Wait until the learner has learned that many events."""
        wait(lambda: self.told("kaboost_events_learned_total") >= events, process)


def answers(url: str) -> bool:
    """Return whether an address responds with 200."""
    try:
        with urllib.request.urlopen(url, timeout=5):
            return True
    except OSError:
        return False


def wait(holds: Any, process: subprocess.Popen[bytes], every: float = 0.005) -> None:
    """Wait for a condition; raise if the process ends first."""
    deadline = time.monotonic() + PATIENCE
    while not holds():
        if process.poll() is not None or time.monotonic() > deadline:
            raise TimeoutError(f"not within {PATIENCE:.0f} s, exit code {process.poll()}")
        time.sleep(every)
