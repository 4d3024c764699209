"""Whether partitions that were read to their ends are so still: the broker is asked."""

import time
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any, NamedTuple

from confluent_kafka import IsolationLevel, KafkaException, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined] # OffsetSpec is not in __all__
    AdminClient,
    OffsetSpec,
)

from kaboost.service.config.settings import Kafka

ASK_SECONDS = 0.1  # between two questions
ANSWER_SECONDS = 10.0


class Ends(NamedTuple):
    """What is known of the ends of two topics' partitions."""

    unread_events: frozenset[int]  # partitions that may have records that are not read
    unread_labels: frozenset[int]
    asked: int  # number of the last question whether the partitions that are read end there
    confirmed: int  # number of the last question that the broker said yes to
    any_read: bool  # whether any partition is read to its end


def isolation_of(kafka: Kafka) -> IsolationLevel:
    """Return the isolation level that records are read with: it decides where partitions end."""
    if kafka.client().get("isolation.level") == "read_uncommitted":
        return IsolationLevel.READ_UNCOMMITTED
    return IsolationLevel.READ_COMMITTED


class EndsQuestion:
    """Ask the broker, without waiting for it, whether partitions have records beyond their ends.

    A client learns late of new records: it may hold those of one partition while those that were
    written before them to another partition are still on their way.
    """

    def __init__(self, admin: AdminClient, kafka: Kafka) -> None:
        self._admin, self._topic = admin, kafka.topic
        self._isolation = isolation_of(kafka)
        self.ends: dict[int, int] = {}  # by partition, of the last question
        self._answers: dict[TopicPartition, Future[Any]] = {}

    def ask(self, ends: Mapping[int, int | None]) -> None:
        """Ask whether partitions end at these offsets; not of those that have None."""
        self.ends = {partition: end for partition, end in ends.items() if end is not None}
        latest = {
            TopicPartition(self._topic, partition): OffsetSpec.latest()  # type: ignore[no-untyped-call]
            for partition in self.ends
        }
        self._answers = {}
        if latest:
            self._answers = self._admin.list_offsets(
                latest, isolation_level=self._isolation, request_timeout=ANSWER_SECONDS
            )

    @property
    def answered(self) -> bool:
        """Whether the answer is there."""
        return all(answer.done() for answer in self._answers.values())

    @property
    def answer(self) -> bool:
        """Whether all of them end there; false too where the broker did not say."""
        try:
            found = {at.partition: answer.result() for at, answer in self._answers.items()}
        except KafkaException:
            return False
        return all(found[partition].offset <= end for partition, end in self.ends.items())


class EndsCheck:
    """Ask about two topics together, one question after the other; one thread calls."""

    def __init__(self, events: EndsQuestion, labels: EndsQuestion) -> None:
        self._questions = events, labels
        self._asked = self._confirmed = 0
        self._confirmed_ends: list[dict[int, int]] = [{}, {}]
        self._waiting = False
        self._last = -ASK_SECONDS

    def check(self, *ends: Mapping[int, int | None]) -> Ends:
        """Return what is known of both topics' partitions, given the end of each; None for one
        that is not read to its end.
        """
        if self._waiting and all(question.answered for question in self._questions):
            self._waiting = False
            if all(question.answer for question in self._questions):
                self._confirmed = self._asked
                self._confirmed_ends = [question.ends for question in self._questions]
        if not self._waiting and time.monotonic() - self._last > ASK_SECONDS:
            self._last = time.monotonic()
            self._waiting, self._asked = True, self._asked + 1
            for question, of_topic in zip(self._questions, ends, strict=True):
                question.ask(of_topic)
        events, labels = map(_unread, ends, self._confirmed_ends)
        any_read = any(len(left) < len(of) for left, of in zip((events, labels), ends, strict=True))
        return Ends(events, labels, self._asked, self._confirmed, any_read)


def _unread(ends: Mapping[int, int | None], confirmed: Mapping[int, int]) -> frozenset[int]:
    """Return the partitions whose end, if one was reached, the broker did not confirm."""
    return frozenset(p for p, end in ends.items() if end is None or confirmed.get(p) != end)
