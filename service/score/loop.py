"""The loop of `kaboost score`: read a batch, answer it, write answers and offsets together."""

import logging
import threading
import time
from typing import NamedTuple

from confluent_kafka import Message

from kaboost.service.config.settings import Settings
from kaboost.service.errors import NotReady, RegistryAway
from kaboost.service.http.follower import Follower
from kaboost.service.kafka.group_consumer import GroupConsumer
from kaboost.service.kafka.transactions import Transactions
from kaboost.service.score.metrics import ScoreMetrics
from kaboost.service.score.scorer import Answers, Scorer

WAIT_SECONDS = 0.5  # before what is not there yet is looked for again

log = logging.getLogger(__name__)


class Parts(NamedTuple):
    """What the loop needs."""

    consumer: GroupConsumer
    producer: Transactions
    follower: Follower
    metrics: ScoreMetrics
    stop: threading.Event


class ScoreLoop:
    """Answer records until asked to stop; no transaction is open between two batches."""

    def __init__(self, settings: Settings, parts: Parts) -> None:
        self._limit = settings.score.batch_records
        self._progress_seconds = settings.log.progress_seconds
        self._scorer = Scorer(settings)
        self._parts = parts
        self._waiting_for = ""
        self._answered = self._answered_before = 0
        self._next_report = time.monotonic() + self._progress_seconds

    def wait_for_model(self) -> bool:
        """Wait for the first snapshot; return false if asked to stop meanwhile."""
        while (served := self._parts.follower.current()) is None:
            self._wait(self._parts.follower.no_model_message)
            if self._parts.stop.is_set():
                return False
        self._go_on()
        self._parts.metrics.snapshot_version.set(served.stamp.version)
        return True

    def run(self) -> None:
        """Answer batch after batch; the last one is finished when asked to stop."""
        consumer, metrics = self._parts.consumer, self._parts.metrics
        while not self._parts.stop.is_set():
            messages = consumer.poll(self._limit)
            metrics.partitions.set(len(consumer.partitions))
            self._report()
            if messages and not self._answer(messages):
                consumer.rewind()

    def _answer(self, messages: list[Message]) -> bool:
        """Answer one batch; return false if nothing of it was written."""
        started = time.perf_counter()
        served = self._parts.follower.current()
        assert served is not None  # one is kept for ever
        try:
            answers = self._scorer.answer(messages, served)
        except (NotReady, RegistryAway) as err:
            self._wait(str(err))
            return False
        self._go_on()
        consumer, metrics = self._parts.consumer, self._parts.metrics
        offsets = consumer.after(messages)
        failed = self._parts.producer.write(answers.records, offsets, consumer.group_metadata())
        if failed:
            metrics.aborted.inc()
            log.warning("transaction aborted, it is tried again", extra={"reason": failed})
            time.sleep(WAIT_SECONDS)  # no stop.wait: see ShutdownSignal.wait
            return False
        consumer.note_committed(offsets)
        metrics.snapshot_version.set(served.stamp.version)
        self._record(answers, len(messages))
        metrics.batch_duration.observe(time.perf_counter() - started)
        return True

    def _record(self, answers: Answers, consumed: int) -> None:
        """Count what was committed."""
        metrics = self._parts.metrics
        metrics.consumed.inc(consumed)
        metrics.answered.inc(answers.answered)
        metrics.ignored.inc(answers.ignored)
        self._answered += answers.answered
        for reason, count in answers.dead.items():
            metrics.dead_letters.labels(reason).inc(count)
        for reason, count in answers.skipped.items():
            metrics.skipped.labels(reason).inc(count)

    def _wait(self, reason: str) -> None:
        """Wait a little; log each reason once."""
        self._parts.metrics.waiting.set(1)
        if reason != self._waiting_for:
            self._waiting_for = reason
            log.warning("records wait", extra={"reason": reason})
        time.sleep(WAIT_SECONDS)

    def _go_on(self) -> None:
        if self._waiting_for:
            self._waiting_for = ""
            log.info("records are answered")
        self._parts.metrics.waiting.set(0)

    def _report(self) -> None:
        """Log the progress from time to time."""
        now = time.monotonic()
        if now < self._next_report:
            return
        self._next_report = now + self._progress_seconds
        fields = {
            "answered": self._answered,
            "per_second": round((self._answered - self._answered_before) / self._progress_seconds),
            "partitions": self._parts.consumer.partitions,
        }
        self._answered_before = self._answered
        log.info("progress", extra=fields)
