"""`kaboost init` and `kaboost doctor` on formats, envelopes and several partitions."""

import json
import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

import msgspec
import pytest
import yaml
from confluent_kafka import Message, TopicPartition
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from kaboost.service.config.settings import Settings, load
from kaboost.service.errors import BrokerError
from kaboost.service.onboarding import topic_sample
from kaboost.service.onboarding.formats import Readable
from kaboost.service.onboarding.init import Request
from kaboost.service.onboarding.init import run as run_init
from kaboost.service.onboarding.late_labels import join_labels
from kaboost.service.onboarding.plan import Given
from kaboost.service.onboarding.report import split_remedy
from kaboost.service.onboarding.topic_sample import read_first
from tests.kafka.broker import Broker, Reachable
from tests.kafka.client import create_topic, produce
from tests.kafka.registry import SchemaRegistry
from tests.service.samples import order_class
from tests.service.test_onboarding import details, doctor, folder, run, statuses

__all__ = ["folder"]  # a fixture
Send = Callable[..., None]
COUNT = 60
BY_TOPIC = {"subject.name.strategy.type": "TOPIC"}
AVRO = {
    "type": "record",
    "name": "Payment",
    "fields": [
        {"name": "payment_id", "type": {"type": "string", "logicalType": "uuid"}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "amount", "type": {
            "type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "channel", "type": {"type": "enum", "name": "C", "symbols": ["web", "app"]}},
        {"name": "card", "type": {"type": "record", "name": "Card", "fields": [
            {"name": "country", "type": ["null", "string"]}]}},
        {"name": "is_fraud", "type": "boolean"},
    ],
}  # fmt: skip
JSON_SCHEMA = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "Click",
    "type": "object",
    "properties": {
        "event_id": {"type": "string"},
        "ts": {"type": "integer"},
        "price": {"type": "number"},
        "campaign": {"type": "string"},
        "clicked": {"type": "integer"},
    },
    "required": ["event_id", "clicked"],
}


class Record(NamedTuple):
    """A value and its headers."""

    value: bytes
    headers: list[tuple[str, bytes]] = []  # noqa: RUF012 # never changed


class Case(NamedTuple):
    """Records of a format, what a user passes, and what has to be found."""

    make: Callable[[SchemaRegistryClient, random.Random], Iterator[Record]]
    registry: bool
    flags: tuple[str, ...]
    events: dict[str, Any]  # settings
    kinds: dict[str, str]


def context(topic: str) -> SerializationContext:
    """The place of a value, for serialisers."""
    return SerializationContext(topic, MessageField.VALUE)


def avro(client: SchemaRegistryClient, draw: random.Random) -> Iterator[Record]:
    """Payments: nested, with a decimal, an enum, a union with null and a UUID."""
    write = AvroSerializer(client, json.dumps(AVRO), conf=BY_TOPIC)
    for k in range(COUNT):
        record = {
            "payment_id": UUID(int=draw.getrandbits(128), version=4),
            "at": datetime.fromtimestamp(1_760_000_000 + k, UTC),
            "amount": Decimal(draw.randrange(100_000)).scaleb(-2),
            "channel": draw.choice(["web", "app"]),
            "card": {"country": draw.choice(["PT", "DE", None])},
            "is_fraud": k % 4 == 0,
        }
        yield Record(write(record, context("payments-avro")))


def json_schema(client: SchemaRegistryClient, draw: random.Random) -> Iterator[Record]:
    """Clicks with a registered JSON Schema."""
    write = JSONSerializer(json.dumps(JSON_SCHEMA), client, conf=BY_TOPIC)
    for record in clicks(draw):
        yield Record(write(record, context("clicks-json")))


def protobuf(client: SchemaRegistryClient, draw: random.Random) -> Iterator[Record]:
    """Orders with a registered descriptor."""
    write = ProtobufSerializer(order_class(), client, conf=BY_TOPIC)
    for k in range(COUNT):
        order = order_class()(id=10_000 + k, amount=draw.random(), state=k % 2, vip=k % 3 == 0)
        order.customer.age = draw.randrange(18, 90)
        order.at.seconds = 1_760_000_000 + k
        yield Record(write(order, context("orders-protobuf")))


def msgpack(_: SchemaRegistryClient, draw: random.Random) -> Iterator[Record]:
    """Clicks in MessagePack."""
    return (Record(msgspec.msgpack.encode(record)) for record in clicks(draw))


def binary_cloudevents(_: SchemaRegistryClient, draw: random.Random) -> Iterator[Record]:
    """Clicks as the data of CloudEvents in binary mode: id and time are headers."""
    for k, record in enumerate(clicks(draw)):
        attributes = {"specversion": "1.0", "type": "click", "source": "/shop", "id": f"e-{k}"}
        attributes["time"] = f"2026-11-20T10:00:{k % 60:02d}Z"
        headers = [(f"ce_{name}", value.encode()) for name, value in attributes.items()]
        headers.append(("content-type", b"application/json"))
        data = {name: record[name] for name in ("price", "campaign", "clicked")}
        yield Record(json.dumps(data).encode(), headers)


def clicks(draw: random.Random) -> Iterator[dict[str, Any]]:
    """Draw flat records."""
    for k in range(COUNT):
        yield {
            "event_id": f"{draw.getrandbits(64):016x}",
            "ts": 1_760_000_000_000 + 1000 * k,
            "price": round(draw.random(), 3),
            "campaign": draw.choice(["spring", "sale", "none"]),
            "clicked": int(draw.random() < 0.3),
        }


CLICK_PATHS = {"label": "clicked", "id": "event_id", "timestamp": "ts"}
CLICK_KINDS = {"price": "number", "campaign": "category"}
CASES = {
    "avro": Case(
        avro, True, (),
        {"label": "is_fraud", "id": "payment_id", "timestamp": "at"},
        {"amount": "number", "channel": "category", "card.country": "category"},
    ),
    "json schema": Case(json_schema, True, (), CLICK_PATHS, CLICK_KINDS),
    "protobuf": Case(
        protobuf, True, ("--label", "vip"),
        {"label": "vip", "id": "id", "timestamp": "at"},
        {"amount": "number", "state": "category", "customer.age": "number"},
    ),
    "msgpack": Case(msgpack, False, (), {**CLICK_PATHS, "format": "msgpack"}, CLICK_KINDS),
    "binary cloudevents": Case(
        binary_cloudevents, False, (),
        {"label": "data.clicked", "id": "id", "timestamp": "time", "envelope": "cloudevents"},
        CLICK_KINDS,
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def client(schema_registry: SchemaRegistry) -> Iterator[SchemaRegistryClient]:
    """A producer's client."""
    with SchemaRegistryClient({"url": schema_registry.url}) as client:
        yield client


@pytest.mark.parametrize("name", CASES)
def test_a_format_is_found(
    name: str,
    client: SchemaRegistryClient,
    schema_registry: SchemaRegistry,
    make_topic: Callable[..., str],
    broker: Reachable,
    folder: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """On a topic of three partitions, one of them empty: all records can be learned."""
    case, topic = CASES[name], make_topic(partitions=3)
    for k, record in enumerate(case.make(client, random.Random(4))):
        produce(broker.bootstrap, topic, [record.value], 2 * (k % 2), headers=record.headers)

    place = ["--bootstrap", broker.bootstrap, "--topic", topic]
    place += ["--registry", schema_registry.url] if case.registry else []
    assert 0 == run("init", *place, *case.flags, "--yes")

    shown = capsys.readouterr().out
    assert f"{COUNT} of {COUNT} records can be learned" in shown
    settings = load(folder / "kaboost.yaml")
    events = settings.events.model_dump()
    assert case.events == {key: events[key] for key in case.events}
    assert case.kinds.items() <= settings.features.columns.items()
    code, report = doctor(capsys)
    found = {**statuses(report), "compiled kernels": "green"}
    assert (0, {"green"}) == (code, set(found.values())), details(report)
    assert f"{COUNT} of the first {COUNT}" in details(report)["records"]


def test_silent_partitions_share_one_deadline(
    own_broker: Broker, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Trap: twenty partitions of a broker that stopped took twenty timeouts, and then looked like
    an empty topic.
    """
    topic = create_topic(own_broker.bootstrap, partitions=20)
    produce(own_broker.bootstrap, topic, [b"{}"])
    known = topic_sample.list_topics

    def list_and_suspend(*arguments: Any) -> dict[str, list[int]]:
        found = known(*arguments)
        os.kill(own_broker.pid, signal.SIGSTOP)
        return found

    monkeypatch.setattr(topic_sample, "list_topics", list_and_suspend)
    monkeypatch.setattr(topic_sample, "READ_SECONDS", 1.0)
    begun = time.monotonic()
    try:
        with pytest.raises(BrokerError, match=r"0, 1, 2.* did not answer within 1 s: see whether"):
            read_first({"bootstrap.servers": own_broker.bootstrap}, topic, 100)
        assert time.monotonic() - begun < 4.0
    finally:
        os.kill(own_broker.pid, signal.SIGCONT)


class HalfAsleep:
    """A consumer of two partitions of which the second never answers."""

    def __init__(self) -> None:
        self.left = [Message(topic="t", partition=0, offset=k, value=b"{}") for k in range(3)]  # type: ignore[call-arg]

    def assign(self, partitions: list[TopicPartition]) -> None:
        """Begin."""
        assert [0, 1] == [at.partition for at in partitions]

    def poll(self, timeout: float) -> Message | None:
        """Give the next record, or wait in vain."""
        if not self.left:
            time.sleep(timeout)
            return None
        return self.left.pop()

    def consume(self, count: int, timeout: float) -> list[Message]:
        """Have nothing more at once."""
        return []


def test_a_silent_partition_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the others have is used."""
    monkeypatch.setattr(topic_sample, "READ_SECONDS", 0.2)
    consumer: Any = HalfAsleep()
    sample = topic_sample._read(consumer, "t", [0, 1], 4)

    assert (2, [1]) == (len(sample.records), sample.silent)
    assert "partitions 1 of t did not answer within 0.2 s" == sample.describe_silent("t")


@pytest.mark.parametrize(
    "marked",
    [
        "no broker at h:1 within 5 s (ssl: x): |start it, or correct a: b",
        'features: is missing; |send an event such as {"features": {"a": 1}}',
        "#/a: not in features.schema; |leave it out, or set features.unknown: ignore",
        "label: is missing; the record has a, b: |send it, or set events.label to its path",
        "begins with a schema-registry frame, schema id 5: |set events.schema_registry",
        "format avro needs fastavro; |run pip install '.[avro]'",
    ],
)
def test_remedies_are_whole(marked: str) -> None:
    """Trap: they were cut at the first colon, which is often within them."""
    what, remedy = marked.split("|")

    assert (what[:-2], remedy) == split_remedy(what + remedy, "otherwise")
    assert ("x: none in it; at all", "do") == split_remedy("x: none in it; at all", "do")


def test_the_doctor_gives_whole_remedies(
    topic: str, broker: Reachable, send: Send, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of records, and of what keeps it from reading them."""
    send(topic, [b'{"features": {"b": 1}, "label": 1}', b"\0\0\0\0\x05abc"])
    tree: dict[str, Any] = {"task": {"kind": "binary"}, "features": {"schema": {"a": "number"}}}
    tree["kafka"] = {"bootstrap_servers": broker.bootstrap, "topic": topic}
    (folder / "kaboost.yaml").write_text(yaml.safe_dump(tree))
    _, report = doctor(capsys)
    remedies = {check["name"]: check["remedy"] for check in report["checks"]}

    assert (
        "leave it out, or set features.unknown: ignore"
        == remedies["records rejected: feature_unknown"]
    )
    assert "set events.schema_registry" == remedies["records rejected: json"]
    assert "such as: " in details(report)["records rejected: json"]


OPTIONAL = {"--id", "--timestamp"}


class Answers:
    """Answer questions, and note them with their defaults."""

    def __init__(self, **answers: str) -> None:
        self.answers = {f"--{flag.replace('_', '-')}": text for flag, text in answers.items()}
        self.asked: dict[str, tuple[str, str | None]] = {}

    def __call__(
        self, question: str, default: str | None, flag: str, check: Callable[[str], object]
    ) -> str:
        """Give the answer, or take the default."""
        self.asked[flag] = question, default
        answer = self.answers.get(flag, default)
        assert answer is not None, question
        check(answer)
        return answer


def unclear(count: int = 60) -> list[dict[str, Any]]:
    """Records whose id and time have no telling names."""
    draw = random.Random(8)
    return [
        {
            "voucher": f"v{draw.getrandbits(40):x}",
            "promised": f"2026-11-{1 + k % 28:02d}T10:00:00Z",
            "amount": draw.random(),
            "label": k % 2,
        }
        for k in range(count)
    ]


def ask_init(folder: Path, ask: Answers, **given: str) -> Settings:
    """Run init on a file of unclear records."""
    path = folder / "a.jsonl"
    path.write_text("\n".join(map(json.dumps, unclear())))
    output = folder / "kaboost.yaml"
    request = Request("127.0.0.1:9", None, path, None, output, True, Given(**given))
    return run_init(request, ask, lambda text: None)


def test_id_and_time_are_asked_for(folder: Path) -> None:
    """Where nothing tells that a column is the id or the time; the default is that none is."""
    silent = Answers()
    settings = ask_init(folder, silent)
    assert (
        {"--task", "--label", "--id", "--timestamp"}
        >= silent.asked.keys()
        >= {"--id", "--timestamp"}
    )
    question, default = silent.asked["--id"]
    assert ("none", True) == (default, "(candidates: voucher; none for none)" in question)
    assert (None, None) == (settings.events.id, settings.events.timestamp)

    settings = ask_init(folder, Answers(id="voucher", timestamp="promised"))
    assert ("voucher", "promised") == (settings.events.id, settings.events.timestamp)

    flags = Answers()
    settings = ask_init(folder, flags, id="voucher", timestamp="none")
    assert OPTIONAL.isdisjoint(flags.asked)
    assert ("voucher", None) == (settings.events.id, settings.events.timestamp)


def test_the_id_of_labels_is_asked_for() -> None:
    """Where both topics share no values yet, each id is asked for, or given by its flag."""
    labels = Readable(
        {}, [{"ref": f"x{k}", "state": k % 2, "due": 1_760_000_000 + k} for k in range(40)], []
    )
    ask = Answers(id="voucher", labels_id="ref")
    joined, id_ = join_labels(unclear(), "l", labels, Given(label="state"), ask)

    assert ("voucher", "ref", "state") == (id_, joined.id.name, joined.label.name)
    assert "no field of both topics" in ask.asked["--id"][0]
    ask = Answers()
    given = Given(label="state", id="voucher", labels_id="ref", labels_timestamp="due")
    joined, id_ = join_labels(unclear(), "l", labels, given, ask)
    assert joined.timestamp is not None
    assert ("voucher", "ref", "due", {}) == (id_, joined.id.name, joined.timestamp.name, ask.asked)


def test_client_keys_are_written(
    topic: str, broker: Reachable, send: Send, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The file reaches the broker as `init` did; a secret is not in it, but how to give it is."""
    send(topic, [json.dumps(record).encode() for record in unclear()])
    keys = ["security.protocol=plaintext", "client.id=a: b", "sasl.password=hidden"]
    place = ["--bootstrap", broker.bootstrap, "--topic", topic]
    assert 0 == run("init", *place, "--yes", *[f"--client={key}" for key in keys])

    text = (folder / "kaboost.yaml").read_text()
    assert "hidden" not in text
    assert "# sasl.password is a secret: set KABOOST_KAFKA__EXTRA__SASL_PASSWORD" in text
    extra = load(folder / "kaboost.yaml").kafka.extra
    assert {"security.protocol": "plaintext", "client.id": "a: b"} == extra
    code, _ = doctor(capsys)
    assert 0 == code
    only_secret = ["--output", "k.yaml", "--client=sasl.password=hidden"]
    assert 0 == run("init", *place, "--yes", *only_secret)
    assert {} == load(folder / "k.yaml").kafka.extra
