"""The replay of a topic: from the first offset to where the topic ended when the replay began."""

import logging
import time
from collections.abc import Mapping

from confluent_kafka import Consumer, TopicPartition
from prometheus_client import Gauge

from kaboost.service.errors import BrokerError

REQUEST_SECONDS = 10.0  # for one request to the broker
QUIET_SECONDS = 2.0  # without a record, after which missing offsets are holes of the topic
LOG_SECONDS = 5.0  # between two log lines

log = logging.getLogger(__name__)


class Replay:
    """Count the records of every partition that are replayed; the ends are fixed at the start."""

    def __init__(
        self, consumer: Consumer, topic: str, starts: Mapping[int, int], lag: Gauge
    ) -> None:
        self._consumer = consumer
        self._topic = topic
        self._starts = dict(starts)
        self._lag = lag  # {topic, partition}, set by the consumer once a second
        self.ends = {partition: self._end(partition) for partition in starts}
        self._done = False
        self._began = self._last_move = self._last_log = time.monotonic()
        self._offsets = dict(starts)

    def update(self, offsets: Mapping[int, int]) -> None:
        """Take the current offsets; log every few seconds, and at the end."""
        now = time.monotonic()
        if dict(offsets) != self._offsets:
            self._offsets, self._last_move = dict(offsets), now
        quiet = now - self._last_move > QUIET_SECONDS
        self._done = all(
            self._offsets[p] >= end or (quiet and self._ends_in_hole(p, end))
            for p, end in self.ends.items()
        )
        if self._done:
            fields = {"records": self._counts()[1], "seconds": round(now - self._began, 1)}
            log.info("replayed", extra=fields)
        elif now - self._last_log >= LOG_SECONDS:
            self._last_log = now
            log.info("replaying", extra={"progress": self.describe()})

    @property
    def done(self) -> bool:
        """Whether all records that were there at the start are read."""
        return self._done

    def describe(self) -> str:
        """Describe the progress in a sentence."""
        read, total = self._counts()
        percent = 100.0 * read / total if total else 100.0
        return (
            "the model is being rebuilt from the topic: "
            f"replayed {read} of {total} records ({percent:.1f} %)"
        )

    def _counts(self) -> tuple[int, int]:
        total = {p: max(0, end - self._starts[p]) for p, end in self.ends.items()}
        read = {p: min(total[p], self._offsets[p] - self._starts[p]) for p in total}
        return sum(read.values()), sum(total.values())

    def _ends_in_hole(self, partition: int, end: int) -> bool:
        """Return whether no record comes before the end: the client knows it, and is idle."""
        at = TopicPartition(self._topic, partition)
        watermarks = self._consumer.get_watermark_offsets(at, cached=True)
        return watermarks[1] >= end and self._current_lag(partition) == 0.0

    def _current_lag(self, partition: int) -> float | None:
        labels = {"topic": self._topic, "partition": str(partition)}
        samples = (sample for family in self._lag.collect() for sample in family.samples)
        return next((sample.value for sample in samples if sample.labels == labels), None)

    def _end(self, partition: int) -> int:
        at = TopicPartition(self._topic, partition)
        watermarks = self._consumer.get_watermark_offsets(at, REQUEST_SECONDS)
        if watermarks is None:
            raise BrokerError(f"{self._topic}[{partition}] gave no answer in {REQUEST_SECONDS:g} s")
        return int(watermarks[1])
