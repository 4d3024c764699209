"""The topics that a learner reads: the events, and the labels where these come later."""

from collections.abc import Callable, Mapping, Sequence

from confluent_kafka import Message

from kaboost.service.config.settings import Kafka, Settings
from kaboost.service.kafka import topics
from kaboost.service.kafka.accepted_gaps import AcceptedGap
from kaboost.service.kafka.consumer import KafkaConsumer
from kaboost.service.kafka.ends import Ends, EndsCheck
from kaboost.service.kafka.fetch_watch import Problem
from kaboost.service.kafka.identity import Identity, RecordMark
from kaboost.service.kafka.ordered_reader import OrderedReader, Reached
from kaboost.service.metrics import LearnerMetrics
from kaboost.service.storage.state import State


class Inputs:
    """Read one or two topics; one thread calls."""

    def __init__(self, settings: Settings, metrics: LearnerMetrics) -> None:
        self._kafka: list[Kafka] = [settings.kafka]
        if settings.labels.topic is not None:
            self._kafka.append(settings.kafka.model_copy(update={"topic": settings.labels.topic}))
        self.events = KafkaConsumer(self._kafka[0], metrics, note_ends=len(self._kafka) > 1)
        self.labels = (
            KafkaConsumer(self._kafka[1], metrics, note_ends=True) if len(self._kafka) > 1 else None
        )
        self._ends: EndsCheck | None = None
        self._reader: OrderedReader | None = None
        if self.labels is not None:
            self._ends = EndsCheck(self.events.ends_question(), self.labels.ends_question())
            self._reader = OrderedReader([self.events, self.labels])
        self.awaited = ""  # the topic that is waited for, with its setting
        self.partitions: list[int] = []
        self.label_partitions: list[int] = []

    def wait(self, tick: Callable[[], bool]) -> bool:
        """Wait until the topics exist; return false when `tick` does."""
        self.partitions = self._wait(self.events, self._kafka[0], tick, "kafka.topic")
        if self.labels is not None and self.partitions:
            found = self._wait(self.labels, self._kafka[1], tick, "labels.topic")
            self.label_partitions = found
            return bool(found)
        return bool(self.partitions)

    def _wait(
        self, consumer: KafkaConsumer, kafka: Kafka, tick: Callable[[], bool], setting: str
    ) -> list[int]:
        """Wait until one topic exists and list its partitions; none when `tick` returns false."""
        self.awaited = f"{kafka.topic} ({setting})"
        partitions = topics.wait(consumer.client, kafka, tick, setting, consumer.refusal)
        self.awaited = ""
        return partitions

    def assign(self, state: State, marks: Sequence[dict[int, RecordMark]]) -> list[AcceptedGap]:
        """Read from the offsets of the state on; refuse where a topic lacks the next record, or the
        last one is another than that of its mark.

        Gaps that are accepted are returned: offsets and marks are corrected.
        """
        self.events.assign(state.offsets, marks[0])
        if self.labels is not None:
            self.labels.assign(_label_offsets(state), marks[1])
        gaps = [gap for consumer in self._consumers() for gap in consumer.gaps.take()]
        for gap in gaps:
            if state.replayed is not None and gap.kind != "deleted":
                state.replayed.forget(gap.topic, gap.partition)
        return gaps

    def reassign(self, state: State, marks: Sequence[Mapping[int, RecordMark]]) -> None:
        """Read again from the offsets of a state that was restored while these topics are read."""
        self.events.reassign(state.offsets, marks[0])
        if self.labels is not None:
            self.labels.reassign(_label_offsets(state), marks[1])
            self._reader = OrderedReader([self.events, self.labels])  # the old one has records

    def poll(self, limit: int, reached: Reached) -> list[Message]:
        """Read at most `limit` records; of two topics those of the partition that is farthest
        behind, by the event times that were `reached`.
        """
        if self._reader is None:
            return self.events.poll(limit)
        return self._reader.poll(limit, reached)

    def check_ends(self) -> Ends | None:
        """Return which partitions are read to their ends; None without a topic of labels."""
        if self._ends is None or self._reader is None:
            return None
        return self._ends.check(self._reader.ends(0), self._reader.ends(1))

    @property
    def identities(self) -> tuple[Identity, Identity]:
        """The ids of the topics of events and of labels."""
        return self.events.identity, self.labels.identity if self.labels else Identity()

    @property
    def silent(self) -> bool:
        """Whether the broker has not answered lately."""
        return any(consumer.silent for consumer in self._consumers())

    @property
    def problem(self) -> Problem:
        """Why a partition is not read though the broker answers, and for how many seconds."""
        return max((each.problem for each in self._consumers()), key=lambda each: each.seconds)

    def commit(self, state: State) -> None:
        """Show lag tools how far a durable checkpoint reaches."""
        self.events.commit(state.offsets)
        if self.labels is not None:
            self.labels.commit(_label_offsets(state))

    def refresh_partitions(self) -> None:
        """List the partitions again from time to time; read new ones from offset 0."""
        for consumer in self._consumers():
            consumer.refresh_partitions()

    def pause(self) -> None:
        """Stop reading; `poll` still serves the broker."""
        for consumer in self._consumers():
            consumer.pause()
        if self._reader is not None:
            self._reader.pause()

    def resume(self) -> None:
        """Read again."""
        for consumer in self._consumers():
            consumer.resume()
        if self._reader is not None:
            self._reader.resume()

    def close(self) -> None:
        """Close after the last commit."""
        for consumer in self._consumers():
            consumer.close()

    def _consumers(self) -> list[KafkaConsumer]:
        return [self.events] if self.labels is None else [self.events, self.labels]


def _label_offsets(state: State) -> dict[int, int]:
    assert state.late is not None
    return state.late.offsets
