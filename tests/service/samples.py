"""Schemas and records of every format, for tests of readers."""

import io
import json
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime, time
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any
from uuid import UUID

import fastavro
import msgspec
from google.protobuf import descriptor_pb2, timestamp_pb2
from google.protobuf.message_factory import GetMessageClass

from kaboost.service.config.records import Events
from kaboost.service.events.decoder import Headers
from kaboost.service.events.formats import make_reader
from kaboost.service.events.protobuf import make_pool
from kaboost.service.events.reader import Reader

MAX_BYTES = 1_000_000
AVRO: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "amount", "type": {
            "type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["NEW", "PAID"]}},
        {"name": "coupon", "type": ["null", "string"], "default": None},
        {"name": "customer", "type": {"type": "record", "name": "Customer", "fields": [
            {"name": "age", "type": "int"}, {"name": "vip", "type": "boolean"}]}},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "scores", "type": {"type": "map", "values": "double"}},
        {"name": "raw", "type": "bytes"},
        {"name": "hash", "type": {"type": "fixed", "name": "Hash", "size": 2}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "clock", "type": {"type": "int", "logicalType": "time-millis"}},
        {"name": "key", "type": {"type": "string", "logicalType": "uuid"}},
        {"name": "ratio", "type": "float"},
    ],
}  # fmt: skip
AT = datetime(2026, 11, 20, 10, tzinfo=UTC)
ORDER: dict[str, Any] = {
    "id": 2**60 + 1,
    "amount": Decimal("-12.50"),
    "state": "PAID",
    "coupon": "ten",
    "customer": {"age": 31, "vip": True},
    "tags": ["a", "é"],
    "scores": {"x": 0.5},
    "raw": b"\x00\xff",
    "hash": b"ab",
    "at": AT,
    "day": date(2026, 11, 20),
    "clock": time(10, 30),
    "key": UUID(int=7),
    "ratio": 0.25,
}
JSON_SCHEMA: dict[str, Any] = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "type": "object",
    "required": ["id", "customer"],
    "properties": {
        "id": {"type": "integer", "minimum": 0},
        "state": {"enum": ["NEW", "PAID"]},
        "customer": {
            "type": "object",
            "properties": {"age": {"type": "number"}, "a/b": {"type": "string", "maxLength": 3}},
        },
        "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 2},
        "at": {"type": "string", "pattern": "^2026"},
    },
    "additionalProperties": False,
}
JSON_ORDER = {"id": 2**60 + 1, "state": "NEW", "customer": {"age": 31.5}, "tags": ["a"]}
TREE = {  # recursive
    "type": "record",
    "name": "Tree",
    "fields": [{"name": "value", "type": "int"}, {"name": "next", "type": ["null", "Tree"]}],
}


def avro(value: Any, schema: Any = None) -> bytes:
    """Write a value in Avro's binary form."""
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(schema or AVRO), value)
    return stream.getvalue()


def field(name: str, kind: Any) -> dict[str, Any]:
    """A record schema of one field."""
    return {"type": "record", "name": "R", "fields": [{"name": name, "type": kind}]}


def varint(number: int) -> bytes:
    """Write a whole number as Protobuf does."""
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])


def zigzag(number: int) -> bytes:
    """Write a whole number as Avro does."""
    return varint((number << 1) ^ (number >> 63))


def order_file() -> descriptor_pb2.FileDescriptorProto:
    """Describe shop.Order as `protoc` does from the .proto file in docs/formats.md, and more."""
    file = descriptor_pb2.FileDescriptorProto(
        name="order.proto",
        package="shop",
        syntax="proto3",
        dependency=["google/protobuf/timestamp.proto"],
    )
    state = file.enum_type.add(name="State")
    for number, name in enumerate(["NEW", "PAID"]):
        state.value.add(name=name, number=number)
    order = file.message_type.add(name="Order")
    customer = order.nested_type.add(name="Customer")
    _field(customer, "age", 1, "INT32")
    _field(customer, "parent", 2, "MESSAGE", ".shop.Order.Customer")
    entry = order.nested_type.add(name="ScoresEntry")
    entry.options.map_entry = True
    _field(entry, "key", 1, "STRING")
    _field(entry, "value", 2, "DOUBLE")
    _field(order, "id", 1, "INT64")
    _field(order, "amount", 2, "DOUBLE")
    _field(order, "state", 3, "ENUM", ".shop.State")
    coupon = _field(order, "coupon", 4, "STRING")
    coupon.proto3_optional, coupon.oneof_index = True, 0
    _field(order, "customer", 5, "MESSAGE", ".shop.Order.Customer")
    _field(order, "tags", 6, "STRING").label = 3
    _field(order, "scores", 7, "MESSAGE", ".shop.Order.ScoresEntry").label = 3
    _field(order, "raw", 8, "BYTES")
    _field(order, "at", 9, "MESSAGE", ".google.protobuf.Timestamp")
    _field(order, "vip", 10, "BOOL")
    _field(order, "fixed", 11, "FIXED32")
    _field(order, "sizes", 12, "INT32").label = 3
    order.oneof_decl.add(name="_coupon")
    return file


def _field(message: Any, name: str, number: int, kind: str, type_name: str = "") -> Any:
    field = message.field.add(name=name, number=number, label=1)
    field.type = descriptor_pb2.FieldDescriptorProto.Type.Value(f"TYPE_{kind}")
    if type_name:
        field.type_name = type_name
    return field


@cache
def order_class() -> Any:
    """Return the class of shop.Order."""
    return GetMessageClass(make_pool([order_file()]).FindMessageTypeByName("shop.Order"))


def proto_order() -> Any:
    """Return a message of shop.Order."""
    message = order_class()(id=2**60 + 1, amount=-12.5, state=1, coupon="ten", tags=["a", "é"])
    message.customer.age = 31
    message.scores["x"] = 0.5
    message.raw = b"\x00\xff"
    message.at.CopyFrom(message.at.__class__(seconds=int(AT.timestamp())))
    return message


PROTO_ORDER = {
    "id": 2**60 + 1,
    "amount": -12.5,
    "state": "PAID",
    "coupon": "ten",
    "customer": {"age": 31, "parent": None},
    "tags": ["a", "é"],
    "scores": {"x": 0.5},
    "raw": b"\x00\xff",
    "at": AT,
    "vip": False,
    "fixed": 0,
    "sizes": [],
}


def descriptor_set() -> bytes:
    """Return what `protoc --include_imports --descriptor_set_out` writes for shop.Order."""
    times = descriptor_pb2.FileDescriptorProto()
    timestamp_pb2.DESCRIPTOR.CopyToProto(times)
    return descriptor_pb2.FileDescriptorSet(file=[times, order_file()]).SerializeToString()


def reader_of(folder: Path, name: str, **more: Any) -> Reader:
    """Make a reader of records without a frame; its schema, if it has one, is a file."""
    schema: dict[str, Callable[[], bytes]] = {
        "avro": lambda: json.dumps(more.pop("schema", AVRO)).encode(),
        "json_schema": lambda: json.dumps(more.pop("schema", JSON_SCHEMA)).encode(),
        "protobuf": descriptor_set,
    }
    settings: dict[str, Any] = {"format": name}
    if name in schema:
        settings["schema_file"] = str(folder / f"{name}.schema")
        (folder / f"{name}.schema").write_bytes(schema[name]())
    if name == "protobuf":
        settings["message_type"] = "shop.Order"
    max_bytes = more.pop("max_bytes", MAX_BYTES)
    return make_reader(Events(**settings, **more), "orders", max_bytes)


def read(reader: Reader, value: bytes | None, headers: Headers = ()) -> Any:
    """Prepare and read one record."""
    reader.prepare([value])
    return reader.read(value, headers)


def nested_avro(levels: int) -> bytes:
    """Write a Tree so deep."""
    return b"\x02\x02" * levels + b"\x02\x00"


def nested_protobuf(levels: int) -> bytes:
    """Write a Customer within a Customer, so deep."""
    below = b""
    for _ in range(levels):
        below = b"\x12" + varint(len(below)) + below
    return b"\x2a" + varint(len(below)) + below


def valid(name: str) -> bytes:
    """Return a valid record of a format."""
    records: Mapping[str, Callable[[], bytes]] = {
        "json": lambda: json.dumps(JSON_ORDER).encode(),
        "json_schema": lambda: json.dumps(JSON_ORDER).encode(),
        "avro": lambda: avro(ORDER),
        "protobuf": lambda: bytes(proto_order().SerializeToString()),
        "msgpack": lambda: msgspec.msgpack.encode({**ORDER, "amount": 1.5, "key": "k", "hash": AT}),
    }
    return records[name]()


FORMATS: Sequence[str] = ("json", "json_schema", "avro", "protobuf", "msgpack")
