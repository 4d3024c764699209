"""Write records for the API: predictions in the background, events and labels with an answer."""

import logging
import threading
from collections.abc import Callable, Mapping

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from kaboost.service.request_context import CURRENT

POLL_SECONDS = 0.1
# Idempotent, so that a retry writes no record twice and none out of order.
CONFIG = {
    "enable.idempotence": True,
    "linger.ms": 5,
    "message.timeout.ms": 30_000,
    "message.max.bytes": 1_000_000_000,  # the topic's limit applies
    "log_level": 2,
}

Place = tuple[str, int, int]  # topic, partition, offset
Delivered = Callable[[Place | None, str], None]  # called with the place, or None and the reason

log = logging.getLogger(__name__)


class RecordSender:
    """A producer that is made at the first record; a thread of its own serves the broker."""

    def __init__(self, client: Mapping[str, str], max_pending: int) -> None:
        self._client = client
        self._max_pending = max_pending
        self._lock = threading.Lock()
        self._producer: Producer | None = None
        self._failing = False

    @property
    def room(self) -> int:
        """How many records may be sent now."""
        return self._max_pending - len(self._started())

    def send(self, topic: str, key: bytes | None, value: bytes, delivered: Delivered) -> bool:
        """Send a record; return false, without calling `delivered`, if too many are on their way.

        `delivered` is called from another thread.
        """
        producer = self._started()
        if len(producer) >= self._max_pending:
            return False

        def report(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                self._log_failure(topic, error)
                delivered(None, error.str())
            else:
                self._failing = False
                place = (message.topic() or "", message.partition() or 0, message.offset() or 0)
                delivered(place, "")

        try:
            producer.produce(topic, value, key, on_delivery=report, headers=_headers())
        except (BufferError, KafkaException):
            return False
        return True

    def _started(self) -> Producer:
        with self._lock:
            if self._producer is None:
                self._producer = Producer({**self._client, **CONFIG})
                threading.Thread(target=self._serve, name="sender", daemon=True).start()
            return self._producer

    def _serve(self) -> None:
        assert self._producer is not None
        while True:
            self._producer.poll(POLL_SECONDS)

    def _log_failure(self, topic: str, error: KafkaError) -> None:
        """Log the first failure of a row."""
        if not self._failing:
            self._failing = True
            log.error("record not written", extra={"topic": topic, "reason": error.str()})


def _headers() -> list[tuple[str, str | bytes | None]]:
    """Hand the trace of the request on to who reads the record."""
    ids = CURRENT.get()
    return [("traceparent", ids.trace_parent)] if ids and ids.trace_parent else []
