"""Framed records against a real schema registry: what it holds, and when it is away."""

import json
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.schema_registry import (
    Schema,
    SchemaReference,
    SchemaRegistryClient,
)
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from pydantic import SecretStr

from kaboost.service.config.records import Events
from kaboost.service.errors import ConfigError, EventError, Exit, RegistryAway
from kaboost.service.events import registry as registry_module
from kaboost.service.events.formats import make_reader
from kaboost.service.events.reader import Reader
from kaboost.service.events.registry import Registry
from tests.kafka.registry import SchemaRegistry
from tests.service.samples import (
    AVRO,
    JSON_ORDER,
    JSON_SCHEMA,
    MAX_BYTES,
    ORDER,
    PROTO_ORDER,
    avro,
    descriptor_set,
    order_class,
    proto_order,
    read,
)

BY_TOPIC = {"subject.name.strategy.type": "TOPIC"}


@pytest.fixture(scope="module")
def client(schema_registry: SchemaRegistry) -> Iterator[SchemaRegistryClient]:
    """A producer's client."""
    with SchemaRegistryClient({"url": schema_registry.url}) as client:
        yield client


def reader_for(url: str, name: str = "auto", **more: Any) -> Reader:
    """Make a reader with this registry."""
    settings = {"url": url, **more.pop("client", {})}
    return make_reader(Events(format=name, schema_registry=settings, **more), "orders", MAX_BYTES)


def context(topic: str) -> SerializationContext:
    """The place of a value, for serialisers."""
    return SerializationContext(topic, MessageField.VALUE)


def frame(number: int) -> bytes:
    """Write a registry's frame."""
    return b"\0" + number.to_bytes(4, "big")


@pytest.mark.parametrize("name", ["auto", "avro"])
def test_avro(schema_registry: SchemaRegistry, client: SchemaRegistryClient, name: str) -> None:
    """What confluent-kafka's serialiser writes is read as its deserialiser reads it."""
    value = AvroSerializer(client, json.dumps(AVRO), conf=BY_TOPIC)(ORDER, context("avro"))

    assert ORDER == read(reader_for(schema_registry.url, name), value)
    assert ORDER == AvroDeserializer(client)(value)


@pytest.mark.parametrize("name", ["auto", "json_schema"])
def test_json_schema(
    schema_registry: SchemaRegistry, client: SchemaRegistryClient, name: str
) -> None:
    """The same with a JSON Schema; a record that does not fit names the pointer."""
    serializer = JSONSerializer(json.dumps(JSON_SCHEMA), client, conf=BY_TOPIC)
    value = serializer(JSON_ORDER, context("json"))
    reader = reader_for(schema_registry.url, name)

    assert JSON_ORDER == read(reader, value)
    no_subject = {"subject.name.strategy": lambda *_: None}
    deserializer = JSONDeserializer(None, schema_registry_client=client, conf=no_subject)
    assert JSON_ORDER == deserializer(value)
    with pytest.raises(EventError, match=r"#/id: 'x' is not of type 'integer' \(schema id"):
        read(reader, value[:5] + b'{"id": "x", "customer": {}}')


@pytest.mark.parametrize("name", ["auto", "protobuf"])
def test_protobuf(schema_registry: SchemaRegistry, client: SchemaRegistryClient, name: str) -> None:
    """The same with Protobuf: classes are made from the descriptors in the registry."""
    serializer = ProtobufSerializer(order_class(), client, conf=BY_TOPIC)
    value = serializer(proto_order(), context("protobuf"))

    assert PROTO_ORDER == read(reader_for(schema_registry.url, name), value)
    deserializer = ProtobufDeserializer(order_class(), {}, client)
    assert proto_order() == deserializer(value)


def test_protobuf_of_a_text_schema(
    schema_registry: SchemaRegistry, client: SchemaRegistryClient, tmp_path: Path
) -> None:
    """Where a registry holds the .proto file and gives no descriptors, those of a file are used."""
    text = 'syntax = "proto3"; package shop; message Order { int64 id = 1; }'
    number = client.register_schema("text-value", Schema(text, "PROTOBUF"))
    value = frame(number) + b"\0" + proto_order().SerializeToString()
    (tmp_path / "orders.desc").write_bytes(descriptor_set())
    file = {"schema_file": str(tmp_path / "orders.desc"), "message_type": "shop.Order"}

    with pytest.raises(EventError, match=r"gives no descriptor.*set events\.schema_file"):
        read(reader_for(schema_registry.url), value)
    for name in ("auto", "protobuf"):
        assert PROTO_ORDER == read(reader_for(schema_registry.url, name, **file), value)


def test_schemas_evolve(schema_registry: SchemaRegistry, client: SchemaRegistryClient) -> None:
    """Records of an old and a new schema in any order are each read by their own."""
    fields = [{"name": "id", "type": "long"}]
    old = {"type": "record", "name": "Evolving", "fields": fields}
    more = [*fields, {"name": "vip", "type": ["null", "boolean"], "default": None}]
    new = {**old, "fields": more}
    ids = [client.register_schema("evolving", Schema(json.dumps(s), "AVRO")) for s in (old, new)]
    first = frame(ids[0]) + avro({"id": 1}, old)
    second = frame(ids[1]) + avro({"id": 2, "vip": True}, new)
    reader = reader_for(schema_registry.url)
    stream = [first, second, first, second]

    reader.prepare(stream)

    expected = [{"id": 1}, {"id": 2, "vip": True}]
    assert expected * 2 == [reader.read(value, ()) for value in stream]


def test_references(schema_registry: SchemaRegistry, client: SchemaRegistryClient) -> None:
    """A schema may name types of another subject, and that of a third."""
    inner = {"type": "enum", "name": "shop.Level", "symbols": ["LOW", "HIGH"]}
    middle = {
        "type": "record",
        "name": "shop.Buyer",
        "fields": [{"name": "level", "type": "shop.Level"}],
    }
    outer = {
        "type": "record",
        "name": "shop.Sale",
        "fields": [{"name": "buyer", "type": "shop.Buyer"}],
    }
    client.register_schema("level", Schema(json.dumps(inner), "AVRO"))
    level = SchemaReference("shop.Level", "level", 1)
    client.register_schema("buyer", Schema(json.dumps(middle), "AVRO", [level]))
    buyer = SchemaReference("shop.Buyer", "buyer", 1)
    number = client.register_schema("sale", Schema(json.dumps(outer), "AVRO", [buyer]))

    assert {"buyer": {"level": "HIGH"}} == read(
        reader_for(schema_registry.url), frame(number) + b"\x02"
    )


def test_plain_records_beside_framed_ones(schema_registry: SchemaRegistry) -> None:
    """`auto` takes JSON without a frame; a format with a schema does not."""
    assert {"id": 1} == read(reader_for(schema_registry.url), b'{"id": 1}')
    with pytest.raises(EventError, match="no schema-registry frame"):
        read(reader_for(schema_registry.url, "avro"), b'{"id": 1}')


def test_another_type_of_schema(
    schema_registry: SchemaRegistry, client: SchemaRegistryClient
) -> None:
    """A schema of another type than the format is a fault."""
    number = client.register_schema("other", Schema(json.dumps(JSON_SCHEMA), "JSON"))

    with pytest.raises(EventError, match="a schema of type JSON, where AVRO belongs; set"):
        read(reader_for(schema_registry.url, "avro"), frame(number) + b"{}")


@pytest.mark.parametrize("number", [0, 999_999, 2**31 - 1, 2**31, 2**32 - 1])
def test_unknown_id(schema_registry: SchemaRegistry, number: int) -> None:
    """An id that the registry does not know is a fault of the record."""
    with pytest.raises(EventError, match=f"schema id {number}: unknown to the registry") as error:
        read(reader_for(schema_registry.url), frame(number) + b"x")

    assert ("schema_id", True) == (error.value.code, "register the schema" in error.value.message)


def test_unknown_id_is_asked_for_again(
    schema_registry: SchemaRegistry, client: SchemaRegistryClient
) -> None:
    """An id counts as unknown for ten seconds: the schema may be registered meanwhile."""
    now = [0.0]
    registry = Registry({"url": schema_registry.url}, "orders", clock=lambda: now[0])
    number = client.register_schema("before", Schema('"int"', "AVRO")) + 1

    registry.prepare([number])
    client.register_schema("after", Schema('"double"', "AVRO"))
    registry.prepare([number])

    with pytest.raises(EventError, match="unknown to the registry"):
        registry.schema(number)
    now[0] = registry_module.UNKNOWN_SECONDS + 1
    registry.prepare([number])
    assert ("AVRO", '"double"') == registry.schema(number)[1:3]


def test_many_schemas(
    schema_registry: SchemaRegistry, client: SchemaRegistryClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More schemas than are kept are read all the same, and those of a batch without asking."""
    monkeypatch.setattr(registry_module, "MAX_SCHEMAS", 2)
    names = [f"R{k}" for k in range(5)]
    ids = [
        client.register_schema(
            "many-" + name,
            Schema(json.dumps({"type": "record", "name": name, "fields": []}), "AVRO"),
        )
        for name in names
    ]
    registry = Registry({"url": schema_registry.url}, "orders")

    registry.prepare(ids)

    monkeypatch.setattr(registry, "_fetch", None)
    assert names == [json.loads(registry.schema(number).text)["name"] for number in ids]


def test_registry_that_is_away_and_back(client: SchemaRegistryClient) -> None:
    """While the registry is away nothing is refused; what was prepared is read meanwhile."""
    registry = SchemaRegistry()
    reader = reader_for(registry.url, client={"timeout": 1})
    value = frame(1) + b"\x02"

    for _ in range(2):
        with pytest.raises(RegistryAway, match=r"gives no schema .*ConnectError.*start it") as away:
            reader.prepare([value])
        assert away.value.exit_code == Exit.BROKER
    try:
        registry.start()
        assert register(registry, '"int"') == 1
        reader.prepare([value])
        registry.suspend()
        assert reader.read(value, ()) == 1
        with pytest.raises(RegistryAway, match="Timeout"):
            reader.prepare([value, frame(2) + b"\x02"])
        registry.resume()
        assert register(registry, '"long"') == 2
        reader.prepare([value, frame(2) + b"\x04"])
        assert (1, 2) == (reader.read(value, ()), reader.read(frame(2) + b"\x04", ()))
        registry.stop()
        reader.prepare([value])
        assert reader.read(value, ()) == 1
    finally:
        registry.close()


def register(registry: SchemaRegistry, text: str) -> int:
    """Register an Avro schema."""
    with SchemaRegistryClient({"url": registry.url}) as client:
        return client.register_schema(f"subject-{text}", Schema(text, "AVRO"))


class Answer(BaseHTTPRequestHandler):
    """Answer what the server is set to."""

    def do_GET(self) -> None:
        """Answer any path."""
        status, body = self.server.answer  # type: ignore[attr-defined]
        self.server.seen.append(self.headers.get("Authorization"))  # type: ignore[attr-defined]
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Log nothing."""


@pytest.fixture
def server() -> Iterator[Any]:
    """A web server that answers what a test sets."""
    with HTTPServer(("127.0.0.1", 0), Answer) as server:
        server.seen = []  # type: ignore[attr-defined]
        server.url = f"http://127.0.0.1:{server.server_port}"  # type: ignore[attr-defined]
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (500, b'{"error_code": 50001, "message": "store"}'),
        (502, b"<html>bad gateway</html>"),
        (503, b""),
        (401, b'{"error_code": 401, "message": "unauthorized"}'),
        (403, b"no"),
        (404, b"<html>no such page</html>"),
        (404, b'{"error_code": 404, "message": "HTTP 404 Not Found"}'),
        (429, b"{}"),
        (200, b"<html>a page</html>"),
        (200, b""),
        (200, b"[]"),
    ],
)
def test_answers_that_are_no_schema(server: Any, status: int, body: bytes) -> None:
    """Only the registry's own word that it has no such schema makes a dead letter."""
    server.answer = status, body

    with pytest.raises(RegistryAway, match=r"correct events\.schema_registry"):
        reader_for(server.url).prepare([frame(5) + b"x"])


def test_credentials(server: Any) -> None:
    """Secrets of the settings reach the registry, and no message."""
    server.answer = 401, b'{"error_code": 401, "message": "no"}'
    reader = reader_for(server.url, client={"basic.auth.user.info": SecretStr("ann:pass")})

    with pytest.raises(RegistryAway) as away:
        reader.prepare([frame(5) + b"x"])

    assert server.seen == ["Basic YW5uOnBhc3M="]
    assert "pass" not in str(away.value)


def test_missing_package_in_mid_stream(server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the package of a schema's type the learner stops: no record is refused."""
    server.answer = 200, b'{"schema": "{}", "schemaType": "JSON"}'
    monkeypatch.setitem(sys.modules, "kaboost.service.events.json_schema", None)
    reader = reader_for(server.url)
    reader.prepare([frame(5) + b"{}"])

    with pytest.raises(ConfigError, match=r"pip install '\.\[json-schema\]'"):
        reader.read(frame(5) + b"{}", ())
