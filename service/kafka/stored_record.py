"""A record that outlives its message: kept as bytes, so that it can become a dead letter later."""

from typing import Any, NamedTuple

import msgspec
from confluent_kafka import Message


class StoredRecord(NamedTuple):
    """What a dead letter needs of a record, with the methods of a message."""

    topic_name: str
    partition_number: int
    offset_number: int
    key_bytes: bytes | None
    value_bytes: bytes | None
    header_pairs: list[tuple[str, bytes | None]]

    def topic(self) -> str:
        """Return the name of the topic."""
        return self.topic_name

    def partition(self) -> int:
        """Return the partition."""
        return self.partition_number

    def offset(self) -> int:
        """Return the offset."""
        return self.offset_number

    def key(self) -> bytes | None:
        """Return the key."""
        return self.key_bytes

    def value(self) -> bytes | None:
        """Return the value."""
        return self.value_bytes

    def headers(self) -> list[tuple[str, bytes | None]]:
        """Return the headers."""
        return self.header_pairs


def store(message: Message) -> bytes:
    """Return a record as bytes."""
    headers: Any = message.headers() or []
    pairs = [(name, value.encode() if isinstance(value, str) else value) for name, value in headers]
    place = (message.topic(), message.partition(), message.offset())
    return msgspec.msgpack.encode((*place, message.key(), message.value(), pairs))


def restore(data: bytes) -> StoredRecord:
    """Return the record of `store`."""
    return msgspec.msgpack.decode(data, type=StoredRecord)
