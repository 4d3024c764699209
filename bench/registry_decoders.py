"""Framed Avro records: our reader against confluent-kafka's deserialiser, in one run.

`python -m bench.registry_decoders` decodes 100,000 flat records of 20 doubles, a string and an id.
Both know the schema already; neither asks a registry.
"""

from __future__ import annotations

import io
import json
import statistics
import struct
import sys
import time
from collections.abc import Callable
from typing import Any

import fastavro
import numpy as np
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext

from kaboost.service.events.avro import compile_avro
from kaboost.service.events.frames import FRAME

RECORDS, ROUNDS = 100_000, 5
NAMES = [f"x{j}" for j in range(20)]
SCHEMA = {
    "type": "record",
    "name": "Payment",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "country", "type": "string"},
        *({"name": name, "type": "double"} for name in NAMES),
    ],
}


def records(number: int) -> list[bytes]:
    """Draw framed records of a schema id."""
    parsed, head = fastavro.parse_schema(SCHEMA), struct.pack(">bI", 0, number)
    drawn = np.random.default_rng(0).normal(size=(RECORDS, len(NAMES))).tolist()
    values = []
    for k, row in enumerate(drawn):
        stream = io.BytesIO()
        record = {"id": k, "country": "PT", **dict(zip(NAMES, row, strict=True))}
        fastavro.schemaless_writer(stream, parsed, record)
        values.append(head + stream.getvalue())
    return values


def seconds(decode: Callable[[bytes], Any], values: list[bytes]) -> float:
    """Return the CPU time of one round."""
    start = time.process_time()
    for value in values:
        decode(value)
    return time.process_time() - start


def main() -> int:
    """Print records per CPU second of both, and their ratio."""
    text = json.dumps(SCHEMA)
    client = SchemaRegistryClient.new_client({"url": "mock://"})
    values = records(client.register_schema("payments-value", Schema(text, "AVRO")))
    theirs = AvroDeserializer(client)
    context = SerializationContext("payments", MessageField.VALUE)
    ours = compile_avro(text, {}, "schema id 1")
    assert theirs(values[7], context) == ours(values[7][FRAME:])
    rounds = [
        (
            seconds(lambda value: ours(value[FRAME:]), values),
            seconds(lambda value: theirs(value, context), values),
        )
        for _ in range(ROUNDS)
    ]
    own, other = (statistics.median(column) for column in zip(*rounds, strict=True))
    print(
        f"ours {RECORDS / own:,.0f}/s, confluent-kafka {RECORDS / other:,.0f}/s: {other / own:.1f}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
