"""Let replayed events teach once: those whose origin was learned before are left out."""

from collections.abc import Collection, Iterator, Sequence
from operator import methodcaller
from typing import Any

from confluent_kafka import Message

from kaboost.service.kafka.letters import Origin, replayed_from
from kaboost.service.kafka.stored_record import StoredRecord
from kaboost.service.storage.replayed import ReplayedOrigins

_HEADERS = methodcaller("headers")  # called for every record


class Replays:
    """Know by their headers the records that `kaboost dlq replay` has written."""

    def __init__(self, learned: ReplayedOrigins, topics: Collection[str | None]) -> None:
        self._learned = learned
        self._topics = topics  # a header that names another one was not written by a replay
        self._any_here = False  # whether the batch has replayed records
        self.repeated = 0  # records that were left out since `take_repeated`

    def parts(self, records: Sequence[Message]) -> Iterator[Sequence[Message]]:
        """Yield the records that may be learned, in parts without a repeated origin; what became of
        one part must be noted before the next.
        """
        headers = list(map(_HEADERS, records))
        origins = list(map(self._origin, headers)) if any(headers) else []
        self._any_here = any(origins)
        if not self._any_here:
            if records:
                yield records
            return
        part: list[Message] = []
        here: set[Origin] = set()
        for record, origin in zip(records, origins, strict=True):
            if origin in here:
                yield part
                part, here = [], set()
            if origin is not None:
                if origin in self._learned:
                    self.repeated += 1
                    continue
                here.add(origin)
            part.append(record)
        if part:
            yield part

    def note(self, records: Sequence[Message], faults: Collection[int]) -> None:
        """Note that some records are learned, but for those at the indices of faults."""
        for index, record in enumerate(records) if self._any_here else ():
            origin = self._origin(record.headers())
            if origin is not None and index not in faults:
                self._learned.add(origin)

    def forget(self, rejected: Sequence[tuple[Message | StoredRecord, Any]]) -> None:
        """Allow another replay of records that are dead letters again, at once or later."""
        for record, _ in rejected:
            origin = self._origin(record.headers())
            if origin is not None:
                self._learned.discard(origin)

    def take_repeated(self) -> int:
        """Return how many records were left out since the last call."""
        count, self.repeated = self.repeated, 0
        return count

    def _origin(self, headers: Any) -> Origin | None:
        origin = replayed_from(headers) if headers else None
        return origin if origin is not None and origin.topic in self._topics else None
