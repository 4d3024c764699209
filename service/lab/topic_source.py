"""The records of a topic, from a moment on to where it ends now."""

import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlsplit

from prometheus_client import CollectorRegistry

from kaboost.service.config.settings import Kafka
from kaboost.service.errors import BrokerError, ConfigError
from kaboost.service.kafka.consumer import KafkaConsumer
from kaboost.service.kafka.identity import Identity
from kaboost.service.kafka.topics import wait
from kaboost.service.lab.records import Batch
from kaboost.service.metrics import learner_metrics
from kaboost.service.onboarding.topic_sample import RawRecord, read_first

SCHEME = "kafka://"
SILENCE_SECONDS = 30.0  # without a record before the end
KEYS = ("from", "bootstrap")


class TopicAddress(NamedTuple):
    """What an address such as kafka://payments?from=2026-11-01T00:00:00Z names."""

    topic: str
    start: str | None = None
    bootstrap: str | None = None

    @classmethod
    def parse(cls, text: str) -> "TopicAddress":
        """Read an address; the broker may stand before the topic: kafka://broker:9092/payments.

        Raises
        ------
        ConfigError
            Without a topic, and for an unknown key.

        Examples
        --------
        >>> TopicAddress.parse("kafka://payments?from=earliest")
        TopicAddress(topic='payments', start='earliest', bootstrap=None)
        """
        parts = urlsplit(text)
        topic, bootstrap = parts.netloc, None
        if path := parts.path.strip("/"):
            topic, bootstrap = path, parts.netloc
        query = dict(parse_qsl(parts.query))
        unknown = sorted(query.keys() - set(KEYS))
        if not topic or unknown:
            why = f"{unknown[0]}: is not known" if unknown else "names no topic"
            raise ConfigError(f"{text}: {why}; write kafka://TOPIC?from=2026-11-01T00:00:00Z")
        return cls(topic, query.get("from"), query.get("bootstrap") or bootstrap)

    def flags(self) -> dict[str, object]:
        """Return the settings that the address stands for."""
        named = {
            "kafka.topic": self.topic,
            "kafka.start_from": self.start,
            "kafka.bootstrap_servers": self.bootstrap,
        }
        return {key: value for key, value in named.items() if value is not None}


class TopicRecords:
    """Records of all partitions up to their present ends; nothing is committed."""

    def __init__(self, kafka: Kafka) -> None:
        self._kafka = kafka
        self.name = f"topic {kafka.topic}"
        self.notes: list[str] = []
        self._consumer = KafkaConsumer(kafka, learner_metrics(CollectorRegistry()), note_ends=True)
        with ExitStack() as stack:
            stack.callback(self._consumer.close)
            partitions = wait(self._consumer.client, kafka, lambda: True)
            self._consumer.check_identity(Identity())
            self.offsets = self._consumer.start_offsets(partitions)
            self._ends = {p: self._consumer.watermarks(p)[1] for p in partitions}
            stack.pop_all()
        self._first = dict(self.offsets)
        self._read: Mapping[int, int] = self._first
        if len(partitions) > 1:
            self.notes.append(
                f"{len(partitions)} partitions: their records are learned in the order in which "
                "they arrive, which may differ from that of a service"
            )

    @property
    def identity(self) -> Identity:
        """The ids of the topic and its cluster."""
        return self._consumer.identity

    @property
    def fraction(self) -> float | None:
        """Which part was read."""
        total = sum(self._ends[p] - first for p, first in self._first.items())
        left = sum(max(self._ends[p] - now, 0) for p, now in self._read.items())
        return 1.0 - left / total if total > 0 else 1.0

    def sample(self, count: int) -> list[RawRecord]:
        """Return the first records of the topic."""
        return read_first(self._kafka.client(), self._kafka.topic, count).records

    def batches(self, size: int) -> Iterator[Batch]:
        """Yield all records before the ends.

        Raises
        ------
        BrokerError
            If the broker gives no record for long.
        """
        self._read = read = dict(self.offsets)
        self._consumer.assign(read, {})
        last = time.monotonic()
        while self._is_open(read):
            messages: list[Any] = self._consumer.poll(size)
            if messages:
                last = time.monotonic()
            elif time.monotonic() - last > SILENCE_SECONDS:
                raise BrokerError(
                    f"{self.name} gave no record for {SILENCE_SECONDS:g} s before its end: see "
                    "whether its brokers run"
                )
            read.update({m.partition(): m.offset() + 1 for m in messages})
            kept = [m for m in messages if m.offset() < self._ends[m.partition()]]
            if kept:
                yield Batch(kept)

    def close(self) -> None:
        """Release the client."""
        self._consumer.close()

    def _is_open(self, read: Mapping[int, int]) -> bool:
        """Whether a partition has unread records; the last ones may be of transactions' marks."""
        at_end = self._consumer.ends
        return any(read[p] < end and (at_end.get(p) or 0) < end for p, end in self._ends.items())
