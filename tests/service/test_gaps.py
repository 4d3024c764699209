"""A gap between state and topic is accepted where one says so: the model is kept."""

from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition

from kaboost.service.config.settings import Settings
from kaboost.service.errors import Gap
from tests.kafka.broker import Broker, Reachable
from tests.kafka.client import admin, produce, recreate
from tests.service.learning import (
    events,
    expect_state,
    gauge,
    learn_all,
    learned,
    learning,
    rows,
    saved,
    settings_for,
    until,
)
from tests.service.steering import audited, command
from tests.service.test_topic_identity import learn_and_restore

Make = Callable[..., Settings]
Send = Callable[..., None]
ACCEPT = {"on_gap": "accept"}


def delete_before(broker: Reachable, topic: str, offset: int) -> None:
    """Let retention delete the first records of a topic."""
    client, at = admin(broker.bootstrap), TopicPartition(topic, 0, offset)
    client.delete_records([at])[at].result(30)


def kinds(settings: Settings) -> list[tuple[str, int, int | None]]:
    """List the accepted gaps of the audit log: kind, offset before, offset after."""
    found = [entry["details"] for entry in audited(settings) if entry["command"] == "accept gap"]
    return [(gap["kind"], gap["before"], gap["after"]) for gap in found]


def test_deleted_events_are_left_out(
    topic: str, make_settings: Make, send: Send, broker: Reachable
) -> None:
    """Refused by default, with the way on; accepted, the model learns on from the first record."""
    settings, stream = make_settings(topic), rows(220)
    send(topic, events(stream[:100]))
    learn_all(settings, 100)
    send(topic, events(stream[100:200]))
    delete_before(broker, topic, 150)
    with learning(settings) as running, pytest.raises(Gap, match="--on-gap=accept"):
        running.wait()

    settings = make_settings(topic, kafka=ACCEPT)
    with learning(settings) as running:
        until(lambda: not running.alive or learned(settings) == 150)
        assert 50.0 == gauge(settings, "kaboost_records_lost_total")
        assert 0 == running.stop()
    send(topic, events(stream[200:]))
    learn_all(settings, 170)

    expect_state(settings, stream[:100] + stream[150:])
    assert [("deleted", 100, 150)] == kinds(settings)


def test_a_topic_created_again_is_read_from_its_beginning(
    make_topic: Callable[..., str], make_settings: Make, send: Send, broker: Reachable
) -> None:
    """Whether it has more records than the old one, or fewer partitions."""
    topic = make_topic(partitions=2)
    settings, stream = make_settings(topic, kafka=ACCEPT), rows(220)
    send(topic, events(stream[:50]))
    send(topic, events(stream[50:100]), partition=1)
    learn_all(settings, 100)
    recreate(broker.bootstrap, topic)
    send(topic, events(stream[100:]))
    learn_all(settings, 220)

    assert {0: 120} == saved(settings)
    assert [("recreated", 50, None), ("recreated", 50, 0)] == kinds(settings)
    learn_all(settings, 220)
    assert 2 == len(kinds(settings))


def test_a_gap_is_accepted_once(
    topic: str, make_settings: Make, send: Send, broker: Reachable
) -> None:
    """Trap: the state has nothing of the topic that is gone, even if nothing was read since."""
    settings = make_settings(topic, kafka=ACCEPT)
    send(topic, events(rows(50)))
    learn_all(settings, 50)
    recreate(broker.bootstrap, topic)
    with learning(settings) as running:
        until(lambda: saved(settings) == {0: 0})
        assert 0 == running.stop()
    send(topic, events(rows(60, seed=2)))
    learn_all(make_settings(topic), 110)

    assert [("recreated", 50, 0)] == kinds(settings)


def test_a_gap_while_it_runs_is_accepted(
    topic: str, make_settings: Make, send: Send, broker: Reachable
) -> None:
    """The same process goes on, with what it had learned since its last checkpoint."""
    rarely = {"every_seconds": 3600, "every_events": 1_000_000}
    settings = make_settings(topic, kafka=ACCEPT, checkpoints=rarely)
    stream = rows(200)
    with learning(settings) as running:
        until(lambda: learned(settings) == 0)
        send(topic, events(stream[:100]))
        until(lambda: learned(settings) == 100)
        command(settings, "pause")
        send(topic, events(stream[100:]))
        delete_before(broker, topic, 150)
        command(settings, "resume")
        until(lambda: not running.alive or learned(settings) == 150)
        assert 0 == running.stop()

    expect_state(settings, stream[:100] + stream[150:])
    assert [("deleted", 100, 150)] == kinds(settings)


def test_a_truncated_log_is_read_from_its_beginning(own_broker: Broker, tmp_path: Path) -> None:
    """Which of its records were read cannot be known: none is left out."""
    topic, settings = learn_and_restore(own_broker, tmp_path)
    own_broker.start()
    produce(own_broker.bootstrap, topic, events(rows(70, seed=3)))
    settings = settings_for(own_broker.bootstrap, tmp_path, topic, kafka=ACCEPT)
    learn_all(settings, 100 + 120)

    assert [("truncated", 100, 0)] == kinds(settings)
    assert {0: 120} == saved(settings)
