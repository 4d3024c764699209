"""Snapshots made by hand, and real serving processes on loopback, for the tests of the API."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import msgspec
import numpy as np
import psutil

from kaboost.models.evaluation.baselines import progressive_validation, record
from kaboost.models.model import Model
from kaboost.service.config.settings import Settings
from kaboost.service.http.problems import MEDIA_TYPE, TYPES, Problem
from kaboost.service.storage import snapshots
from kaboost.service.storage.snapshots import FolderSnapshotStore
from kaboost.service.storage.state import State
from tests.outcomes import outcome
from tests.ports import free_port
from tests.service.learning import settings_in, until

ROOT = Path(__file__).parents[2]
SCHEMA = {"age": "number", "vip": "boolean", "country": "category", "speed": "number"}
ROW = {"age": 31, "vip": True, "country": "PT", "speed": 0.5}
JSON = {"Content-Type": "application/json"}
PATIENCE = 60.0  # seconds that a test waits for what takes one or two on an idle machine


def settings(folder: Path, **sections: Mapping[str, Any]) -> Settings:
    """Make settings of a service that keeps all its files in one folder."""
    base = {
        "features": {"schema": SCHEMA},
        "api": {"port": free_port(), "drain_seconds": 0.0},
    }
    return settings_in(folder / "kaboost.yaml", base, sections)


def taught(settings: Settings, events: int = 60, seed: int = 1) -> Model:
    """Make a model of these settings that has learned some events."""
    task = settings.task
    model = Model(task.kind, settings.model, settings.features.columns, task.labels)
    if events:
        draw = np.random.default_rng(seed)
        rows = [row(settings, draw) for _ in range(events)]
        labels = task.labels or [0, 1]
        chosen = draw.integers(0, len(labels), events)
        regression = task.kind == "regression"
        model.learn_many(
            rows, draw.normal(size=events) if regression else [labels[k] for k in chosen]
        )
    return model


def row(settings: Settings, draw: np.random.Generator) -> dict[str, Any]:
    """Draw one row that fits the schema, some of it missing."""
    made = {"number": draw.normal, "boolean": lambda: bool(draw.integers(2))}
    made["category"] = lambda: ["PT", "DE", "FR"][draw.integers(3)]
    made["datetime"] = lambda: f"2026-11-{draw.integers(10, 31)}T{draw.integers(10, 24)}:00:00Z"
    made["text"] = lambda: " ".join(draw.choice(["a", "few", "words"], draw.integers(9)))
    columns = settings.features.columns.items()
    return {name: made[kind]() for name, kind in columns if draw.random() < 0.9}


def publish(settings: Settings, model: Model, **header: Any) -> int:
    """Publish a snapshot as the learner does, and give its sign of life."""
    events = int(model.booster.progress.events)
    seen = progressive_validation(model.labels)
    record(seen, outcome(np.full(4, 0.5), np.zeros(4)), np.zeros(4), np.ones(4))
    whole = {
        "name": settings.name,
        "created": "2026-11-20T10:00:00Z",
        "events_learned": events,
        "cold_start": events == 0,
        "offsets": {"0": events},
    }
    store = FolderSnapshotStore(settings.snapshots.directory, keep=10)
    store.heartbeat()
    return store.publish(whole | header, State(model, seen, {0: events}))


class Program:
    """One of our commands as a real process, its log lines, and a client of its API."""

    def __init__(
        self,
        command: str,
        settings: Settings,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        flags: Sequence[str] = (),
    ) -> None:
        self.folder = settings.snapshots.directory.parent
        self.port = settings.api.port
        self._log = self.folder / f"{command}.log"
        with self._log.open("ab") as log:
            self.process = psutil.Popen(
                [
                    sys.executable,
                    "-P",
                    "-m",
                    "kaboost.service.cli",
                    command,
                    "--config",
                    str(self.folder / "kaboost.yaml"),
                    *flags,
                ],
                stdin=subprocess.DEVNULL,
                stderr=log,
                start_new_session=True,
                cwd=cwd,
                env=os.environ | {"PYTHONPATH": str(ROOT)} | dict(env or {}),
            )
        self.client = self.connect(self.port)

    def reconnect(self) -> None:
        """Open a new connection, perhaps to another worker."""
        self.client.close()
        self.client = self.connect(self.port)

    def log(self) -> list[dict[str, Any]]:
        """Read what was logged so far, by this process and its children."""
        lines = self._log.read_text().splitlines()
        return [json.loads(line) for line in lines if line.startswith("{")]

    def events(self, name: str, **fields: Any) -> list[dict[str, Any]]:
        """Choose the log lines of one event that have these fields."""
        return [
            line for line in self.log() if line["event"] == name and fields.items() <= line.items()
        ]

    def ready(self) -> dict[str, Any]:
        """Wait until predictions are answered; give what the probe says."""
        return dict(until(lambda: self.probe(200), PATIENCE))

    def probe(self, status: int) -> dict[str, Any] | None:
        """Ask the readiness probe; its body if it answers with this status."""
        try:
            answer = self.client.get("/healthz/ready")
        except httpx.TransportError:
            return None
        return answer.json() if answer.status_code == status else None

    def predict(self, features: Mapping[str, Any] = ROW) -> dict[str, Any]:
        """Ask for one prediction."""
        answer = self.client.post("/predict", json={"features": features})
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    def answer_after(self, events: int) -> dict[str, Any]:
        """Wait until predictions come from a model that has learned so many events; give one."""

        def answer() -> dict[str, Any] | None:
            found = self.predict()
            return found if found["model"]["events_learned"] == events else None

        return dict(until(answer))

    def events_learned(self) -> int:
        """Return how many events the served model has learned, -1 while it is not ready."""
        if self.probe(200) is None:
            return -1
        return int(self.client.get("/model").json()["events_learned"])

    def metric(self, name: str, **labels: str) -> float:
        """Add up a metric's samples that have these labels."""
        return sum(metric(self.client.get("/metrics").text, name, **labels))

    def child(self, role: str) -> psutil.Process:
        """Find the child that now has a role."""
        (line, *_) = reversed(self.events("process running", role=role))
        return psutil.Process(line["pid"])

    def end(self, number: int) -> int:
        """Send a signal and wait for the exit code."""
        self.process.send_signal(number)
        return int(self.process.wait(PATIENCE))

    @staticmethod
    def connect(port: int) -> httpx.Client:
        """Make a client of an API on this machine."""
        return httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=PATIENCE, trust_env=False)

    def close(self) -> None:
        """End it, and whatever is left after that: the lifeline itself may be what is broken."""
        self.client.close()
        started = [line["pid"] for line in self.events("process running")]
        if self.process.is_running():
            self.process.terminate()
            psutil.wait_procs([self.process], PATIENCE / 4)
        for pid in (self.process.pid, *started):
            if alive(pid) and "service." in " ".join(psutil.Process(pid).cmdline()):
                psutil.Process(pid).kill()
        self.process.wait(PATIENCE)


@contextmanager
def running(command: str, settings: Settings, cwd: Path | None = None) -> Iterator[Program]:
    """Run one of our commands; nothing of it is left afterwards."""
    program = Program(command, settings, cwd)
    try:
        yield program
    finally:
        program.close()


def metric(text: str, name: str, **labels: str) -> Iterator[float]:
    """Find the values of a metric's samples in an exposition."""
    wanted = {f'{key}="{value}"' for key, value in labels.items()}
    for line in text.splitlines():
        series, _, value = line.rpartition(" ")
        found, _, pairs = series.partition("{")
        if found == name and wanted <= set(pairs.rstrip("}").split(",")):
            yield float(value)


def alive(pid: int) -> bool:
    """Say whether a process runs; one that only waits to be reaped does not."""
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def snapshot(program: Program, version: int) -> Model:
    """Load the snapshot file that an answer names."""
    name = f"snapshot-{version:012d}.safetensors"
    return snapshots.load(program.folder / "snapshots" / name).model


def post(program: Program, body: bytes, **headers: str) -> httpx.Response:
    """Send bytes as they are."""
    return program.client.post("/predict", content=body, headers=JSON | headers)


def refusal(answer: httpx.Response) -> Problem:
    """Read a problem document; it holds what RFC 9457 and our docs promise."""
    assert MEDIA_TYPE == answer.headers["content-type"], answer.text
    found = msgspec.json.decode(answer.content, type=Problem)
    assert (answer.status_code, TYPES[answer.status_code]) == (found.status, found.type)
    assert found.detail
    return found
