"""Malformed records behind a schema registry's frame, and schemas that decode nothing."""

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.message_factory import GetMessageClass
from hypothesis import given, settings
from hypothesis import strategies as st

from kaboost.service.errors import EventError
from kaboost.service.events.framed import FramedReader
from kaboost.service.events.json_reader import decode_json
from kaboost.service.events.reader import GuardedReader, Reader
from kaboost.service.events.registry import RegisteredSchema
from tests.service.faults import DEEP, Case, assert_total, check, mutated, refused
from tests.service.samples import (
    AVRO,
    MAX_BYTES,
    ORDER,
    avro,
    field,
    order_class,
    order_file,
    proto_order,
    read,
    zigzag,
)

GOOD = avro(ORDER)
PROTO = bytes(proto_order().SerializeToString())


class Schemas:
    """A registry with these schemas, in this process."""

    def __init__(self, schemas: dict[int, RegisteredSchema]) -> None:
        self._schemas = schemas

    def prepare(self, ids: Any) -> None:
        """Fetch nothing."""
        list(ids)

    def schema(self, number: int) -> RegisteredSchema:
        """Return a schema."""
        if number not in self._schemas:
            raise EventError("schema_id", f"schema id {number}: unknown; register the schema")
        return self._schemas[number]


def frame(number: int) -> bytes:
    """Write a registry's frame."""
    return b"\0" + number.to_bytes(4, "big")


def framed(schemas: dict[int, RegisteredSchema], plain: Any = None) -> Reader:
    """Make a reader of framed records over these schemas."""
    from kaboost.service.events.avro import compile_avro
    from kaboost.service.events.json_schema import compile_json_schema
    from kaboost.service.events.protobuf import compile_protobuf

    makers: dict[str, Callable[..., Any]] = {
        "AVRO": compile_avro,
        "PROTOBUF": compile_protobuf,
        "JSON": compile_json_schema,
    }
    compilers = {
        kind: lambda schema, make=make: make(
            schema.text, schema.references, f"schema id {schema.id}"
        )
        for kind, make in makers.items()
    }
    registry: Any = Schemas(schemas)
    return GuardedReader(FramedReader(registry, compilers, plain), MAX_BYTES, "auto")


REGISTERED = {
    1: RegisteredSchema(1, "AVRO", json.dumps(AVRO), {}),
    2: RegisteredSchema(
        2, "PROTOBUF", base64.b64encode(order_file().SerializeToString()).decode(), {}
    ),
    3: RegisteredSchema(3, "JSON", json.dumps({"type": "object"}), {}),
    4: RegisteredSchema(4, "PROTOBUF", 'syntax = "proto3"; message Order {}', {}),
    5: RegisteredSchema(5, "AVRO", '{"type": "record"}', {}),
    6: RegisteredSchema(6, "AVRO", "{", {}),
    7: RegisteredSchema(7, "AVRO", json.dumps(field("a", "shop.Unknown")), {}),
    8: RegisteredSchema(8, "JSON", '{"type": 5}', {}),
    9: RegisteredSchema(9, "JSON", "{", {}),
    10: RegisteredSchema(10, "PROTOBUF", "AAAA", {}),
    11: RegisteredSchema(11, "XML", "<a/>", {}),
    12: RegisteredSchema(
        12, "AVRO", '{"type": "array", "items": ' * 5000 + '"int"' + "}" * 5000, {}
    ),
    13: RegisteredSchema(13, "JSON", "[" * DEEP, {}),
}
FRAMED_CASES: list[Case] = [
    (b"", "format", "the value is empty, a frame"),
    (b"\0", "format", "a schema-registry frame has 5 bytes, the value 1"),
    (b"\0\0\0\0", "format", "a schema-registry frame has 5 bytes, the value 4"),
    (b"\1" + b"\0" * 16 + GOOD, "format", "begins with byte 0x01"),
    (GOOD, "format", "no schema-registry frame"),
    (b'{"id": 1}', "format", "begins with byte 0x7b"),
    (frame(77) + GOOD, "schema_id", "schema id 77: unknown"),
    (frame(0) + GOOD, "schema_id", "schema id 0: unknown"),
    (frame(2**32 - 1), "schema_id", "schema id 4294967295: unknown"),
    (frame(1), "format", "schema id 1: not Avro of this schema, at byte 0 of 0"),
    (frame(1) + GOOD[:-1], "format", "ends too early"),
    (frame(1) + GOOD + b"\0", "format", f"the record ends at byte {len(GOOD)}"),
    (frame(1) + frame(1) + GOOD, "format", "schema id 1"),
    (frame(2), "format", "schema id 2: the message indexes are cut off"),
    (frame(2) + b"\x80", "format", "the message indexes are cut off"),
    (frame(2) + b"\xff" * 1000, "format", "the message indexes are cut off"),
    (frame(2) + b"\x04\x00", "format", "the message indexes are cut off"),
    (frame(2) + zigzag(-1), "format", "-1 message indexes"),
    (frame(2) + zigzag(100_000), "format", "100000 message indexes"),
    (frame(2) + zigzag(1) + zigzag(7), "format", "message index [7] where the schema has 1"),
    (frame(2) + zigzag(1) + zigzag(-1), "format", "message index [-1]"),
    (frame(2) + zigzag(2) + zigzag(0) + zigzag(9), "format", "message index [0, 9]"),
    (frame(2) + b"\0" + PROTO[:-1], "format", "schema id 2: shop.Order: not Protobuf"),
    (frame(2) + b"\0\x0a\x01a", "format", "shop.Order: field id is written as a length"),
    (frame(3), "json", "the value is empty"),
    (frame(3) + b"[]", "schema", "#: [] is not of type 'object' (schema id 3"),
    (frame(3) + b"{", "json", "truncated"),
    (frame(4) + b"\0", "format", "schema id 4: the registry gives no descriptor"),
    (frame(5), "format", "schema id 5: not an Avro schema"),
    (frame(6), "format", "schema id 6: not an Avro schema"),
    (frame(7), "format", "schema id 7: not an Avro schema"),
    (frame(8), "format", "schema id 8: not a JSON Schema: 5 is not"),
    (frame(9), "format", "schema id 9: not a JSON Schema"),
    (frame(10), "format", "schema id 10: the registry gives no descriptor"),
    (frame(11), "format", "schema id 11: a schema of type XML, where AVRO, PROTOBUF, JSON"),
    (frame(12), "format", "schema id 12: not an Avro schema: RecursionError"),
    (frame(13), "format", "schema id 13: not a JSON Schema"),
]


@pytest.mark.parametrize("case", range(len(FRAMED_CASES)))
def test_framed(case: int) -> None:
    """Frames that are cut off or name what is not there, and payloads of another schema."""
    check(framed(REGISTERED), FRAMED_CASES[case])


def test_framed_records_are_read() -> None:
    """With a registry `auto` reads every kind of schema, and plain JSON too."""
    reader = framed(REGISTERED, decode_json)
    customer = GetMessageClass(order_class().DESCRIPTOR.nested_types_by_name["Customer"])
    message: Any = customer(age=4)

    assert ORDER == read(reader, frame(1) + GOOD)
    assert read(reader, frame(2) + b"\0" + PROTO)["state"] == "PAID"
    nested = zigzag(2) + zigzag(0) + zigzag(0) + message.SerializeToString()
    assert {"age": 4, "parent": None} == read(reader, frame(2) + nested)
    assert {"a": 1} == read(reader, frame(3) + b'{"a": 1}')
    assert {"a": 1} == read(reader, b'{"a": 1}')


def test_references(tmp_path: Path) -> None:
    """A schema may name types of others."""
    customer = AVRO["fields"][4]["type"] | {"namespace": "shop"}
    outer = field("customer", "shop.Customer")
    person = {"type": "object", "required": ["age"]}
    json_outer = {"properties": {"customer": {"$ref": "person.json"}}}
    reader = framed(
        {
            1: RegisteredSchema(1, "AVRO", json.dumps(outer), {"c": json.dumps(customer)}),
            2: RegisteredSchema(
                2, "JSON", json.dumps(json_outer), {"person.json": json.dumps(person)}
            ),
        }
    )

    value = read(reader, frame(1) + avro({"age": 3, "vip": False}, customer))

    assert {"customer": {"age": 3, "vip": False}} == value
    fault = refused(reader, frame(2) + b'{"customer": {}}')
    assert "#/customer: 'age' is a required property" in fault.message


@pytest.mark.parametrize(
    "item",
    [
        "null",
        {"type": "record", "name": "E", "fields": []},
        {"type": "record", "name": "E", "fields": [{"name": "n", "type": "null"}]},
        {"type": "fixed", "name": "F", "size": 0},
    ],
)
def test_array_of_nothing(item: Any) -> None:
    """A schema by which a few bytes are an endless array decodes nothing."""
    schema = field("a", ["null", {"type": "array", "items": item}])
    reader = framed({5: RegisteredSchema(5, "AVRO", json.dumps(schema), {})})

    fault = refused(reader, frame(5) + b"\2" + zigzag(1 << 60))

    assert fault.code == "format"
    assert "schema id 5: items" in fault.message


@settings(max_examples=200)
@given(
    st.sampled_from(sorted(REGISTERED)),
    st.one_of(st.binary(), st.sampled_from([GOOD, b"\0" + PROTO]).flatmap(lambda v: mutated(v))),
)
def test_any_framed_bytes(number: int, payload: bytes) -> None:
    """The same behind a registry's frame."""
    assert_total(framed(REGISTERED), frame(number) + payload)
