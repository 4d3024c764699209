"""Records of requests, without a broker: written as they came, or refused as the learner would."""

import asyncio
import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import msgspec
import numpy as np
import pytest
import yaml
from prometheus_client import CollectorRegistry
from starlette.exceptions import HTTPException

from kaboost.models.features.labels import labels
from kaboost.models.model import Model
from kaboost.service.config.records import Events
from kaboost.service.config.settings import Settings, load
from kaboost.service.errors import RequestError
from kaboost.service.events.json import JsonDecoder
from kaboost.service.http.ingest import Ingest, Place, PredictionLog
from kaboost.service.http.predict import Answer, PredictCodec
from kaboost.service.http.records import RecordRequests
from kaboost.service.metrics import ApiMetrics, api_metrics
from kaboost.service.storage.snapshots import Numbering

Delivered = Callable[[Place | None, str], None]


class Written:
    """A sender whose broker has every record at once."""

    room = 1000

    def __init__(self) -> None:
        self.records: list[tuple[str, bytes | None, bytes]] = []

    def send(self, topic: str, key: bytes | None, value: bytes, delivered: Delivered) -> bool:
        """Keep the record."""
        self.records.append((topic, key, value))
        delivered((topic, 0, len(self.records) - 1), "")
        return True


@pytest.fixture
def sender() -> Written:
    """A sender that keeps records."""
    return Written()


@pytest.fixture
def metrics() -> ApiMetrics:
    """The metrics of one worker."""
    return api_metrics(CollectorRegistry())


@pytest.fixture
def late(tmp_path: Any) -> Settings:
    """Settings with a topic of labels, and of predictions that are the events."""
    tree = {
        "kafka": {"topic": "t"}, "task": {"kind": "binary"}, "api": {"max_rows": 3},
        "labels": {"topic": "l"}, "predictions": {"topic": "t"},
    }  # fmt: skip
    path = tmp_path / "kaboost.yaml"
    path.write_text(yaml.safe_dump(tree))
    return load(path)


@pytest.fixture
def post(late: Settings, sender: Written, metrics: ApiMetrics) -> Callable[..., list[bytes]]:
    """Send a body to `POST /events` or `POST /labels`; return the values that were written."""
    ingest, model = Ingest(late, sender, metrics), Model("binary")

    def send(body: bytes, route: str = "events") -> list[bytes]:
        asyncio.run(getattr(ingest, route)(body, model))
        return [value for _, _, value in sender.records]

    return send


@pytest.mark.parametrize(
    "value",
    [
        b'{"features": {"a": 1.00000000000000000001}, "id": "1"}',
        b'{"id": 1, "features": {"a": 1, "a": 2}}',
        '{"features": {"\u00e4": "\\u00e4", "b":  null}, "id": "1"}'.encode(),
        b'{"features": {"a": 18446744073709551616}, "id": "1"}',
    ],
)
def test_bytes_are_written_as_they_came(post: Callable[..., list[bytes]], value: bytes) -> None:
    """Alone and in an array: the learner reads what the client wrote."""
    assert [value] == post(b"\n" + value + b" ")
    assert [value] * 3 == post(b"[" + value + b" , " + value + b"]")


def test_a_request_without_room_writes_nothing(
    post: Callable[..., list[bytes]], sender: Written, late: Settings
) -> None:
    """No part of it, so it can be sent again as it is."""
    sender.room = 1
    with pytest.raises(HTTPException) as refused:
        post(b'[{"id": 1, "features": {"a": 1}}, {"id": 2, "features": {"a": 1}}]')

    assert 503 == refused.value.status_code
    assert f"max_pending = {late.predictions.max_pending}" in refused.value.detail
    assert not sender.records


def test_keys_are_the_ids(post: Callable[..., list[bytes]], sender: Written) -> None:
    """Features and labels of an event have the same key, whether it is text or a number."""
    post(b'[{"id": 7, "features": {"a": 1}}, {"id": "x", "features": {"b": 1}}]')
    post(b'{"id": "7", "label": 1}', "labels")

    assert [("t", b"7"), ("t", b"x"), ("l", b"7")] == [record[:2] for record in sender.records]


@pytest.mark.parametrize("route", ["events", "labels"])
@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        (b"", 400, "not JSON"),
        (b"{", 400, "not JSON"),
        (b"[{}", 400, "not JSON"),
        (b'{"id": "\xff"}', 400, "not JSON"),
        (b'{"id": "\\ud800"}', 400, "surrogate"),
        (b'{"id": 1, "label": NaN, "features": {"a": NaN}}', 400, "NaN"),
        (b"[" * 100_000, 400, "JSON"),
        (b"[]", 422, "the array is empty"),
        (b"[{}, {}, {}, {}]", 413, "4 records, api.max_rows is 3"),
    ],
)
def test_bodies_that_are_refused(
    post: Callable[..., list[bytes]], sender: Written, route: str,
    body: bytes, status: int, words: str,
) -> None:  # fmt: skip
    """With the status of `POST /predict`, and nothing is written."""
    with pytest.raises(HTTPException) as refused:
        post(body, route)

    assert status == refused.value.status_code
    assert words in refused.value.detail
    assert not sender.records


@pytest.mark.parametrize(
    ("body", "pointers", "words"),
    [
        (b"5", ["#"], "send an object"),
        (b'[{"features": {}, "id": 1}, {"features": {}}]', ["#/1"], "id: is missing"),
        (b'{"features": {"a": 1e400}, "id": 1}', ["#"], "a: 1e400 is beyond"),
        (b'[{"features": 1, "id": 1}, {"id": 1}]', ["#/0", "#/1"], "features"),
    ],
)
def test_events_that_are_refused(
    post: Callable[..., list[bytes]], body: bytes, pointers: list[str], words: str
) -> None:
    """As the learner would refuse them: features that wait for a label need an id."""
    with pytest.raises(RequestError) as refused:
        post(body)

    assert pointers == [pointer for pointer, _ in refused.value.errors]
    assert all(words in detail for _, detail in refused.value.errors)


@pytest.mark.parametrize("aliased", [False, True])
def test_predictions_have_the_features_that_were_sent(
    late: Settings, sender: Written, metrics: ApiMetrics, aliased: bool
) -> None:
    """Those that the model does not know are to be learned from them; odd names stay."""
    known = {'a"b': "number", "c": "number"} if aliased else {"c": "number"}
    decoder = JsonDecoder({**known, "*": "auto"}, labels("binary"), "refuse")
    codec = PredictCodec(decoder, labels("binary"), 10)
    log = PredictionLog(late, sender, metrics)
    answer = {"prediction": 1, "probability": 0.8, "score": 1.4, "probabilities": {}}
    row = {'a"b': 5, "c": None, "new": {"x": 1}["x"], "shop": "north"}
    bodies = [
        ({"features": row, "id": 5}, {**answer, "id": "5", "model": {"version": 3}}),
        (
            {"instances": [row, {"features": row, "id": "k"}]},
            {"predictions": [answer, answer], "model": {"version": 3}},
        ),
    ]
    snapshot: Any = SimpleNamespace(header={"run": "run-0001"}, numbering=Numbering(9, 3))
    for request, response in bodies:
        body = json.dumps(request).encode()
        ids = codec.read(body).ids
        scores = np.arange(3.0) + np.zeros((len(ids), 1))
        log.write(ids, body, Answer(msgspec.json.encode(response), scores), snapshot)

    assert [("t", b"5"), ("t", b"k")] == [record[:2] for record in sender.records]
    for _, key, value in sender.records:
        written = json.loads(value)
        assert row == written["features"]
        assert ((key or b"").decode(), 1, 0.8, 1.4, 3) == tuple(
            written[name] for name in ("id", "prediction", "probability", "score", "version")
        )
        assert ([0.0, 1.0, 2.0], "run-0001", 9) == tuple(
            written[name] for name in ("scores", "run", "epoch")
        )


RECORDS = RecordRequests(Events(id="order", label="y"))


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        (b'{"order": 1.0, "a": 1}', {"features": {"a": 1}, "id": "1"}),
        (b'{"order": 123456789012345678901, "a": 1}', {"features": {"a": 1}}),
        (b'{"a": 1, "a": 2, "y": 0}', {"features": {"a": 2}}),
        (b'{"a": {"b": 1, "c": [1, 2]}}', {"features": {"a.b": 1, "a.c.0": 1, "a.c.1": 2}}),
    ],
)
def test_a_record_is_a_row(record: bytes, expected: dict[str, Any]) -> None:
    """By the mapping of the topic, with the id that the learner would read."""
    body = RECORDS.to_rows(b'{"record": ' + record + b"}", {})
    row = json.loads(body)
    expected.setdefault("id", row.get("id"))

    assert expected == {"id": None, **row}


def test_a_number_without_end_is_no_feature() -> None:
    """JSON allows 1e400, a feature does not."""
    with pytest.raises(RequestError, match="1e308"):
        RECORDS.to_rows(b'{"record": {"a": 1e400}}', {})
