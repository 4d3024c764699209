"""A topic is the one that the state has read, or is refused: whatever its name and length say."""

from collections.abc import Callable
from pathlib import Path

import pytest

from kaboost.service.config.settings import Settings
from kaboost.service.errors import Exit, Refused
from kaboost.service.storage.checkpoints import FolderCheckpointStore
from tests.kafka.broker import Broker, Reachable
from tests.kafka.client import create_topic, produce
from tests.service.learning import events, learn_all, learning, rows, saved, settings_for

Send = Callable[..., None]


def expect_refusal(settings: Settings, words: str) -> None:
    """Start a learner, which must end with exit code 3 and leave the state as it was."""
    before = saved(settings)
    with learning(settings) as running, pytest.raises(Refused, match=words) as err:
        running.wait()

    assert Exit.REFUSED == err.value.exit_code
    assert before == saved(settings)


def test_a_log_that_was_truncated_and_has_grown_again_is_refused(
    own_broker: Broker, tmp_path: Path
) -> None:
    """Trap: a broker restored from an older copy has the same ids, and as many records as before.

    Even in the same leader epoch the last record that was read is another one. In a later epoch,
    the one that it was written in ends before it.
    """
    topic, settings = learn_and_restore(own_broker, tmp_path)
    own_broker.start()
    produce(own_broker.bootstrap, topic, events(rows(50, seed=3)))
    words = rf"{topic}\[0\]@99 is another record than the state has read"
    expect_refusal(settings, words)

    own_broker.stop()
    own_broker.restore()
    for _ in range(2):
        own_broker.start()
        own_broker.stop()
    own_broker.start()
    produce(own_broker.bootstrap, topic, events(rows(100, seed=4)))
    expect_refusal(settings, "truncation detected .* end offset is 50 .*: the log was truncated")


def learn_and_restore(broker: Broker, folder: Path) -> tuple[str, Settings]:
    """Learn 100 events of a topic, of which the data of the stopped broker has only 50 then."""
    topic = create_topic(broker.bootstrap)
    settings = settings_for(broker.bootstrap, folder, topic)
    produce(broker.bootstrap, topic, events(rows(50)))
    broker.stop()
    broker.back_up()
    broker.start()
    produce(broker.bootstrap, topic, events(rows(50, seed=2)))
    learn_all(settings, 100)
    broker.stop()
    broker.restore()
    return topic, settings


def test_a_topic_of_the_same_name_on_another_cluster_is_refused(
    own_broker: Broker, broker: Reachable, tmp_path: Path
) -> None:
    """Trap: it has the very same records."""
    topic, stream = create_topic(own_broker.bootstrap), events(rows(100))
    create_topic(broker.bootstrap, name=topic)
    for bootstrap in (own_broker.bootstrap, broker.bootstrap):
        produce(bootstrap, topic, stream)
    learn_all(settings_for(own_broker.bootstrap, tmp_path, topic), 100)

    expect_refusal(settings_for(broker.bootstrap, tmp_path, topic), "has read one of this name on")


def test_the_checkpoint_has_the_identity_of_every_partition(
    make_topic: Callable[..., str], make_settings: Callable[..., Settings], send: Send
) -> None:
    """Ids of topic and cluster; offset, leader epoch, time and checksum of the last records."""
    topic = make_topic(partitions=3)
    settings = make_settings(topic)
    for partition in (0, 2):
        send(topic, events(rows(20 + partition)), partition=partition)
    learn_all(settings, 42)
    checkpoint, _ = FolderCheckpointStore(settings.checkpoints.directory).restore()
    assert checkpoint is not None
    header = checkpoint.header
    marks = header["last_records"]

    assert header["topic_id"]
    assert header["cluster_id"]
    assert {"0": 19, "2": 21} == {partition: mark[0] for partition, mark in marks.items()}
    assert all(mark[1] >= 0 and mark[2] > 0 for mark in marks.values())
    learn_all(settings, 42)
