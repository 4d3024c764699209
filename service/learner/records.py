"""Look up the records of decoded events: which ones they are, their headers and times."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import chain

from confluent_kafka import Message

from kaboost.service.events.decoder import Decoded, Headers, Metadata


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
