"""Read the first records of a topic without a trace: no commit, no group, no topic created."""

import time
from collections.abc import Mapping
from typing import NamedTuple

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)

from kaboost.service.errors import BrokerError
from kaboost.service.events.decoder import Headers

REQUEST_SECONDS = 5.0  # for one answer of the broker
READ_SECONDS = 15.0  # for all records of all partitions
READ_REMEDY = "give this user the rights to describe and read it"
SILENT_REMEDY = "see whether the brokers that lead them run and can be reached from here"


class RawRecord(NamedTuple):
    """One record as it is on the topic."""

    value: bytes | None
    headers: Headers


class Sample(NamedTuple):
    """The first records of a topic."""

    records: list[RawRecord]
    silent: list[int]  # partitions that gave no end and too few records in time

    def describe_silent(self, topic: str) -> str:
        """Describe partitions that did not answer; empty if all did."""
        if not self.silent:
            return ""
        numbers = ", ".join(map(str, self.silent[:10])) + ", ..." * (len(self.silent) > 10)
        return f"partitions {numbers} of {topic} did not answer within {READ_SECONDS:g} s"


def read_first(client: Mapping[str, str], topic: str, count: int) -> Sample:
    """Read at most `count` records from the beginning, an equal share of every partition.

    Raises
    ------
    BrokerError
        If the broker or the topic is not there, or no partition answers in time.
    """
    quiet = {"log_level": "0", "group.id": "kaboost-reads-only", **client}
    consumer = Consumer({**quiet, "enable.auto.commit": False, "enable.partition.eof": True})
    try:
        partitions = list_topics(consumer, client).get(topic)
        if partitions is None:
            raise BrokerError(f"topic {topic} does not exist: create it, or correct its name")
        sample = _read(consumer, topic, partitions, count)
        if sample.silent and not sample.records:
            raise BrokerError(f"{sample.describe_silent(topic)}: {SILENT_REMEDY}")
        return sample
    except KafkaException as err:
        raise BrokerError(f"topic {topic}: {err.args[0].str()}: {READ_REMEDY}") from err
    finally:
        consumer.close()


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


def _read(consumer: Consumer, topic: str, partitions: list[int], count: int) -> Sample:
    """Read all partitions at once: those that are silent share one deadline."""
    share = -(-count // max(len(partitions), 1))
    left = dict.fromkeys(partitions, share)
    consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in left])
    found: list[RawRecord] = []
    deadline = time.monotonic() + READ_SECONDS
    while any(left.values()) and (rest := deadline - time.monotonic()) > 0:
        first = consumer.poll(rest)
        for message in [first, *consumer.consume(min(count, 500), 0)] if first else []:
            _take(message, left, found)
    return Sample(found[:count], [number for number, open_ in left.items() if open_])


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
