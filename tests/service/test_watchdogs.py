"""Nothing stops in silence: a partition without a leader, a client that reads nothing, a log that
was truncated, and processes that hang.
"""

import math
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from kaboost.service.config.settings import Settings
from kaboost.service.errors import BrokerError, Exit, Refused
from kaboost.service.kafka import consumer
from kaboost.service.kafka.fetch_watch import NOTICE_SECONDS, FetchWatch, Position, Problem
from kaboost.service.storage.snapshots import FolderSnapshotStore
from tests.kafka.broker import Broker
from tests.kafka.client import create_topic, produce
from tests.service.learning import events, gauge, learned, learning, rows, settings_for, until

READ = Position(offset=100, fetched=100, queued=0, leader=1)


class Clock:
    """A monotonic clock that a test moves."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


def watched(position: Position, end: int, seconds: int = 9) -> FetchWatch:
    """Look at a partition that stays where it is, once a second."""
    clock = Clock()
    watch = FetchWatch("t", clock)
    for _ in range(seconds + 1):
        watch.update({0: position}, {0: end})
        clock.now += 1.0
    return watch


@pytest.mark.parametrize(
    ("position", "end", "reason"),
    [
        (READ, 100, ""),
        (READ, 90, ""),
        (READ, 101, "the client does not read the unread records of t[0]"),
        (READ._replace(queued=1), 200, ""),  # it waits for the learner
        (READ._replace(fetched=101), 101, ""),  # the marker of a transaction
        (READ._replace(leader=-1), 100, "t[0] has no leader"),
        (READ._replace(leader=-1, queued=1), 0, "t[0] has no leader"),
    ],
)
def test_what_stands_still_for_no_reason(position: Position, end: int, reason: str) -> None:
    """Unread records with nothing on the way, or no leader; a new client helps the first only."""
    watch = watched(position, end)

    assert Problem(reason, 9.0 if reason else 0.0) == watch.problem
    assert (watch.stuck == watch.problem) == ("no leader" not in reason)


def test_progress_is_no_problem() -> None:
    """Not even if records come faster than they are read; and a pause of the watch is none."""
    clock = Clock()
    watch = FetchWatch("t", clock)
    for k in range(20):
        watch.update({0: READ._replace(offset=k)}, {0: 1_000})
        assert Problem() == watch.problem
        clock.now += 1.0
    watch.update({0: READ}, {0: 1_000})
    clock.now += 10.0 * NOTICE_SECONDS
    watch.update({0: READ}, {0: 1_000})
    assert Problem() == watch.problem


def stalled(wanted: Settings) -> str:
    """Return why the learner reads nothing."""
    return FolderSnapshotStore(wanted.snapshots.directory).read_condition().stalled


@pytest.mark.timeout(240)
def test_a_partition_without_a_leader_is_named(own_broker: Broker, tmp_path: Path) -> None:
    """Its broker is killed: the other partition is learned on, and this one once it is back."""
    second = Broker(own_broker)
    try:
        second.start()
        until(lambda: len(brokers(own_broker)) == 2)
        topic = create_topic(own_broker.bootstrap, brokers=(1, 2))
        wanted = settings_for(own_broker.bootstrap, tmp_path, topic)
        with learning(wanted) as learner:
            for partition in (0, 1):
                produce(own_broker.bootstrap, topic, events(rows(20)), partition)
            until(lambda: learned(wanted) == 40)
            second.kill()
            until(lambda: f"{topic}[1] has no leader" in stalled(wanted))
            produce(own_broker.bootstrap, topic, events(rows(20)), 0)
            until(lambda: learned(wanted) == 60)
            second.start()
            until(lambda: not stalled(wanted))
            produce(own_broker.bootstrap, topic, events(rows(20)), 1)
            until(lambda: learned(wanted) == 80)
            assert 0 == learner.stop()
    finally:
        second.kill()
        second.close()


def brokers(broker: Broker) -> dict[int, Any]:
    """List the brokers of a cluster."""
    client = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "x", "log_level": 0})
    try:
        return dict(client.list_topics(timeout=5).brokers)
    finally:
        client.close()


@pytest.mark.timeout(240)
def test_a_client_that_reads_nothing_is_given_up(
    topic: str,
    make_settings: Callable[..., Settings],
    send: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The broker answers and has records, the client stands still: named, then exit 4."""
    made: list[Any] = []

    def make(config: dict[str, Any]) -> Consumer:
        made.append(Consumer(config))
        return made[-1]

    monkeypatch.setattr(consumer, "Consumer", make)
    monkeypatch.setattr(consumer, "STUCK_SECONDS", 12.0)
    wanted = make_settings(topic)
    with learning(wanted) as learner:
        send(topic, events(rows(20)))
        until(lambda: learned(wanted) == 20)
        made[0].pause([TopicPartition(topic, 0)])  # as stuck as a client can be made
        send(topic, events(rows(20)))
        until(lambda: f"does not read the unread records of {topic}[0]" in stalled(wanted))
        assert 20.0 == gauge(
            wanted, f'kaboost_consumer_lag_records{{partition="0",topic="{topic}"}}'
        )
        with pytest.raises(BrokerError, match="though the broker answers") as err:
            learner.wait()
    assert Exit.BROKER == err.value.exit_code


@pytest.mark.timeout(240)
def test_a_frozen_broker_is_noticed_while_paused(own_broker: Broker, tmp_path: Path) -> None:
    """A paused client asks for nothing, and the learner asks for it: the lag is unknown."""
    topic = create_topic(own_broker.bootstrap)
    kafka = {"create_dlq": False, "dlq_timeout": 0.3}  # nobody creates the topic
    wanted = settings_for(own_broker.bootstrap, tmp_path, topic, kafka=kafka)
    lag = f'kaboost_consumer_lag_records{{partition="0",topic="{topic}"}}'
    with learning(wanted) as learner:
        produce(own_broker.bootstrap, topic, [b"{", *events(rows(20))])
        until(lambda: learned(wanted) == 20)
        until(lambda: gauge(wanted, "kaboost_learning_paused"))
        produce(own_broker.bootstrap, topic, events(rows(500)))
        until(lambda: gauge(wanted, lag) == 500.0)
        os.kill(own_broker.pid, signal.SIGSTOP)
        try:
            until(lambda: math.isnan(gauge(wanted, lag) or 0.0))
        finally:
            os.kill(own_broker.pid, signal.SIGCONT)
        until(lambda: gauge(wanted, lag) == 500.0)
        create_topic(own_broker.bootstrap, name=f"{topic}.dlq")
        until(lambda: learned(wanted) == 520)
        assert 0 == learner.stop()


@pytest.mark.timeout(240)
@pytest.mark.parametrize("written", [0, 50])
def test_a_broker_restored_from_an_older_state_is_refused(
    own_broker: Broker, tmp_path: Path, written: int
) -> None:
    """Its log ends before the offset of the state: exit 3 names both, also while it grows again."""
    topic = create_topic(own_broker.bootstrap)
    stream = events(rows(200))
    produce(own_broker.bootstrap, topic, stream[:100])
    own_broker.stop()
    own_broker.back_up()
    own_broker.start()
    wanted = settings_for(own_broker.bootstrap, tmp_path, topic)
    with learning(wanted) as learner:
        produce(own_broker.bootstrap, topic, stream[100:])
        until(lambda: learned(wanted) == 200)
        own_broker.kill()
        own_broker.restore()
        own_broker.start()
        produce(own_broker.bootstrap, topic, stream[:written])
        with pytest.raises(Refused, match="the state goes on at 200") as err:
            learner.wait()
    assert Exit.REFUSED == err.value.exit_code


@pytest.mark.timeout(240)
def test_a_broker_restored_with_an_older_epoch_is_read_on(
    own_broker: Broker, tmp_path: Path
) -> None:
    """All records are there and the leader's epoch is an older one: learning goes on."""
    topic = create_topic(own_broker.bootstrap)
    stream = rows(300)
    produce(own_broker.bootstrap, topic, events(stream[:200]))
    own_broker.stop()
    own_broker.back_up()
    wanted = settings_for(own_broker.bootstrap, tmp_path, topic)
    own_broker.start()
    with learning(wanted) as learner:
        until(lambda: learned(wanted) == 200)
        for _ in range(2):
            own_broker.stop()
            own_broker.start()
            time.sleep(1.5)  # the client learns the new epoch
        own_broker.kill()
        own_broker.restore()
        own_broker.start()
        produce(own_broker.bootstrap, topic, events(stream[200:]))
        until(lambda: learned(wanted) == 300)
        until(lambda: not stalled(wanted))
        assert 0 == learner.stop()
