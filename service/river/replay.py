"""How far a live model is on its way from the beginning of the topic to where it ended at the
start.
"""

import logging
import time
from collections.abc import Mapping

from confluent_kafka import Consumer, TopicPartition
from prometheus_client import Gauge

from kaboost.service.errors import BrokerError

ASK = 10.0  # seconds for one question to the broker
QUIET = 2.0  # seconds without a record after which what is missing are holes of the topic
SAY = 5.0  # seconds between two log lines

log = logging.getLogger(__name__)


class Replay:
    """The stretch of every partition that is replayed; its end was fixed when it began."""

    def __init__(
        self, consumer: Consumer, topic: str, starts: Mapping[int, int], lag: Gauge
    ) -> None:
        self._consumer = consumer
        self._topic = topic
        self._starts = dict(starts)
        self._lag = lag  # {topic, partition}, set by the door once a second
        self.ends = {partition: self._end(partition) for partition in starts}
        self._done = False
        self._began = self._moved = self._said = time.monotonic()
        self._reached = dict(starts)

    def note(self, positions: Mapping[int, int]) -> None:
        """Take the positions of now; log every few seconds, and the end."""
        now = time.monotonic()
        if dict(positions) != self._reached:
            self._reached, self._moved = dict(positions), now
        quiet = now - self._moved > QUIET
        self._done = all(
            self._reached[p] >= end or (quiet and self._is_hole(p, end))
            for p, end in self.ends.items()
        )
        if self._done:
            told = {"records": self._counts()[1], "seconds": round(now - self._began, 1)}
            log.info("replayed", extra=told)
        elif now - self._said >= SAY:
            self._said = now
            log.info("replaying", extra={"progress": self.describe()})

    @property
    def done(self) -> bool:
        """Whether all was read that was there when it began."""
        return self._done

    def describe(self) -> str:
        """Say in a sentence how far it is."""
        read, whole = self._counts()
        percent = 100.0 * read / whole if whole else 100.0
        return (
            "the model is being rebuilt from the topic: "
            f"replayed {read} of {whole} records ({percent:.1f} %)"
        )

    def _counts(self) -> tuple[int, int]:
        whole = {p: max(0, end - self._starts[p]) for p, end in self.ends.items()}
        read = {p: min(whole[p], self._reached[p] - self._starts[p]) for p in whole}
        return sum(read.values()), sum(whole.values())

    def _is_hole(self, partition: int, end: int) -> bool:
        """Tell the end of what can be read: records before the end that never come.

        The client has been told how far the topic goes, and has nothing in its queue.
        """
        at = TopicPartition(self._topic, partition)
        known = self._consumer.get_watermark_offsets(at, cached=True)
        return known[1] >= end and self._behind(partition) == 0.0

    def _behind(self, partition: int) -> float | None:
        wanted = {"topic": self._topic, "partition": str(partition)}
        samples = (sample for family in self._lag.collect() for sample in family.samples)
        return next((sample.value for sample in samples if sample.labels == wanted), None)

    def _end(self, partition: int) -> int:
        at = TopicPartition(self._topic, partition)
        found = self._consumer.get_watermark_offsets(at, ASK)
        if found is None:
            raise BrokerError(f"{self._topic}[{partition}] gave no answer in {ASK:g} s")
        return int(found[1])
