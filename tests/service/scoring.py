"""Processes that answer records, and what they wrote, for the tests of `kaboost score`."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from kaboost.service.config.settings import Settings
from kaboost.service.score import run as score
from tests.kafka.client import PATIENCE, admin
from tests.ports import free_port
from tests.service.learning import Rows, rows
from tests.service.serving import ROOT

Make = Callable[..., Any]


def settings_of_score(
    make_settings: Make, make_topic: Make, partitions: int = 1, **sections: Any
) -> Settings:
    """Make settings with fresh topics of records, of answers and of events."""
    wanted = {"topic": make_topic(partitions), "metrics_port": free_port()}
    own = {"predictions": {"topic": make_topic()}}
    whole = own | sections | {"score": wanted | sections.get("score", {})}
    settings: Settings = make_settings(make_topic(), **whole)
    return settings


def records(count: int, first: int = 0) -> list[bytes]:
    """Return records without labels, ids from `first` on."""
    return [record(first + k, features) for k, (features, _) in enumerate(drawn(count, first))]


def drawn(count: int, first: int = 0) -> Rows:
    """Return the features of these records, and labels for them."""
    return rows(count, seed=first + 1)


def record(id_: Any, features: Mapping[str, Any], **more: Any) -> bytes:
    """Write one record without a label."""
    return json.dumps({"id": id_, "features": features, **more}).encode()


class Running:
    """A process that answers, in a thread of the tests."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._stop = threading.Event()
        self._result: int | BaseException | None = None
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def __call__(self) -> int | BaseException | None:
        """Stop it as SIGTERM would; return its exit code or error."""
        self._stop.set()
        self._thread.join(PATIENCE)
        return self._result

    @property
    def ended(self) -> bool:
        """Whether it has ended."""
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            self._result = score.run(self._settings, stop=self._stop)
        except BaseException as err:
            self._result = err


@contextmanager
def scoring(settings: Settings) -> Iterator[Running]:
    """Answer in a thread; it is stopped at the end, whatever happened."""
    running = Running(settings)
    try:
        yield running
    finally:
        running()


def on_port(settings: Settings, port: int | None = None) -> Settings:
    """Return settings whose metrics are those of a process that answers."""
    metrics = settings.metrics.model_copy(update={"port": port or settings.score.metrics_port})
    return settings.model_copy(update={"metrics": metrics})


def delete_before(settings: Settings, offset: int) -> None:
    """Delete the records of partition 0 before an offset."""
    at = TopicPartition(settings.score.topic or "", 0, offset)
    client = admin(settings.kafka.bootstrap_servers)
    client.delete_records([at])[at].result(PATIENCE)


@contextmanager
def started(
    settings: Settings, module: str = "", *arguments: str, **env: str
) -> Iterator["subprocess.Popen[bytes]"]:
    """Run `kaboost score`, or a module of the tests, as a process of its own."""
    file = str(settings.snapshots.directory.parent / "kaboost.json")
    words = [module, file] if module else ["kaboost.service.cli", "score", "--config", file]
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", *words, *arguments],
        stdin=subprocess.DEVNULL,
        env=os.environ | {"PYTHONPATH": str(ROOT)} | env,
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def committed_records(bootstrap: str, topic: str) -> list[Message]:
    """Return all records of a topic whose transactions are committed."""
    client = {"bootstrap.servers": bootstrap, "group.id": "test", "enable.partition.eof": True}
    consumer = Consumer({**client, "isolation.level": "read_committed", "log_level": 0})
    partitions = consumer.list_topics(topic, PATIENCE).topics[topic].partitions
    consumer.assign([TopicPartition(topic, partition, 0) for partition in partitions])
    messages: list[Message] = []
    at_end: set[int | None] = set()
    while len(at_end) < len(partitions):
        for message in consumer.consume(10_000, 0.1):
            error = message.error()
            if error is None:
                messages.append(message)
            elif error.code() == KafkaError._PARTITION_EOF:
                at_end.add(message.partition())
    consumer.close()
    return messages


def answers(settings: Settings) -> list[dict[str, Any]]:
    """Return the answers that are committed."""
    topic = settings.predictions.topic
    assert topic is not None
    found = committed_records(settings.kafka.bootstrap_servers, topic)
    return [json.loads(message.value() or b"") for message in found]


def ids(settings: Settings) -> list[str]:
    """Return the ids of the answers that are committed, sorted."""
    return sorted(answer["id"] for answer in answers(settings))
