"""The Kafka consumer: assigned partitions, read in order and checked for gaps."""

import logging
import threading
import time
from collections.abc import Mapping
from operator import methodcaller
from typing import Any

from confluent_kafka import OFFSET_INVALID, Consumer, KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as At
from confluent_kafka.admin import AdminClient

from kaboost.service.config.settings import Kafka
from kaboost.service.errors import BrokerError, ConfigError, Gap
from kaboost.service.kafka import identity, topics
from kaboost.service.kafka.accepted_gaps import AcceptedGaps
from kaboost.service.kafka.broker_ends import BrokerEnds
from kaboost.service.kafka.ends import EndsQuestion
from kaboost.service.kafka.fetch_watch import NO_LEADER, STUCK_SECONDS, FetchWatch, Problem
from kaboost.service.kafka.identity import Identity, RecordMark
from kaboost.service.kafka.lag import LagMetrics, parse_statistics
from kaboost.service.metrics import LearnerMetrics

REQUEST_SECONDS = 10.0  # for one request to the broker
MIN_SILENCE_SECONDS = 3.0  # without statistics, which come every second, before contact is lost
CLOSE_SECONDS = 5.0  # for the last commit
POLL_SECONDS = 0.1  # for the first record of a batch
REFRESH_SECONDS = 10.0  # between two listings of the partitions

# `kafka.extra` may override these: they make reading fast and keep memory small.
DEFAULT_CONFIG = {
    "fetch.queue.backoff.ms": 20,  # by default 1000: a backlog is read 3-8 times slower
    "queued.max.messages.kbytes": 16_384,  # a full queue is in memory as a whole
    "log_level": 2,  # errors come to `_on_error`
}
# And nothing may override these: with them alone each event counts exactly once.
REQUIRED_CONFIG = {
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "auto.offset.reset": "error",
    "statistics.interval.ms": 1000,
}
# A broker that has just started is looking for the group's coordinator; the client does not wait.
COORDINATOR_ERRORS = {
    KafkaError.NOT_COORDINATOR,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
}

REFUSALS = {
    KafkaError._SSL,
    KafkaError._AUTHENTICATION,
    KafkaError.SASL_AUTHENTICATION_FAILED,
}

log = logging.getLogger(__name__)

_ERROR = methodcaller("error")  # called for every record
_PARTITION = methodcaller("partition")


class KafkaConsumer:
    """Read assigned partitions, without a group to wait for; one thread calls."""

    def __init__(self, kafka: Kafka, metrics: LearnerMetrics, *, note_ends: bool = False) -> None:
        self._kafka = kafka
        self._note_ends = note_ends
        self.ends: dict[int, int | None] = {}  # by partition, None before one reached; if noted
        self._lag = LagMetrics(kafka.topic, metrics)
        self._offsets: dict[int, int] = {}  # the trainer's own, which it moves
        self._marks: Mapping[int, RecordMark] = {}  # of the last records before them, likewise
        self._last_contact = self._last_refresh = self._last_poll = time.monotonic()
        self._answers = 0  # of the broker, until the last statistics
        self._missing_since: float | None = None  # of the topic
        self._paused = False
        self._held: set[int] = set()  # partitions that are not fetched
        self._broker_ends = BrokerEnds(kafka, self._make_admin)
        self._watch = FetchWatch(kafka.topic)
        self.identity = Identity()
        self.gaps = AcceptedGaps(kafka)
        self._logged_errors: set[int] = set()  # codes logged since the last contact
        self._refusal = ""  # what TLS or SASL refused last; a request itself only times out
        required = {
            **REQUIRED_CONFIG,
            "enable.partition.eof": note_ends,
            "group.id": kafka.group_id,
            "stats_cb": self._on_statistics,
            "error_cb": self._on_error,
            "on_commit": self._on_commit,
        }
        try:
            self._consumer = Consumer({**DEFAULT_CONFIG, **kafka.client(), **required})
            self._admin = self._make_admin()
        except KafkaException as err:
            raise ConfigError(f"kafka.extra does not fit: {err.args[0].str()}") from err

    def _make_admin(self) -> AdminClient:
        return AdminClient({"log_level": 2, **self._kafka.client()})

    @property
    def client(self) -> Consumer:
        """The library's consumer, for requests before the first assignment."""
        return self._consumer

    @property
    def silent(self) -> bool:
        """Whether the broker has not answered lately, though it was asked."""
        return self._last_poll - self._last_contact > MIN_SILENCE_SECONDS

    @property
    def problem(self) -> Problem:
        """Why a partition is not read though the broker answers, and for how many seconds."""
        return Problem() if self.silent else self._watch.problem

    def refusal(self) -> str:
        """Return what TLS or SASL refused, empty if nothing was; before the first assignment."""
        self._consumer.poll(0.0)  # reports errors; there is no record yet
        return self._refusal

    def ends_question(self) -> EndsQuestion:
        """Return a question about the ends of this topic's partitions."""
        return EndsQuestion(self._admin, self._kafka)

    def start_offsets(self, partitions: list[int]) -> dict[int, int]:
        """Resolve `kafka.start_from` to an offset for every partition, the empty ones too."""
        if self._kafka.start_ms is None:
            latest = self._kafka.start_from == "latest"
            return {p: self.watermarks(p)[latest] for p in partitions}
        times = [At(self._kafka.topic, p, self._kafka.start_ms) for p in partitions]
        first = self._consumer.offsets_for_times(times, REQUEST_SECONDS)
        offsets = {at.partition: at.offset for at in first}
        return {p: o if o >= 0 else self.watermarks(p)[1] for p, o in offsets.items()}

    def is_committed(self, partitions: list[int]) -> bool:
        """Return whether the group has committed offsets: somebody has learned here before."""
        at = [At(self._kafka.topic, partition) for partition in partitions]
        deadline = time.monotonic() + REQUEST_SECONDS
        while True:
            try:
                committed = self._consumer.committed(at, REQUEST_SECONDS)
            except KafkaException as err:
                starting = err.args[0].code() in COORDINATOR_ERRORS
                if not starting or time.monotonic() > deadline:
                    raise
                time.sleep(0.2)
            else:
                return any(each.offset != OFFSET_INVALID for each in committed)

    def assign(self, offsets: dict[int, int], marks: dict[int, RecordMark] | None = None) -> None:
        """Read from these offsets on.

        Refuse where the topic lacks the next record, or has another one than that of a mark, which
        is the last before the offset. With `kafka.on_gap: accept` offset and mark are corrected.
        """
        marks = {} if marks is None else marks
        lows, readable = {}, {}
        for partition, offset in offsets.items():
            low, high = self.watermarks(partition)
            lows[partition] = low
            if not low <= offset <= high:
                self.gaps.note(partition, self._gap(partition, offset, low, high))
            elif partition in marks and marks[partition].offset >= low:
                readable[partition] = marks[partition]
        self.gaps.check_last_records(readable)
        self.gaps.correct(offsets, marks, lows)
        self.reassign(offsets, marks)

    def reassign(self, offsets: dict[int, int], marks: Mapping[int, RecordMark]) -> None:
        """Read from these offsets on, of a topic that this client has read before."""
        self._offsets, self._marks = offsets, marks
        self._lag.marks = marks
        self._assign()

    def _assign(self) -> None:
        """Read all partitions from their offsets on, in the leader epochs of their last records."""
        topic, offsets = self._kafka.topic, self._offsets
        self.ends = dict.fromkeys(offsets)
        positions = [identity.at(topic, p, o, self._marks.get(p)) for p, o in offsets.items()]
        self._consumer.assign(positions)
        if self._paused:
            self.pause()  # a new assignment is not paused

    def poll(self, limit: int, wait: float = POLL_SECONDS) -> list[Message]:
        """Read at most `limit` records that are there; wait so many seconds for the first."""
        # `consume` alone would wait until the whole batch is there or the time is up.
        now = time.monotonic()
        if now - self._last_poll > MIN_SILENCE_SECONDS:
            self._last_contact = now  # nobody listened meanwhile
        self._last_poll = now
        self._require_progress()
        first = self._consumer.poll(wait)
        if first is None:
            self._check_contact()
            return []
        messages = [first, *self._consumer.consume(limit - 1, 0)] if limit > 1 else [first]
        self._last_contact = time.monotonic()
        if self._note_ends:
            self._find_ends(messages)
        records = messages
        if any(map(_ERROR, messages)):
            records = [message for message in messages if message.error() is None]
        if records:
            self._lag.note(records, one_partition=len(self._offsets) == 1)
        for message in messages if len(records) < len(messages) else ():
            self._check_error(message)
        return records

    def _find_ends(self, messages: list[Message]) -> None:
        """Note the partitions whose last message says that their end is reached."""
        last = dict(zip(map(_PARTITION, messages), messages, strict=True))
        for partition, message in last.items():
            error = message.error()
            at_end = error is not None and error.code() == KafkaError._PARTITION_EOF
            self.ends[partition or 0] = message.offset() if at_end else None

    def refresh_partitions(self) -> None:
        """List the partitions again every 10 s; read new ones from offset 0."""
        if time.monotonic() - self._last_refresh > REFRESH_SECONDS:
            self._last_refresh = time.monotonic()
            self.add_partitions()

    def add_partitions(self) -> None:
        """List the partitions; read new ones from offset 0; notice another topic."""
        try:
            partitions = topics.find(self._consumer, self._kafka.topic)
        except KafkaException as err:
            self._note_missing(err.args[0])
            return
        self._missing_since = None
        self.check_identity()
        new = dict.fromkeys(set(partitions) - self._offsets.keys(), 0)
        if new:
            self._offsets.update(new)
            self._assign()
            log.info("new partitions", extra={"partitions": sorted(new)})

    def check_identity(self, known: Identity | None = None) -> None:
        """Read the ids of topic and cluster; refuse others than those of the state, or of the
        start. At the start an answer is waited for if it can be compared, since brokers without
        such ids may not answer at all; later a client stays on its cluster.
        """
        topic, starts = self._kafka.topic, known is not None
        known = known or self.identity
        patience = REQUEST_SECONDS if starts and known.topic_id else 0.0
        cluster_id = topics.cluster_id(self._consumer, topic) if starts else None
        now = Identity(topics.describe_id(self._admin, topic, patience), cluster_id)
        try:
            identity.require_same(topic, known, now)
        except Gap as gap:
            if not starts:
                raise  # the learner begins again, and then accepts it
            self.gaps.note(None, gap)
        self.identity = now.or_else(known)

    def pause(self) -> None:
        """Stop reading; `poll` still serves the broker."""
        self._paused = True
        self._held.clear()
        self._consumer.pause(self._consumer.assignment())

    def resume(self) -> None:
        """Read again."""
        self._paused = False
        self._held.clear()
        self._consumer.resume(self._consumer.assignment())

    def hold(self, partitions: list[int]) -> None:
        """Stop fetching some partitions until `release` or `resume`."""
        self._held.update(partitions)
        self._consumer.pause([At(self._kafka.topic, partition) for partition in partitions])

    def release(self, partitions: list[int]) -> None:
        """Fetch some partitions again."""
        self._held.difference_update(partitions)
        if not self._paused:
            self._consumer.resume([At(self._kafka.topic, partition) for partition in partitions])

    def commit(self, offsets: Mapping[int, int]) -> None:
        """Show lag tools how far a durable checkpoint reaches; nothing here reads it back."""
        at = [At(self._kafka.topic, partition, offset) for partition, offset in offsets.items()]
        self._consumer.commit(offsets=at, asynchronous=True)

    def close(self) -> None:
        """Close after the last commit, but do not wait for a lost broker: the client would."""
        closing = threading.Thread(target=self._consumer.close, daemon=True)
        closing.start()
        closing.join(CLOSE_SECONDS)

    def watermarks(self, partition: int) -> tuple[int, int]:
        """Return the first offset of a partition, and the one after its last."""
        at = At(self._kafka.topic, partition)
        watermarks = self._consumer.get_watermark_offsets(at, REQUEST_SECONDS)
        if watermarks is None:
            raise BrokerError(f"{self._name(partition)} gave no answer in {REQUEST_SECONDS:g} s")
        return watermarks

    def _name(self, partition: int) -> str:
        return f"{self._kafka.topic}[{partition}]"

    def _gap(self, partition: int, offset: int, low: int, high: int) -> Gap:
        if low <= offset <= high:
            kind, lost = "truncated", "the log was truncated and written again"
        elif offset < low:
            kind, lost = "deleted", "events between were deleted"
        else:
            kind, lost = "recreated", "the topic was created again"
        return Gap(
            kind,
            f"{self._name(partition)} holds offsets {low} to {high}, the state goes on at "
            f"{offset}: {lost}; begin a new model with --cold-start, or restore the topic",
        )

    def _check_error(self, message: Message) -> None:
        """Raise for an error that came in place of a record, if it is final."""
        error = message.error()
        if error is None or error.code() == KafkaError._PARTITION_EOF:
            return
        partition = message.partition() or 0
        if error.code() == KafkaError._AUTO_OFFSET_RESET:
            raise self._gap(partition, self._offsets[partition], *self.watermarks(partition))
        if error.code() in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_PARTITION):
            self._note_missing(error)
        else:
            raise BrokerError(f"{self._name(partition)} cannot be read: {error.str()}")

    def _note_missing(self, error: KafkaError) -> None:
        """Allow a missing topic time to come back; if it comes back empty, that is a gap."""
        if error.code() < 0 and error.code() != KafkaError._UNKNOWN_PARTITION:
            return  # the broker did not answer: `_check_contact` decides
        now = time.monotonic()
        self._missing_since = self._missing_since or now
        if now - self._missing_since > self._kafka.topic_timeout:
            raise BrokerError(f"topic {self._kafka.topic} went away: {error.str()}")

    def _check_contact(self) -> None:
        silent = time.monotonic() - self._last_contact
        if silent > max(self._kafka.broker_timeout, MIN_SILENCE_SECONDS):
            raise BrokerError(
                f"no broker at {self._kafka.bootstrap_servers} for {silent:.0f} s: "
                "the state is safe, start again when it is back"
            )

    def _require_progress(self) -> None:
        """Stop where records that were read are gone, or the client reads nothing for long."""
        truncated = self._broker_ends.truncated
        if truncated is not None:
            raise self._gap(truncated, self._offsets[truncated], *self.watermarks(truncated))
        stuck = self._watch.stuck
        if stuck.seconds > STUCK_SECONDS and not self.silent:
            raise BrokerError(
                f"{stuck.reason} for {stuck.seconds:.0f} s, though the broker answers: the state "
                "is safe, a restart begins with a new client"
            )

    def _on_statistics(self, text: str) -> None:
        statistics = parse_statistics(text)
        positions = statistics.positions(self._kafka.topic, self._offsets)
        led = {p: self._offsets[p] for p, at in positions.items() if at.leader != NO_LEADER}
        has_answered = self._broker_ends.ask(led)
        answers, before = statistics.answers, self._answers
        self._answers = answers
        # A frozen broker stays connected and answers nothing. A paused client asks for nothing.
        unasked = self._paused and not self._broker_ends.answers
        if statistics.connected and (unasked or has_answered or answers != before):
            self._last_contact = time.monotonic()
            self._logged_errors.clear()
        read = {p: at for p, at in positions.items() if not self._paused and p not in self._held}
        self._watch.update(read, self._broker_ends.ends)
        ends, known = self._broker_ends.ends, not self.silent
        self._lag.publish(statistics, self._offsets, ends, known=known, paused=self._paused)

    def _on_error(self, error: KafkaError) -> None:
        if error.code() in REFUSALS or "SSL alert" in error.str():  # the broker's: _TRANSPORT
            self._refusal = error.str()
        if error.code() not in self._logged_errors:
            self._logged_errors.add(error.code())
            log.warning("trouble with the broker", extra={"reason": error.str()})

    def _on_commit(self, error: KafkaError | None, _: Any) -> None:
        if error is not None:
            self._on_error(error)
