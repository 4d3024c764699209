"""Records in requests: read as on the topic, pointers into the body, and what is written."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from prometheus_client import CollectorRegistry
from starlette.exceptions import HTTPException

from kaboost.models.features.schema import parse_schema
from kaboost.models.model import Model
from kaboost.service.config.settings import Settings
from kaboost.service.errors import RequestError
from kaboost.service.events.json import JsonDecoder
from kaboost.service.http.ingest import Ingest
from kaboost.service.http.openapi import example_record
from kaboost.service.http.predict import PredictCodec, Rows
from kaboost.service.http.records import RecordRequests
from kaboost.service.metrics import api_metrics
from tests.specs import LINEAR

KINDS = {"amount.value": "number", "country": "category"}
PATHS = {"id": "payment_id", "ignore": ["op_no"]}
ROW = {"payment_id": 7, "op_no": 1, "amount": {"value": 3.5}, "country": "PT"}


def configured(**sections: Any) -> Settings:
    """Make settings of a binary task."""
    base = {"task": {"kind": "binary"}, "features": {"schema": KINDS}, "events": PATHS}
    return Settings(**{**base, **sections})


def ask(body: bytes, **events: Any) -> Rows:
    """Decode a body as the route does."""
    settings = configured(events={**PATHS, **events})
    requests = RecordRequests(settings.events)
    model = Model("binary", LINEAR, settings.features.columns)
    codec = PredictCodec(JsonDecoder(parse_schema(KINDS), model.labels), model.labels, 10)
    try:
        return codec.read(requests.to_rows(body, KINDS))
    except RequestError as err:
        raise RequestError(requests.locate(body, err.errors)) from err


def values(rows: Rows) -> list[tuple[Any, ...]]:
    return list(map(msgspec.structs.astuple, rows.features))


def faults(body: bytes, **events: Any) -> list[tuple[str, str]]:
    with pytest.raises(RequestError) as refused:
        ask(body, **events)
    return refused.value.errors


def change(row: Any, **envelope: Any) -> dict[str, Any]:
    return {"before": None, "after": row, "op": "c", **envelope}


@pytest.mark.parametrize(
    ("record", "envelope"),
    [
        (ROW, "none"),
        (ROW, "debezium"),  # what the client has before it is a change
        (change(ROW), "debezium"),
        ({"schema": {}, "payload": change(ROW)}, "debezium"),
    ],
)
def test_a_record_is_read_as_on_the_topic(record: dict[str, Any], envelope: str) -> None:
    """Its envelope included, alone and among instances."""
    plain = ask(json.dumps({"record": ROW}).encode())
    for body in ({"record": record}, {"instances": [{"record": record}]}):
        rows = ask(json.dumps(body).encode(), envelope=envelope)
        assert (values(plain), ["7"]) == (values(rows), rows.ids)


def test_a_cloud_event_is_read_as_on_the_topic() -> None:
    """With its attributes, which have the id."""
    event = {"specversion": "1.0", "id": "e1", "source": "/s", "type": "t", "data": ROW}
    paths = {"features": "data", "id": "id", "ignore": ["data.op_no", "data.payment_id"]}

    rows = ask(json.dumps({"record": event}).encode(), envelope="cloudevents", **paths)
    plain = ask(json.dumps({"record": ROW}).encode())
    assert (values(plain), ["e1"]) == (values(rows), rows.ids)

    del event["source"]
    ((pointer, detail),) = faults(
        json.dumps({"record": event}).encode(), envelope="cloudevents", **paths
    )
    assert ("#/record", True) == (pointer, detail.startswith("source: the attribute is missing"))


@pytest.mark.parametrize(
    ("record", "pointer"),
    [
        ({"amount": {"value": "x"}}, "#/record/amount/value"),
        ({"amount.value": "x"}, "#/record/amount.value"),
        ({"amount": {"value": 3}, "mount": 1}, "#/record/mount"),
        ([1], "#/record"),
    ],
)
def test_faults_point_into_the_body(record: Any, pointer: str) -> None:
    """At the record that was sent, not at the row that it became."""
    body = json.dumps({"record": record})
    assert [pointer] == [where for where, _ in faults(body.encode())]
    if isinstance(record, dict):
        inner = pointer.replace("#/record", "#/instances/1/record")
        many = json.dumps({"instances": [{"record": ROW}, {"record": record}]})
        assert [inner] == [where for where, _ in faults(many.encode())]
        inner = pointer.replace("#/record", "#/record/after")
        assert [inner] == [
            where
            for where, _ in faults(
                json.dumps({"record": change(record)}).encode(), envelope="debezium"
            )
        ]


def test_numbers_beyond_floats_have_their_place() -> None:
    """Not only that of the record."""
    assert [("#/record/amount/value", "is beyond 1e308; send null")] == faults(
        b'{"record": {"amount": {"value": 1e400}}}'
    )


def test_a_delete_has_no_row() -> None:
    """It is skipped on the topic."""
    ((pointer, detail),) = faults(
        b'{"record": {"before": {"x": 1}, "after": null, "op": "d"}}', envelope="debezium"
    )
    assert ("#/record", True) == (pointer, "as a delete" in detail)


@pytest.mark.parametrize("value", [b"NaN", b"Infinity", b'"\xff"', b'"\\ud800"'])
def test_what_is_not_json_is_refused(value: bytes) -> None:
    """In a record as in features; with words of JSON."""
    with pytest.raises(HTTPException) as refused:
        ask(b'{"record": {"amount": {"value": ' + value + b"}}}")

    assert 400 == refused.value.status_code
    assert "codec" not in refused.value.detail


@pytest.mark.parametrize(
    ("record", "words"),
    [
        (b'{"payment_id": "\\ud800"}', "surrogate"),
        (b'{"country": "PT"', "not JSON"),
        (b"[" * 100_000, "nested"),
    ],
)
def test_a_record_that_is_no_json_says_why(record: bytes, words: str) -> None:
    """An id, the end and the depth are looked at as well."""
    with pytest.raises(HTTPException) as refused:
        ask(b'{"record": ' + record + b"}")

    assert 400 == refused.value.status_code
    assert words in refused.value.detail


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("{}", "features or record (as it is on the topic)"),
        ('{"recrod": {}}', "received recrod: did you mean record?"),
        ('{"features": {"amount": {"value": 3}}}', "did you mean amount.value?"),
    ],
)
def test_the_record_is_hinted_at(body: str, words: str) -> None:
    """Where a key is misspelled or missing, and where features are nested."""
    ((_, detail),) = faults(body.encode())
    assert words in detail


class Accept:
    """A sender whose broker takes everything at once."""

    room = 1000

    def __init__(self) -> None:
        self.values: list[bytes] = []

    def send(
        self, topic: str, key: bytes | None, value: bytes, delivered: Callable[..., None]
    ) -> bool:
        """Take a record."""
        self.values.append(value)
        delivered((topic, 0, len(self.values) - 1), "")
        return True


def write(route: str, body: bytes, **sections: Any) -> list[bytes]:
    """Send a body to a route; return what is written."""
    settings, sender = configured(**sections), Accept()
    ingest = Ingest(settings, sender, api_metrics(CollectorRegistry()))
    model = Model("binary", LINEAR, settings.features.columns)
    call = ingest.events if route == "events" else ingest.labels
    asyncio.run(call(body, model))
    return sender.values


LATE = {"labels": {"topic": "l", "id": "payment_id", "label": "fraud", "timestamp": "at"}}


@pytest.mark.parametrize(
    ("record", "words"),
    [
        ({}, "payment_id: is missing"),
        ({"amount": {"value": 1}}, "payment_id: is missing"),
        ({**ROW, "payment_id": 1.5}, "payment_id: 1.5 is no id"),
        ({**ROW, "payment_id": None}, "payment_id: is missing"),
    ],
)
def test_events_need_an_id_where_labels_come_later(record: dict[str, Any], words: str) -> None:
    """As the learner would reject them."""
    with pytest.raises(RequestError, match=words):
        write("events", json.dumps(record).encode(), **LATE)


def test_records_are_written_as_they_came() -> None:
    """Byte by byte, from a body of one or many."""
    one = json.dumps(ROW).encode()
    assert [one] == write("events", one, **LATE)
    assert [one, one] == write("events", b"[" + one + b" , " + one + b"]", **LATE)
    with pytest.raises(HTTPException, match="NaN is none"):
        write("events", b'{"payment_id": 1, "amount": {"value": NaN}}', **LATE)


@pytest.mark.parametrize("route", ["events", "labels"])
def test_json_is_not_written_where_records_may_be_avro(route: str) -> None:
    """With a registry `auto` may be anything; `json` says what it is."""
    registry = {"schema_registry": {"url": "http://127.0.0.1:9"}}
    body = json.dumps(ROW if route == "events" else {"payment_id": 1, "fraud": 1, "at": 1e9})
    with pytest.raises(HTTPException) as refused:
        write(route, body.encode(), events={**PATHS, **registry}, **LATE)
    assert (409, True) == (refused.value.status_code, f"set {route}.format" in refused.value.detail)

    as_json = {**PATHS, **registry, "format": "json"}
    assert 1 == len(write(route, body.encode(), events=as_json, **LATE))


@pytest.mark.parametrize(
    ("label", "words"),
    [
        ({"payment_id": 1, "fraud": None, "at": 1e9}, "fraud: null is not one of 0, 1"),
        ({"payment_id": 1, "fraud": 1}, "send it, or set labels.timestamp to its path"),
    ],
)
def test_faults_of_labels_have_words_of_json(label: dict[str, Any], words: str) -> None:
    """And the remedy for a request that lacks something comes first."""
    with pytest.raises(RequestError, match=words):
        write("labels", json.dumps(label).encode(), **LATE)


@pytest.mark.parametrize(
    "events", [PATHS, {}, {"envelope": "debezium", **PATHS}, {"features": {"amount.value": "a"}}]
)
def test_example_records_are_rows(events: dict[str, Any]) -> None:
    """The record of the OpenAPI document can be predicted."""
    settings = configured(events=events)
    record = example_record(settings, parse_schema(KINDS))
    rows = RecordRequests(settings.events).to_rows(json.dumps({"record": record}).encode(), KINDS)
    assert 1.5 == json.loads(rows)["features"]["amount.value"]


def test_text_that_a_record_may_have_is_refused_in_features_with_the_remedy() -> None:
    """Where the settings read text of records; a value of no such text has the remedy of before."""
    ((_, text),) = faults(b'{"features": {"amount.value": "3.5"}}', coerce=True)
    ((_, other),) = faults(b'{"features": {"amount.value": true}}', coerce=True)
    ((_, plain),) = faults(b'{"features": {"amount.value": "3.5"}}')

    assert text.endswith(
        "send it without quotes, or send the row as record: its text is read as on the topic "
        "(events.coerce)"
    )
    assert "record" not in other + plain
    assert ask(b'{"record": {"amount": {"value": "3.5"}, "country": "PT"}}', coerce=True)
