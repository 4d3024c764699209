"""A later label that makes learning fail is set aside; its features wait on."""

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from kaboost.models.model import Model
from kaboost.service.config.settings import Settings
from kaboost.service.errors import KaboostError
from kaboost.service.learner.expiry_pace import ExpiryPace
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


def test_bad_features_with_good_ones_between_are_not_in_a_row(
    late: Callable[..., Settings],
    send: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
    dead_letters: Callable[..., list[Letter]],
) -> None:
    """Trap: only learned events ended a row, so three bad ones stopped a learner without labels."""
    settings = late()
    capture = Model.capture

    def broken(model: Model, table: Any) -> Any:
        captured = capture(model, table)
        if (np.asarray(table.numbers) == HEAVY).any():
            raise ZeroDivisionError("a bug")
        return captured

    monkeypatch.setattr(Model, "capture", broken)
    stream = [features for features, _ in rows(15)]
    for k in (2, 5, 8, 11):
        stream[k] = {**stream[k], "x": HEAVY}
    with learning(settings) as running:
        send(settings.kafka.topic, [feature_record(k, f, T0 + k) for k, f in enumerate(stream)])
        until(lambda: consumed(settings) is not None)
        until(lambda: gauge(settings, "kaboost_waiting_features") == 11)
        letters = dead_letters(settings.kafka.topic, 4)
        assert 0 == running.stop()

    assert [2, 5, 8, 11] == [letter.origin[2] for letter in letters]


def test_a_failure_at_features_that_expire_blames_no_record(
    late: Callable[..., Settings], send: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The records that are read with it are not set aside."""

    def broken(*_: Any) -> None:
        raise ZeroDivisionError("a bug")

    settings = late()
    with learning(settings) as running:
        send(settings.kafka.topic, [feature_record(0, rows(1)[0][0], T0)])
        until(lambda: consumed(settings) == 1)
        monkeypatch.setattr(ExpiryPace, "due", broken)
        records = [
            feature_record(k, features, T0 + k) for k, (features, _) in enumerate(rows(5), 1)
        ]
        send(settings.kafka.topic, records)
        label = {"order": 0, "result": 1, "at": int(T0 + 100) * 1000}
        send(settings.labels.topic, [json.dumps(label).encode()])
        with pytest.raises(KaboostError, match="internal error at features without a label"):
            running.wait()
