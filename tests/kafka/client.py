"""Create, write and read the topics of a test."""

import json
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from confluent_kafka import Consumer, Message, Producer, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined] # it does export them
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

PATIENCE = 90.0  # seconds that a test waits for what takes one on an idle machine


class Letter(NamedTuple):
    """A dead letter as it was read back."""

    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes]]

    @property
    def code(self) -> str:
        """The reason in one word."""
        return self.texts["kaboost.error.code"]

    @property
    def origin(self) -> tuple[str, int, int]:
        """Topic, partition and offset of the record."""
        texts, at = self.texts, "__connect.errors."
        return texts[f"{at}topic"], int(texts[f"{at}partition"]), int(texts[f"{at}offset"])

    @property
    def texts(self) -> dict[str, str]:
        """The headers as text; of a repeated one the last."""
        return {name: (value or b"").decode(errors="replace") for name, value in self.headers}


def create_topic(
    bootstrap: str,
    partitions: int = 1,
    config: Mapping[str, str] | None = None,
    name: str | None = None,
    brokers: Sequence[int] = (),
) -> str:
    """Create a topic under a name that no other test has; partition k on the k-th of `brokers`."""
    name = name or f"test-{uuid.uuid4().hex[:12]}"
    placed: dict[str, Any] = {"replica_assignment": [[k] for k in brokers]} if brokers else {}
    wanted = NewTopic(name, len(brokers) or partitions, config=dict(config or {}), **placed)
    client = admin(bootstrap)  # a name of its own: the answer does not keep the client alive
    client.create_topics([wanted])[name].result(PATIENCE)
    return name


def recreate(bootstrap: str, topic: str) -> None:
    """Delete a topic and create it again under its name."""
    client, deadline = admin(bootstrap), time.monotonic() + PATIENCE
    client.delete_topics([topic])[topic].result(PATIENCE)
    while topic in client.list_topics(timeout=5).topics and time.monotonic() < deadline:
        time.sleep(0.02)
    create_topic(bootstrap, name=topic)


def limit_record_size(bootstrap: str, topic: str, size: int) -> None:
    """Change the largest batch of records that a topic takes, in bytes."""
    operation = AlterConfigOpType.SET
    entry = ConfigEntry("max.message.bytes", str(size), incremental_operation=operation)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    client = admin(bootstrap)  # a name of its own: the answer does not keep the client alive
    client.incremental_alter_configs([resource])[resource].result(PATIENCE)


def admin(bootstrap: str) -> AdminClient:
    """Make an admin client that logs nothing."""
    return AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})


def produce(
    bootstrap: str,
    topic: str,
    values: Iterable[bytes | None],
    partition: int = 0,
    client: Mapping[str, Any] | None = None,
    **more: Any,
) -> None:
    """Write records with the same key and headers, and wait until the broker has them."""
    quiet = {"bootstrap.servers": bootstrap, "linger.ms": 1, "log_level": 0}
    producer = Producer({**quiet, **(client or {})})
    for value in values:
        producer.produce(topic, value, partition=partition, **more)
        producer.poll(0)
    assert not producer.flush(PATIENCE), "the broker did not take the events in time"


def encode(features: Mapping[str, Any], label: Any, **more: Any) -> bytes:
    """Write one labelled event."""
    return json.dumps({"features": features, "label": label, **more}).encode()


def read(bootstrap: str, topic: str, count: int, timeout: float = PATIENCE) -> list[Message]:
    """Read `count` records of a topic from its beginning, all that is there in that time."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "test", "log_level": 0, "check.crcs": True}
    )
    partitions = consumer.list_topics(topic, PATIENCE).topics[topic].partitions
    consumer.assign([TopicPartition(topic, partition, 0) for partition in partitions])
    messages: list[Message] = []
    while len(messages) < count and (batch := consumer.consume(count - len(messages), timeout)):
        messages += [message for message in batch if message.error() is None]
    consumer.close()
    return messages


def read_letters(bootstrap: str, topic: str, count: int, timeout: float = PATIENCE) -> list[Letter]:
    """Read `count` dead letters of a source topic back."""
    messages = read(bootstrap, f"{topic}.dlq", count, timeout)
    return [Letter(m.key(), m.value(), m.headers() or []) for m in messages]
