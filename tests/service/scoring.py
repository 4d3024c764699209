"""Processes that answer a topic's records, and what they wrote, for the tests of `kaboost score`."""

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
from tests.kafka.client import PATIENCE
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


@contextmanager
def scoring(settings: Settings) -> Iterator[Callable[[], int | BaseException | None]]:
    """Answer in a thread; the yielded function stops it and returns its exit code or error."""
    stop, result = threading.Event(), []

    def answer() -> None:
        try:
            result.append(score.run(settings, stop=stop))
        except BaseException as err:
            result.append(err)

    thread = threading.Thread(target=answer)

    def end() -> int | BaseException | None:
        stop.set()
        thread.join(PATIENCE)
        return result[0] if result else None

    thread.start()
    try:
        yield end
    finally:
        end()


@contextmanager
def started(
    settings: Settings, module: str = "", *arguments: str
) -> Iterator["subprocess.Popen[bytes]"]:
    """Run `kaboost score`, or a module of the tests, as a process of its own."""
    file = str(settings.snapshots.directory.parent / "kaboost.json")
    words = [module, file] if module else ["kaboost.service.cli", "score", "--config", file]
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", *words, *arguments],
        stdin=subprocess.DEVNULL,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
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
