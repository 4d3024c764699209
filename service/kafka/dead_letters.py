"""Write records that are no events to the dead-letter topic, unchanged and at least once."""

import logging
import time
from collections.abc import Mapping
from functools import partial
from typing import NamedTuple

from confluent_kafka import KafkaError, Message, Producer
from prometheus_client import Counter

from kaboost.service.errors import EventError
from kaboost.service.kafka.letters import Headers, reason_headers
from kaboost.service.kafka.stored_record import StoredRecord

MAX_PENDING_BYTES = 8 * 1024 * 1024  # not confirmed; beyond it learning waits
RETRY_SECONDS = 1.0
HEADER_BYTES = 2_000  # of one dead letter, at most
# Not idempotent on purpose: duplicates are allowed, and an idempotent producer can fail for good.
REQUIRED_CONFIG = {
    "acks": "all",
    "linger.ms": 5,
    "message.timeout.ms": 0,  # a dead letter never expires
    "message.max.bytes": 1_000_000_000,  # the topic's limit applies
    # The source's batch may have been compressed: what was small there must be small here.
    "compression.type": "zstd",
}

UNCONFIRMED = (
    "dead letters are not confirmed, so no checkpoint can be written: repair their topic first"
)

log = logging.getLogger(__name__)


class Letter(NamedTuple):
    """One dead letter that is not confirmed."""

    key: bytes | None
    value: bytes | None
    headers: Headers
    reason: str
    since: float  # monotonic seconds

    @property
    def size(self) -> int:
        """Its bytes, headers included."""
        return len(self.key or b"") + len(self.value or b"") + HEADER_BYTES


class DeadLetters:
    """The dead letters that the broker has not confirmed yet, and their producer."""

    def __init__(
        self,
        client: Mapping[str, str],
        topic: str,
        timeout: float,
        written: Counter,
        connector: str = "kaboost",
    ) -> None:
        self._topic = topic
        self._connector = connector  # in the headers: the name of the model
        self._timeout = timeout
        self._written = written
        self._producer = Producer(
            {"log_level": 2, **client, **REQUIRED_CONFIG}
        )  # errors come with the confirmations
        self._pending: dict[int, Letter] = {}  # by number, the oldest first
        self._failed: list[int] = []
        self._pending_bytes = 0
        self._sent = 0
        self._retry_at = 0.0
        self._failing = False

    @property
    def outstanding(self) -> int:
        """How many dead letters are not confirmed."""
        return len(self._pending)

    @property
    def stuck(self) -> bool:
        """Whether the topic cannot be written: a letter waits too long."""
        if not self._pending:
            return False
        oldest = next(iter(self._pending.values()))
        return time.monotonic() - oldest.since > self._timeout

    @property
    def full(self) -> bool:
        """Whether so much is on its way that no more should be read meanwhile; no fault."""
        return self._pending_bytes > MAX_PENDING_BYTES

    def send(self, message: Message | StoredRecord, error: EventError, decoder: type) -> None:
        """Send one record with the reason; `outstanding` counts it until it is confirmed."""
        letter = write(message, error, decoder, self._connector)
        self._sent += 1
        self._pending[self._sent] = letter
        self._pending_bytes += letter.size
        self._produce(self._sent)

    def poll(self, timeout: float = 0.0) -> None:
        """Process confirmations; send failed letters again."""
        self._producer.poll(timeout)
        if self._failed and time.monotonic() >= self._retry_at:
            failed, self._failed = self._failed, []
            self._retry_at = time.monotonic() + RETRY_SECONDS
            for number in failed:
                self._produce(number)

    def confirm(self, timeout: float) -> bool:
        """Wait until all are confirmed; return false if that takes too long."""
        deadline = time.monotonic() + timeout
        while self._pending and time.monotonic() < deadline:
            self.poll(0.05)
        return not self._pending

    def close(self) -> None:
        """Drop what is not confirmed: no checkpoint has passed it, so it will be sent again."""
        self._producer.purge()
        self._producer.poll(0)

    def _produce(self, number: int) -> None:
        letter = self._pending[number]
        try:
            self._producer.produce(
                self._topic,
                letter.value,
                letter.key,
                headers=letter.headers,
                on_delivery=partial(self._delivered, number),
            )
        except BufferError:
            self._failed.append(number)

    def _delivered(self, number: int, error: KafkaError | None, _: Message) -> None:
        if error is not None:
            self._failed.append(number)
            self._log_failure(error)
            return
        letter = self._pending.pop(number)
        self._pending_bytes -= letter.size
        self._written.labels(letter.reason).inc()
        self._failing = False

    def _log_failure(self, error: KafkaError) -> None:
        """Log the first failure of a row."""
        if not self._failing:
            self._failing = True
            fields = {"topic": self._topic, "reason": error.str(), "waiting": len(self._pending)}
            log.error("dead letters cannot be written, they are tried again", extra=fields)


def write(
    message: Message | StoredRecord, error: EventError, decoder: type, connector: str
) -> Letter:
    """Make the dead letter of a record: its content unchanged, plus origin, decoder and reason."""
    reason = reason_headers(message, error, decoder, connector)
    headers: Headers = [*(message.headers() or ()), *reason]
    return Letter(message.key(), message.value(), headers, error.code, time.monotonic())
