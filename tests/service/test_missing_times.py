"""Records without a time of their own, where others have one: the watermark stays where it is."""

import json
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Message
from prometheus_client import CollectorRegistry

from kaboost.service.kafka.ends import Ends
from kaboost.service.learner.late_recorder import LateRecorder
from kaboost.service.learner.late_trainer import LateTrainer
from kaboost.service.learner.watermark import NOWHERE, Watermark
from kaboost.service.metrics import learner_metrics
from kaboost.service.storage.late_figures import LabelFit, LateCounts
from tests.service.learning import rows
from tests.service.test_late_corrections import DECLARED, T0, trainer

YEARS = 2 * 365 * 86_400.0  # from the events to when their records were written
SECTIONS: dict[str, Any] = {
    **DECLARED,
    "events": {"id": "id", "timestamp": "at"},
    "labels": {"wait": "100s", "expired": {"label": 0}, "timestamp": "at", "weight": None},
}
READ = Ends(frozenset({0}), frozenset(), 0, 0, any_read=False)  # all labels so far


def record(topic: str, offset: int, **value: Any) -> Message:
    """Make a record that was written years after its event."""
    stamp = (1, int((T0 + YEARS + offset) * 1000))
    data = json.dumps(value).encode()
    return Message(topic=topic, partition=0, offset=offset, value=data, timestamp=stamp, headers=[])  # type: ignore[call-arg]


def features(first: int, times: Sequence[Any]) -> list[Message]:
    """Events with these times; None for one without."""
    drawn = rows(first + len(times), 5)[first:]
    stamps = [{} if time is None else {"at": time} for time in times]
    return [
        record("events", first + k, id=first + k, **drawn[k][0], **stamp)
        for k, stamp in enumerate(stamps)
    ]


def learn(made: LateTrainer, messages: Sequence[Message]) -> None:
    """Learn records, then what has expired."""
    assert [] == made.learn(messages)
    made.note_ends(READ)
    made.learn([])


@pytest.mark.parametrize("missing", [None, "yesterday"])
@pytest.mark.parametrize(("place", "expired"), [(0, 49), (50, 51), (99, 50)])
def test_features_do_not_expire_by_the_time_of_a_record(
    tmp_path: Path, place: int, expired: int, missing: Any
) -> None:
    """Of a topic that was filled afterwards; also where the first of all events lacks its time."""
    times: list[Any] = [int((T0 + k) * 1000) for k in range(100)]
    times[place] = missing
    with trainer(tmp_path, **SECTIONS) as made:
        learn(made, features(0, times))
        assert (0, 100) == (made.late_figures.expired, made.late_figures.waiting)
        learn(made, features(100, [int((T0 + 150) * 1000)]))
        replaced = made._late._metrics.metadata_repaired.labels("timestamp", "replaced")

    # The first of all has the record's time; others have that of the event before.
    assert (expired, 1.0) == (made.late_figures.expired, replaced._value.get())


def test_labels_do_not_move_it_either(tmp_path: Path) -> None:
    """Where `labels.timestamp` is set; the label is learned."""
    times = [int((T0 + k) * 1000) for k in range(50)]
    with trainer(tmp_path, **SECTIONS) as made:
        learn(made, features(0, times))
        learn(made, [record("labels", 0, id=3, label=0, at=None)])
        for confirmed in (0, 1):
            made.note_ends(Ends(frozenset(), frozenset(), 1, confirmed, any_read=True))
            made.learn([])

    assert (0, 1) == (made.late_figures.expired, made.late_figures.joined)


def test_the_latest_time_of_its_partition_counts() -> None:
    """Or else of its topic, as after a restart; never one after the record was written."""
    watermark = Watermark()
    assert 500.0 == watermark.latest("features", 0, 500.0)
    watermark.see("features", 0, 100.0, 500.0)
    watermark.see("features", 1, 200.0, 500.0)

    assert 100.0 == watermark.latest("features", 0, 500.0)
    assert 200.0 == watermark.latest("features", 2, 500.0)
    assert 150.0 == watermark.latest("features", 1, 150.0)
    assert 80.0 == Watermark(features=80.0).latest("features", 0, 500.0)
    assert NOWHERE == watermark.reached("features", 2)


def test_they_are_logged_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    """Of each topic, with their number since the last line and the setting."""
    now = [0.0]
    metrics = learner_metrics(CollectorRegistry())
    recorder = LateRecorder(metrics, LateCounts(), LabelFit(), lambda: now[0])
    for second in range(62):
        now[0] = float(second)
        recorder.untimed("features", record("events", second))
    recorder.untimed("labels", record("labels", 7))
    lines = [vars(line) for line in caplog.records if line.levelno == logging.WARNING]

    assert [1, 60, 1] == [line["records"] for line in lines]
    assert ["events[0]@0", "events[0]@60", "labels[0]@7"] == [line["at"] for line in lines]
    assert "correct events.timestamp" in lines[0]["remedy"]
    assert "correct labels.timestamp" in lines[2]["remedy"]
