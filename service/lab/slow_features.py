"""Which features take the most time to decode and encode."""

import time
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from confluent_kafka import Message

from kaboost.models.model import Model
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
    """Return the slowest features, each with the microseconds that an event takes which has it
    alone; the events are the last ones.
    """
    rows = list(_features(settings, model, messages[-ROWS:]))
    if not rows:
        return []
    plain = settings.model_copy(update={"events": type(settings.events)()})
    kinds = dict(list(model.kinds.items())[:MOST_FEATURES])
    taken = {name: _seconds(model, plain, rows, (name, kind)) for name, kind in kinds.items()}
    slowest = sorted(taken, key=lambda name: -taken[name])[:SHOWN]
    return [
        {"name": name, "kind": kinds[name], "microseconds": round(1e6 * taken[name], 3)}
        for name in slowest
    ]


def _seconds(
    model: Model, settings: Settings, rows: Sequence[Mapping[str, Any]], feature: tuple[str, str]
) -> float:
    """Return the seconds that decoding and encoding an event of one feature takes."""
    name, kind = feature
    decoder = make_decoder({name: kind}, model.labels, settings)
    encoder = type(model.encoder)({name: kind})
    label: Any = model.classes_[0] if model.classes_ else 0.0
    values = [
        msgspec.json.encode({"features": {name: row.get(name)}, "label": label}) for row in rows
    ]
    rounds = []
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        encoder.encode_many(decoder.decode(values).table)
        rounds.append(time.perf_counter() - begin)
    return min(rounds) / len(rows)


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
