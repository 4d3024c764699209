"""The Kafka consumer on a real broker: each trap of the client has a test that names it."""

import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import NewPartitions
from prometheus_client import CollectorRegistry

from kaboost.service.config.settings import Settings
from kaboost.service.errors import BrokerError, ConfigError, Exit, Refused
from kaboost.service.kafka import topics
from kaboost.service.kafka.consumer import MIN_SILENCE_SECONDS, KafkaConsumer
from kaboost.service.metrics import LearnerMetrics, learner_metrics
from tests.kafka.broker import Broker, Reachable
from tests.kafka.client import admin, create_topic, produce
from tests.ports import free_port
from tests.service.learning import settings_for, until

Make = Callable[..., Settings]
Send = Callable[..., None]


@contextmanager
def opened(settings: Settings, metrics: LearnerMetrics | None = None) -> Iterator[KafkaConsumer]:
    """Open a consumer."""
    own = metrics or learner_metrics(CollectorRegistry())
    with closing(KafkaConsumer(settings.kafka, own)) as consumer:
        yield consumer


def values(count: int, first: int = 0) -> list[bytes]:
    return [b"%d" % number for number in range(first, first + count)]


def drain(consumer: KafkaConsumer, count: int, limit: int = 2000) -> list[bytes | None]:
    """Read until `count` records came."""
    found: list[bytes | None] = []

    def enough() -> bool:
        found.extend(message.value() for message in consumer.poll(limit))
        return len(found) >= count

    until(enough)
    return found


def delete_below(broker: Reachable, topic: str, offset: int) -> None:
    """Let the oldest records go, as retention would."""
    client = admin(broker.bootstrap)
    at = TopicPartition(topic, 0, offset)
    client.delete_records([at])[at].result(30)


def test_records_come_in_order_from_the_position_on(
    topic: str, make_settings: Make, send: Send
) -> None:
    """A position is exact; `limit` bounds every batch."""
    send(topic, values(500))
    with opened(make_settings(topic)) as consumer:
        consumer.assign({0: 100})
        batches = []
        while sum(map(len, batches)) < 400:
            batches.append([message.value() for message in consumer.poll(60)])

    assert values(400, 100) == [value for batch in batches for value in batch]
    assert max(map(len, batches)) <= 60


def test_a_single_record_does_not_wait_for_a_full_batch(
    topic: str, make_settings: Make, send: Send
) -> None:
    """Trap: `consume(n, timeout)` waits until n are there; `poll` and `consume(n, 0)` do not."""
    with opened(make_settings(topic)) as consumer:
        consumer.assign({0: 0})
        send(topic, [b"warm"])
        drain(consumer, 1)
        times = []
        for _ in range(5):
            send(topic, [b"x"])
            begin = time.perf_counter()
            drain(consumer, 1)
            times.append(time.perf_counter() - begin)

    assert min(times) < 0.09  # 0.1 would be the whole wait of `poll`


def test_a_backlog_behind_a_full_queue_is_read_at_speed(
    topic: str, make_settings: Make, send: Send
) -> None:
    """Trap: with `fetch.queue.backoff.ms` at its 1000 a full queue is refilled once a second."""
    send(topic, [b"x" * 1000] * 10_000)
    extra = {"queued.max.messages.kbytes": 512, "fetch.message.max.bytes": 262_144}
    with opened(make_settings(topic, kafka={"extra": extra})) as consumer:
        consumer.assign({0: 0})
        begin = time.perf_counter()
        drain(consumer, 10_000)
        took = time.perf_counter() - begin

    assert took < 6.0  # 0.7 on an idle machine; 10 with the default


def test_assigned_partitions_wait_for_no_group(
    topic: str, make_settings: Make, send: Send, broker: Reachable
) -> None:
    """Trap: after a kill -9 `subscribe` waits 45 s for its own dead member; `assign` does not.

    A member of the same group that still holds the partition takes nothing away either.
    """
    settings = make_settings(topic)
    send(topic, values(10))
    zombie = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": settings.kafka.group_id,
            "auto.offset.reset": "earliest",
        }
    )
    with closing(zombie), opened(settings) as consumer:
        zombie.subscribe([topic])
        until(lambda: zombie.poll(0.1))
        begin = time.perf_counter()
        consumer.assign({0: 0})
        assert values(10) == drain(consumer, 10)
        took = time.perf_counter() - begin

    assert took < 5.0  # 0.01 on an idle machine


def test_nothing_is_committed_but_by_us(topic: str, make_settings: Make, send: Send) -> None:
    """Trap: the client's own stores and commits mark a batch as done when it is handed over."""
    settings = make_settings(topic)
    send(topic, values(50))
    with opened(settings) as consumer:
        consumer.assign({0: 0})
        drain(consumer, 50)
    with opened(settings) as consumer:
        assert not consumer.is_committed([0])
        consumer.assign({0: 0})
        drain(consumer, 50)
        consumer.commit({0: 20})
    with opened(settings) as consumer:
        assert consumer.is_committed([0])
        at = consumer.client.committed([TopicPartition(topic, 0)], 10)

    assert [20] == [each.offset for each in at]


def test_a_start_is_resolved_to_numbers(
    make_topic: Callable[..., str], make_settings: Make, send: Send
) -> None:
    """Trap: "latest" in a checkpoint loses data; every partition gets a number, empty ones too."""
    topic = make_topic(partitions=2)
    send(topic, values(10))
    moment = time.time() + 0.05
    time.sleep(0.1)
    send(topic, values(5))
    stamp = (
        time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(moment)) + f".{int(moment % 1 * 1000):03d}Z"
    )
    found = {}
    for start in ("earliest", "latest", stamp):
        with opened(make_settings(topic, kafka={"start_from": start})) as consumer:
            found[start] = consumer.start_offsets([0, 1])

    assert {"earliest": {0: 0, 1: 0}, "latest": {0: 15, 1: 0}, stamp: {0: 10, 1: 0}} == found


def test_earliest_is_the_first_that_is_left(
    topic: str, make_settings: Make, send: Send, broker: Reachable
) -> None:
    """A first start on an old topic is no gap."""
    send(topic, values(10))
    delete_below(broker, topic, 4)
    with opened(make_settings(topic)) as consumer:
        start = consumer.start_offsets([0])
        consumer.assign(start)

        assert {0: 4} == start
        assert values(6, 4) == drain(consumer, 6)


@pytest.mark.parametrize(("position", "why"), [(3, "were deleted"), (11, "created again")])
def test_a_gap_is_refused(
    topic: str, make_settings: Make, send: Send, broker: Reachable, position: int, why: str
) -> None:
    """A position that the topic does not hold is not silently moved: exit 3."""
    send(topic, values(10))
    delete_below(broker, topic, 4)
    with opened(make_settings(topic)) as consumer, pytest.raises(Refused, match=why) as err:
        consumer.assign({0: position})

    assert Exit.REFUSED == err.value.exit_code
    assert f"{topic}[0] holds offsets 4 to 10, the state goes on at {position}" in str(err.value)


def test_a_gap_that_opens_while_reading_is_refused(
    topic: str, make_settings: Make, send: Send, broker: Reachable
) -> None:
    """Trap: without `auto.offset.reset=error` the client would jump over what is lost."""
    with opened(make_settings(topic)) as consumer:
        offsets = {0: 0}
        consumer.assign(offsets)
        send(topic, values(10))
        offsets[0] = len(drain(consumer, 10))
        consumer.pause()
        send(topic, values(10))
        delete_below(broker, topic, 15)
        consumer.resume()

        with pytest.raises(Refused, match="goes on at 10: events between were deleted"):
            until(lambda: consumer.poll(100))


def test_holes_are_no_gap(
    make_topic: Callable[..., str], make_settings: Make, broker: Reachable
) -> None:
    """Compaction and transactions leave holes between offsets: nothing is missing."""
    topic = make_topic(
        config={
            "cleanup.policy": "compact",
            "segment.ms": "100",
            "min.cleanable.dirty.ratio": "0.001",
            "max.compaction.lag.ms": "100",
            "delete.retention.ms": "0",
        }
    )
    for round_ in range(3):
        produce(broker.bootstrap, topic, [b"%d" % round_] * 5, key=b"same")
        time.sleep(0.15)
    settings = make_settings(topic)
    until(lambda: len(offsets(settings)) < 15)

    found = offsets(settings)
    assert 14 == found[-1]
    assert len(found) < 15


def offsets(settings: Settings) -> list[int]:
    """Read a topic of 15 records, of which some may be compacted away; list their offsets."""
    with opened(settings) as consumer:
        consumer.assign({0: 0})
        found: list[int] = []
        until(lambda: found.extend(m.offset() or 0 for m in consumer.poll(100)) or 14 in found)
        return found


def test_transactions_show_what_was_committed(
    topic: str, make_settings: Make, broker: Reachable
) -> None:
    """Aborted records are not read; the markers at the end count as no lag."""
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": topic})
    producer.init_transactions(30)
    for value, commit in ((b"a", True), (b"b", False), (b"c", True), (b"d", False)):
        producer.begin_transaction()
        producer.produce(topic, value)
        producer.flush(30)
        (producer.commit_transaction if commit else producer.abort_transaction)(30)
    metrics = learner_metrics(CollectorRegistry())
    with opened(make_settings(topic), metrics) as consumer:
        offsets = {0: 0}
        consumer.assign(offsets)
        found = consumer.poll(100)
        while len(found) < 2:
            found += consumer.poll(100)
        offsets[0] = (found[-1].offset() or 0) + 1
        lag = metrics.lag_records.labels(topic, 0)
        lag.set(-1)

        assert [b"a", b"c"] == [message.value() for message in found]
        until(lambda: consumer.poll(100) or lag._value.get() == 0.0)


def test_lag_is_published_by_the_owner_of_the_consumer(
    topic: str, make_settings: Make, send: Send
) -> None:
    """Trap: a thread that asks the consumer for lag waits for a running `consume`."""
    metrics = learner_metrics(CollectorRegistry())
    records = metrics.lag_records.labels(topic, 0)
    seconds = metrics.lag_seconds.labels(topic, 0)
    send(topic, values(10))
    with opened(make_settings(topic), metrics) as consumer:
        offsets = {0: 0}
        consumer.assign(offsets)
        offsets[0] = len(drain(consumer, 4, limit=4))
        consumer.pause()  # what is in the client's queue by now is not read either
        until(lambda: consumer.poll(10) or records._value.get() == 6.0)
        assert 0.0 < seconds._value.get() < 60.0

        consumer.resume()
        offsets[0] += len(drain(consumer, 6))
        until(lambda: consumer.poll(10) or records._value.get() == 0.0)
        assert 0.0 == seconds._value.get()


def test_paused_partitions_lose_nothing(topic: str, make_settings: Make, send: Send) -> None:
    """Trap: a pause empties the client's queue; reading goes on where it was."""
    send(topic, values(1000))
    with opened(make_settings(topic)) as consumer:
        consumer.assign({0: 0})
        found = drain(consumer, 100, limit=100)
        consumer.pause()
        for _ in range(5):
            assert [] == consumer.poll(100)
        send(topic, values(500, 1000))
        consumer.resume()
        found += drain(consumer, 1500 - len(found), limit=100)

    assert values(1500) == found


def test_new_partitions_are_read_from_their_beginning(
    topic: str, make_settings: Make, send: Send, broker: Reachable
) -> None:
    """Somebody adds partitions; what was written before anyone looked is read as well."""
    client = admin(broker.bootstrap)
    with opened(make_settings(topic)) as consumer:
        offsets = {0: 0}
        consumer.assign(offsets)
        send(topic, values(3))
        offsets[0] = len(drain(consumer, 3))
        client.create_partitions([NewPartitions(topic, 3)])[topic].result(30)
        until(lambda: len(topics.find(consumer.client, topic)) == 3)
        send(topic, values(2, 10), partition=2)
        consumer.add_partitions()

        assert {0: 3, 1: 0, 2: 0} == offsets
        assert values(2, 10) == drain(consumer, 2)


def test_new_partitions_wait_while_reading_is_paused(
    topic: str, make_settings: Make, send: Send, broker: Reachable
) -> None:
    """Trap: an assignment pauses nothing by itself; a pause holds for what is added under it."""
    client = admin(broker.bootstrap)
    with opened(make_settings(topic)) as consumer:
        consumer.assign({0: 0})
        consumer.pause()
        client.create_partitions([NewPartitions(topic, 2)])[topic].result(30)
        until(lambda: len(topics.find(consumer.client, topic)) == 2)
        send(topic, values(3))
        send(topic, values(2, 10), partition=1)
        consumer.add_partitions()
        assert [[]] * 20 == [consumer.poll(10) for _ in range(20)]

        consumer.resume()
        assert {*values(3), *values(2, 10)} == set(drain(consumer, 5))


class Moving:
    """A client whose group has no coordinator yet, as right after a broker's start."""

    def __init__(self, consumer: Consumer, code: int) -> None:
        self._consumer = consumer
        self.errors = [KafkaException(KafkaError(code))] * 3

    def committed(self, asked: list[TopicPartition], timeout: float) -> list[TopicPartition]:
        """Give the answer after the errors."""
        if self.errors:
            raise self.errors.pop()
        return self._consumer.committed(asked, timeout)


def test_a_coordinator_on_its_way_is_waited_for(
    topic: str, make_settings: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Trap: a broker that has just started says NOT_COORDINATOR; other errors are told at once."""
    with opened(make_settings(topic)) as consumer:
        moving = Moving(consumer.client, KafkaError.NOT_COORDINATOR)
        refusing = Moving(consumer.client, KafkaError.GROUP_AUTHORIZATION_FAILED)
        with monkeypatch.context() as patch:
            patch.setattr(consumer, "_consumer", moving)
            assert not consumer.is_committed([0])
            patch.setattr(consumer, "_consumer", refusing)
            with pytest.raises(KafkaException):
                consumer.is_committed([0])

    assert (0, 2) == (len(moving.errors), len(refusing.errors))


def test_a_missing_topic_is_waited_for(broker: Reachable, make_settings: Make) -> None:
    """It may be created after us; after `kafka.topic_timeout` it is given up: exit 4."""
    name = f"late-{free_port()}"
    settings = make_settings(name, kafka={"topic_timeout": 0.5})
    with (
        opened(settings) as consumer,
        pytest.raises(BrokerError, match=f"{name} is not there") as err,
    ):
        topics.wait(consumer.client, settings.kafka, lambda: True)
    assert Exit.BROKER == err.value.exit_code

    settings = make_settings(name)
    asked = []

    def tick() -> bool:
        asked.append(name)
        if len(asked) == 3:
            create_topic(broker.bootstrap, 2, name=name)
        return True

    with opened(settings) as consumer:
        assert [0, 1] == topics.wait(consumer.client, settings.kafka, tick)
    with opened(settings) as consumer:
        assert [] == topics.wait(consumer.client, settings.kafka, lambda: False)


def test_an_unreachable_broker_is_given_up(tmp_path: Path) -> None:
    """Nobody listens there: exit 4 after `kafka.broker_timeout`."""
    kafka = {"broker_timeout": 0.5}
    settings = settings_for(f"127.0.0.1:{free_port()}", tmp_path, "t", kafka=kafka)
    with opened(settings) as consumer, pytest.raises(BrokerError, match="no broker at"):
        topics.wait(consumer.client, settings.kafka, lambda: True)


def test_a_topic_that_goes_away_is_given_up(
    topic: str, make_settings: Make, broker: Reachable
) -> None:
    """Deleted under us: time to come back, then exit 4."""
    client = admin(broker.bootstrap)
    with opened(make_settings(topic, kafka={"topic_timeout": 0.3})) as consumer:
        consumer.assign({0: 0})
        client.delete_topics([topic])[topic].result(30)

        with pytest.raises(BrokerError, match="went away"):
            until(lambda: consumer.poll(1) or consumer.add_partitions())


def test_a_broker_killed_and_started_again_goes_unnoticed(
    own_broker: Broker, tmp_path: Path
) -> None:
    """Reading goes on where it was; only a broker that stays away is given up: exit 4."""
    topic = create_topic(own_broker.bootstrap)
    settings = settings_for(own_broker.bootstrap, tmp_path, topic, kafka={"broker_timeout": 12.0})
    produce(own_broker.bootstrap, topic, values(100))
    with opened(settings) as consumer:
        consumer.assign({0: 0})
        assert values(100) == drain(consumer, 100)
        own_broker.kill()
        assert [] == consumer.poll(10)
        own_broker.start()
        produce(own_broker.bootstrap, topic, values(100, 100))
        assert values(100, 100) == drain(consumer, 100)

        own_broker.kill()
        consumer.commit({0: 200})
        with pytest.raises(BrokerError, match="no broker at"):
            until(lambda: consumer.poll(10))
        begin = time.monotonic()

    # Trap: `close` waits for ever for a commit that nobody will answer.
    assert time.monotonic() - begin < 10.0


def test_a_quiet_topic_is_no_lost_broker(topic: str, make_settings: Make) -> None:
    """Where nothing is written for long, the broker's connection still tells that it is there."""
    with opened(make_settings(topic, kafka={"broker_timeout": 0.1})) as consumer:
        consumer.assign({0: 0})
        end = time.monotonic() + MIN_SILENCE_SECONDS + 1.5
        while time.monotonic() < end:
            assert [] == consumer.poll(10)


def test_an_unknown_client_key_is_a_configuration_error(topic: str, make_settings: Make) -> None:
    """`kafka.extra` takes any key that librdkafka knows."""
    settings = make_settings(topic, kafka={"extra": {"fetch.wait.max.mz": 10}})
    with pytest.raises(ConfigError, match=r"kafka\.extra.*fetch\.wait\.max\.mz"):
        KafkaConsumer(settings.kafka, learner_metrics(CollectorRegistry()))
