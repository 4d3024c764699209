"""Write what cannot be an event to the dead-letter topic, as it came, at least once."""

import logging
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import partial
from typing import NamedTuple

from confluent_kafka import KafkaError, Message, Producer
from prometheus_client import Counter

from kaboost.service.errors import EventError

FULL = 8 * 1024 * 1024  # bytes on their way at which learning waits for them
RETRY_SECONDS = 1.0
# Not idempotent on purpose: twice is allowed, and an idempotent producer can fail for good.
OURS = {
    "acks": "all",
    "linger.ms": 5,
    "message.timeout.ms": 0,  # a dead letter is never given up
    "message.max.bytes": 1_000_000_000,  # the topic decides
    # The source's batch may have been compressed: what was small there must be small here.
    "compression.type": "zstd",
}

Headers = list[tuple[str, str | bytes | None]]

log = logging.getLogger(__name__)


class Letter(NamedTuple):
    """One dead letter on its way."""

    key: bytes | None
    value: bytes | None
    headers: Headers
    reason: str
    since: float  # monotonic seconds

    @property
    def size(self) -> int:
        """Bytes that it takes, with its headers."""
        return len(self.key or b"") + len(self.value or b"") + 2_000


class DeadLetters:
    """Dead letters that the broker has not confirmed yet, and the producer that carries them."""

    def __init__(
        self, client: Mapping[str, str], topic: str, patience: float, written: Counter
    ) -> None:
        self._topic = topic
        self._patience = patience
        self._written = written
        self._producer = Producer(
            {"log_level": 2, **client, **OURS}
        )  # errors come with the letters
        self._waiting: dict[int, Letter] = {}  # by number, the oldest first
        self._failed: list[int] = []
        self._bytes = 0
        self._sent = 0
        self._retry_at = 0.0
        self._trouble = False

    @property
    def outstanding(self) -> int:
        """How many are not confirmed."""
        return len(self._waiting)

    @property
    def stuck(self) -> bool:
        """Whether the topic cannot be written: one has waited too long, or too many do."""
        if not self._waiting:
            return False
        oldest = next(iter(self._waiting.values()))
        return self._bytes > FULL or time.monotonic() - oldest.since > self._patience

    def send(self, message: Message, error: EventError) -> None:
        """Hand one record over, with the reason; `outstanding` tells when it has arrived."""
        letter = write(message, error)
        self._sent += 1
        self._waiting[self._sent] = letter
        self._bytes += letter.size
        self._produce(self._sent)

    def poll(self, timeout: float = 0.0) -> None:
        """Take the broker's answers; send again what failed."""
        self._producer.poll(timeout)
        if self._failed and time.monotonic() >= self._retry_at:
            failed, self._failed = self._failed, []
            self._retry_at = time.monotonic() + RETRY_SECONDS
            for number in failed:
                self._produce(number)

    def confirm(self, timeout: float) -> bool:
        """Wait until all are confirmed; false when the time is up first."""
        deadline = time.monotonic() + timeout
        while self._waiting and time.monotonic() < deadline:
            self.poll(0.05)
        return not self._waiting

    def close(self) -> None:
        """Give up what is not confirmed: no checkpoint has passed it, it will come again."""
        self._producer.purge()
        self._producer.poll(0)

    def _produce(self, number: int) -> None:
        letter = self._waiting[number]
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
            self._say(error)
            return
        letter = self._waiting.pop(number)
        self._bytes -= letter.size
        self._written.labels(letter.reason).inc()
        self._trouble = False

    def _say(self, error: KafkaError) -> None:
        """Log the beginning of a trouble, not every letter of it."""
        if not self._trouble:
            self._trouble = True
            told = {"topic": self._topic, "reason": error.str(), "waiting": len(self._waiting)}
            log.error("dead letters cannot be written, they are tried again", extra=told)


def write(message: Message, error: EventError) -> Letter:
    """Make the dead letter of a record: key, value, headers unchanged, and where and why."""
    now = datetime.now(UTC)
    where = f"{message.topic()}[{message.partition()}]@{message.offset()}"
    told = {
        "__connect.errors.topic": message.topic(),
        "__connect.errors.partition": message.partition(),
        "__connect.errors.offset": message.offset(),
        "__connect.errors.stage": "VALUE_CONVERTER",
        "__connect.errors.class.name": "kaboost.service.events.decoder.Decoder",
        "__connect.errors.exception.class.name": "kaboost.service.errors.EventError",
        "__connect.errors.exception.message": f"{where}: {error.message}",
        "kaboost.error.code": error.code,
        "kaboost.failed_at": now.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
    }
    headers: Headers = [*(message.headers() or ()), *((k, str(v)) for k, v in told.items())]
    return Letter(message.key(), message.value(), headers, error.code, time.monotonic())
