"""Read topics side by side: of all partitions the one whose events are the oldest comes first."""

import math
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence

from confluent_kafka import Message

from kaboost.service.kafka.consumer import POLL_SECONDS, KafkaConsumer

CHUNK = 128  # most records of one partition, before another one may be farther behind
FIRST_CHUNK = 8  # of a partition whose events a second are not known yet
MAX_RECORDS, MAX_BYTES = 20_000, 8 * 2**20  # of one partition in memory
FILL_SECONDS = 0.05  # between two polls while there are records
WAIT_SECONDS = 10.0  # for a partition that is behind and has nothing here
Place = tuple[int, int]  # topic and partition
Reached = Callable[[int, int], float]  # the event time read so far of a topic and partition


class _Buffer:
    """Records of one partition that wait for their turn."""

    def __init__(self) -> None:
        self.records: deque[Message] = deque()
        self.bytes = 0
        self.pace = math.nan  # seconds of event time from one record to the next; nan: not known
        self._last: tuple[float, int] | None = None  # time reached before the last chunk, its size

    def note(self, reached: float) -> None:
        """Note the event time that was reached by the last chunk."""
        if self._last is None:
            return
        before, records = self._last
        self._last = None
        if math.isfinite(before) and math.isfinite(reached):
            pace = (reached - before) / records
            self.pace = pace if math.isnan(self.pace) else 0.5 * (self.pace + pace)

    @property
    def is_full(self) -> bool:
        return len(self.records) > MAX_RECORDS or self.bytes > MAX_BYTES

    @property
    def is_half_empty(self) -> bool:
        return len(self.records) < MAX_RECORDS // 2 and self.bytes < MAX_BYTES // 2

    def add(self, record: Message) -> None:
        self.records.append(record)
        self.bytes += len(record)

    def take(self, limit: int, reached: float) -> list[Message]:
        taken = [self.records.popleft() for _ in range(min(limit, len(self.records)))]
        self.bytes -= sum(map(len, taken))
        self._last = reached, len(taken)
        return taken


class OrderedReader:
    """Read from several consumers; one thread calls.

    A broker sends much of one partition, then much of another. In that order labels would come
    long before or after others of the same time, which is not the stream that the model is for.
    Partitions are read in turns of about the same span of event time.
    """

    def __init__(self, consumers: Sequence[KafkaConsumer]) -> None:
        self._consumers = consumers
        self._buffers: dict[Place, _Buffer] = {}  # by topic and partition
        self._held: set[Place] = set()  # that are not fetched: their buffers are full
        self._waiting_since: float | None = None
        self._paused = False
        self._filled_at = -FILL_SECONDS

    def poll(self, limit: int, reached: Reached) -> list[Message]:
        """Read at most `limit` records of the partition that is farthest behind; none while there
        may be records farther behind on their way.
        """
        self._fill(limit)
        for place, buffer in self._buffers.items():
            buffer.note(reached(*place))
        ready = [place for place, buffer in self._buffers.items() if buffer.records]
        if self._paused or not ready:
            return []
        first = min(ready, key=lambda place: reached(*place))
        if self._waits(reached, reached(*first)):
            return []
        count = self._count(first, ready, min(limit, CHUNK))
        return self._buffers[first].take(count, reached(*first))

    def _count(self, place: Place, ready: Sequence[Place], most: int) -> int:
        """Return how many records of a partition take as long, by event time, as `most` records of
        the densest one: those of a rare topic would else run weeks ahead of the others.
        """
        own = self._buffers[place].pace
        if math.isnan(own):
            return min(FIRST_CHUNK, most)
        paces = [self._buffers[each].pace for each in ready]
        span = most * min((pace for pace in paces if pace > 0.0), default=math.inf)
        return most if own * most <= span else max(1, int(span / own))

    def ends(self, topic: int) -> Mapping[int, int | None]:
        """Return the end of every partition of a topic, None where records are unread or here."""
        return {
            partition: None if self._has(topic, partition) else end
            for partition, end in self._consumers[topic].ends.items()
        }

    def pause(self) -> None:
        """Give no records until `resume`."""
        self._paused = True

    def resume(self) -> None:
        """Give records again; all partitions are fetched."""
        self._paused = False
        self._held.clear()

    def _fill(self, limit: int) -> None:
        """Read more where there is little, or none of a partition; the clients serve the broker."""
        now = time.monotonic()
        here = sum(len(buffer.records) for buffer in self._buffers.values())
        missing = any(self._is_missing(*place) for place in self._places())
        if here > 2 * CHUNK and not missing and now - self._filled_at < FILL_SECONDS:
            return
        self._filled_at = now
        for topic, consumer in enumerate(self._consumers):
            wait = 0.0 if here and not missing else 0.2 * POLL_SECONDS
            for record in consumer.poll(max(limit, CHUNK), wait):
                place = topic, record.partition() or 0
                self._buffers.setdefault(place, _Buffer()).add(record)
        for place, buffer in self._buffers.items():
            topic, partition = place
            if buffer.is_full and place not in self._held:
                self._held.add(place)
                self._consumers[topic].hold([partition])
            elif place in self._held and buffer.is_half_empty:
                self._held.remove(place)
                self._consumers[topic].release([partition])

    def _waits(self, reached: Reached, first: float) -> bool:
        """Whether to wait for a partition that is farther behind and has no records here."""
        behind = any(
            self._is_missing(*place) and reached(*place) < first for place in self._places()
        )
        now = time.monotonic()
        if not behind:
            self._waiting_since = None
            return False
        self._waiting_since = self._waiting_since or now
        return now - self._waiting_since < WAIT_SECONDS

    def _places(self) -> Iterator[Place]:
        for topic, consumer in enumerate(self._consumers):
            for partition in consumer.ends:
                yield topic, partition

    def _is_missing(self, topic: int, partition: int) -> bool:
        """Whether a partition has unread records and none of them is here."""
        return self._consumers[topic].ends[partition] is None and not self._has(topic, partition)

    def _has(self, topic: int, partition: int) -> bool:
        buffer = self._buffers.get((topic, partition))
        return buffer is not None and bool(buffer.records)
