"""A dead letter as it is on its topic: the record's own content, then the headers of its reason."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple, Self

from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Message

from kaboost.service.errors import EventError, InternalFault
from kaboost.service.kafka.stored_record import StoredRecord

CONNECT = "__connect.errors."  # the ten of Kafka Connect's dead letters
TOPIC, PARTITION, OFFSET = (f"{CONNECT}{key}" for key in ("topic", "partition", "offset"))
MESSAGE = f"{CONNECT}exception.message"
STACK = f"{CONNECT}exception.stacktrace"
CODE, FAILED_AT, TIMESTAMP = "kaboost.error.code", "kaboost.failed_at", "kaboost.timestamp"
REPLAYED_FROM = "kaboost.replayed.from"  # of a record that was replayed: its first origin
CONNECTOR, TASK = "connector.name", "task.id"
FAULT = "kaboost.service.errors.EventError"
STACK_CHARS = 4_000  # the end of a longer stack is kept

ADDED = {
    *(f"{CONNECT}{key}" for key in ("topic", "partition", "offset", CONNECTOR, TASK, "stage")),
    *(f"{CONNECT}{key}" for key in ("class.name", "exception.class.name")),
    *(MESSAGE, STACK, CODE, FAILED_AT, TIMESTAMP),
}
PLACE = re.compile(r"([A-Za-z0-9._-]{1,249})\[(\d{1,9})\]@(\d{1,18})")

Headers = list[tuple[str, str | bytes | None]]


class Origin(NamedTuple):
    """Where a record is, or was at first."""

    topic: str
    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.topic}[{self.partition}]@{self.offset}"

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Return the place that logs write as topic[partition]@offset, None for other text."""
        match = PLACE.fullmatch(text)
        return cls(match[1], int(match[2]), int(match[3])) if match else None

    @classmethod
    def of(cls, message: Message | StoredRecord) -> Self:
        """Return the place of a record."""
        return cls(message.topic() or "", message.partition() or 0, message.offset() or 0)


class DeadLetter(NamedTuple):
    """A dead letter that was read back."""

    place: Origin  # on the topic of dead letters
    origin: Origin  # of the record
    key: bytes | None
    value: bytes | None
    headers: Headers  # of the record, without those of its reason
    reason: Mapping[str, str]  # the headers that were added

    @property
    def code(self) -> str:
        """The reason in one word."""
        return self.reason.get(CODE, "")

    @property
    def first_origin(self) -> Origin:
        """Where the event came from before any replay: what was replayed may fail again."""
        return replayed_from(self.headers) or self.origin

    @property
    def remedy(self) -> str:
        """What is wrong, and what to do about it."""
        return self.reason.get(MESSAGE, "").removeprefix(f"{self.origin}: ")

    @property
    def failed_at(self) -> str:
        """When it became a dead letter, RFC 3339."""
        return self.reason.get(FAILED_AT, "")

    @property
    def timestamp(self) -> int | None:
        """The record's time in milliseconds since 1970, if it was known."""
        text = self.reason.get(TIMESTAMP, "")
        return int(text) if text.isdecimal() else None


def reason_headers(
    message: Message | StoredRecord, error: EventError, decoder: type, connector: str
) -> Headers:
    """Return the headers that say where a record came from and why it is a dead letter."""
    origin, now = Origin.of(message), datetime.now(UTC)
    stage, raised = "VALUE_CONVERTER", FAULT
    stack = f"{FAULT}: {error.message}"  # the place in our code explains no fault of a record
    if isinstance(error, InternalFault):
        stage, raised, stack = "TASK_PUT", error.raised, error.stack
    text = f"{origin}: {error.message}"
    known = {
        TOPIC: origin.topic,
        PARTITION: origin.partition,
        OFFSET: origin.offset,
        f"{CONNECT}{CONNECTOR}": connector,
        f"{CONNECT}{TASK}": 0,
        f"{CONNECT}stage": stage,
        f"{CONNECT}class.name": f"{decoder.__module__}.{decoder.__qualname__}",
        f"{CONNECT}exception.class.name": raised,
        MESSAGE: text,
        STACK: stack,
        CODE: error.code,
        FAILED_AT: now.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
    }
    time = None if isinstance(message, StoredRecord) else message.timestamp()
    if time is not None and time[0] != TIMESTAMP_NOT_AVAILABLE:
        known[TIMESTAMP] = time[1]
    return [(name, str(value)) for name, value in known.items()]


def read_letter(message: Message) -> DeadLetter | None:
    """Take a dead letter apart; None for a record that none of our learners has written.

    The added headers are the last ones: a record may have brought headers of the same names.
    """
    given: Any = message.headers() or ()
    headers: Headers = list(given)
    reason: dict[str, str] = {}
    while headers and headers[-1][0] in ADDED - reason.keys():
        name, value = headers.pop()
        reason[name] = value.decode("utf-8", "replace") if isinstance(value, bytes) else value or ""
    origin = Origin.parse(f"{reason.get(TOPIC)}[{reason.get(PARTITION)}]@{reason.get(OFFSET)}")
    if origin is None or CODE not in reason:
        return None
    return DeadLetter(Origin.of(message), origin, message.key(), message.value(), headers, reason)


def replayed_from(headers: Headers) -> Origin | None:
    """Return the first origin of a record that was replayed, None of any other."""
    for name, value in headers:
        if name == REPLAYED_FROM and value is not None:
            text = value.decode("utf-8", "replace") if isinstance(value, bytes) else value
            return Origin.parse(text)
    return None
