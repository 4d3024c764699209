"""Malformed records of every format: each an EventError with code, place and remedy."""

import json
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kaboost.service.config.records import Events
from kaboost.service.events.formats import make_reader
from tests.service.faults import COMMON, DEEP, Case, assert_total, check, mutated, refused
from tests.service.samples import (
    AVRO,
    FORMATS,
    JSON_ORDER,
    MAX_BYTES,
    ORDER,
    TREE,
    avro,
    field,
    nested_avro,
    nested_protobuf,
    proto_order,
    reader_of,
    valid,
    varint,
    zigzag,
)

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
    (b'{"a": "\xff"}', "json", "UTF-8"),
    (b'{"\xff": 1}', "json", "UTF-8"),
    (b"\xef\xbb\xbf{}", "json", "byte"),
    ('{"a": 1}'.encode("utf-16"), "json", "UTF-8"),
    (b"\x1f\x8b\x08\x00\x00", "json", "UTF-8"),
    (b"plain text", "json", "byte"),
    (b"{}\x00", "json", "trailing characters"),
    (b"// comment\n{}", "json", "byte"),
    (b"[" * DEEP, "json", "nested too deeply"),
    (b'{"a":' * DEEP, "json", "nested too deeply"),
    (b"[" * DEEP + b"]" * DEEP, "json", "nested too deeply"),
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


HEADERS = ["ce_specversion", "ce_id", "ce_source", "ce_type", "content-type"]
SHAPES = [(name, envelope) for name in FORMATS for envelope in ("none", "debezium", "cloudevents")]


@pytest.mark.parametrize(("name", "envelope"), SHAPES)
def test_any_bytes(tmp_path: Path, name: str, envelope: str) -> None:
    """Random bytes, and valid ones with bytes changed, make a value, a fault or are skipped."""
    reader = reader_of(tmp_path, name, envelope=envelope)

    @settings(max_examples=60)
    @given(
        mutated(valid(name)),
        st.lists(st.tuples(st.sampled_from(HEADERS), st.binary())),
    )
    def hold(value: bytes, headers: list[tuple[str, bytes]]) -> None:
        assert_total(reader, value, headers)

    hold()


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
