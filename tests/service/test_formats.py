"""Readers: valid records of every format, envelopes, plug-ins, settings that are refused."""

import base64
import io
import json
import subprocess
import sys
from datetime import date, time, timedelta
from decimal import Decimal
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import fastavro
import msgspec
import pytest
from google.protobuf import descriptor_pb2, duration_pb2, struct_pb2, wrappers_pb2
from google.type import date_pb2, decimal_pb2, money_pb2

from kaboost.models.features.labels import labels
from kaboost.service.config.records import Events
from kaboost.service.errors import ConfigError, EventError
from kaboost.service.events import formats
from kaboost.service.events.decoder import Headers
from kaboost.service.events.formats import make_reader
from kaboost.service.events.json import JsonDecoder
from kaboost.service.events.mapping import RecordMapping
from kaboost.service.events.protobuf_values import to_plain
from kaboost.service.events.reader import Skipped
from kaboost.service.events.record_decoder import RecordDecoder
from kaboost.service.events.values import flatten
from tests.service.samples import (
    AT,
    AVRO,
    JSON_ORDER,
    MAX_BYTES,
    ORDER,
    PROTO_ORDER,
    avro,
    descriptor_set,
    order_class,
    proto_order,
    read,
    reader_of,
    valid,
)

CE = [("ce_specversion", b"1.0"), ("ce_id", b"a1"), ("ce_source", b"/shop"), ("ce_type", b"order")]


def test_frame_without_a_registry() -> None:
    """The default decoder names the frame too, and the setting that reads it."""
    decoder = JsonDecoder("auto", labels("binary"))

    (_, fault), *_ = decoder.decode([b"\0\0\0\0\5\x02"]).faults

    expected = "begins with a schema-registry frame, schema id 5: set events.schema_registry"
    assert ("json", expected) == (fault.code, fault.message)


@pytest.mark.parametrize("name", ["auto", "json"])
@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (b'{"a": 1, "b": [true, null, "x"]}', {"a": 1, "b": [True, None, "x"]}),
        (b'{"a": 123456789012345678901234567890}', {"a": 123456789012345678901234567890}),
        (b'{"a": 1, "a": 2}', {"a": 2}),
        (b'{"a": 1e999, "b": 2}', {"a": float("inf"), "b": 2}),
        (b'{"a": 1' + b"0" * 5000 + b"}", {"a": float("inf")}),
        (b" [1] ", [1]),
        ('{"é": "ü"}'.encode(), {"é": "ü"}),
    ],
)
def test_json(tmp_path: Path, name: str, value: bytes, expected: Any) -> None:
    """JSON is read as it is: whole numbers exactly, numbers beyond a float as infinite."""
    assert expected == read(reader_of(tmp_path, name), value)


def test_json_schema(tmp_path: Path) -> None:
    """A record that fits its schema is read as JSON."""
    assert JSON_ORDER == read(reader_of(tmp_path, "json_schema"), valid("json_schema"))


def test_avro(tmp_path: Path) -> None:
    """Every Avro type has its Python value: decimals exactly, times with their zone."""
    assert ORDER == read(reader_of(tmp_path, "avro"), avro(ORDER))
    assert {**ORDER, "coupon": None} == read(
        reader_of(tmp_path, "avro"), avro({**ORDER, "coupon": None})
    )


@pytest.mark.parametrize("digits", ["0.00", "-0.01", "9999999.99", "-9999999.99"])
def test_avro_decimal(tmp_path: Path, digits: str) -> None:
    """A decimal keeps its digits and its sign."""
    record = {**ORDER, "amount": Decimal(digits)}

    assert record == read(reader_of(tmp_path, "avro"), avro(record))


def test_avro_reads_types_of_connect(tmp_path: Path) -> None:
    """Connect's and Debezium's names of types stand for Avro's logical ones."""
    number = {"type": "long", "connect.name": "io.debezium.time.MicroTimestamp"}
    day = {"type": "int", "connect.name": "io.debezium.time.Date"}
    schema = {
        "type": "record",
        "name": "R",
        "fields": [{"name": "at", "type": ["null", number]}, {"name": "day", "type": day}],
    }
    micros = int(AT.timestamp() * 1e6)

    value = avro({"at": micros, "day": 20_777}, json.loads(json.dumps(schema)))

    expected = {"at": AT, "day": date(2026, 11, 20)}
    assert expected == read(reader_of(tmp_path, "avro", schema=schema), value)


def test_recursive_avro(tmp_path: Path) -> None:
    """A recursive record is read too."""
    number = {"type": "bytes", "logicalType": "decimal", "precision": 4}
    schema = {
        "type": "record",
        "name": "Tree",
        "fields": [{"name": "v", "type": number}, {"name": "next", "type": ["null", "Tree"]}],
    }
    tree = {"v": Decimal(1), "next": {"v": Decimal(-2), "next": None}}

    assert tree == read(reader_of(tmp_path, "avro", schema=schema), avro(tree, schema))


def test_protobuf(tmp_path: Path) -> None:
    """Fields are read by name: enums by name, maps with text keys, times as times."""
    reader = reader_of(tmp_path, "protobuf")

    assert PROTO_ORDER == read(reader, proto_order().SerializeToString())


def test_protobuf_defaults(tmp_path: Path) -> None:
    """What proto3 does not write is its default; a message or an optional field is null."""
    empty = read(reader_of(tmp_path, "protobuf"), b"")

    assert (0, 0.0, "NEW", False) == tuple(empty[k] for k in ("id", "amount", "state", "vip"))
    assert empty["coupon"] is empty["customer"] is empty["at"] is None
    assert ([], {}) == (empty["tags"], empty["scores"])


def test_protobuf_of_a_newer_schema(tmp_path: Path) -> None:
    """Unknown fields are left out, and an unknown enum value is its number."""
    value = order_class()(id=1, state=7).SerializeToString() + b"\xf8\x01\x05"

    record = read(reader_of(tmp_path, "protobuf"), value)

    assert (1, 7) == (record["id"], record["state"])


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (duration_pb2.Duration(seconds=90, nanos=500_000), timedelta(seconds=90, microseconds=500)),
        (wrappers_pb2.Int64Value(value=2**60), 2**60),
        (date_pb2.Date(year=2026, month=11, day=20), date(2026, 11, 20)),
        (date_pb2.Date(year=2026), {"year": 2026, "month": 0, "day": 0}),
        (decimal_pb2.Decimal(value="12.50"), Decimal("12.50")),
        (
            money_pb2.Money(currency_code="EUR", units=-3, nanos=-500_000_000),
            {"currency_code": "EUR", "amount": Decimal("-3.5")},
        ),
        (
            struct_pb2.Struct(
                fields={
                    "a": struct_pb2.Value(number_value=1.5),
                    "b": struct_pb2.Value(null_value=struct_pb2.NULL_VALUE),
                    "c": struct_pb2.Value(
                        list_value=struct_pb2.ListValue(values=[struct_pb2.Value(bool_value=True)])
                    ),
                }
            ),
            {"a": 1.5, "b": None, "c": [True]},
        ),
    ],
)
def test_well_known_protobuf(message: Any, expected: Any) -> None:
    """A well-known type is what it stands for."""
    assert expected == to_plain(message)


def test_msgpack(tmp_path: Path) -> None:
    """MessagePack has bytes and times of its own; whole-number keys become text."""
    record = {"a": 2**63, "b": b"\x00", "at": AT, "n": {1: [None, True, -1.5]}}

    value = msgspec.msgpack.encode(record)

    assert {**record, "n": {"1": [None, True, -1.5]}} == read(reader_of(tmp_path, "msgpack"), value)


CDC_FIELDS = [
    {"field": "id", "type": "int64"},
    {"field": "price", "type": "bytes", "name": "org.apache.kafka.connect.data.Decimal",
     "parameters": {"scale": "2"}},
    {"field": "day", "type": "int32", "name": "org.apache.kafka.connect.data.Date"},
    {"field": "clock", "type": "int32", "name": "org.apache.kafka.connect.data.Time"},
    {"field": "at", "type": "int64", "name": "org.apache.kafka.connect.data.Timestamp"},
    {"field": "born", "type": "int32", "name": "io.debezium.time.Date"},
    {"field": "micro", "type": "int64", "name": "io.debezium.time.MicroTimestamp"},
    {"field": "nano", "type": "int64", "name": "io.debezium.time.NanoTimestamp"},
    {"field": "tick", "type": "int64", "name": "io.debezium.time.MicroTime"},
    {"field": "took", "type": "int64", "name": "io.debezium.time.MicroDuration"},
    {"field": "any", "type": "struct", "name": "io.debezium.data.VariableScaleDecimal",
     "fields": [{"field": "scale", "type": "int32"}, {"field": "value", "type": "bytes"}]},
    {"field": "raw", "type": "bytes"},
    {"field": "items", "type": "array", "items": {"type": "struct", "fields": [
        {"field": "d", "type": "int32", "name": "io.debezium.time.Date"}]}},
    {"field": "by", "type": "map", "values": {"type": "bytes"}},
    {"field": "none", "type": "int32", "name": "io.debezium.time.Date", "optional": True},
]  # fmt: skip
CDC_ROW = {
    "id": 1,
    "price": base64.b64encode((-1250).to_bytes(2, "big", signed=True)).decode(),
    "day": 20_777,
    "clock": 37_800_000,
    "at": int(AT.timestamp()) * 1000,
    "born": -1,
    "micro": int(AT.timestamp()) * 10**6,
    "nano": int(AT.timestamp()) * 10**9 + 1,
    "tick": 1,
    "took": 90_000_000,
    "any": {"scale": 3, "value": base64.b64encode(b"\x04\xd2").decode()},
    "raw": "AP8=",
    "items": [{"d": 0}],
    "by": {"k": "AA=="},
    "none": None,
    "unknown": 5,
}
CDC_READ = {
    "id": 1,
    "price": Decimal("-12.50"),
    "day": date(2026, 11, 20),
    "clock": time(10, 30),
    "at": AT,
    "born": date(1969, 12, 31),
    "micro": AT,
    "nano": AT,
    "tick": time(0, 0, 0, 1),
    "took": timedelta(seconds=90),
    "any": Decimal("1.234"),
    "raw": b"\x00\xff",
    "items": [{"d": date(1970, 1, 1)}],
    "by": {"k": b"\x00"},
    "none": None,
    "unknown": 5,
}


def change(operation: str, after: Any, *, wrapped: bool = False, **more: Any) -> bytes:
    """Write a change event of Debezium."""
    payload = {"before": None, "after": after, "op": operation, "source": {"db": "shop"}, **more}
    if not wrapped:
        return json.dumps(payload).encode()
    row = {"type": "struct", "fields": CDC_FIELDS, "optional": True}
    fields = [{**row, "field": "before"}, {**row, "field": "after"}]
    schema = {"type": "struct", "fields": fields, "name": "shop.Envelope"}
    return json.dumps({"schema": schema, "payload": payload}).encode()


@pytest.mark.parametrize("operation", ["c", "r", "u"])
def test_debezium_gives_the_row(tmp_path: Path, operation: str) -> None:
    """A row that is created, read or updated is the row after it."""
    reader = reader_of(tmp_path, "json", envelope="debezium")

    assert {"id": 1} == read(reader, change(operation, {"id": 1}))


def test_debezium_converts_by_the_schema(tmp_path: Path) -> None:
    """With Connect's schema a row has decimals, dates and times."""
    reader = reader_of(tmp_path, "auto", envelope="debezium")

    assert CDC_READ == read(reader, change("u", CDC_ROW, wrapped=True))


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (None, "tombstone"),
        (b'{"schema": null, "payload": null}', "tombstone"),
        (b"null", "tombstone"),
        (change("d", None), "delete"),
        (change("d", None, wrapped=True), "delete"),
        (change("t", None), "truncate"),
        (change("m", None), "message"),
    ],
)
def test_debezium_skips(tmp_path: Path, value: bytes | None, reason: str) -> None:
    """A record that leaves no row is skipped, and is no fault."""
    with pytest.raises(Skipped) as skipped:
        read(reader_of(tmp_path, "json", envelope="debezium"), value)

    assert reason == skipped.value.reason


def test_debezium_in_avro(tmp_path: Path) -> None:
    """The envelope may be in any format."""
    row = {"type": "record", "name": "Row", "fields": [{"name": "id", "type": "long"}]}
    schema = {
        "type": "record",
        "name": "Envelope",
        "fields": [
            {"name": "before", "type": ["null", row]},
            {"name": "after", "type": ["null", "Row"]},
            {"name": "op", "type": "string"},
        ],
    }
    reader = reader_of(tmp_path, "avro", schema=schema, envelope="debezium")

    assert {"id": 5} == read(reader, avro({"before": None, "after": {"id": 5}, "op": "c"}, schema))
    with pytest.raises(Skipped, match="delete"):
        read(reader, avro({"before": {"id": 5}, "after": None, "op": "d"}, schema))


def structured(**more: Any) -> bytes:
    """Write a CloudEvent in structured mode."""
    event = {"specversion": "1.0", "id": "a1", "source": "/shop", "type": "order", **more}
    return json.dumps({key: value for key, value in event.items() if value is not ...}).encode()


EVENT = {"specversion": "1.0", "id": "a1", "source": "/shop", "type": "order", "subject": None}


def test_cloudevents_structured(tmp_path: Path) -> None:
    """Attributes and data stand by name."""
    reader = reader_of(tmp_path, "json", envelope="cloudevents")
    at = "2026-11-20T10:00:00Z"

    event = read(reader, structured(time=at, data={"amount": 5}, region="eu"))

    assert {**EVENT, "time": at, "data": {"amount": 5}, "region": "eu"} == event


def test_cloudevents_binary(tmp_path: Path) -> None:
    """Headers of the binary mode give what the attributes of the structured one give."""
    reader = reader_of(tmp_path, "json", envelope="cloudevents")
    headers: Headers = [*CE, ("ce_time", b"2026-11-20T10:00:00Z"), ("other", b"\xff")]

    event = read(reader, b'{"amount": 5}', headers)

    assert {**EVENT, "time": "2026-11-20T10:00:00Z", "data": {"amount": 5}} == event


def test_cloudevents_with_binary_data(tmp_path: Path) -> None:
    """The data may be in another format, in either mode."""
    reader = reader_of(tmp_path, "avro", envelope="cloudevents")
    data = base64.b64encode(avro(ORDER)).decode()

    assert ORDER == read(reader, avro(ORDER), [*CE, ("content-type", b"application/avro")])["data"]
    assert ORDER == read(reader, structured(data_base64=data))["data"]


def test_events_of_avro_records(tmp_path: Path) -> None:
    """Nested Avro records become columns: paths, decimals and enums as the mapping says."""
    settings = Events(label="customer.vip", id="id", timestamp="at", ignore=["raw", "hash", "key"])
    schema = {"amount": "number", "state": "category", "customer.age": "number"}
    reader, mapping = reader_of(tmp_path, "avro"), RecordMapping(settings)
    decoder = RecordDecoder(reader, mapping, schema, labels("binary"), "ignore")

    decoded = decoder.decode([avro(ORDER), avro(ORDER)[:-1]])

    assert [[-12.5, 31.0]] == decoded.table.numbers.tolist()
    assert ([1.0], [2**60 + 1]) == (decoded.y.tolist(), [meta.id for meta in decoded.meta])
    assert [(1, "format")] == [(index, fault.code) for index, fault in decoded.faults]


def test_decimal_that_would_take_minutes() -> None:
    """A decimal of a megabyte is no number: Python would work on it for minutes."""
    record = {
        "price": {"scale": 2, "value": b"\x7f" * 900_000},
        "tax": {"scale": 2, "value": b"\1"},
    }

    flat = flatten(record, frozenset())

    assert 0.01 == flat["tax"]
    assert "price" not in flat


def test_nothing_is_imported_before_it_is_needed() -> None:
    """The base install reads JSON and MessagePack without any package of the extras."""
    program = (
        "import sys; from kaboost.service.config.records import Events; "
        "from kaboost.service.events.formats import make_reader; "
        "[make_reader(Events(format=name), 't', 9) for name in ('auto', 'json', 'msgpack')]; "
        "extras = {'fastavro', 'google', 'jsonschema', 'cachetools', 'authlib', 'httpx2'}; "
        "print(sorted(extras & set(sys.modules)))"
    )

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)

    assert "[]" == done.stdout.strip(), done.stderr


class Upper:
    """A plug-in for tests: text in capitals."""

    def prepare(self, values: Any) -> None:
        """Fetch nothing."""

    def read(self, value: bytes | None, headers: Headers) -> object:
        """Return the text."""
        assert value is not None
        return {"text": value.decode().upper()}


def make_upper(events: Events) -> Upper:
    """What the entry point names."""
    assert events.format == "upper"
    return Upper()


@pytest.fixture
def plug_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """An installed package with entry points."""
    points = [
        EntryPoint("upper", f"{__name__}:make_upper", formats.GROUP),
        EntryPoint("broken", "no_such_package:make", formats.GROUP),
    ]
    monkeypatch.setattr(formats, "entry_points", lambda group: points)


@pytest.mark.usefixtures("plug_in")
def test_plug_in() -> None:
    """A format may come from a package; what it raises is a fault of the record."""
    reader = make_reader(Events(format="upper"), "orders", MAX_BYTES)

    assert {"text": "ABC"} == read(reader, b"abc")
    with pytest.raises(EventError, match="as upper: UnicodeDecodeError") as refused:
        read(reader, b"\xff")
    assert refused.value.code == "format"


@pytest.mark.usefixtures("plug_in")
@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"format": "xml"}, "'xml' is unknown; use auto, json, avro.*upper, or install"),
        ({"format": "broken"}, "no_such_package:make cannot be imported"),
        ({"format": "avro"}, "needs a schema; set events.schema_registry"),
        ({"format": "json_schema"}, "needs a schema; set events.schema_registry"),
        ({"format": "protobuf"}, "needs a schema; set events.schema_registry"),
        ({"format": "avro", "schema_file": "/nowhere"}, "cannot be read.*correct the path"),
        ({"format": "avro", "schema_file": "{bad}"}, "schema_file: .*not an Avro schema"),
        ({"format": "json_schema", "schema_file": "{bad}"}, "not a JSON Schema"),
        ({"format": "protobuf", "schema_file": "{proto}"}, "message_type: is missing; set it"),
        (
            {"format": "protobuf", "schema_file": "{bad}", "message_type": "a.B"},
            "is no descriptor set",
        ),
        (
            {"format": "protobuf", "schema_file": "{proto}", "message_type": "shop.Orders"},
            "has no message shop.Orders; it has shop.Order",
        ),
        (
            {"format": "protobuf", "schema_file": "{alone}", "message_type": "shop.Order"},
            "other.proto is imported and not there; write it with --include_imports",
        ),
        (
            {
                "format": "avro",
                "schema_file": "{bad}",
                "schema_registry": {"url": "http://127.0.0.1:1"},
            },
            "events.schema_file: is not used with",
        ),
        (
            {"schema_registry": {"url": "http://127.0.0.1:1", "tiemout": 5}},
            "events.schema_registry: Unrecognized properties: tiemout",
        ),
        ({"schema_registry": {"url": "registry:8081"}}, "Invalid url registry:8081"),
    ],
)
def test_settings_are_refused(tmp_path: Path, settings: dict[str, Any], message: str) -> None:
    """A setting that cannot work stops the start, and the message has the remedy."""
    alone = descriptor_pb2.FileDescriptorProto(name="a.proto", dependency=["other.proto"])
    files = {
        "{bad}": b'{"type": 5}',
        "{proto}": descriptor_set(),
        "{alone}": descriptor_pb2.FileDescriptorSet(file=[alone]).SerializeToString(),
    }
    if settings.get("schema_file") in files:
        (tmp_path / "schema").write_bytes(files[settings["schema_file"]])
        settings = {**settings, "schema_file": str(tmp_path / "schema")}

    with pytest.raises(ConfigError, match=message):
        make_reader(Events(**settings), "orders", MAX_BYTES)


@pytest.mark.parametrize(
    ("settings", "module", "extra"),
    [
        ({"format": "avro"}, "avro", "avro"),
        ({"format": "json_schema"}, "json_schema", "json-schema"),
        ({"format": "protobuf", "message_type": "shop.Order"}, "protobuf", "protobuf"),
        ({"schema_registry": {"url": "http://127.0.0.1:1"}}, "registry", "avro"),
    ],
)
def test_missing_package(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    settings: dict[str, Any],
    module: str,
    extra: str,
) -> None:
    """Without the extra the start is refused with the command that installs it."""
    monkeypatch.setitem(sys.modules, f"kaboost.service.events.{module}", None)
    (tmp_path / "schema").write_bytes(descriptor_set())
    if "schema_registry" not in settings:
        settings = {**settings, "schema_file": str(tmp_path / "schema")}

    with pytest.raises(ConfigError, match=rf"pip install '\.\[{extra}\]'"):
        make_reader(Events(**settings), "orders", MAX_BYTES)


def test_decimals_are_those_of_the_library(tmp_path: Path) -> None:
    """Our reading of decimals agrees with fastavro's own."""
    stream = io.BytesIO(avro(ORDER))

    assert fastavro.schemaless_reader(stream, fastavro.parse_schema(AVRO), None) == read(
        reader_of(tmp_path, "avro"), avro(ORDER)
    )
