"""What is shown of the last events: nothing in it may stop learning."""

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from kaboost.models.model import Model
from kaboost.service.config.settings import Settings
from kaboost.service.events.json import JsonDecoder
from kaboost.service.learner.live import missing_ratios, seen_values
from kaboost.service.learner.recent import RecentEvents
from tests.kafka.client import encode
from tests.outcomes import outcome
from tests.service.learning import learned, learning, until


def note(recent: RecentEvents, schema: dict[str, str], rows: list[dict[str, Any]]) -> None:
    """Note events as a trainer does."""
    model = Model("regression", {"bank": "linear"}, schema)
    decoder = JsonDecoder(schema, model.labels)
    decoded = decoder.decode([json.dumps({"features": row, "label": 2.5}).encode() for row in rows])
    ones = np.ones(len(rows))
    recent.note(model, decoded, outcome(ones, ones))


def test_every_kind_is_shown_as_it_came() -> None:
    """The newest first; missing is None; long words are cut."""
    schema = {"n": "number", "b": "boolean", "c": "category", "t": "datetime", "w": "text"}
    recent = RecentEvents()
    row = {"n": 1.5, "b": True, "c": "PT", "t": "2026-11-20T10:00:00Z", "w": "x" * 999}
    note(recent, schema, [{}, row])
    first, second = recent.reports()

    assert {**row, "w": "x" * 200} == first["features"]
    assert dict.fromkeys(schema) == second["features"]
    assert (2.5, 1.0) == (first["label"], first["error"])


def test_a_corrected_kind_begins_a_new_sample() -> None:
    """Trap: values of two types cannot be ordered."""
    recent = RecentEvents()
    note(recent, {"x": "category"}, [{"x": "dirty"}] * 3)
    recent.take_sample()
    note(recent, {"x": "number"}, [{"x": 1.5}, {"x": 2.5}])
    recent.take_sample()

    assert [1.5, 2.5] == [row["x"] for row in recent.sample]
    assert {"x": 0.0} == missing_ratios(list(recent.sample))
    assert 2.0 == seen_values([1.5, 2.5])["middle"]


def test_a_fault_in_what_is_shown_stops_nothing(
    topic: str,
    make_settings: Callable[..., Settings],
    send: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No exit, and no dead letter."""

    def fail(*_: object) -> None:
        raise TypeError("a bug")

    monkeypatch.setattr(RecentEvents, "_note_rows", fail)
    monkeypatch.setattr(RecentEvents, "take_sample", fail)
    wanted = make_settings(topic)
    send(topic, [encode({"x": float(k)}, k % 2) for k in range(30)])
    with learning(wanted) as running:
        until(lambda: learned(wanted) == 30)
        assert 0 == running.stop()
