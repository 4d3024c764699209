"""The ends of partitions as the broker has them, asked once a second without waiting for it."""

import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined] # OffsetSpec is not in __all__
    AdminClient,
    OffsetSpec,
)

from kaboost.service.config.settings import Kafka
from kaboost.service.kafka.ends import isolation_of

ASK_SECONDS = 0.9  # between two questions
ANSWER_SECONDS = 10.0
TRUNCATED_ANSWERS = 3  # in a row: a new leader may know its end a moment later


class BrokerEnds:
    """Ask for the ends of partitions; one thread calls.

    The consumer's own figures stand still while it is paused or stuck.
    """

    def __init__(
        self,
        kafka: Kafka,
        make_client: Callable[[], AdminClient],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.ends: dict[int, int] = {}  # by partition, of the last answer
        self.answers = 0
        self._topic = kafka.topic
        self._isolation = isolation_of(kafka)
        self._make_client = make_client
        self._client: AdminClient | None = None
        self._clock = clock
        self._asked_at = -ASK_SECONDS
        self._asked: dict[int, int] = {}  # the next offsets when it was asked
        self._answer: dict[TopicPartition, Future[Any]] = {}
        self._short: dict[int, int] = {}  # answers in a row with an end before the next offset

    def ask(self, offsets: Mapping[int, int]) -> bool:
        """Ask about the partitions with these next offsets; return whether an answer came."""
        answered = False
        if self._answer and all(future.done() for future in self._answer.values()):
            answered = self._take()
        if not self._answer and offsets and self._clock() - self._asked_at >= ASK_SECONDS:
            self._send(offsets)
        return answered

    @property
    def truncated(self) -> int | None:
        """A partition that ends before its next offset: records that were read are gone."""
        short = (p for p, answers in self._short.items() if answers >= TRUNCATED_ANSWERS)
        return next(short, None)

    def _take(self) -> bool:
        answer, self._answer = self._answer, {}
        try:
            self.ends = {at.partition: future.result().offset for at, future in answer.items()}
        except KafkaException:
            # A client keeps the leader epoch that it knew, and is refused for minutes.
            self._client = None
            return False
        self.answers += 1
        self._short = {
            p: self._short.get(p, 0) + 1 for p, end in self.ends.items() if end < self._asked[p]
        }
        return True

    def _send(self, offsets: Mapping[int, int]) -> None:
        self._asked_at, self._asked = self._clock(), dict(offsets)
        if self._client is None:
            self._client = self._make_client()
        latest = {
            TopicPartition(self._topic, p): OffsetSpec.latest()  # type: ignore[no-untyped-call]
            for p in offsets
        }
        self._answer = self._client.list_offsets(
            latest, isolation_level=self._isolation, request_timeout=ANSWER_SECONDS
        )
