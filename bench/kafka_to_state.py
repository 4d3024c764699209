"""Kafka to state: the learner against a loop that only consumes, decodes and fills an array, side
by side; then the learner on the same events in other encodings.

`python -m bench.kafka_to_state` starts a real broker, fills a topic, and lets both read it in turn.
The second table needs a real schema registry; `--no-encodings` leaves it out.
"""

from __future__ import annotations

import argparse
import io
import json
import statistics
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import fastavro
import msgspec
import numpy as np
import yaml
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from prometheus_client import CollectorRegistry

from kaboost.models.features.labels import labels
from kaboost.service.config import settings as config
from kaboost.service.events.json import JsonDecoder
from kaboost.service.kafka.consumer import DEFAULT_CONFIG, REQUIRED_CONFIG
from kaboost.service.kafka.dead_letters import DeadLetters
from kaboost.service.learner.inputs import Inputs
from kaboost.service.learner.loop import LearnerLoop
from kaboost.service.learner.parts import make_parts
from kaboost.service.learner.startup import RestoreFromCheckpoint
from kaboost.service.metrics import learner_metrics
from kaboost.service.processes.roles import collect_garbage_rarely
from tests.kafka.broker import Broker
from tests.kafka.registry import SchemaRegistry

MODEL = {"rule": "sgb", "bank": {"kind": "linear", "n": 20, "step": "sgd", "lr": 0.005}}
CITIES = [f"city-{k}" for k in range(40)]


def wide(events: int) -> tuple[dict[str, str], list[bytes]]:
    """54 numbers an event."""
    X = np.random.default_rng(7).standard_normal((events, 54)).round(4)
    schema = {f"x{j}": "number" for j in range(54)}
    return schema, [write(dict(zip(schema, row, strict=True)), row[0] > 0) for row in X.tolist()]


class Encoded(NamedTuple):
    """Events in one encoding, and the settings that read it."""

    name: str
    values: list[bytes]
    settings: dict[str, Any]  # the section `events`


def mixed(events: int) -> tuple[dict[str, str], list[bytes]]:
    """10 features an event: 5 numbers, 4 categories, a boolean; one value in ten is missing."""
    schema, rows = mixed_rows(events)
    return schema, [write(features, label) for features, label in rows]


def mixed_rows(events: int) -> tuple[dict[str, str], list[tuple[dict[str, Any], bool]]]:
    """Draw the features and labels of `mixed`."""
    r = np.random.default_rng(7)
    schema = {f"x{j}": "number" for j in range(5)} | {f"c{j}": "category" for j in range(4)}
    schema["flag"] = "boolean"
    X, gone = r.standard_normal((events, 5)).round(4).tolist(), r.random((events, 10)) < 0.1
    C = r.integers(0, 40, (events, 4)).tolist()
    rows = []
    for k in range(events):
        row: list[Any] = [*X[k], *(CITIES[i] for i in C[k]), k % 3 == 0]
        present = {n: v for n, v, no in zip(schema, row, gone[k], strict=True) if not no}
        rows.append((present, X[k][0] > 0))
    return schema, rows


def encodings(events: int, registry: str) -> tuple[dict[str, str], list[Encoded]]:
    """Encode the events of `mixed` as envelope, flat record, and Avro with a registry's frame."""
    schema, rows = mixed_rows(events)
    flat = [{**features, "label": int(label)} for features, label in rows]
    paths = {"features": "*", "label": "label"}
    return schema, [
        Encoded("JSON, the envelope of docs/events.md", [write(*row) for row in rows], {}),
        Encoded("JSON, flat, mapped", [json.dumps(row).encode() for row in flat], paths),
        Encoded(
            "Avro, flat, with a registry's frame",
            avro(schema, flat, registry),
            {**paths, "schema_registry": {"url": registry}},
        ),
    ]


def avro(schema: dict[str, str], records: list[dict[str, Any]], registry: str) -> list[bytes]:
    """Register a schema in which every feature may be null; write the records with its frame."""
    kinds = {"number": "double", "category": "string", "boolean": "boolean"}
    fields: list[dict[str, Any]] = [
        {"name": name, "type": ["null", kinds[kind]], "default": None}
        for name, kind in schema.items()
    ]
    whole = {
        "type": "record",
        "name": "Event",
        "fields": [*fields, {"name": "label", "type": "int"}],
    }
    with SchemaRegistryClient({"url": registry}) as client:
        number = client.register_schema("bench-value", Schema(json.dumps(whole), "AVRO"))
    parsed = fastavro.parse_schema(whole)
    values = []
    for record in records:
        stream = io.BytesIO()
        stream.write(b"\0" + number.to_bytes(4, "big"))
        fastavro.schemaless_writer(stream, parsed, record)
        values.append(stream.getvalue())
    return values


def write(features: dict[str, Any], label: bool) -> bytes:
    return json.dumps({"features": features, "label": int(label)}).encode()


def fill(bootstrap: str, topic: str, values: list[bytes]) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.create_topics([NewTopic(topic, 1, 1)]).values():
        future.result(30)
    client = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20})
    for k, value in enumerate(values):
        client.produce(topic, value, partition=0)
        if k % 1000 == 0:
            client.poll(0.01)
    client.flush(60)


def ceiling(bootstrap: str, topic: str, schema: dict[str, str], events: int) -> float:
    """Consume, decode into the same type, fill a float array; return the seconds it took.

    A category is the number of its value, in order of first sight.
    """
    decoder = JsonDecoder(schema, labels("binary"))
    decode, astuple = decoder._strict.decode, msgspec.structs.astuple
    numbers = sum(kind != "category" for kind in schema.values())
    seen_values = [defaultdict(count().__next__) for _ in range(len(schema) - numbers)]
    client = Consumer(
        {**DEFAULT_CONFIG, **REQUIRED_CONFIG, "bootstrap.servers": bootstrap, "group.id": "ceiling"}
    )
    client.assign([TopicPartition(topic, 0, 0)])
    seen, begun = 0, time.perf_counter()
    while seen < events:
        first = client.poll(0.1)
        if first is None:
            continue
        batch = [decode(m.value()) for m in (first, *client.consume(1999, 0))]
        rows = [astuple(e.features) for e in batch]
        filled = np.empty((len(rows), len(schema)))
        filled[:, :numbers] = [row[:numbers] for row in rows]
        for j, codes in enumerate(seen_values, numbers):
            filled[:, j] = [codes[row[j]] for row in rows]
        seen += len(batch)
    spent = time.perf_counter() - begun
    client.close()
    return spent


def learner(
    bootstrap: str,
    topic: str,
    schema: dict[str, str],
    events: int,
    section: dict[str, Any] | None = None,
) -> float:
    """The product itself, snapshots and checkpoints on; return the seconds of its loop."""
    with tempfile.TemporaryDirectory() as folder:
        settings = configure(Path(folder), bootstrap, topic, schema, section or {})
        metrics, stop = learner_metrics(CollectorRegistry()), threading.Event()
        inputs = Inputs(settings, metrics)
        letters = DeadLetters(
            settings.kafka.client(), settings.kafka.dlq, 5.0, metrics.dead_letters
        )
        parts = make_parts(settings, metrics)
        loop = LearnerLoop(parts, inputs, letters, stop)
        loop.begin(RestoreFromCheckpoint(parts, cold_start=True))
        watcher = threading.Thread(target=watch, args=(loop, events, stop))
        begun = time.perf_counter()
        watcher.start()
        loop.learn()
        spent = time.perf_counter() - begun
        watcher.join()
        letters.close()
        inputs.close()
        return spent


def configure(
    folder: Path, bootstrap: str, topic: str, schema: dict[str, str], section: dict[str, Any]
) -> config.Settings:
    path = folder / "kaboost.yaml"
    path.write_text(
        yaml.safe_dump(
            {
                "kafka": {"bootstrap_servers": bootstrap, "topic": topic},
                "task": {"kind": "binary"},
                "features": {"schema": schema},
                "events": section,
                "model": MODEL,
                "snapshots": {"directory": str(folder / "snapshots")},
                "checkpoints": {"directory": str(folder / "checkpoints")},
            },
            sort_keys=False,
        )
    )
    return config.load(path)


def watch(loop: LearnerLoop, events: int, stop: threading.Event) -> None:
    while loop.trainer.events_learned < events:
        time.sleep(0.002)
    stop.set()


def main() -> None:
    """Print a table: events a second of both, and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--no-encodings", action="store_true")
    asked = parser.parse_args()
    collect_garbage_rarely()  # as the learner's process does; the ceiling gains as well
    broker = Broker()
    broker.start()
    try:
        print("| events | ceiling, events/s | learner, events/s | ratio |\n|---|---|---|---|")
        kinds: tuple[Callable[[int], Any], ...] = (wide, mixed)
        for kind in kinds:
            schema, values = kind(asked.events)
            fill(broker.bootstrap, kind.__name__, values)
            one, other = [], []
            for _ in range(asked.rounds):
                one.append(ceiling(broker.bootstrap, kind.__name__, schema, asked.events))
                other.append(learner(broker.bootstrap, kind.__name__, schema, asked.events))
            ratio = statistics.median(a / b for a, b in zip(one, other, strict=True))
            speeds = (asked.events / statistics.median(times) for times in (one, other))
            print(f"| {kind.__doc__} | {' | '.join(f'{s:,.0f}' for s in speeds)} | {ratio:.2f} |")
            sys.stdout.flush()
        if not asked.no_encodings:
            compare_encodings(broker.bootstrap, asked.events, asked.rounds)
    finally:
        broker.close()


def compare_encodings(bootstrap: str, events: int, rounds: int) -> None:
    """Print a table: events a second in each encoding, and its share of the envelope's rate."""
    with closing(SchemaRegistry()) as registry:
        registry.start()
        schema, encoded = encodings(events, registry.url)
        for k, each in enumerate(encoded):
            fill(bootstrap, f"encoding-{k}", each.values)
        seconds = [
            [
                learner(bootstrap, f"encoding-{k}", schema, events, each.settings)
                for k, each in enumerate(encoded)
            ]
            for _ in range(rounds)
        ]
    print("\n| encoding | bytes | learner, events/s | of the first |\n|---|---|---|---|")
    for k, each in enumerate(encoded):
        rate = events / statistics.median(times[k] for times in seconds)
        share = statistics.median(times[0] / times[k] for times in seconds)
        size = sum(map(len, each.values)) / events
        print(f"| {each.name} | {size:.0f} | {rate:,.0f} | {share:.2f} |")


if __name__ == "__main__":
    main()
