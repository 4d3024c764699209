"""Find the event that learning fails at: its batch is halved until one event is left.

After each failure the state is restored from the newest checkpoint and the records are read again,
so a failure never leaves half a batch in the state.
"""

import logging
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

from confluent_kafka import Message

from kaboost.service.errors import EventError, InternalFault
from kaboost.service.kafka.letters import STACK_CHARS, Origin

TRIES = 2  # at one event, before it becomes a dead letter
MAX_IN_A_ROW = 3  # different events that fail, without one that is learned between

Partition = tuple[str, int]  # topic, partition
Offsets = Mapping[Partition, int]  # the next ones

log = logging.getLogger(__name__)


class Isolation:
    """What is known of events that learning fails at; it says how many records to learn at once."""

    def __init__(self) -> None:
        self._suspects: dict[Partition, tuple[int, int]] = {}  # first and last offset
        self._limit = 0  # records in one batch of suspects
        self._tries: Counter[Origin] = Counter()
        self._proven: dict[Origin, EventError] = {}
        self._frontier: dict[Partition, int] = {}  # offsets that were learned before the failures
        self.in_a_row: list[Origin] = []

    @property
    def active(self) -> bool:
        """Whether learning has failed at records that are not passed yet."""
        return bool(self._suspects or self._frontier)

    def batch_limit(self, offsets: Offsets, usual: int) -> int:
        """Return how many records to read next: a batch has suspects only, or none."""
        limit = usual
        for partition, (first, last) in self._suspects.items():
            offset = offsets.get(partition, last + 1)
            if first <= offset <= last:
                limit = min(limit, self._limit)
            elif offset < first:
                limit = min(limit, first - offset)
        return max(1, limit)

    def is_before_suspects(self, offsets: Offsets) -> bool:
        """Return whether the next record is the first suspect: a checkpoint here makes each further
        try quick.
        """
        return any(offsets.get(p) == first for p, (first, _) in self._suspects.items())

    def parts(
        self, messages: Sequence[Message]
    ) -> Iterator[tuple[Sequence[Message], Message | None]]:
        """Yield records to learn, each time up to one that learning is known to fail at."""
        start = 0
        if self._proven:
            for place, message in enumerate(messages):
                if Origin.of(message) in self._proven:
                    yield messages[start:place], message
                    start = place + 1
        if start < len(messages) or not messages:
            yield messages[start:], None

    def error_of(self, message: Message) -> EventError:
        """Return the error of a record that learning is known to fail at."""
        return self._proven[Origin.of(message)]

    def note_failure(
        self,
        messages: Sequence[Message],
        offsets: Offsets,
        error: Exception,
        conceal: Callable[[str], str],
    ) -> None:
        """Note that learning some records has failed; `offsets` are those after them."""
        known, self._frontier = self._frontier, self._frontier or dict(offsets)
        ranges: dict[Partition, tuple[int, int]] = {}
        for message in messages:
            topic, partition, offset = Origin.of(message)
            first, last = ranges.get((topic, partition), (offset, offset))
            ranges[topic, partition] = min(first, offset), max(last, offset)
        for partition_, (first, _) in ranges.items():
            self._frontier[partition_] = known.get(partition_, first)
        self._suspects, self._limit = ranges, max(1, len(messages) // 2)
        fields = {"at": str(Origin.of(messages[0])), "records": len(messages)}
        log.warning(
            "learning failed, the event is looked for",
            extra={**fields, "error": type(error).__name__},
        )
        if len(messages) == 1:
            self._note_try(Origin.of(messages[0]), error, conceal)

    def note_success(self, messages: Sequence[Message], kept: int) -> None:
        """Note that some records were read without a failure, and how many events of them were
        learned, or wait for their label.
        """
        if not self._frontier:
            return
        is_new = False
        for message in messages:
            topic, partition, offset = Origin.of(message)
            if offset >= self._frontier.get((topic, partition), 0):
                self._frontier[topic, partition] = offset + 1
                is_new = True
        if is_new and kept:
            self.in_a_row.clear()

    def handled(self, messages: Sequence[Message]) -> set[int]:
        """Return the ids of the objects of records that were read before a restored checkpoint: if
        they are dead letters, they are sent already.
        """
        if not self._frontier:
            return set()
        places = ((message, Origin.of(message)) for message in messages)
        return {id(m) for m, at in places if at.offset < self._frontier.get(at[:2], 0)}

    def end(self, offsets: Offsets) -> None:
        """Forget the suspects that are passed."""
        if self._suspects and all(
            offsets.get(partition, last + 1) > last
            for partition, (_, last) in self._suspects.items()
        ):
            self._suspects = {}
            log.info("learning goes on", extra={"set_aside": len(self._proven)})
        if not self._suspects and not self.in_a_row:
            self._frontier = {}
            self._tries.clear()

    def _note_try(self, origin: Origin, error: Exception, conceal: Callable[[str], str]) -> None:
        self._tries[origin] += 1
        if self._tries[origin] < TRIES:
            return
        fault = internal_fault(error, conceal)
        self._proven[origin] = fault
        self.in_a_row.append(origin)
        fields = {"at": str(origin), "reason": fault.message, "traceback": fault.stack}
        log.error("learning fails at an event, it becomes a dead letter", extra=fields)

    @property
    def must_stop(self) -> bool:
        """Whether learning fails at so many events that the fault is not theirs."""
        return len(self.in_a_row) >= MAX_IN_A_ROW


def internal_fault(error: Exception, conceal: Callable[[str], str]) -> InternalFault:
    """Return an exception of our own code as the error of a record; its stack as text, as the
    frames hold the whole state.
    """
    kind = type(error)
    detail = conceal(f"{kind.__name__}: {error}")
    frames = "".join(traceback.format_tb(error.__traceback__))[-STACK_CHARS:]
    message = f"learning failed, {detail}; please report it with its stack, and replay it later"
    return InternalFault(message, f"{kind.__module__}.{kind.__qualname__}", f"{frames}{detail}")
