"""Gaps between a state and its topic: refused, or accepted where the settings say so."""

from collections.abc import Mapping
from typing import NamedTuple

from kaboost.service.config.settings import Kafka
from kaboost.service.errors import Gap
from kaboost.service.kafka import identity
from kaboost.service.kafka.identity import RecordMark


class AcceptedGap(NamedTuple):
    """One partition that is read on from another offset than the state's."""

    topic: str
    partition: int
    before: int  # the next offset of the state
    after: int | None  # from where it is read; None where the partition is gone
    kind: str  # one of GAP_KINDS
    reason: str

    @property
    def records_lost(self) -> int:
        """How many offsets are left out, as far as that is known."""
        return max(0, (self.after or 0) - self.before) if self.kind == "deleted" else 0


class AcceptedGaps:
    """Collect the gaps of one topic before it is read; each is raised unless gaps are accepted."""

    def __init__(self, kafka: Kafka) -> None:
        self._kafka = kafka
        self._whole: Gap | None = None  # of all partitions
        self._found: dict[int, Gap] = {}
        self._corrected: list[AcceptedGap] = []

    def note(self, partition: int | None, gap: Gap) -> None:
        """Take a gap, of all partitions where none is named; raise it unless it is accepted."""
        if self._kafka.on_gap != "accept":
            raise gap
        if partition is None:
            self._whole = gap
        else:
            self._found[partition] = gap

    def check_partitions(self, offsets: dict[int, int], partitions: list[int]) -> None:
        """Take partitions that the state has read and that are gone; their offsets are removed."""
        topic = self._kafka.topic
        gone = sorted(offsets.keys() - set(partitions))
        if not gone:
            return
        gap = Gap(
            "recreated",
            f"topic {topic} has no partitions {gone} any more, the state has read them: begin a "
            "new model with --cold-start, or restore the topic",
        )
        for partition in gone:
            self.note(partition, gap)
            before = offsets.pop(partition)
            self._corrected.append(AcceptedGap(topic, partition, before, None, gap.kind, str(gap)))
            del self._found[partition]

    def check_last_records(self, marks: Mapping[int, RecordMark]) -> None:
        """Take partitions whose last record that was read is another one now."""
        if self._whole is not None:
            return
        try:
            identity.require_last_records(self._kafka, marks)
        except Gap as gap:
            if len(marks) == 1:
                self.note(next(iter(marks)), gap)
                return
            if self._kafka.on_gap != "accept":
                raise
            for partition, mark in marks.items():
                self.check_last_records({partition: mark})

    def correct(
        self, offsets: dict[int, int], marks: dict[int, RecordMark], lows: Mapping[int, int]
    ) -> None:
        """Move the offsets of partitions with a gap to their first records; drop their marks."""
        for partition, low in lows.items():
            gap = self._whole or self._found.get(partition)
            if gap is None:
                continue
            before, offsets[partition] = offsets[partition], low
            marks.pop(partition, None)
            topic = self._kafka.topic
            self._corrected.append(AcceptedGap(topic, partition, before, low, gap.kind, str(gap)))
        self._whole, self._found = None, {}

    def take(self) -> list[AcceptedGap]:
        """Return the gaps that were accepted since the last call."""
        corrected, self._corrected = self._corrected, []
        return corrected
