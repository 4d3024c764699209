"""The Kafka door: one consumer of assigned partitions, read in order, watched for gaps."""

import logging
import threading
import time
from collections.abc import Mapping
from operator import methodcaller
from typing import Any

import msgspec
from confluent_kafka import OFFSET_INVALID, Consumer, KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as At

from kaboost.service.config.settings import Kafka
from kaboost.service.errors import BrokerError, ConfigError, Refused
from kaboost.service.kafka import topics
from kaboost.service.metrics import LearnerMetrics

ASK = 10.0  # seconds for one question to the broker
SILENCE = 3.0  # seconds without statistics that mean nothing: they come every second
LEAVE = 5.0  # seconds for the last commit
NEW_PARTITIONS = 30.0  # seconds between two looks for them

# What may be overruled by kafka.extra: it makes reading fast and small.
TUNING = {
    "fetch.queue.backoff.ms": 20,  # by default 1000: a backlog is read 3-8 times slower
    "queued.max.messages.kbytes": 16_384,  # the whole of a full queue is in memory
    "log_level": 2,  # errors come to `_on_error`
}
# What may not: with these alone each event counts exactly once.
FIXED = {
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "auto.offset.reset": "error",
    "enable.partition.eof": False,
    "statistics.interval.ms": 1000,
}

# A broker that has just started looks for the group's coordinator, and the client does not wait.
MOVING = {
    KafkaError.NOT_COORDINATOR,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
}

log = logging.getLogger(__name__)

_ERROR = methodcaller("error")  # called for every record


class _Partition(msgspec.Struct):
    next_offset: int
    hi_offset: int
    fetchq_cnt: int


class _Topic(msgspec.Struct):
    partitions: dict[int, _Partition]


class _Broker(msgspec.Struct):
    state: str


class _Statistics(msgspec.Struct):
    brokers: dict[str, _Broker]
    topics: dict[str, _Topic] = {}


class Source:
    """One consumer, owned by one thread; it has no group to wait for, only assigned partitions."""

    def __init__(self, kafka: Kafka, metrics: LearnerMetrics) -> None:
        self._kafka = kafka
        self._metrics = metrics
        self._positions: dict[int, int] = {}  # the room's own: it moves them
        self._last: dict[int, Message] = {}  # the last record of every partition
        self._statistics = msgspec.json.Decoder(_Statistics)
        self._contact = self._looked = time.monotonic()
        self._missing: float | None = None  # since when the topic is gone
        self._paused = False
        self._troubles: set[int] = set()  # error codes that were logged since the last contact
        callbacks = {
            "stats_cb": self._on_statistics,
            "error_cb": self._on_error,
            "on_commit": self._on_commit,
        }
        own = {**FIXED, "group.id": kafka.group_id, **callbacks}
        try:
            self._consumer = Consumer({**TUNING, **kafka.client(), **own})
        except KafkaException as err:
            raise ConfigError(f"kafka.extra does not fit: {err.args[0].str()}") from err

    @property
    def consumer(self) -> Consumer:
        """The client, for questions before the first assignment."""
        return self._consumer

    def begin(self, partitions: list[int]) -> dict[int, int]:
        """Resolve `kafka.start_from` to a number for every partition, the empty ones too."""
        if self._kafka.start_ms is None:
            latest = self._kafka.start_from == "latest"
            return {p: self._watermarks(p)[latest] for p in partitions}
        asked = [At(self._kafka.topic, p, self._kafka.start_ms) for p in partitions]
        found = {at.partition: at.offset for at in self._consumer.offsets_for_times(asked, ASK)}
        return {p: o if o >= 0 else self._watermarks(p)[1] for p, o in found.items()}

    def is_committed(self, partitions: list[int]) -> bool:
        """Say whether the group has committed offsets: somebody has learned from here before."""
        asked = [At(self._kafka.topic, partition) for partition in partitions]
        deadline = time.monotonic() + ASK
        while True:
            try:
                found = self._consumer.committed(asked, ASK)
            except KafkaException as err:
                if err.args[0].code() not in MOVING or time.monotonic() > deadline:
                    raise
                time.sleep(0.2)
            else:
                return any(at.offset != OFFSET_INVALID for at in found)

    def assign(self, positions: dict[int, int]) -> None:
        """Read from these offsets on; refuse where the topic does not hold what comes next."""
        for partition, offset in positions.items():
            low, high = self._watermarks(partition)
            if not low <= offset <= high:
                raise self._gap(partition, offset, low, high)
        self._positions = positions
        self._consumer.assign([At(self._kafka.topic, p, o) for p, o in positions.items()])
        if self._paused:
            self.pause()  # what was not assigned before would be read

    def poll(self, limit: int) -> list[Message]:
        """Read what is there, at most `limit` records; wait a moment for the first."""
        # `consume` alone would wait until the whole batch is there or the time is up.
        first = self._consumer.poll(0.1)
        if first is None:
            self._check_contact()
            return []
        messages = [first, *self._consumer.consume(limit - 1, 0)] if limit > 1 else [first]
        self._contact = time.monotonic()
        records = messages
        if any(map(_ERROR, messages)):
            records = [message for message in messages if message.error() is None]
        if records and len(self._positions) == 1:
            self._last = {records[-1].partition() or 0: records[-1]}
        else:
            self._last.update((message.partition() or 0, message) for message in records)
        for message in messages if len(records) < len(messages) else ():
            self._judge(message)
        return records

    def look_for_partitions(self) -> None:
        """Every now and then list the partitions again; new ones are read from offset 0."""
        if time.monotonic() - self._looked > NEW_PARTITIONS:
            self._looked = time.monotonic()
            self.add_partitions()

    def add_partitions(self) -> None:
        """List the partitions; take the new ones from offset 0. Notice a topic that went away."""
        try:
            found = topics.find(self._consumer, self._kafka.topic)
        except KafkaException as err:
            self._miss(err.args[0])
            return
        self._missing = None
        new = dict.fromkeys(set(found) - self._positions.keys(), 0)
        if new:
            self._positions.update(new)
            self.assign(self._positions)
            log.info("new partitions", extra={"partitions": sorted(new)})

    def pause(self) -> None:
        """Stop reading; `poll` goes on answering the broker."""
        self._paused = True
        self._consumer.pause(self._consumer.assignment())

    def resume(self) -> None:
        """Read on."""
        self._paused = False
        self._consumer.resume(self._consumer.assignment())

    def commit(self, offsets: Mapping[int, int]) -> None:
        """Show lag tools how far a durable checkpoint reaches; nothing here reads it back."""
        at = [At(self._kafka.topic, partition, offset) for partition, offset in offsets.items()]
        self._consumer.commit(offsets=at, asynchronous=True)

    def close(self) -> None:
        """Leave when the last commit has arrived; one that a lost broker owes is not waited for.

        The client itself would wait for ever.
        """
        leaving = threading.Thread(target=self._consumer.close, daemon=True)
        leaving.start()
        leaving.join(LEAVE)

    def _watermarks(self, partition: int) -> tuple[int, int]:
        found = self._consumer.get_watermark_offsets(At(self._kafka.topic, partition), ASK)
        if found is None:
            raise BrokerError(self._name(partition, f"gave no answer in {ASK:g} s"))
        return found

    def _name(self, partition: int, told: str) -> str:
        return f"{self._kafka.topic}[{partition}] {told}"

    def _gap(self, partition: int, offset: int, low: int, high: int) -> Refused:
        held = self._name(
            partition, f"holds offsets {low} to {high}, the state goes on at {offset}"
        )
        lost = "events between were deleted" if offset < low else "the topic was made anew"
        return Refused(f"{held}: {lost}; begin a new model with --cold-start, or restore the topic")

    def _judge(self, message: Message) -> None:
        """Decide what the error that came in place of a record means."""
        error = message.error()
        if error is None:
            return
        partition = message.partition() or 0
        if error.code() == KafkaError._AUTO_OFFSET_RESET:
            raise self._gap(partition, self._positions[partition], *self._watermarks(partition))
        if error.code() in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_PARTITION):
            self._miss(error)
        else:
            raise BrokerError(self._name(partition, f"cannot be read: {error.str()}"))

    def _miss(self, error: KafkaError) -> None:
        """Give a missing topic time to come back; one that is made anew is a gap."""
        if error.code() < 0 and error.code() != KafkaError._UNKNOWN_PARTITION:
            return  # no answer at all: that is for `_check_contact`
        now = time.monotonic()
        self._missing = self._missing or now
        if now - self._missing > self._kafka.topic_timeout:
            raise BrokerError(f"topic {self._kafka.topic} went away: {error.str()}")

    def _check_contact(self) -> None:
        silent = time.monotonic() - self._contact
        if silent > max(self._kafka.broker_timeout, SILENCE):
            raise BrokerError(
                f"no broker at {self._kafka.bootstrap_servers} for {silent:.0f} s: "
                "the state is safe, start again when it is back"
            )

    def _on_statistics(self, text: str) -> None:
        told = self._statistics.decode(text)
        if any(broker.state == "UP" for broker in told.brokers.values()):
            self._contact = time.monotonic()
            self._troubles.clear()
        if self._kafka.topic in told.topics:
            self._show_lag(told.topics[self._kafka.topic].partitions)

    def _show_lag(self, partitions: Mapping[int, _Partition]) -> None:
        for partition, position in self._positions.items():
            if partition in partitions:
                seen = partitions[partition]
                # With an empty queue the client stands behind markers that are no records.
                reached = seen.next_offset if seen.fetchq_cnt == 0 else position
                lag = max(0, seen.hi_offset - max(position, reached))
                self._metrics.lag_records.labels(self._kafka.topic, partition).set(lag)
                age = self._age(partition) if lag else 0.0
                self._metrics.lag_seconds.labels(self._kafka.topic, partition).set(age)

    def _age(self, partition: int) -> float:
        """Give the seconds since the last record that was read from a partition."""
        last = self._last.get(partition)
        return 0.0 if last is None else max(0.0, time.time() - last.timestamp()[1] / 1000)

    def _on_error(self, error: KafkaError) -> None:
        if error.code() not in self._troubles:
            self._troubles.add(error.code())
            log.warning("trouble with the broker", extra={"reason": error.str()})

    def _on_commit(self, error: KafkaError | None, _: Any) -> None:
        if error is not None:
            self._on_error(error)
