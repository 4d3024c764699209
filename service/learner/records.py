"""Look up the records of decoded events: which ones they are, their headers and times."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import chain
from operator import methodcaller

from confluent_kafka import Message

from kaboost.service.events.decoder import Decoded, Headers, Metadata
from kaboost.service.kafka.identity import RecordMark, mark_of
from kaboost.service.kafka.stored_record import StoredRecord

_OFFSET = methodcaller("offset")


def events_of(messages: Sequence[Message], decoded: Decoded) -> Iterator[Message]:
    """Yield the records of the decoded events, in order."""
    others = {index for index, _ in chain(decoded.faults, decoded.skipped)}
    return (message for index, message in enumerate(messages) if index not in others)


def headers_of(messages: Sequence[Message], index: int) -> Headers:
    """Return the headers of one of some records."""
    headers = messages[index].headers() or ()
    return list(headers.items()) if isinstance(headers, dict) else headers


def event_seconds(message: Message, meta: Metadata) -> float:
    """Return an event's time, or else its record's, in seconds since 1970."""
    timestamp = meta.timestamp
    if isinstance(timestamp, datetime):
        return timestamp.timestamp()
    return (message.timestamp()[1] if timestamp is None else timestamp) / 1000


def split(messages: Sequence[Message], topic: str) -> tuple[list[Message], list[Message]]:
    """Return the records of other topics than this one, and its own."""
    both: tuple[list[Message], list[Message]] = ([], [])
    for message in messages:
        both[message.topic() == topic].append(message)
    return both


def unread_of(
    messages: Sequence[Message], offsets: dict[int, int], marks: dict[int, RecordMark]
) -> Sequence[Message]:
    """Move offsets and marks past some records; return those not read before."""
    if len(offsets) == 1:
        ((only, first),) = offsets.items()
        after = first + len(messages)
        if list(map(_OFFSET, messages)) == list(range(first, after)):  # as nearly always
            offsets[only] = after
            if messages:
                marks[only] = mark_of(messages[-1])
            return messages
    unread: list[Message] = []
    for message in messages:
        partition: int = message.partition()  # type: ignore[assignment] # a record has both
        offset: int = message.offset()  # type: ignore[assignment]
        if offset >= offsets[partition]:  # else read before: the client went back
            offsets[partition] = offset + 1
            unread.append(message)
    last = {message.partition() or 0: message for message in unread}
    marks.update((partition, mark_of(message)) for partition, message in last.items())
    return unread


def place_of(message: Message | StoredRecord) -> str:
    """Name the place of a record: topic, partition and offset."""
    return f"{message.topic()}[{message.partition()}]@{message.offset()}"


def record_seconds(message: Message) -> float:
    """Return the time that Kafka has of a record, seconds since 1970."""
    return float(message.timestamp()[1]) / 1000.0
