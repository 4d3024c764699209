"""The long run that the proofs read: Elec2 and poison through a real broker, 20 kills, predictions
throughout.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import yaml
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from kaboost.service.demo import producer
from kaboost.service.storage import files
from tests.e2e.malformed import malformed
from tests.ports import free_port
from tests.specs import LINEAR

POISON = 1000
KILLS = 20
WRITE_KILLS = 3  # at least so many while a checkpoint is being written
ATTEMPTS = 60  # the stream is sent in so many shares, one for each: no machine is too slow for it
PACE = 600.0  # events a second while learners are being killed
WHILE_DOWN = 0.1  # of that pace while one starts
ASK_EVERY = 1 / 80  # seconds between two predictions


class Kill(NamedTuple):
    """What was found on disk between a kill and the restart."""

    version: int  # newest snapshot
    learned_to: int  # its next offset
    checkpoint: int  # the newest checkpoint's next offset
    writing: bool  # a checkpoint's temporary file was there
    produced: int


class Answer(NamedTuple):
    """One request of the predictor and what came back."""

    at: float
    features: dict[str, float]
    status: int
    body: dict[str, Any]


class Run:
    """One service on one topic, with everything that was sent, asked, answered and killed."""

    def __init__(self, folder: Path, bootstrap: str, topic: str) -> None:
        self.folder, self.bootstrap, self.topic = folder, bootstrap, topic
        self.good = [producer.event(k, *row) for k, row in enumerate(producer.rows())]
        self.rows = [features for features, _ in producer.rows()]
        self.plan = interleave(self.good, malformed(POISON), random.Random(4))
        self.answers: list[Answer] = []
        self.kills: list[Kill] = []
        self.codes: dict[str, int] = {}
        self.produced = 0
        self.attempts = 0
        self._processes: list[subprocess.Popen[bytes]] = []
        self._hurry, self._done, self._up = (threading.Event() for _ in range(3))
        self.api_port, self.metrics_port = free_port(), free_port()
        self.config = folder / "kaboost.yaml"
        self.config.write_text(yaml.safe_dump(self.settings(), sort_keys=False))

    def settings(self) -> dict[str, Any]:
        return {
            "kafka": {
                "bootstrap_servers": self.bootstrap,
                "topic": self.topic,
                "group_id": self.topic,
                "max_event_bytes": 20_000,
            },
            "task": {"kind": "binary", "labels": ["DOWN", "UP"]},
            "features": {"schema": producer.schema()},
            "model": LINEAR,  # the naive twin is one of it
            "snapshots": {
                "directory": str(self.folder / "snapshots"),
                "every_events": 100,
                "every_seconds": 0.1,
                "keep": 100_000,
            },
            "checkpoints": {
                "directory": str(self.folder / "checkpoints"),
                "every_events": 300,
                "every_seconds": 0.5,
                "keep": 3,
            },
            "api": {"port": self.api_port},
            "metrics": {"port": self.metrics_port},
        }

    def go(self) -> Run:
        create_topic(self.bootstrap, self.topic)
        api, learner = self.start("api"), self.start("learner")
        threads = [threading.Thread(target=work) for work in (self.send, self.ask)]
        try:
            self.wait_for_version(1)
            self._up.set()
            for thread in threads:
                thread.start()
            self.wait_for_version(2, within=300.0)  # the first may compile
            chance = random.Random(7)
            while len(self.kills) < KILLS or sum(k.writing for k in self.kills) < WRITE_KILLS:
                self.attempts += 1
                assert self.attempts < ATTEMPTS - 1, f"{self.attempts} attempts, {self.kills}"
                learner = self.kill(learner, chance)
            self._hurry.set()
            threads[0].join()
            self.wait_for_events(len(self.good))
            self.predicted = self.predict_many()
            self.codes["learner"] = stop(learner)
            self._done.set()
            threads[1].join()
            self.codes["api"] = stop(api)
        finally:
            self._hurry.set()
            self._done.set()
            for process in self._processes:
                process.kill()
                process.wait()
        return self

    def start(self, role: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "kaboost.service.cli", role, "--config", str(self.config)]
        with open(self.folder / f"{role}.log", "ab") as log:
            process = subprocess.Popen(
                command, stdout=log, stderr=log, cwd=self.folder, env=environment()
            )
        self._processes.append(process)
        return process

    def send(self) -> None:
        client = Producer({"bootstrap.servers": self.bootstrap, "enable.idempotence": True})
        due, last = 0.0, time.monotonic()
        for k, (value, key) in enumerate(self.plan):
            while not self._hurry.is_set() and k > due:
                time.sleep(0.005)
                now = time.monotonic()
                due += PACE * (now - last) * (1.0 if self._up.is_set() else WHILE_DOWN)
                due = min(due, len(self.plan) * (self.attempts + 1) / ATTEMPTS)
                last = now
            client.produce(
                self.topic, value, key=key, partition=0, headers=[("trace", key)],
                on_delivery=lambda error, _: error is None or os._exit(70),
            )  # fmt: skip
            client.poll(0)
            self.produced = k + 1
        client.flush(60)

    def ask(self) -> None:
        chance = random.Random(9)
        with httpx.Client(base_url=f"http://127.0.0.1:{self.api_port}", timeout=10) as client:
            while not self._done.is_set():
                features, at = chance.choice(self.rows), time.monotonic()
                answer = client.post("/predict", json={"features": features})
                self.answers.append(Answer(at, features, answer.status_code, answer.json()))
                time.sleep(max(0.0, ASK_EVERY - (time.monotonic() - at)))

    def predict_many(self) -> tuple[bytes, bytes, int]:
        """Ask for 100,000 predictions; return the newest snapshot's bytes before and after."""
        path = files.newest(self.folder / "snapshots", "snapshot")[0]
        before, answered = path.read_bytes(), 0
        with httpx.Client(base_url=f"http://127.0.0.1:{self.api_port}", timeout=30) as client:
            for first in range(100):
                body = {"instances": self.rows[first * 400 : first * 400 + 1000]}
                answered += len(client.post("/predict", json=body).json()["predictions"])
        return before, path.read_bytes(), answered

    def kill(
        self, learner: subprocess.Popen[bytes], chance: random.Random
    ) -> subprocess.Popen[bytes]:
        """Kill -9 at a random moment or in a checkpoint's write, look at the disk, start again."""
        if chance.random() < 0.5:
            time.sleep(chance.uniform(0.05, 0.6))
        else:
            self.wait_for_write(within=5.0)
        produced = self.produced
        self._up.clear()
        learner.send_signal(signal.SIGKILL)
        learner.wait()
        kill = Kill(*self.newest_snapshot(), self.newest_checkpoint(), self.is_writing(), produced)
        if kill.learned_to > kill.checkpoint:  # it learned beyond the checkpoint: a replay is due
            self.kills.append(kill)
        restarted = self.start("learner")
        self.wait_for_version(kill.version + 1)
        self._up.set()
        return restarted

    def wait_for_write(self, within: float) -> None:
        """Return while a checkpoint is written; where writes are too short to be seen, any time."""
        deadline = time.monotonic() + within
        while not self.is_writing() and time.monotonic() < deadline:
            time.sleep(0.0001)

    def is_writing(self) -> bool:
        run = self.folder / "checkpoints" / "run-0001"
        return run.is_dir() and any(name.endswith(".tmp") for name in os.listdir(run))

    def newest_snapshot(self) -> tuple[int, int]:
        path = files.newest(self.folder / "snapshots", "snapshot")[0]
        return files.number(path), offset(path)

    def newest_checkpoint(self) -> int:
        paths = files.newest(self.folder / "checkpoints" / "run-0001", "checkpoint")
        return offset(paths[0]) if paths else 0

    def wait_for_version(self, version: int, within: float = 60.0) -> None:
        url = f"http://127.0.0.1:{self.api_port}/model"
        client = httpx.Client(timeout=5, trust_env=False)  # one for all: to make it takes 30 ms

        def reached() -> bool:
            try:
                return bool(client.get(url).json().get("version", 0) >= version)
            except httpx.HTTPError:
                return False

        with client:
            wait_until(reached, within, every=0.05)

    def wait_for_events(self, events: int) -> None:
        def reached() -> bool:
            path = files.newest(self.folder / "snapshots", "snapshot")[0]
            return bool(files.read(path)[0]["events_learned"] >= events)

        wait_until(reached, within=120.0, every=0.2)

    def dead_letters(self) -> list[Any]:
        return read_all(self.bootstrap, f"{self.topic}.dlq")


def interleave(
    good: list[bytes], bad: list[tuple[str, bytes | None]], chance: random.Random
) -> list[tuple[bytes | None, bytes]]:
    """Return (value, key) in order: good ones as they come, poison anywhere, told by key."""
    places = sorted(chance.sample(range(len(good) + len(bad)), len(bad)))
    poison = dict(zip(places, bad, strict=True))
    fine = iter(good)
    return [
        (poison[k][1], f"{poison[k][0]}-{k}".encode()) if k in poison else (next(fine), b"good")
        for k in range(len(good) + len(bad))
    ]


def offset(path: Path) -> int:
    return int(files.read(path)[0]["offsets"]["0"])


def stop(process: subprocess.Popen[bytes]) -> int:
    process.terminate()
    return process.wait(60)


def wait_until(reached: Any, within: float, every: float) -> None:
    deadline = time.monotonic() + within
    while not reached():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {within} s: {reached}")
        time.sleep(every)


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}


def create_topic(bootstrap: str, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.create_topics([NewTopic(topic, 1, 1)]).values():
        future.result(30)


def read_all(bootstrap: str, topic: str) -> list[Any]:
    """Return every record of a topic's partition 0."""
    client = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "proof", "enable.auto.commit": False}
    )
    place = TopicPartition(topic, 0, 0)
    _, end = client.get_watermark_offsets(place, 10)
    client.assign([place])
    found: list[Any] = []
    while len(found) < end:
        found += [m for m in client.consume(500, 1.0) if m.error() is None]
    client.close()
    return found


def headers(message: Any) -> dict[str, str]:
    return {name: value.decode() for name, value in message.headers()}


def as_json(value: bytes) -> Any:
    return json.loads(value)
