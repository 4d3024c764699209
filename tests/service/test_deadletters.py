"""Dead letters: as they came, with the reason, at least once, and never given up."""

import random
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

from confluent_kafka.admin import (
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)
from prometheus_client import CollectorRegistry

from kaboost.service.config.settings import Settings
from kaboost.service.errors import EventError
from kaboost.service.events.record_decoder import RecordDecoder
from kaboost.service.kafka import topics
from kaboost.service.kafka.dead_letters import MAX_PENDING_BYTES, DeadLetters
from kaboost.service.metrics import LearnerMetrics, learner_metrics
from tests.kafka.broker import Reachable
from tests.kafka.client import Letter, admin, create_topic, read
from tests.service.learning import until

Make = Callable[..., Settings]
Send = Callable[..., None]
ERROR = EventError("feature_type", 'age: "x" where a number or null belongs')


@contextmanager
def opened(settings: Settings, metrics: LearnerMetrics | None = None) -> Iterator[DeadLetters]:
    """Open the producer of a dead-letter topic."""
    kafka = settings.kafka
    counter = (metrics or learner_metrics(CollectorRegistry())).dead_letters
    with closing(DeadLetters(kafka.client(), kafka.dlq, kafka.dlq_timeout, counter)) as letters:
        yield letters


def limit(broker: Reachable, topic: str, size: int) -> None:
    """Set the largest record that a topic takes."""
    change = ConfigEntry(
        "max.message.bytes", str(size), incremental_operation=AlterConfigOpType.SET
    )
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[change])
    client = admin(broker.bootstrap)
    client.incremental_alter_configs([resource])[resource].result(30)


def test_a_dead_letter_is_the_record_and_the_reason(
    topic: str,
    make_settings: Make,
    send: Send,
    broker: Reachable,
    dead_letters: Callable[..., list[Letter]],
) -> None:
    """Key, value and headers byte for byte; empty and absent stay apart; where, why, when."""
    settings = make_settings(topic)
    topics.create_dead_letter_topic(settings.kafka)
    given = [("a", b"\xff"), ("a", b""), ("b", None)]
    send(topic, [b"\xff\x00{", None, b""], key=b"\x00k", headers=given)
    send(topic, [b"x"])
    records = read(broker.bootstrap, topic, 4)
    metrics = learner_metrics(CollectorRegistry())
    with opened(settings, metrics) as letters:
        for record in records:
            letters.send(record, ERROR, RecordDecoder)
        assert letters.confirm(30)

    found = dead_letters(topic, 4)
    assert [b"\xff\x00{", None, b"", b"x"] == [letter.value for letter in found]
    assert [b"\x00k"] * 3 + [None] == [letter.key for letter in found]
    assert given == found[0].headers[:3]
    assert [(topic, 0, offset) for offset in range(4)] == [letter.origin for letter in found]
    texts = found[3].texts
    assert texts["kaboost.failed_at"].endswith("Z")
    assert texts == {
        "__connect.errors.topic": topic,
        "__connect.errors.partition": "0",
        "__connect.errors.offset": "3",
        "__connect.errors.connector.name": "kaboost",
        "__connect.errors.task.id": "0",
        "__connect.errors.stage": "VALUE_CONVERTER",
        "__connect.errors.class.name": "kaboost.service.events.record_decoder.RecordDecoder",
        "__connect.errors.exception.class.name": "kaboost.service.errors.EventError",
        "__connect.errors.exception.message": f"{topic}[0]@3: {ERROR.message}",
        "__connect.errors.exception.stacktrace": "kaboost.service.errors.EventError: "
        + ERROR.message,
        "kaboost.error.code": "feature_type",
        "kaboost.timestamp": str(records[3].timestamp()[1]),
        "kaboost.failed_at": texts["kaboost.failed_at"],
    }
    assert 4.0 == metrics.dead_letters.labels("feature_type")._value.get()


def test_the_topic_takes_larger_records_than_the_source(
    make_topic: Callable[..., str],
    make_settings: Make,
    send: Send,
    broker: Reachable,
    dead_letters: Callable[..., list[Letter]],
) -> None:
    """A record as large as its topic allows fits with its headers."""
    topic = make_topic(config={"max.message.bytes": "20000000"})
    settings = make_settings(topic)
    topics.create_dead_letter_topic(settings.kafka)
    noise = random.Random(1).randbytes(19_000_000)
    big = {"message.max.bytes": 30_000_000}
    send(topic, [noise], client=big)
    with opened(settings) as letters:
        (record,) = read(broker.bootstrap, topic, 1)
        letters.send(record, ERROR, RecordDecoder)
        assert letters.full  # more than MAX_PENDING_BYTES is on its way: learning waits
        assert not letters.stuck
        assert letters.confirm(30)
        assert not letters.full

    assert len(noise) > MAX_PENDING_BYTES
    assert [noise] == [letter.value for letter in dead_letters(topic, 1)]


def test_a_topic_that_is_there_is_left_alone(topic: str, make_settings: Make) -> None:
    """The learner creates it once, with whatever rights that takes, and never changes it."""
    settings = make_settings(topic)
    topics.create_dead_letter_topic(settings.kafka)
    topics.create_dead_letter_topic(settings.kafka)


def test_what_is_refused_is_sent_again(
    topic: str,
    make_settings: Make,
    send: Send,
    broker: Reachable,
    dead_letters: Callable[..., list[Letter]],
) -> None:
    """A refusal that the client takes for final is none: the topic may be mended."""
    settings = make_settings(topic, kafka={"dlq_timeout": 0.2})
    create_topic(broker.bootstrap, config={"max.message.bytes": "500"}, name=settings.kafka.dlq)
    send(topic, [b"%d" % n + b"\xff" * 10 for n in range(3)], headers={"h": bytes(range(256)) * 4})
    records = read(broker.bootstrap, topic, 3)
    with opened(settings) as letters:
        for record in records:
            letters.send(record, ERROR, RecordDecoder)
        assert not letters.confirm(1.0)
        assert letters.stuck
        limit(broker, settings.kafka.dlq, 1_000_000)
        assert letters.confirm(30)

    assert {0, 1, 2} == {letter.origin[2] for letter in dead_letters(topic, 3)}


def test_patience_ends_before_learning_goes_too_far(
    topic: str, make_settings: Make, send: Send, broker: Reachable
) -> None:
    """One letter that waits longer than `kafka.dlq_timeout` is a pause; many at once only wait."""
    settings = make_settings(topic, kafka={"dlq_timeout": 0.3})  # nobody creates the topic
    send(topic, [b"x"])
    (record,) = read(broker.bootstrap, topic, 1)
    with opened(settings) as letters:
        assert not letters.stuck
        letters.send(record, ERROR, RecordDecoder)
        letters.poll()
        assert not letters.stuck
        begin = time.monotonic()
        until(lambda: letters.poll(0.05) or letters.stuck)
        assert time.monotonic() - begin >= 0.25

    settings = make_settings(topic, kafka={"dlq_timeout": 3600})
    with opened(settings) as letters:
        for _ in range(MAX_PENDING_BYTES // 2_000 + 1):
            letters.send(record, ERROR, RecordDecoder)
        assert letters.full
        assert not letters.stuck
        begin = time.monotonic()
    assert time.monotonic() - begin < 5.0  # to close is to give up, not to wait


def test_nothing_to_do_costs_nothing(topic: str, make_settings: Make) -> None:
    """Between batches without dead letters the check is a few microseconds."""
    with opened(make_settings(topic)) as letters:
        begin = time.perf_counter()
        for _ in range(1000):
            letters.poll()
            assert not letters.stuck
        took = time.perf_counter() - begin

    assert took / 1000 < 1e-3
