"""Topics as people have them, on a real broker: flat records, repeated ids, recreated topics."""

import json
from collections.abc import Callable

import pytest

from kaboost.service.config.settings import Settings
from kaboost.service.errors import Exit, Refused
from kaboost.service.kafka import consumer
from kaboost.service.storage.checkpoints import FolderCheckpointStore
from tests.kafka.broker import Reachable
from tests.kafka.client import recreate
from tests.service.learning import (
    Rows,
    expect_state,
    gauge,
    learn_all,
    learned,
    learning,
    rows,
    saved,
    until,
)

Make = Callable[..., Settings]
Send = Callable[..., None]
EVENTS = {"label": "outcome.result", "id": "order", "ignore": ["version"]}


def records(stream: Rows, first: int = 0) -> list[bytes]:
    """Write rows as flat records with an id each."""
    return [
        json.dumps(
            {"order": first + k, "version": 1, **features, "outcome": {"result": label}}
        ).encode()
        for k, (features, label) in enumerate(stream)
    ]


def test_flat_records_are_learned(topic: str, make_settings: Make, send: Send) -> None:
    """Records without an envelope leave the same state as events."""
    settings = make_settings(topic, events=EVENTS)
    stream = rows(500)
    send(topic, records(stream))

    learn_all(settings, 500)

    expect_state(settings, stream)
    assert {0: 500} == saved(settings)


def test_an_id_is_learned_once_over_restarts(topic: str, make_settings: Make, send: Send) -> None:
    """The ids are in the checkpoint: what is sent again after a restart is skipped and counted."""
    settings = make_settings(topic, events=EVENTS)
    stream = rows(300)
    send(topic, records(stream[:200]))
    learn_all(settings, 200)
    send(topic, records(stream[150:200], first=150))
    send(topic, records(stream[200:], first=200))
    with learning(settings) as running:
        until(lambda: learned(settings) == 300)
        assert 50.0 == gauge(settings, "kaboost_duplicates_total")
        assert 0 == running.stop()

    expect_state(settings, stream)
    assert {0: 350} == saved(settings)


def test_the_window_forgets_old_ids(topic: str, make_settings: Make, send: Send) -> None:
    """Beyond the window an id is new again."""
    settings = make_settings(topic, events={**EVENTS, "duplicates": {"window": 10}})
    stream = rows(20)
    send(topic, records(stream))
    send(topic, records(stream[:5]))

    learn_all(settings, 25)

    expect_state(settings, [*stream, *stream[:5]])
    checkpoint, _ = FolderCheckpointStore(settings.checkpoints.directory).restore()
    assert checkpoint is not None
    assert not checkpoint.state.ids.is_new("4")
    assert checkpoint.state.ids.is_new("9")


def test_a_recreated_topic_is_refused(
    topic: str, make_settings: Make, send: Send, broker: Reachable
) -> None:
    """Trap: it has grown past the old position, so no offset is out of range."""
    settings = make_settings(topic, events=EVENTS)
    send(topic, records(rows(100)))
    learn_all(settings, 100)
    recreate(broker.bootstrap, topic)
    send(topic, records(rows(150)))

    with pytest.raises(Refused, match="deleted and created again") as err:
        learn_all(settings, 150)

    assert Exit.REFUSED == err.value.exit_code
    assert {0: 100} == saved(settings)


def test_a_topic_recreated_under_a_running_learner_is_refused(
    topic: str, make_settings: Make, send: Send, broker: Reachable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A learner that runs compares the id whenever it lists the partitions."""
    monkeypatch.setattr(consumer, "REFRESH_SECONDS", 0.2)
    settings = make_settings(topic, events=EVENTS)
    send(topic, records(rows(100)))
    with learning(settings) as running:
        until(lambda: learned(settings) == 100)
        recreate(broker.bootstrap, topic)
        send(topic, records(rows(300, seed=2)))

        with pytest.raises(Refused, match="deleted and created again"):
            running.wait()
