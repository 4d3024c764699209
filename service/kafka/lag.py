"""Consumer lag: from the client's own statistics to the metrics."""

import math
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Protocol

import msgspec
from confluent_kafka import Message
from prometheus_client import Counter, Gauge

from kaboost.service.kafka.fetch_watch import NO_LEADER, Position
from kaboost.service.kafka.identity import RecordMark


class _Partition(msgspec.Struct):
    next_offset: int
    hi_offset: int
    fetchq_cnt: int
    leader: int = 0


class _Topic(msgspec.Struct):
    partitions: dict[int, _Partition]


class _Broker(msgspec.Struct):
    state: str
    rx: int = 0  # answers so far


class Statistics(msgspec.Struct):
    """The part of librdkafka's statistics that is read here."""

    brokers: dict[str, _Broker]
    topics: dict[str, _Topic] = {}

    @property
    def connected(self) -> bool:
        """Whether any broker is connected."""
        return any(broker.state == "UP" for broker in self.brokers.values())

    @property
    def answers(self) -> int:
        """How many answers all brokers have given."""
        return sum(broker.rx for broker in self.brokers.values())

    def positions(self, topic: str, offsets: Mapping[int, int]) -> dict[int, Position]:
        """Return how far the partitions with these next offsets are read; those that are known."""
        known = self.topics[topic].partitions if topic in self.topics else {}
        return {
            p: Position(offset, known[p].next_offset, known[p].fetchq_cnt, known[p].leader)
            for p, offset in offsets.items()
            if p in known
        }


class LagTarget(Protocol):
    """The metrics of a process that reads a topic."""

    @property
    def lag_records(self) -> Gauge: ...

    @property
    def lag_seconds(self) -> Gauge: ...

    @property
    def records_lost(self) -> Counter: ...


parse_statistics = msgspec.json.Decoder(Statistics).decode


class LagMetrics:
    """Publish the lag of every partition of one topic, in records and in seconds."""

    def __init__(self, topic: str, metrics: LagTarget) -> None:
        self._topic = topic
        self._metrics = metrics
        self._last: dict[int, Message] = {}  # the last record of every partition, learned or not
        self.marks: Mapping[int, RecordMark] = {}  # of the last records that were learned

    def note(self, records: list[Message], *, one_partition: bool) -> None:
        """Remember the last record of every partition."""
        if one_partition:
            self._last = {records[-1].partition() or 0: records[-1]}
        else:
            self._last.update((message.partition() or 0, message) for message in records)

    def forget(self, partitions: Iterable[int]) -> None:
        """Publish nothing about partitions that are read by another process now."""
        for partition in partitions:
            self._last.pop(partition, None)
            for gauge in (self._metrics.lag_records, self._metrics.lag_seconds):
                with suppress(KeyError):  # none was published
                    gauge.remove(self._topic, partition)

    def publish(
        self,
        statistics: Statistics,
        offsets: Mapping[int, int],
        ends: Mapping[int, int],
        *,
        known: bool,
        paused: bool,
    ) -> None:
        """Set the metrics by the client's statistics, the broker's ends and the next offsets.

        NaN if not `known`, and for a partition without a leader.
        """
        partitions = statistics.topics[self._topic].partitions if self._is_in(statistics) else {}
        for partition, position in statistics.positions(self._topic, offsets).items():
            # A paused client knows no newer end than that of its last fetch.
            end = max(partitions[partition].hi_offset, ends.get(partition, 0))
            # With an empty queue the client is past transaction markers, which are no records;
            # unless what it gave waits in a buffer.
            is_past = position.queued == 0 and not paused
            is_past = is_past and not self._waits(partition, position.offset)
            reached = max(position.offset, position.fetched if is_past else 0)
            lag: float = max(0, end - reached)
            age = self._age(partition) if lag else 0.0
            if not known or position.leader == NO_LEADER:
                lag = age = math.nan
            self._metrics.lag_records.labels(self._topic, partition).set(lag)
            self._metrics.lag_seconds.labels(self._topic, partition).set(age)

    def _is_in(self, statistics: Statistics) -> bool:
        return self._topic in statistics.topics

    def _waits(self, partition: int, next_offset: int) -> bool:
        """Whether a record was read that is not learned."""
        return partition in self._last and (self._last[partition].offset() or 0) >= next_offset

    def _age(self, partition: int) -> float:
        """Return the seconds since the last record that was learned from a partition."""
        mark, last = self.marks.get(partition), self._last.get(partition)
        written = mark.time if mark else last.timestamp()[1] if last else None
        return 0.0 if written is None else max(0.0, time.time() - written / 1000)
