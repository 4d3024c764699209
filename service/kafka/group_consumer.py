"""A consumer whose partitions its group shares; what it has read is committed in a transaction."""

import logging
import math
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Literal, NamedTuple

from confluent_kafka import OFFSET_INVALID, Consumer, KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as At

from kaboost.service.config.settings import Kafka
from kaboost.service.errors import BrokerError, ConfigError, Gap
from kaboost.service.kafka.bounded import Stuck, call_bounded
from kaboost.service.kafka.consumer import COORDINATOR_ERRORS, DEFAULT_CONFIG, POLL_SECONDS
from kaboost.service.kafka.lag import LagMetrics, LagTarget, parse_statistics

REQUEST_SECONDS = 10.0  # for one request to the broker
STABLE_SECONDS = 60.0  # for the transaction of a member that died; the broker ends it in 20
REPLACED_SECONDS = 60.0  # a client that is refused sooner after another one is not replaced
CLOSE_SECONDS = 5.0  # for a client that is of no use any more
FATAL = (KafkaError._FATAL, KafkaError.FENCED_INSTANCE_ID)
REQUIRED_CONFIG = {
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "auto.offset.reset": "error",
    "isolation.level": "read_committed",  # also of offsets: none of an open transaction
    "partition.assignment.strategy": "cooperative-sticky",
    "statistics.interval.ms": 1000,
}
# A member has its name again after a restart, and is waited for so long.
SESSION_CONFIG = {"session.timeout.ms": 10_000, "heartbeat.interval.ms": 1_000}
NOT_YET = COORDINATOR_ERRORS | {
    KafkaError.UNSTABLE_OFFSET_COMMIT,
    KafkaError._TIMED_OUT,
    KafkaError._TRANSPORT,
    KafkaError._WAIT_COORD,
    KafkaError._ALL_BROKERS_DOWN,
}

log = logging.getLogger(__name__)


class Member(NamedTuple):
    """Who reads: topic and group are those of `kafka`."""

    kafka: Kafka
    instance: str  # of no other process; the same again after a restart
    start_from: Literal["earliest", "latest"]


class GroupConsumer:
    """Read the partitions that the group assigns; one thread calls."""

    def __init__(self, member: Member, metrics: LagTarget) -> None:
        kafka = member.kafka
        self._kafka, self._instance = kafka, member.instance
        self._start_from = member.start_from
        self._metrics = metrics
        self._lag = LagMetrics(kafka.topic, metrics)
        self._next: dict[int, int] = {}  # the first offset of every partition that has no answer
        self._has_changed = False  # whether partitions came or went during a call
        self._logged_errors: set[int] = set()
        self._fatal = ""  # why the client is of no use any more
        self._replaced = -math.inf  # monotonic seconds
        self.client = self._make_client()

    def _make_client(self) -> Consumer:
        required = {
            **REQUIRED_CONFIG,
            "group.id": self._kafka.group_id,
            "group.instance.id": self._instance,
            "stats_cb": self._on_statistics,
            "error_cb": self._on_error,
        }
        try:
            return Consumer(
                {**DEFAULT_CONFIG, **SESSION_CONFIG, **self._kafka.client(), **required}
            )
        except KafkaException as err:
            raise ConfigError(f"kafka.extra does not fit: {err.args[0].str()}") from err

    @property
    def partitions(self) -> list[int]:
        """The partitions that are read here."""
        return sorted(self._next)

    def subscribe(self) -> None:
        """Join the group."""
        self.client.subscribe(
            [self._kafka.topic],
            on_assign=self._on_assign,
            on_revoke=self._on_revoke,
            on_lost=self._on_revoke,
        )

    def poll(self, limit: int, wait: float = POLL_SECONDS) -> list[Message]:
        """Read at most `limit` records that are there; wait so many seconds for the first."""
        self._has_changed = False
        if self._fatal:
            self._replace_client()
        first = self.client.poll(wait)
        if first is None:
            return []
        messages = [first, *self.client.consume(limit - 1, 0)] if limit > 1 else [first]
        records = [message for message in messages if message.error() is None]
        for message in messages if len(records) < len(messages) else ():
            self._check_error(message)
        if self._has_changed:
            # Some of these may be another member's by now, or come a second time.
            self.rewind()
            return []
        if records:
            self._logged_errors.clear()
            self._lag.note(records, one_partition=len(self._next) == 1)
        return records

    def after(self, records: Sequence[Message]) -> list[At]:
        """Return the offsets to commit once these records are answered."""
        ends = {message.partition() or 0: message.offset() or 0 for message in records}
        return [At(self._kafka.topic, partition, end + 1) for partition, end in ends.items()]

    def note_committed(self, offsets: Sequence[At]) -> None:
        """Note what a transaction has committed."""
        self._next.update({at.partition: at.offset for at in offsets if at.partition in self._next})

    def group_metadata(self) -> Any:
        """Return this member's place in the group, by which the broker refuses a former member."""
        return self.client.consumer_group_metadata()

    def rewind(self) -> None:
        """Read again from the offsets that the group has committed."""
        partitions = self.client.assignment()
        if partitions:
            self.client.incremental_unassign(partitions)
            self.client.incremental_assign(self._starts([at.partition for at in partitions]))

    def close(self) -> None:
        """Leave the partitions."""
        self.client.close()

    def _replace_client(self) -> None:
        """Join the group again with a new client.

        Where a broker dies before its answer to a request to join has come, it takes the client for
        a former member of its name, for good. So does it where another process has the name.
        """
        reason, now = self._fatal, time.monotonic()
        if now < self._replaced + REPLACED_SECONDS:
            raise BrokerError(
                f"group {self._kafka.group_id} refuses the member {self._instance}: {reason}; "
                "give each process a score.instance of its own, or leave it out"
            )
        log.warning("joining the group again", extra={"reason": reason})
        with suppress(Stuck):  # it is left behind
            call_bounded(self.client.close, CLOSE_SECONDS)
        self._next.clear()
        self._fatal, self._replaced = "", now
        self.client = self._make_client()
        self.subscribe()

    def _starts(self, partitions: Sequence[int]) -> list[At]:
        """Return where to read these partitions; refuse where the next record is gone."""
        topic = self._kafka.topic
        committed = self._committed([At(topic, partition) for partition in partitions])
        starts = []
        for at in committed:
            low, high = self._watermarks(at)
            offset = at.offset
            if offset == OFFSET_INVALID:
                offset = self._first_start(at.partition, low, high)
            elif not low <= offset <= high:
                offset = self._accept_gap(at, low, high)
            starts.append(At(topic, at.partition, offset))
        self._next.update({at.partition: at.offset for at in starts})
        return starts

    def _first_start(self, partition: int, low: int, high: int) -> int:
        """Return where a group starts; the end is committed, so that it is the same for all."""
        if self._start_from == "earliest":
            return low
        try:
            self.client.commit(offsets=[At(self._kafka.topic, partition, high)], asynchronous=False)
        except KafkaException as err:
            reason = f"group {self._kafka.group_id} takes no offsets: {err.args[0].str()}"
            raise BrokerError(reason) from err
        return high

    def _committed(self, partitions: list[At]) -> list[At]:
        """Return the offsets of the group, once no transaction is open that may change them."""
        deadline = time.monotonic() + STABLE_SECONDS
        while True:
            try:
                found: list[At] = self.client.committed(partitions, REQUEST_SECONDS)
                errors = [at.error for at in found if at.error is not None]
                if not errors:
                    return found
                error = errors[0]
            except KafkaException as err:
                error = err.args[0]
            if error.code() not in NOT_YET or time.monotonic() > deadline:
                raise BrokerError(
                    f"group {self._kafka.group_id} gives no offsets of {self._kafka.topic}: "
                    f"{error.str()}"
                )
            time.sleep(0.2)

    def _watermarks(self, at: At) -> tuple[int, int]:
        found = self.client.get_watermark_offsets(at, REQUEST_SECONDS)
        if found is None:
            raise BrokerError(f"{at.topic}[{at.partition}] gave no answer: the broker is busy")
        return found

    def _accept_gap(self, at: At, low: int, high: int) -> int:
        """Return the first offset behind a gap where the settings accept it; else refuse."""
        deleted = at.offset < low
        kind, lost = ("deleted", low - at.offset) if deleted else ("recreated", 0)
        reason = (
            f"{at.topic}[{at.partition}] holds offsets {low} to {high}, the group "
            f"{self._kafka.group_id} goes on at {at.offset}: "
            + (f"{lost} records were deleted" if deleted else "the topic was created again")
        )
        if self._kafka.on_gap != "accept":
            raise Gap(kind, f"{reason}; restore the topic, or set another score.group_id")
        log.error("gap accepted", extra={"reason": reason, "kind": kind})
        self._metrics.records_lost.inc(lost)
        return low

    def _check_error(self, message: Message) -> None:
        """Raise for an error that came in place of a record, unless it ends by itself."""
        error = message.error()
        if error is not None and (error.fatal() or error.code() in FATAL):
            self._fatal = error.str()
            return
        if error is None or error.retriable() or error.code() == KafkaError._MAX_POLL_EXCEEDED:
            return
        place = f"{message.topic() or self._kafka.topic}[{message.partition()}]"
        if error.code() == KafkaError._AUTO_OFFSET_RESET:
            self._has_changed = True  # the check of the offsets finds the gap
            return
        raise BrokerError(f"{place} cannot be read: {error.str()}")

    def _on_assign(self, _: Consumer, partitions: list[At]) -> None:
        self._has_changed = True
        self.client.incremental_assign(self._starts([at.partition for at in partitions]))
        log.info("partitions assigned", extra={"partitions": self.partitions})

    def _on_revoke(self, _: Consumer, partitions: list[At]) -> None:
        """Give partitions up; no transaction is open while the client is polled."""
        self._has_changed = True
        self.client.incremental_unassign(partitions)
        gone = sorted(at.partition for at in partitions)
        for partition in gone:
            self._next.pop(partition, None)
        self._lag.forget(gone)
        log.info("partitions revoked", extra={"partitions": self.partitions, "revoked": gone})

    def _on_statistics(self, text: str) -> None:
        statistics = parse_statistics(text)
        known = statistics.connected
        self._lag.publish(statistics, self._next, {}, known=known, paused=False)

    def _on_error(self, error: KafkaError) -> None:
        if error.fatal() or error.code() in FATAL:
            self._fatal = error.str()
        if error.code() not in self._logged_errors:
            self._logged_errors.add(error.code())
            log.warning("trouble with the broker", extra={"reason": error.str()})
