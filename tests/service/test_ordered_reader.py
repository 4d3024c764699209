"""Two topics of several partitions, read in the order of their events, on a real broker."""

import random
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

import pytest
from confluent_kafka import Message
from prometheus_client import CollectorRegistry

from kaboost.service.config.settings import Settings
from kaboost.service.kafka.consumer import KafkaConsumer
from kaboost.service.kafka.ordered_reader import CHUNK, OrderedReader
from kaboost.service.metrics import LearnerMetrics, learner_metrics
from tests.service.learning import until

Make = Callable[..., Settings]
Send = Callable[..., None]
THIN = (0, 2)  # the partition with few records
PARTITIONS = 5  # that have records


class Times:
    """The times of records, which are their values, as they are read."""

    def __init__(self) -> None:
        self.read: list[int] = []
        self.behind = self._thick = 0  # of records of all but the thin partition
        self.ahead = 0.0  # of records of the thin partition, before the last record of another
        self._latest: dict[tuple[int, int], float] = {}

    def reached(self, topic: int, partition: int) -> float:
        return self._latest.get((topic, partition), -1.0)

    def note(self, topics: list[str], messages: list[Message]) -> None:
        for message in messages:
            place = topics.index(message.topic() or ""), message.partition() or 0
            time = int(message.value() or b"")
            self._latest[place] = max(self.reached(*place), time)
            self.read.append(time)
            if place != THIN:
                self._thick = max(self._thick, time)
                self.behind = max(self.behind, self._thick - time)
            elif len(self._latest) == PARTITIONS:
                self.ahead = max(self.ahead, time - min(self._latest.values()))


@contextmanager
def reading(
    make_settings: Make,
    topics: list[str],
    partitions: int,
    metrics: LearnerMetrics | None = None,
    offsets: dict[str, dict[int, int]] | None = None,
) -> Iterator[OrderedReader]:
    """Open a reader from the beginning of some topics; the test moves the offsets."""
    metrics = metrics or learner_metrics(CollectorRegistry())
    offsets = offsets or {topic: dict.fromkeys(range(partitions), 0) for topic in topics}
    consumers = [
        KafkaConsumer(make_settings(topic).kafka, metrics, note_ends=True) for topic in topics
    ]
    for topic, consumer in zip(topics, consumers, strict=True):
        consumer.assign(offsets[topic])
    with closing(consumers[0]), closing(consumers[1]):
        yield OrderedReader(consumers)


@pytest.mark.parametrize("limit", [100, 2000])
def test_a_backlog_comes_in_the_order_of_its_times(
    make_topic: Callable[..., str], make_settings: Make, send: Send, limit: int
) -> None:
    """However a broker sends partitions, records are at most a chunk ahead of one another; one
    partition has few records, one has none, none is lost.
    """
    topics, count = [make_topic(partitions=4) for _ in range(2)], 30_000
    draw = random.Random(3)
    shares = [(0, 0, 0.5), (0, 1, 0.2), (*THIN, 0.01), (1, 0, 0.19), (1, 3, 0.1)]
    values: dict[tuple[int, int], list[bytes]] = {}
    for time in range(count):
        topic, partition, _ = draw.choices(shares, [share for *_, share in shares])[0]
        values.setdefault((topic, partition), []).append(b"%d" % time)
    for (topic, partition), records in values.items():
        send(topics[topic], records, partition=partition)
    times = Times()
    with reading(make_settings, topics, 4) as reader:

        def is_read() -> bool:
            messages = reader.poll(limit, times.reached)
            assert len(messages) <= min(limit, CHUNK)
            times.note(topics, messages)
            return len(times.read) == count

        until(is_read)
        until(lambda: not reader.poll(limit, times.reached) and None not in reader.ends(0).values())

    assert sorted(times.read) == list(range(count))
    # A chunk of a partition with a tenth of the records spans ten times as many.
    assert times.behind <= 10 * 1.3 * min(limit, CHUNK)
    # One with a hundredth is read a few records at a time.
    assert times.ahead <= 10 * 1.3 * min(limit, CHUNK)


def test_paused_it_gives_nothing_and_loses_nothing(
    make_topic: Callable[..., str], make_settings: Make, send: Send
) -> None:
    """Records that were fetched before a pause come after it."""
    topics = [make_topic(partitions=1) for _ in range(2)]
    for topic in topics:
        send(topic, [b"%d" % k for k in range(1000)])
    times = Times()
    with reading(make_settings, topics, 1) as reader:
        until(lambda: times.note(topics, reader.poll(10, times.reached)) or times.read)
        reader.pause()
        assert not any(reader.poll(10, times.reached) for _ in range(5))
        reader.resume()
        until(
            lambda: times.note(topics, reader.poll(500, times.reached)) or len(times.read) == 2000
        )

    assert sorted(times.read) == sorted([*range(1000)] * 2)


def test_records_in_memory_are_lag(
    make_topic: Callable[..., str], make_settings: Make, send: Send
) -> None:
    """Trap: the client has given them all, and the trainer has only some of them."""
    topics = [make_topic(partitions=1) for _ in range(2)]
    for topic in topics:
        send(topic, [b"%d" % k for k in range(1000)])
    metrics, times = learner_metrics(CollectorRegistry()), Times()
    offsets = {topic: {0: 0} for topic in topics}
    lags = [metrics.lag_records.labels(topic, 0) for topic in topics]

    def read(limit: int) -> int:
        """Learn some records; return how many so far."""
        messages = reader.poll(limit, times.reached)
        times.note(topics, messages)
        for message in messages:
            offsets[message.topic() or ""][0] = (message.offset() or 0) + 1
        return len(times.read)

    with reading(make_settings, topics, 1, metrics, offsets) as reader:
        until(lambda: read(20) >= 200)
        left = [1000.0 - offsets[topic][0] for topic in topics]
        reader.pause()
        for lag in lags:
            lag.set(-1)
        until(lambda: read(1) and all(lag._value.get() >= 0.0 for lag in lags))
        assert left == [lag._value.get() for lag in lags]

        reader.resume()
        until(lambda: read(500) == 2000)
        until(lambda: read(500) and [0.0, 0.0] == [lag._value.get() for lag in lags])
