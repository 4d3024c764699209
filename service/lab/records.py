"""What is replayed: records in batches, as the learner's consumer returns them."""

from collections.abc import Generator, Iterator, Sequence
from itertools import chain, islice
from typing import NamedTuple, Protocol

from confluent_kafka import Message

from kaboost.service.lab.file_source import FileSource
from kaboost.service.lab.rows import Chunk
from kaboost.service.onboarding.topic_sample import RawRecord

PARTITION = 0  # that the rows of a file stand in


class Batch(NamedTuple):
    """Records that are learned in one call, and what was left out before them."""

    messages: Sequence[Message]
    rejected: Sequence[tuple[str, str]] = ()  # reason and message


class Records(Protocol):
    """A stream of records that ends."""

    name: str

    @property
    def notes(self) -> list[str]:
        """What was found on the way."""

    @property
    def fraction(self) -> float | None:
        """Which part was read; None where that is not known."""

    offsets: dict[int, int]  # of every partition, to begin with

    def sample(self, count: int) -> list[RawRecord]:
        """Return about the first `count` records; `batches` yields them again."""

    def batches(self, size: int) -> Iterator[Batch]:
        """Yield all records, at most `size` at once."""

    def close(self) -> None:
        """Release what is open."""


class FileRecords:
    """The rows of a file as records of one partition."""

    def __init__(self, source: FileSource, topic: str) -> None:
        self._source, self._topic = source, topic
        self._chunks: Generator[Chunk] = source.chunks()
        self._first: list[Chunk] = []
        self.name = source.name
        self.offsets = {PARTITION: 0}

    @property
    def notes(self) -> list[str]:
        """What was found on the way."""
        return self._source.notes

    @property
    def fraction(self) -> float | None:
        """Which part was read."""
        return self._source.fraction

    def sample(self, count: int) -> list[RawRecord]:
        """Return the first `count` records."""
        while sum(len(chunk.values) for chunk in self._first) < count:
            chunk = next(self._chunks, None)
            if chunk is None:
                break
            self._first.append(chunk)
        values = chain.from_iterable(chunk.values for chunk in self._first)
        return [RawRecord(value, ()) for value in islice(values, count)]

    def batches(self, size: int) -> Iterator[Batch]:
        """Yield all records."""
        offset, waiting = 0, list[bytes]()
        for chunk in chain(self._taken(), self._chunks):
            if chunk.rejected:
                yield Batch([], chunk.rejected)
            waiting += chunk.values
            while len(waiting) >= size:
                values, waiting = waiting[:size], waiting[size:]
                yield Batch(self._messages(values, offset))
                offset += size
        yield Batch(self._messages(waiting, offset))

    def close(self) -> None:
        """Close the file."""
        self._chunks.close()
        self._source.close()

    def _taken(self) -> Iterator[Chunk]:
        while self._first:
            yield self._first.pop(0)

    def _messages(self, values: Sequence[bytes], first: int) -> list[Message]:
        make, topic = Message, self._topic
        return [
            make(topic=topic, value=value, partition=PARTITION, offset=first + k)
            for k, value in enumerate(values)
        ]
