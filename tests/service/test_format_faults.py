"""Malformed records of every format: each an EventError with code, place and remedy."""

import base64
import json
import re
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kaboost.service.config.records import Events
from kaboost.service.errors import EventError
from kaboost.service.events.diagnosis import CODES, MESSAGE
from kaboost.service.events.formats import make_reader
from kaboost.service.events.framed import FramedReader
from kaboost.service.events.json_reader import decode_json
from kaboost.service.events.reader import GuardedReader, Headers, Reader, Skipped
from kaboost.service.events.registry import RegisteredSchema
from tests.service.samples import (
    AVRO,
    FORMATS,
    JSON_ORDER,
    MAX_BYTES,
    ORDER,
    TREE,
    avro,
    nested_avro,
    nested_protobuf,
    order_class,
    order_file,
    proto_order,
    read,
    reader_of,
    valid,
    varint,
    zigzag,
)

DEEP = 100_000
REMEDY = re.compile(r"[;:,] (or )?(send|set|register|declare|raise|null belongs)")
Case = tuple[bytes | None, str, str]  # the value, its code, what the message has


def refused(reader: Reader, value: bytes | None, headers: Headers = ()) -> EventError:
    """Return the fault of a value; it has a known code and a remedy, and fits a header."""
    with pytest.raises(EventError) as error:
        read(reader, value, headers)
    fault = error.value
    assert fault.code in CODES
    assert len(fault.message) <= MESSAGE + 200
    assert REMEDY.search(fault.message), fault.message
    return fault


def check(reader: Reader, case: Case, headers: Headers = ()) -> None:
    """Compare the fault of a value with code and words."""
    value, code, words = case
    fault = refused(reader, value, headers)
    assert (code, True) == (fault.code, words in fault.message), fault.message


COMMON: list[Case] = [
    (None, "null_value", "the record has no value"),
    (b" " * (MAX_BYTES + 1), "too_large", "1,000,001 bytes"),
    (b"\xff" * 100_000_000, "too_large", "100,000,000 bytes"),
]
JSON: list[Case] = [
    *COMMON,
    (b"", "json", "the value is empty"),
    (b"   ", "json", "not JSON"),
    (b"{", "json", "truncated"),
    (b'{"a": 1', "json", "truncated"),
    (b'{"a": ', "json", "truncated"),
    (b'{"a"', "json", "truncated"),
    (b'{"a', "json", "truncated"),
    (b"[1, 2", "json", "truncated"),
    (b'{"a": 1}}', "json", "trailing characters"),
    (b'{"a": 1} {"a": 2}', "json", "trailing characters"),
    (b'{"a": 1,}', "json", "byte 8"),
    (b"[1,]", "json", "byte 3"),
    (b"{'a': 1}", "json", "byte 1"),
    (b"{a: 1}", "json", "byte 1"),
    (b'{"a" 1}', "json", "byte 5"),
    (b'{"a": NaN}', "json", "NaN is none"),
    (b'{"a": -Infinity}', "json", "-Infinity is none"),
    (b'{"a": 01}', "json", "byte"),
    (b'{"a": 1.}', "json", "byte"),
    (b'{"a": +1}', "json", "byte"),
    (b'{"a": .5}', "json", "byte"),
    (b'{"a": 1e}', "json", "byte"),
    (b'{"a": 0x10}', "json", "byte"),
    (b'{"a": TRUE}', "json", "byte"),
    (b'{"a": tru}', "json", "byte"),
    (b'{"a": "\\x"}', "json", "escape"),
    (b'{"a": "\\ud800"}', "json", "surrogate"),
    (b'{"a": "\n"}', "json", "byte"),
    (b'{"a": "\xff"}', "json", "utf-8"),
    (b'{"\xff": 1}', "json", "utf-8"),
    (b"\xef\xbb\xbf{}", "json", "byte"),
    ('{"a": 1}'.encode("utf-16"), "json", "utf-8"),
    (b"\x1f\x8b\x08\x00\x00", "json", "utf-8"),
    (b"plain text", "json", "byte"),
    (b"{}\x00", "json", "trailing characters"),
    (b"// comment\n{}", "json", "byte"),
    (b"[" * DEEP, "format", "nested too deeply"),
    (b'{"a":' * DEEP, "format", "nested too deeply"),
    (b"[" * DEEP + b"]" * DEEP, "format", "nested too deeply"),
]
FRAMES: list[Case] = [
    (b"\0\0\0\0\5{}", "json", "schema-registry frame, schema id 5: set events.schema_registry"),
    (b"\0\xff\xff\xff\xff", "json", "schema id 4294967295: set events.schema_registry"),
    (b"\0", "json", "begins with byte 0 and has 1 of 5 bytes"),
    (b"\0\0\0\5", "json", "begins with byte 0 and has 4 of 5 bytes"),
]


@pytest.mark.parametrize("name", ["auto", "json"])
def test_json(tmp_path: Path, name: str) -> None:
    """Broken JSON, and frames of a registry that is not configured."""
    reader = reader_of(tmp_path, name)

    for case in [*JSON, *FRAMES]:
        check(reader, case)


def order(**more: Any) -> bytes:
    """Write JSON_ORDER with other values; `...` leaves one out."""
    record = {**JSON_ORDER, **more}
    return json.dumps({k: v for k, v in record.items() if v is not ...}).encode()


UNFIT: list[Case] = [
    (order(id=...), "schema", "#: 'id' is a required property"),
    (order(customer=...), "schema", "#: 'customer' is a required property"),
    (order(id="x"), "schema", "#/id: 'x' is not of type 'integer'"),
    (order(id=1.5), "schema", "#/id: 1.5 is not of type"),
    (order(id=-1), "schema", "#/id: -1 is less than the minimum"),
    (order(id=None), "schema", "#/id: None is not of type"),
    (order(id=True), "schema", "#/id: True is not of type"),
    (order(state="OLD"), "schema", "#/state: 'OLD' is not one of"),
    (order(state=None), "schema", "#/state: None is not one of"),
    (order(customer=[]), "schema", "#/customer: [] is not of type 'object'"),
    (order(customer={"age": "x"}), "schema", "#/customer/age: 'x' is not of type 'number'"),
    (order(customer={"a/b": "long"}), "schema", "#/customer/a~1b: 'long' is too long"),
    (order(tags="a"), "schema", "#/tags: 'a' is not of type 'array'"),
    (order(tags=["a", 1]), "schema", "#/tags/1: 1 is not of type 'string'"),
    (order(tags=["a", "b", "c"]), "schema", "#/tags: ['a', 'b', 'c'] is too long"),
    (order(tags=["x" * 5000] * 3), "schema", "#/tags: ['xxx"),
    (order(at="2025-01-01"), "schema", "#/at: '2025-01-01' does not match"),
    (order(amout=1), "schema", "('amout' was unexpected)"),
    (b"[]", "schema", "#: [] is not of type 'object'"),
    (b"5", "schema", "#: 5 is not of type 'object'"),
    (b'"x"', "schema", "#: 'x' is not of type 'object'"),
    (b"null", "schema", "#: None is not of type 'object'"),
    (order(id=10**400), "schema", "not"),
]


def test_json_schema(tmp_path: Path) -> None:
    """Broken JSON, and records that do not fit: the message has the JSON pointer."""
    reader = reader_of(tmp_path, "json_schema")

    for case in JSON:
        check(reader, case)
    for case in UNFIT[:-1]:
        check(reader, case)


@pytest.mark.parametrize(
    ("schema", "value", "words"),
    [
        ({"$ref": "#"}, b"{}", "nested too deeply"),
        ({"$ref": "http://elsewhere/x.json"}, b"{}", "http://elsewhere/x.json, which is not"),
        ({"$ref": "#/definitions/none"}, b"{}", "/definitions/none, which is not"),
        (
            {"properties": {"a": {"$ref": "#"}}, "additionalProperties": False},
            b'{"a":' * 400 + b"{}" + b"}" * 400,
            "nested too deeply",
        ),
    ],
)
def test_json_schema_that_never_ends(tmp_path: Path, schema: Any, value: bytes, words: str) -> None:
    """A schema that refers to itself or elsewhere makes a fault, no request and no crash."""
    fault = refused(reader_of(tmp_path, "json_schema", schema=schema), value)

    assert ("format", True) == (fault.code, words in fault.message), fault.message


def field(name: str, kind: Any) -> dict[str, Any]:
    """A record schema of one field."""
    return {"type": "record", "name": "R", "fields": [{"name": name, "type": kind}]}


GOOD = avro(ORDER)
DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
ENUM = {"type": "enum", "name": "E", "symbols": ["A"]}
AVRO_CASES: list[tuple[Any, bytes, str]] = [
    (AVRO, b"", "at byte 0 of 0: "),
    (AVRO, GOOD[:1], "ends too early"),
    (AVRO, GOOD[: len(GOOD) // 2], "ends too early"),
    (AVRO, GOOD[:-1], "ends too early"),
    (AVRO, GOOD + b"\0", f"the record ends at byte {len(GOOD)} of {len(GOOD) + 1}"),
    (AVRO, GOOD + GOOD, "the record ends at byte"),
    (AVRO, b"Obj\x01" + GOOD, "an Avro file in the record"),
    (AVRO, b'{"id": 1}', "not Avro"),
    (field("a", "long"), b"\xff" * 10, "at byte"),
    (field("a", "long"), b"\x80", "at byte 1 of 1"),
    (field("a", "double"), b"\0" * 7, "at byte"),
    (field("a", "float"), b"\0" * 3, "at byte"),
    (field("a", "boolean"), b"", "at byte 0 of 0"),
    (field("a", "string"), zigzag(5) + b"abc", "ends too early"),
    (field("a", "string"), zigzag(2) + b"\xff\xfe", "text that is not UTF-8"),
    (field("a", "string"), zigzag(1 << 60) + b"abc", "ends too early"),
    (field("a", "string"), zigzag(-1) + b"abc", "ends too early"),
    (field("a", "bytes"), zigzag(1 << 62), "ends too early"),
    (field("a", "bytes"), zigzag(-(1 << 62)), "ends too early"),
    (field("a", {"type": "fixed", "name": "F", "size": 4}), b"abc", "ends too early"),
    (field("a", ["null", "int"]), zigzag(2), "an index beyond the branches"),
    (field("a", ["null", "int"]), zigzag(1 << 40), "an index beyond the branches"),
    (field("a", ["int", "string"]), zigzag(-3), "an index beyond the branches"),
    (field("a", ENUM), zigzag(1), "an index beyond the branches"),
    (field("a", ENUM), zigzag(-2), "an index beyond the branches"),
    (field("a", {"type": "array", "items": "int"}), zigzag(1 << 60), "ends too early"),
    (field("a", {"type": "array", "items": "int"}), zigzag(-(1 << 60)) + b"\2\2", "ends too early"),
    (field("a", {"type": "array", "items": "int"}), zigzag(2) + b"\2", "ends too early"),
    (field("a", {"type": "array", "items": "int"}), zigzag(1) + b"\2", "ends too early"),
    (field("a", {"type": "map", "values": "null"}), zigzag(1 << 60), "ends too early"),
    (field("a", {"type": "map", "values": "int"}), zigzag(1) + zigzag(9) + b"k", "ends too early"),
    (field("a", {"type": "int", "logicalType": "date"}), zigzag(1 << 31), "out of range"),
    (field("a", {"type": "long", "logicalType": "timestamp-millis"}), zigzag(1 << 60), "range"),
    (field("a", {"type": "long", "logicalType": "timestamp-micros"}), zigzag(1 << 62), "range"),
    (field("a", {"type": "long", "logicalType": "time-micros"}), zigzag(1 << 60), "hour"),
    (field("a", {"type": "string", "logicalType": "uuid"}), zigzag(3) + b"abc", "UUID"),
    (field("a", DECIMAL), zigzag(161) + b"\x7f" * 161, "a decimal of 161 bytes"),
    (field("a", DECIMAL), zigzag(900_000) + b"\x7f" * 900_000, "a decimal of 900,000 bytes"),
    (field("a", {**DECIMAL, "precision": 999, "scale": 500}), zigzag(1) + b"\1", "scale 500"),
    (TREE, nested_avro(DEEP), "nested too deeply"),
    (TREE, nested_avro(DEEP)[:-1], "nested too deeply"),
    (TREE, b"\x02\x06", "an index beyond the branches"),
]


@pytest.mark.parametrize("case", range(len(AVRO_CASES)))
def test_avro(tmp_path: Path, case: int) -> None:
    """Bytes that a schema did not write."""
    schema, value, words = AVRO_CASES[case]

    check(reader_of(tmp_path, "avro", schema=schema), (value, "format", words))


@pytest.mark.parametrize("case", COMMON)
@pytest.mark.parametrize("name", FORMATS)
def test_every_format(tmp_path: Path, name: str, case: Case) -> None:
    """Records without a value and those that are too large, which are not looked at."""
    check(reader_of(tmp_path, name), case)


PROTO = bytes(proto_order().SerializeToString())
PROTOBUF_CASES: list[tuple[bytes, str]] = [
    (PROTO[:-1], "not Protobuf"),
    (PROTO[: len(PROTO) // 2], "not Protobuf"),
    (PROTO + b"\xff", "not Protobuf"),
    (b"\x08", "not Protobuf"),
    (b"\x08\xff", "not Protobuf"),
    (b"\x08" + b"\xff" * 11, "not Protobuf"),
    (b"\x11\0\0", "not Protobuf"),
    (b"\x22\x05abc", "not Protobuf"),
    (b"\x22" + varint(2**31 - 1) + b"abc", "not Protobuf"),
    (b"\x22" + varint(2**63) + b"abc", "not Protobuf"),
    (b"\x42" + varint(2**30), "not Protobuf"),
    (b"\x22\x02\xff\xfe", "not Protobuf"),
    (b"\x32\x01\xff", "not Protobuf"),
    (b"\x2a\x05\x08", "not Protobuf"),
    (b"\x2a\x02\x08\xff", "not Protobuf"),
    (b"\x00\x01", "not Protobuf"),
    (b"\x0e\x01", "not Protobuf"),
    (b"\x0f\x01", "not Protobuf"),
    (b"\x0c", "not Protobuf"),
    (b"\x0b", "not Protobuf"),
    (b"\xf8\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "not Protobuf"),
    (b"\x0d\0\0\0\0", "field id is written as 32 bits"),
    (b"\x09" + b"\0" * 8, "field id is written as 64 bits"),
    (b"\x0a\x01a", "field id is written as a length and bytes"),
    (b"\x10\x01", "field amount is written as a varint"),
    (b"\x20\x01", "field coupon is written as a varint"),
    (b"\x28\x01", "field customer is written as a varint"),
    (b"\x58\x01", "field fixed is written as a varint"),
    (b"\x2a\x05\x0d\0\0\0\0", "in customer: field age is written as 32 bits"),
    (
        b"\x2a\x09\x12\x07\x12\x05\x0d\0\0\0\0",
        "in customer: in parent: in parent: field age is written as 32",
    ),
    (b"\x3a\x02\x10\x05", "field scores is written as a length and bytes, not as its type"),
    (b"\x62\x01\xff", "not Protobuf"),
    (nested_protobuf(DEEP // 20), "not Protobuf"),
    (nested_protobuf(150), "not Protobuf"),
    (b'{"id": 1}', "not Protobuf"),
    (b"\x4a\x09\x08" + varint(2**52 - 1), "microseconds since 1970 are outside"),
    (b"\x4a\x0b\x08" + varint(2**63) + b"", "microseconds since 1970 are outside"),
]


@pytest.mark.parametrize("case", range(len(PROTOBUF_CASES)))
def test_protobuf(tmp_path: Path, case: int) -> None:
    """Bytes that no message of the type is written as, and wrong wire types."""
    value, words = PROTOBUF_CASES[case]

    check(reader_of(tmp_path, "protobuf"), (value, "format", words))


MSGPACK_CASES: list[tuple[bytes, str]] = [
    (b"", "truncated"),
    (b"\x81", "truncated"),
    (b"\x81\xa1", "truncated"),
    (b"\x81\xa1a", "truncated"),
    (b"\x82\xa1a\x01", "truncated"),
    (b"\x92\x01", "truncated"),
    (b"\xcb\0\0", "truncated"),
    (b"\xca\0", "truncated"),
    (b"\xcf\0", "truncated"),
    (b"\xd3\0", "truncated"),
    (b"\xa5abc", "truncated"),
    (b"\xd9\x05a", "truncated"),
    (b"\xda\x00", "truncated"),
    (b"\xdb\xff\xff\xff\xffa", "truncated"),
    (b"\xc6\xff\xff\xff\xff", "truncated"),
    (b"\xc4\x05a", "truncated"),
    (b"\xdd\xff\xff\xff\xff", "truncated"),
    (b"\xdf\xff\xff\xff\xff", "truncated"),
    (b"\xdd\x7f\xff\xff\xff\x01", "truncated"),
    (b"\xde\xff\xff\xa1a", "truncated"),
    (b"\xc9\xff\xff\xff\xff\x01", "truncated"),
    (b"\xc1", "invalid opcode"),
    (b"\x80\x80", "trailing"),
    (b"\x81\xa1a\x01\x00", "trailing"),
    (b"\xa2\xff\xfe", "utf-8"),
    (b"\x81\xa2\xff\xfe\x01", "utf-8"),
    (b"\xd4\x05\x00", "extension type 5"),
    (b"\xc7\x03\x07abc", "extension type 7"),
    (b"\xc7\x05\xff\0\0\0\0\0", "timestamp"),
    (b"\xd7\xff\xff\xff\xff\xff\xff\xff\xff\xff", "timestamp"),
    (b"\x81\xc0\x01", "a key of type NoneType"),
    (b"\x81\xcb" + b"\0" * 8 + b"\x01", "a key of type float"),
    (b"\x81\xc3\x01", "a key of type bool"),
    (b"\x81\xc4\x01a\x01", "a key of type bytes"),
    (b"\x81\x91\x01\x01", "a key of type tuple"),
    (b"\x81\x80\x01", "map keys must be hashable"),
    (b"\x91" * DEEP, "nested too deeply"),
    (b"\x91" * DEEP + b"\x01", "nested too deeply"),
    (b"\x81\xa1a" * DEEP, "nested too deeply"),
    (b'{"a": 1}', "trailing"),
]


@pytest.mark.parametrize("case", range(len(MSGPACK_CASES)))
def test_msgpack(tmp_path: Path, case: int) -> None:
    """Bytes that are no MessagePack value, or one that has no plain meaning."""
    value, words = MSGPACK_CASES[case]

    check(reader_of(tmp_path, "msgpack"), (value, "format", words))


def test_lengths_take_no_memory(tmp_path: Path) -> None:
    """A few bytes that declare much more are refused at once."""
    began = time.process_time()

    for schema, value, _ in AVRO_CASES:
        refused(reader_of(tmp_path, "avro", schema=schema), value)

    assert time.process_time() - began < 20  # a list of 2**60 items would never end


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
    """With a registry `auto` reads every kind of schema, and plain JSON beside them."""
    reader = framed(REGISTERED, decode_json)
    message = order_class().DESCRIPTOR.nested_types_by_name["Customer"]._concrete_class(age=4)

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
    """Write a row of one field `a`, with its schema beside it."""
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


SHAPES = [(name, envelope) for name in FORMATS for envelope in ("none", "debezium", "cloudevents")]


@pytest.mark.parametrize(("name", "envelope"), SHAPES)
def test_any_bytes(tmp_path: Path, name: str, envelope: str) -> None:
    """Random bytes, and valid ones with bytes changed, make a value, a fault or are skipped."""
    reader = reader_of(tmp_path, name, envelope=envelope)

    @settings(max_examples=60)
    @given(mutated(valid(name)), st.lists(st.tuples(st.sampled_from(sorted(CE)), st.binary())))
    def hold(value: bytes, headers: list[tuple[str, bytes]]) -> None:
        assert_total(reader, value, headers)

    hold()


@settings(max_examples=200)
@given(
    st.sampled_from(sorted(REGISTERED)),
    st.one_of(st.binary(), st.sampled_from([GOOD, b"\0" + PROTO]).flatmap(lambda v: mutated(v))),
)
def test_any_framed_bytes(number: int, payload: bytes) -> None:
    """The same behind a registry's frame."""
    assert_total(framed(REGISTERED), frame(number) + payload)


def assert_total(reader: Reader, value: bytes, headers: Headers = ()) -> None:
    """Hold that a value is read, refused with code and remedy, or skipped."""
    fault = None
    with suppress(Skipped):
        try:
            read(reader, value, headers)
        except EventError as error:
            fault = error
    if fault is not None:
        assert fault.code in CODES
        assert REMEDY.search(fault.message), fault.message


def mutated(value: bytes) -> st.SearchStrategy[bytes]:
    """Make random bytes, or this value cut, repeated, or with bytes replaced."""
    at = st.integers(0, max(len(value) - 1, 0))
    replaced = st.tuples(at, st.binary(max_size=4)).map(
        lambda change: value[: change[0]] + change[1] + value[change[0] + len(change[1]) :]
    )
    inserted = st.tuples(at, st.binary(max_size=4)).map(
        lambda change: value[: change[0]] + change[1] + value[change[0] :]
    )
    cut = at.map(lambda end: value[:end])
    return st.one_of(st.binary(), replaced, inserted, cut)


def test_msgpack_of_every_length() -> None:
    """No prefix of a valid record is read as a whole one."""
    reader = make_reader(Events(format="msgpack"), "orders", MAX_BYTES)
    value = msgspec.msgpack.encode({"a": [1, 2.5, "x", None, True], "b": {"c": b"\0"}})

    for end in range(len(value)):
        assert refused(reader, value[:end]).code == "format"


@pytest.mark.parametrize("name", ["json", "json_schema", "avro"])
def test_every_prefix(tmp_path: Path, name: str) -> None:
    """The same for formats that have an end."""
    reader, value = reader_of(tmp_path, name), valid(name)

    for end in range(len(value)):
        refused(reader, value[:end])
