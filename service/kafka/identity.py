"""Whether a topic is the one that a state has read: ids, and the last record of every partition.

Offsets alone cannot tell: a topic that was created again, one of the same name on another cluster,
and a log that was truncated and written again have records at the same offsets.
"""

import time
import zlib
from collections.abc import Mapping
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from kaboost.service.config.settings import Kafka
from kaboost.service.errors import BrokerError, Gap

ANSWER_SECONDS = 10.0  # to read one record of each partition
NO_EPOCH = -1
TRUNCATED = (
    "the log was truncated, or restored from an older copy, and written again; start a new model "
    "with --cold-start, or restore the topic"
)


class Identity(NamedTuple):
    """The ids of a topic and its cluster; None where the broker has none, or gave none yet."""

    topic_id: str | None = None
    cluster_id: str | None = None

    def or_else(self, known: "Identity") -> "Identity":
        """Return these ids, and the known ones where there are none."""
        return Identity(self.topic_id or known.topic_id, self.cluster_id or known.cluster_id)


class RecordMark(NamedTuple):
    """What distinguishes the last record that was read of a partition."""

    offset: int
    leader_epoch: int  # that it was written in; NO_EPOCH where the broker has none
    time: int  # milliseconds since 1970
    checksum: int  # CRC-32 of key and value


def mark_of(message: Message) -> RecordMark:
    """Return the mark of a record."""
    epoch = message.leader_epoch()
    checksum = zlib.crc32(message.value() or b"", zlib.crc32(message.key() or b""))
    epoch = NO_EPOCH if epoch is None else epoch
    return RecordMark(message.offset() or 0, epoch, message.timestamp()[1], checksum)


def require_same(topic: str, known: Identity, now: Identity) -> None:
    """Refuse a topic with another id, or on another cluster, than is known."""
    if known.cluster_id and now.cluster_id and known.cluster_id != now.cluster_id:
        raise Gap(
            "other_cluster",
            f"topic {topic} is on cluster {now.cluster_id}, the state has read one of this name on "
            f"cluster {known.cluster_id}: correct kafka.bootstrap_servers, or start a new model "
            "with --cold-start",
        )
    if known.topic_id and now.topic_id and known.topic_id != now.topic_id:
        raise Gap(
            "recreated",
            f"topic {topic} was deleted and created again (its id was {known.topic_id} and "
            f"is {now.topic_id}), so the offsets of the state mean other events: start a new model "
            "with --cold-start, or restore the topic",
        )


def require_last_records(kafka: Kafka, marks: Mapping[int, RecordMark]) -> None:
    """Read the last record of some partitions again; refuse the topic where it is another one.

    Where compaction has removed it, the broker is asked whether its leader epoch ends before it.
    """
    for partition, record in _read_again(kafka, marks).items():
        known = marks[partition]
        if record is not None and record.offset() == known.offset and mark_of(record) != known:
            raise Gap(
                "truncated",
                f"{kafka.topic}[{partition}]@{known.offset} is another record than the state has "
                f"read (leader epoch and time are {_describe(mark_of(record))}, they were "
                f"{_describe(known)}): {TRUNCATED}",
            )


def at(topic: str, partition: int, offset: int, mark: RecordMark | None) -> TopicPartition:
    """Return a position; with an epoch the client itself finds that a log was truncated."""
    if mark is None or mark.leader_epoch == NO_EPOCH:
        return TopicPartition(topic, partition, offset)
    return TopicPartition(topic, partition, offset, leader_epoch=mark.leader_epoch)


def _describe(mark: RecordMark) -> str:
    return f"{mark.leader_epoch} and {mark.time} ms"


def _read_again(kafka: Kafka, marks: Mapping[int, RecordMark]) -> dict[int, Message | None]:
    """Return the first record from each mark on, None at the end of a partition; refuse one that
    was truncated before its mark.

    Only a client that does not know the partitions yet compares leader epochs.
    """
    required = {
        "group.id": kafka.group_id,
        "enable.auto.commit": False,
        "enable.partition.eof": True,
    }
    found: dict[int, Message | None] = {}
    if not marks:
        return found
    consumer = Consumer(
        {"log_level": 2, **kafka.client(), **required, "auto.offset.reset": "error"}
    )
    deadline = time.monotonic() + ANSWER_SECONDS
    try:
        consumer.assign([at(kafka.topic, p, mark.offset, mark) for p, mark in marks.items()])
        while missing := marks.keys() - found.keys():
            if time.monotonic() > deadline:
                name = f"{kafka.topic}[{min(missing)}]"
                raise BrokerError(f"{name} gave no record in {ANSWER_SECONDS:g} s")
            message = consumer.poll(0.1)
            if message is None:
                continue
            partition, error = message.partition() or 0, message.error()
            if error is None:
                found.setdefault(partition, message)
                consumer.pause([TopicPartition(kafka.topic, partition)])
            elif error.code() == KafkaError._AUTO_OFFSET_RESET and "truncation" in error.str():
                raise Gap("truncated", f"{kafka.topic}[{partition}]: {error.str()}: {TRUNCATED}")
            elif error.code() in (KafkaError._PARTITION_EOF, KafkaError._AUTO_OFFSET_RESET):
                found.setdefault(partition, None)
    finally:
        consumer.close()
    return found
