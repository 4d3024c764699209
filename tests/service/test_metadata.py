"""Odd ids and timestamps: the event is learned, and they are counted."""

import logging
from datetime import UTC, datetime
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from kaboost.service.events.metadata import Repairs
from kaboost.service.learner.recorder import Recorder
from kaboost.service.metrics import learner_metrics
from tests.service.test_events import decoder, raw
from tests.service.test_mapping import ORDER, encode
from tests.service.test_mapping import decoder as record_decoder

TEN, NEW_YEAR = datetime(2026, 11, 20, 10, tzinfo=UTC), datetime(2017, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("field", "value", "meaning", "action"),
    [
        ("timestamp", '"2026-11-20T10:00:00"', TEN, "converted"),
        ("timestamp", "1760000000123456", 1_760_000_000_123.456, "converted"),
        ("timestamp", '"1760000000123"', 1_760_000_000_123.0, "converted"),
        ("timestamp", "1760000000", 1_760_000_000_000.0, "converted"),
        ("timestamp", '"soon"', None, "ignored"),
        ("timestamp", "20261120", None, "ignored"),
        ("timestamp", '"20261120"', None, "ignored"),
        ("timestamp", "true", None, "ignored"),
        ("timestamp", "1760000000123", 1_760_000_000_123.0, None),
        ("timestamp", '"2026-11-20t10:00:00z"', TEN, None),
        ("timestamp", '"2016-12-31T23:59:60Z"', NEW_YEAR, None),
        ("timestamp", '"2017-01-01T05:44:60+05:45"', NEW_YEAR, None),
        ("timestamp", '"2016-12-31T23:58:60Z"', None, "ignored"),
        ("timestamp", '"9999-12-31T23:59:60Z"', None, "ignored"),
        ("id", "17", 17, None),
        ("id", "17.0", 17, None),
        ("id", "[1]", None, "ignored"),
    ],
)
def test_what_teaches_nothing_rejects_nothing(
    field: str, value: str, meaning: Any, action: str | None
) -> None:
    """An odd id or timestamp is converted or ignored, and counted; the event is learned."""
    decoded = decoder().decode([raw(), raw(**{field: value}), raw()])

    assert 3 == len(decoded.y)
    assert meaning == getattr(decoded.meta[1], field)
    expected = {} if action is None else {(field, action): 1}
    assert expected == {key: repairs.events for key, repairs in decoded.repairs.items()}


@pytest.mark.parametrize("plain_json", [True, False])
@pytest.mark.parametrize("time", ["2026-02-30", "soon", [1], True, 1e30])
def test_a_mapped_record_is_learned_too(plain_json: bool, time: Any) -> None:
    """In records as they are, by both ways of decoding."""
    record = {**ORDER, "order_id": 1.5, "created_at": time}
    decoded = record_decoder(plain_json=plain_json).decode([encode(ORDER), encode(record)])

    assert 2 == len(decoded.y)
    assert (None, None) == (decoded.meta[1].id, decoded.meta[1].timestamp)
    assert {("id", "ignored"), ("timestamp", "ignored")} == decoded.repairs.keys()


def test_they_are_counted_and_logged_at_powers_of_ten(caplog: pytest.LogCaptureFixture) -> None:
    """The first and the tenth are logged with field, value and remedy; all are counted."""
    metrics = learner_metrics(CollectorRegistry())
    recorder = Recorder(metrics)
    with caplog.at_level(logging.WARNING):
        for _ in range(12):
            recorder.repairs({("id", "ignored"): Repairs(1, "[1]")})

    assert 12.0 == metrics.metadata_repaired.labels("id", "ignored")._value.get()
    assert [1, 10] == [record.__dict__["events"] for record in caplog.records]
    assert {"[1]"} == {record.__dict__["value"] for record in caplog.records}
