"""Read the first records of a topic without a trace: no commit, no group, no topic created."""

import time
from collections.abc import Mapping
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from kaboost.service.errors import BrokerError
from kaboost.service.events.decoder import Headers

REQUEST_SECONDS = 5.0  # for one answer of the broker
READ_SECONDS = 15.0  # for all records


class RawRecord(NamedTuple):
    """One record as it is on the topic."""

    value: bytes | None
    headers: Headers


def read_first(client: Mapping[str, str], topic: str, count: int) -> list[RawRecord]:
    """Read at most `count` records from the beginning, an equal share of every partition.

    Raises
    ------
    BrokerError
        If the broker or the topic is not there.
    """
    quiet = {"log_level": "0", "group.id": "kaboost-reads-only", **client}
    consumer = Consumer({**quiet, "enable.auto.commit": False, "enable.partition.eof": True})
    try:
        partitions = list_topics(consumer, client).get(topic)
        if partitions is None:
            raise BrokerError(f"topic {topic} does not exist: create it, or correct its name")
        return _read(consumer, topic, partitions, count)
    except KafkaException as err:
        raise BrokerError(f"topic {topic}: {err.args[0].str()}: {READ_REMEDY}") from err
    finally:
        consumer.close()


READ_REMEDY = "give this user the rights to describe and read it"


def list_topics(consumer: Consumer, client: Mapping[str, str]) -> dict[str, list[int]]:
    """Return the partitions of every topic; all are asked for, as asking for one can create it."""
    try:
        topics = consumer.list_topics(timeout=REQUEST_SECONDS).topics
    except KafkaException as err:
        raise BrokerError(
            f"no broker at {client['bootstrap.servers']} within {REQUEST_SECONDS:g} s "
            f"({err.args[0].str()}): start it, or correct the address (--bootstrap, "
            "kafka.bootstrap_servers)"
        ) from err
    return {name: sorted(topic.partitions) for name, topic in topics.items()}


def _read(consumer: Consumer, topic: str, partitions: list[int], count: int) -> list[RawRecord]:
    share = -(-count // max(len(partitions), 1))
    left = dict.fromkeys(partitions, share)
    starts = [TopicPartition(topic, number, _beginning(consumer, topic, number)) for number in left]
    consumer.assign(starts)
    found: list[RawRecord] = []
    deadline = time.monotonic() + READ_SECONDS
    while any(left.values()) and (rest := deadline - time.monotonic()) > 0:
        for message in consumer.consume(min(count, 500), min(rest, 1.0)):
            _take(message, left, found)
    return found[:count]


def _beginning(consumer: Consumer, topic: str, number: int) -> int:
    return consumer.get_watermark_offsets(TopicPartition(topic, number), REQUEST_SECONDS)[0]


def _take(message: Message, left: dict[int, int], found: list[RawRecord]) -> None:
    """Add a record while its partition has not given its share."""
    partition, error = message.partition(), message.error()
    assert partition is not None
    if error is not None:
        if error.code() != KafkaError._PARTITION_EOF:
            raise KafkaException(error)
        left[partition] = 0
    elif left[partition]:
        left[partition] -= 1
        headers = message.headers()
        pairs = headers.items() if isinstance(headers, dict) else headers or ()
        found.append(RawRecord(message.value(), tuple(pairs)))
