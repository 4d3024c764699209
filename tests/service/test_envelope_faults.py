"""Malformed Debezium envelopes and CloudEvents."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from tests.service.faults import Case, check
from tests.service.samples import read, reader_of

DEBEZIUM_CASES: list[Case] = [
    (b"{}", "schema", "op: is missing from Debezium's envelope; the record has nothing"),
    (b'{"id": 1, "amount": 2}', "schema", "the record has id, amount"),
    (b'{"after": {"id": 1}}', "schema", "op: is missing"),
    (b'{"op": "c"}', "schema", "after: is missing, where op is c"),
    (b'{"op": "c", "after": null}', "schema", "after: null is not an object"),
    (b'{"op": "u", "after": [1]}', "schema", "after: an array is not an object"),
    (b'{"op": "u", "after": "x"}', "schema", 'after: "x" is not an object'),
    (b'{"op": "x", "after": {}}', "schema", 'op: "x" is no operation'),
    (b'{"op": "", "after": {}}', "schema", 'op: "" is no operation'),
    (b'{"op": "cu", "after": {}}', "schema", 'op: "cu" is no operation'),
    (b'{"op": null, "after": {}}', "schema", "op: null is no operation"),
    (b'{"op": 1, "after": {}}', "schema", "op: 1 is no operation"),
    (b'{"op": ["c"], "after": {}}', "schema", "op: an array is no operation"),
    (b'{"op": {"d": 1}, "after": {}}', "schema", "op: an object is no operation"),
    (b'{"op": true}', "schema", "op: true is no operation"),
    (b"[]", "schema", "an array is no Debezium envelope"),
    (b"5", "schema", "5 is no Debezium envelope"),
    (b'"c"', "schema", '"c" is no Debezium envelope'),
    (b"true", "schema", "true is no Debezium envelope"),
    (b"{", "json", "truncated"),
    (b"", "json", "the value is empty"),
    (b'{"schema": {}, "payload": 5}', "schema", "5 is no Debezium envelope"),
    (b'{"schema": {}, "payload": {"id": 1}}', "schema", "the record has id"),
    (b'{"schema": {}, "payload": {"op": "c", "after": 1}}', "schema", "after: 1 is not"),
    (b'{"schema": {}, "other": 1}', "schema", "the record has schema, other"),
]
TYPES = "org.apache.kafka.connect.data."
DECIMAL2 = {"type": "bytes", "name": f"{TYPES}Decimal", "parameters": {"scale": "2"}}
CONNECT_CASES: list[tuple[Any, Any, str]] = [
    (DECIMAL2, "!!", "after.a"),
    (DECIMAL2, [], "after.a: an array is no"),
    (DECIMAL2, "A" * 400, "a decimal of 300 bytes"),
    (DECIMAL2, base64.b64encode(b"\x7f" * 700_000).decode(), "a decimal of 700,000 bytes"),
    ({**DECIMAL2, "parameters": {}}, "AA==", "after.a"),
    ({**DECIMAL2, "parameters": None}, "AA==", "after.a"),
    ({**DECIMAL2, "parameters": {"scale": "x"}}, "AA==", "after.a"),
    ({**DECIMAL2, "parameters": {"scale": "9999999"}}, "AA==", "a decimal of scale 9999999"),
    ({"type": "int32", "name": f"{TYPES}Date"}, "2026-11-20", "a whole number belongs there"),
    ({"type": "int32", "name": f"{TYPES}Date"}, 10**9, "after.a: 1000000000 is no"),
    ({"type": "int32", "name": f"{TYPES}Date"}, True, "after.a: true is no"),
    ({"type": "int32", "name": f"{TYPES}Time"}, -1, "no time of day"),
    ({"type": "int32", "name": f"{TYPES}Time"}, 86_400_000, "no time of day"),
    ({"type": "int64", "name": f"{TYPES}Timestamp"}, 10**17, "after.a"),
    ({"type": "int64", "name": f"{TYPES}Timestamp"}, 1.5, "after.a: 1.5 is no"),
    ({"type": "int64", "name": "io.debezium.time.NanoTimestamp"}, 10**30, "after.a"),
    ({"type": "int64", "name": "io.debezium.time.MicroDuration"}, 10**30, "after.a"),
    ({"type": "struct", "name": "io.debezium.data.VariableScaleDecimal"}, 5, "after.a: 5 is no"),
    ({"type": "struct", "name": "io.debezium.data.VariableScaleDecimal"}, {}, "after.a"),
    (
        {"type": "struct", "name": "io.debezium.data.VariableScaleDecimal"},
        {"scale": 10**9, "value": "AA=="},
        "a decimal of scale 1000000000",
    ),
    ({"type": "bytes"}, 5, "after.a: 5 is no bytes"),
    ({"type": "bytes"}, "é", "after.a"),
    ({"type": "array", "items": {"type": "bytes"}}, ["AA==", 5], "after.a.1: 5 is no bytes"),
    ({"type": "map", "values": {"type": "bytes"}}, {"k": 5}, "after.a.k: 5 is no bytes"),
    (
        {"type": "struct", "fields": [{"field": "b", "type": "bytes"}]},
        {"b": {"c": 1}},
        "after.a.b: an object is no bytes",
    ),
]


def connect(schema: Any, value: Any) -> bytes:
    """Write a row of one field `a`, with its schema."""
    row = {"field": "after", "type": "struct", "fields": [{**schema, "field": "a"}]}
    payload = {"op": "c", "after": {"a": value}}
    return json.dumps({"schema": {"fields": [row]}, "payload": payload}).encode()


def test_debezium(tmp_path: Path) -> None:
    """Records that are no change events, and values that are not what their schema says."""
    reader = reader_of(tmp_path, "json", envelope="debezium")

    for case in DEBEZIUM_CASES:
        check(reader, case)
    for schema, value, words in CONNECT_CASES:
        check(reader, (connect(schema, value), "format", words))


@pytest.mark.parametrize("schema", [[], 5, "x", {"fields": 5}, {"fields": [5, {"field": []}]}])
def test_debezium_with_a_strange_schema(tmp_path: Path, schema: Any) -> None:
    """Without a usable schema the row is as JSON has it."""
    value = json.dumps({"schema": schema, "payload": {"op": "c", "after": {"a": 1}}}).encode()

    assert {"a": 1} == read(reader_of(tmp_path, "json", envelope="debezium"), value)


CE = {"ce_specversion": b"1.0", "ce_id": b"a1", "ce_source": b"/shop", "ce_type": b"order"}
EVENT = {"specversion": "1.0", "id": "a1", "source": "/shop", "type": "order", "data": {"a": 1}}


def event(**more: Any) -> bytes:
    """Write a CloudEvent with other attributes; `...` leaves one out."""
    return json.dumps({k: v for k, v in {**EVENT, **more}.items() if v is not ...}).encode()


CLOUDEVENTS_CASES: list[Case] = [
    (None, "null_value", "the record has no value"),
    (b"", "json", "the value is empty"),
    (b"{", "json", "truncated"),
    (b"[]", "schema", "an array is no CloudEvent"),
    (b"5", "schema", "5 is no CloudEvent"),
    (b"null", "schema", "null is no CloudEvent"),
    (b'{"a": 1}', "schema", "specversion: the attribute is missing"),
    (event(specversion=...), "schema", "specversion: the attribute is missing"),
    (event(specversion="0.3"), "format", 'specversion: "0.3" where 1.0 belongs'),
    (event(specversion=1.0), "format", "specversion: 1.0 where 1.0 belongs"),
    (event(specversion=[]), "format", "specversion: an array where 1.0 belongs"),
    (event(id=...), "schema", "id: the attribute is missing"),
    (event(id=None), "schema", "id: the attribute is missing"),
    (event(id=5), "schema", "id: 5 where text belongs"),
    (event(id=""), "schema", 'id: "" where text belongs'),
    (event(source=...), "schema", "source: the attribute is missing"),
    (event(source={}), "schema", "source: an object where text belongs"),
    (event(type=...), "schema", "type: the attribute is missing"),
    (event(type=True), "schema", "type: true where text belongs"),
    (event(time=5), "schema", "time: 5 where text belongs"),
    (event(subject=[]), "schema", "subject: an array where text belongs"),
    (event(data=...), "schema", "data: is missing"),
    (event(data=None), "schema", "data: is missing"),
    (event(data=..., data_base64="!!"), "format", "data_base64: is not base64"),
    (event(data=..., data_base64=5), "format", "data_base64: is not base64"),
    (event(data=..., data_base64="e30="[:-1]), "format", "data_base64: is not base64"),
    (event(data=..., data_base64="ew=="), "json", "truncated"),
]
BINARY_CASES: list[tuple[dict[str, bytes | None], bytes | None, str, str]] = [
    ({}, None, "null_value", "the record has no value"),
    ({}, b"", "json", "the value is empty"),
    ({}, b"{", "json", "truncated"),
    ({"ce_id": None}, b"{}", "schema", "ce_id: the header is missing"),
    ({"ce_id": b""}, b"{}", "schema", 'ce_id: "" where text belongs'),
    ({"ce_source": None}, b"{}", "schema", "ce_source: the header is missing"),
    ({"ce_type": None}, b"{}", "schema", "ce_type: the header is missing"),
    ({"ce_specversion": b"0.3"}, b"{}", "format", 'ce_specversion: "0.3" where 1.0'),
    ({"ce_specversion": b""}, b"{}", "format", "ce_specversion"),
    ({"ce_id": b"\xff"}, b"{}", "format", "ce_id: the header is not UTF-8"),
    ({"content-type": b"\xff"}, b"{}", "format", "content-type: the header is not UTF-8"),
    (
        {"content-type": b"application/cloudevents-batch+json"},
        b"[]",
        "format",
        "several events in a record",
    ),
    (
        {"content-type": b"application/cloudevents+json; charset=UTF-8"},
        b"{}",
        "schema",
        "specversion: the attribute is missing",
    ),
]


def test_cloudevents(tmp_path: Path) -> None:
    """Events without what every CloudEvent has, in both modes."""
    reader = reader_of(tmp_path, "json", envelope="cloudevents")

    for case in CLOUDEVENTS_CASES:
        check(reader, case)
    for more, value, code, words in BINARY_CASES:
        check(reader, (value, code, words), list({**CE, **more}.items()))
