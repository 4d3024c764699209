"""What `kaboost score` writes is what `POST /predict` writes for the same row."""

import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from prometheus_client import CollectorRegistry

from kaboost.service.config.settings import Settings
from kaboost.service.errors import ConfigError, NotReady
from kaboost.service.http.follower import Follower, Served
from kaboost.service.http.ingest import PredictionLog
from kaboost.service.http.records import RecordRequests
from kaboost.service.metrics import api_metrics
from kaboost.service.score.scorer import Answers, Scorer
from tests.service.scoring import record
from tests.service.serving import ROW, publish, settings, taught

TOPICS = {"predictions": {"topic": "answers"}, "score": {"topic": "records"}}


class Sent(NamedTuple):
    """A record of the topic, with the methods of a message."""

    sent: bytes | None
    number: int = 0

    def value(self) -> bytes | None:
        return self.sent

    def topic(self) -> str:
        return "records"

    def partition(self) -> int:
        return 0

    def offset(self) -> int:
        return self.number

    def key(self) -> None:
        return None

    def headers(self) -> None:
        return None

    def timestamp(self) -> tuple[int, int]:
        return 1, 1_763_632_800_000


class Written:
    """A sender that keeps what it is given."""

    room = 1_000

    def __init__(self) -> None:
        self.values: list[bytes] = []

    def send(self, topic: str, key: bytes | None, value: bytes, delivered: Any) -> bool:
        """Keep a record."""
        self.values.append(value)
        return True


def served(wanted: Settings, **learned: Any) -> Served:
    """Publish a snapshot and return what is served from it."""
    publish(wanted, taught(wanted, **learned), run="run-0007", epoch=3)
    found, _ = Follower(wanted).refresh()
    assert found is not None
    return found


def answered(wanted: Settings, values: list[bytes | None], by: Served) -> Answers:
    """Answer records as `kaboost score` does."""
    messages: Any = [Sent(value, k) for k, value in enumerate(values)]
    return Scorer(wanted).answer(messages, by)


def predicted(wanted: Settings, value: bytes, by: Served) -> dict[str, Any]:
    """Return what a request with this record writes."""
    sender = Written()
    body = b'{"record": ' + value + b"}"
    rows = RecordRequests(wanted.events).to_rows(body, by.snapshot.model.encoder.kinds)
    read = by.codec.read(rows)
    answer = by.codec.respond(read, by.snapshot.model, by.stamp)
    log = PredictionLog(wanted, sender, api_metrics(CollectorRegistry()))
    log.write(read.ids, rows, answer, by.snapshot)
    return dict(json.loads(sender.values[0]))


@pytest.mark.parametrize("learned", [60, 0])
@pytest.mark.parametrize(
    "task",
    [
        {"kind": "binary"},
        {"kind": "binary", "labels": ["ok", "fraud"]},
        {"kind": "regression"},
        {"kind": "multiclass", "labels": ["a", "b", "c"]},
    ],
    ids=lambda task: "-".join([task["kind"], *task.get("labels", [])[:1]]),
)
def test_answers_are_those_of_requests(tmp_path: Path, task: dict[str, Any], learned: int) -> None:
    """But for the time, which is that of the record."""
    wanted = settings(tmp_path, task=task, **TOPICS)
    by = served(wanted, events=learned)
    values = [record("a", ROW), record(17, {"age": None}, timestamp="2026-11-20T10:00:00Z")]
    made = answered(wanted, [*values], by)
    ours = [json.loads(each.value or b"") for each in made.records]
    theirs = [predicted(wanted, value, by) for value in values]
    times = [answer.pop("timestamp") for answer in ours]
    for answer in theirs:
        del answer["timestamp"]

    assert theirs == ours
    assert [1_763_632_800_000, "2026-11-20T10:00:00Z"] == times
    assert [b"a", b"17"] == [each.key for each in made.records]
    assert 2 == made.answered


MAPPED = {
    "flat": ({"features": "*", "id": "n", "label": "y"}, {**ROW, "n": "a", "y": 1}),
    "below": ({"features": "row", "id": "key.n"}, {"row": ROW, "key": {"n": "a"}}),
    "paths": (
        {"features": {name: f"in.{name}" for name in ROW}, "id": "n"},
        {"in": ROW, "n": "a"},
    ),
    "coerced": ({"coerce": True}, {"features": {**ROW, "age": "31"}, "id": "a"}),
    "changes": ({"envelope": "debezium", "id": "n", "features": "*"}, {"after": {**ROW, "n": "a"}}),
}


@pytest.mark.parametrize("name", MAPPED)
def test_mapped_records_are_answered_like_requests(tmp_path: Path, name: str) -> None:
    """The mapping of the events is that of the records."""
    events, sent = MAPPED[name]
    wanted = settings(tmp_path, events=events, **TOPICS)
    by, value = served(wanted), json.dumps({"op": "c", **sent} if "after" in sent else sent)
    (ours,) = [json.loads(r.value or b"") for r in answered(wanted, [value.encode()], by).records]
    theirs = predicted(wanted, value.encode(), by)
    del ours["timestamp"], theirs["timestamp"]

    assert theirs == ours


def test_inferred_features_are_followed(tmp_path: Path) -> None:
    """What the model does not know is ignored until a later model knows it, and written as sent."""
    schema = {"features": {"schema": {"*": "auto", "age": "number"}}, "model": {}}
    wanted = settings(tmp_path, **schema, **TOPICS)
    by = served(wanted, events=0)
    value = record("a", {"age": 1, "new": "x"})
    made = answered(wanted, [value], by)

    assert 1 == made.ignored
    assert {"age": 1, "new": "x"} == json.loads(made.records[0].value or b"")["features"]


def test_a_model_that_has_diverged_answers_nothing(tmp_path: Path) -> None:
    """Records wait; a single row without a finite score is a dead letter."""
    wanted = settings(tmp_path, **TOPICS)
    by = served(wanted)
    model = by.snapshot.model
    predict = model.predict

    def far(table: Any) -> Any:
        scores = predict(table)
        scores[table.numbers[:, 0] > 1e300] = np.inf
        return scores

    model.predict = far  # type: ignore[method-assign]
    made = answered(wanted, [record(1, {"age": 1e301}), record(2, {"age": 1})], by)
    assert ["answers", "records.dlq"] == [each.topic for each in made.records]
    assert {"not_finite": 1} == made.dead

    model.predict = lambda table: predict(table) * np.inf  # type: ignore[method-assign]
    with pytest.raises(NotReady, match="diverged"):
        answered(wanted, [record(2, {"age": 1})], by)


@pytest.mark.parametrize(
    ("sections", "message"),
    [
        ({"score": {"topic": "a"}}, "predictions.topic: is not set"),
        ({"score": {"topic": "b"}, "predictions": {"topic": "b"}}, "score.topic = .*name another"),
        (
            {"score": {"topic": "a", "dlq_topic": "b"}, "predictions": {"topic": "b"}},
            "score.dlq_topic = .*name another",
        ),
        (
            {**TOPICS, "score": {"topic": "a", "group_id": "kaboost"}},
            "score.group_id = .*name another",
        ),
        ({**TOPICS, "events": {"features": "*", "label": "y"}}, "events.id: is missing"),
        ({"score": {"group_id": "g"}}, "score.topic: is not set"),
        ({**TOPICS, "score": {"topic": "a", "batch_records": 0}}, "score.batch_records"),
        ({**TOPICS, "score": {"topic": "a", "instance": "a b"}}, "score.instance"),
    ],
)
def test_settings_are_refused(tmp_path: Path, sections: dict[str, Any], message: str) -> None:
    """Each with its name, its value and a remedy."""
    with pytest.raises(ConfigError, match=message):
        settings(tmp_path, **sections)


def test_settings_are_refused_at_the_start(tmp_path: Path) -> None:
    """A command without its topic."""
    from kaboost.service.processes.score_role import run_score

    wanted = settings(tmp_path)
    with pytest.raises(ConfigError, match=r"score\.topic: is not set; name"):
        run_score(wanted)
