"""A later label that makes learning fail is set aside; its features wait on."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from kaboost.models.model import Model
from kaboost.service.config.settings import Settings
from tests.kafka.client import Letter
from tests.service.learning import gauge, learning, rows, until
from tests.service.test_late_labels import T0, consumed, feature_record, late

__all__ = ["late"]  # the fixture
HEAVY = 7.0


def test_a_label_is_set_aside(
    late: Callable[..., Settings],
    send: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
    dead_letters: Callable[..., list[Letter]],
) -> None:
    """The store of waiting features goes back with the state, so the others are joined once."""
    settings = late(weight="w")
    stream = rows(20)
    learn = Model.learn_captured

    def broken(model: Model, captured: Any, y: Any, w: Any) -> Any:
        outcome = learn(model, captured, y, w)
        if HEAVY in w:
            raise ZeroDivisionError("a bug")
        return outcome

    monkeypatch.setattr(Model, "learn_captured", broken)
    records = [feature_record(k, features, T0 + k) for k, (features, _) in enumerate(stream)]
    labels = [
        {"order": k, "result": label, "at": int(T0 + 100 + k) * 1000, "w": HEAVY if k == 5 else 1}
        for k, (_, label) in enumerate(stream)
    ]
    with learning(settings) as running:
        send(settings.kafka.topic, records)
        until(lambda: consumed(settings) == 20)
        send(settings.labels.topic, [json.dumps(label).encode() for label in labels])
        until(lambda: gauge(settings, "kaboost_waiting_features") == 1)
        (letter,) = dead_letters(settings.kafka.topic, 1)
        until(lambda: (gauge(settings, 'kaboost_dlq_records_total{reason="internal"}')) == 1)
        assert 0 == running.stop()

    assert ("internal", (settings.labels.topic, 0, 5)) == (letter.code, letter.origin)
