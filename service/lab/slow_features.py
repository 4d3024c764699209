"""Which features take the most time to decode and encode."""

import time
from collections.abc import Sequence
from typing import Any

import msgspec
from confluent_kafka import Message

from kaboost.models.model import Model
from kaboost.models.types import Vec
from kaboost.service.config.settings import Settings
from kaboost.service.errors import EventError
from kaboost.service.events.decoders import make_decoder
from kaboost.service.events.formats import make_reader
from kaboost.service.events.mapping import RecordMapping
from kaboost.service.events.reader import Skipped

ROWS = 300
ROUNDS = 3
SHOWN = 10
MOST_FEATURES = 200  # measured


def slow_features(
    model: Model, settings: Settings, messages: Sequence[Message]
) -> list[dict[str, Any]]:
    """Return the slowest features, each with the microseconds that an event takes with it alone.

    The events are the last ones; what they take without any feature is taken off.
    """
    rows = list(_features(settings, model, messages[-ROWS:]))
    if not rows:
        return []
    plain = settings.model_copy(update={"events": type(settings.events)()})
    decoder = make_decoder(model.encoder.schema, model.labels, plain)
    decoder.freeze()
    label: Any = model.classes_[0] if model.classes_ else 0.0

    def measure(names: frozenset[str]) -> float:
        values = [
            msgspec.json.encode({
                "features": {k: v for k, v in row.items() if k in names}, "label": label
            })
            for row in rows
        ]  # fmt: skip
        return min(_seconds(decoder, model, values) for _ in range(ROUNDS)) / len(rows)

    base = measure(frozenset())
    kinds = dict(list(model.kinds.items())[:MOST_FEATURES])
    taken = {name: max(measure(frozenset((name,))) - base, 0.0) for name in kinds}
    slowest = sorted(taken, key=lambda name: -taken[name])[:SHOWN]
    return [
        {"name": name, "kind": kinds[name], "microseconds": round(1e6 * taken[name], 3)}
        for name in slowest
        if taken[name] > 0.0
    ]


def _seconds(decoder: Any, model: Model, values: list[bytes]) -> float:
    begin = time.perf_counter()
    table = decoder.decode(values).table
    encoded: Vec = model.encoder.encode_many(table)
    del encoded
    return time.perf_counter() - begin


def _features(settings: Settings, model: Model, messages: Sequence[Message]) -> Any:
    """Yield the features of records that can be read."""
    reader = make_reader(settings.events, settings.kafka.topic, settings.kafka.max_event_bytes)
    mapping, schema = RecordMapping(settings.events), model.encoder.schema
    for message in messages:
        try:
            record = reader.read(message.value(), ())
            if settings.events.is_mapped:
                yield mapping.envelope(record, schema.kinds, schema.open)["features"]
            else:
                yield record["features"] if isinstance(record, dict) else {}
        except (EventError, Skipped, KeyError):
            continue
