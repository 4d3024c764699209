"""The sender of snapshots: learning never waits for a place, and no fault ends its thread."""

import logging
from collections.abc import Callable
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from kaboost.service.config.settings import Settings
from kaboost.service.errors import Exit
from kaboost.service.learner import snapshot_sender
from kaboost.service.storage.object_snapshots import ObjectTarget
from tests.service.learning import events, gauge, learned, learning, rows, until
from tests.service.readers import Learner
from tests.service.test_readers import sending


def test_a_place_that_hangs_stops_nothing(
    topic: str,
    make_settings: Callable[..., Settings],
    send: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Events are learned, snapshots and checkpoints written, another place served, and the learner
    ends; with the place back, what was skipped is counted.
    """
    monkeypatch.setattr(snapshot_sender, "CLOSE_SECONDS", 0.2)
    places = [f"memory://{topic}-{name}" for name in ("slow", "well")]
    settings = make_settings(topic, snapshots={"publish": places})
    free, write = Event(), ObjectTarget.send

    def hang(self: ObjectTarget, *args: Any) -> Any:
        if self.location == places[0] and args[0].version > 1:
            free.wait()
        return write(self, *args)

    monkeypatch.setattr(ObjectTarget, "send", hang)

    def sent(place: str) -> float:
        name = f'kaboost_snapshots_sent_total{{result="sent",target="{place}"}}'
        return gauge(settings, name) or 0.0

    stream = rows(300)
    with learning(settings) as running:
        until(lambda: learned(settings) == 0)
        until(lambda: sent(places[0]) == 1)
        for k in range(3):
            send(topic, events(stream[100 * k : 100 * (k + 1)]))
            until(lambda k=k: learned(settings) == 100 * (k + 1))
        until(lambda: sent(places[1]) > 1)
        assert 1 == sent(places[0])
        version = gauge(settings, "kaboost_snapshot_version")
        newest = f'kaboost_snapshot_sent_version{{target="{places[1]}"}}'
        until(lambda: gauge(settings, newest) == version)
        assert Exit.DONE == running.stop()
        free.set()


def test_any_fault_is_survived(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever a library raises is logged and counted, and the version is sent again."""
    monkeypatch.setattr(snapshot_sender, "RETRY_SECONDS", 0.01)
    learner = Learner(tmp_path / "learner", f"memory://{tmp_path.name}")
    faults: list[Exception] = [RuntimeError("surprise"), ZeroDivisionError()]
    send = learner.target.send

    def faulty(*args: Any) -> Any:
        if faults:
            raise faults.pop()
        return send(*args)

    monkeypatch.setattr(learner.target, "send", faulty)
    learner.publish()
    with caplog.at_level(logging.INFO), sending(learner):
        until(lambda: learner.sent("sent") == 1)

    assert 2 == learner.sent("failed")
    messages = [one.message for one in caplog.records]
    assert "snapshots sent again" in messages
    assert 1 == messages.count("snapshot not sent, it is tried again")
