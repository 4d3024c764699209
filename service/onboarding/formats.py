"""Guess the format and the envelope of records from their bytes and headers."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from kaboost.service.config.records import Events
from kaboost.service.errors import ConfigError, EventError, RegistryAway
from kaboost.service.events.formats import make_reader
from kaboost.service.events.frames import frame_id
from kaboost.service.events.reader import Skipped
from kaboost.service.onboarding.topic_sample import RawRecord

MAX_BYTES = 1_000_000


class Readable(NamedTuple):
    """How records are read, and what was read."""

    events: dict[str, Any]  # keys of the settings' section `events`: format, envelope, ...
    records: list[Any]
    faults: list[str]


def read_records(
    raws: Sequence[RawRecord], topic: str, registry: str | None, given: Mapping[str, Any]
) -> Readable:
    """Read records by the format that most of them have, in the envelope that most of them have.

    Parameters
    ----------
    raws
        The records.
    topic
        Where they are from, for messages.
    registry
        URL of the schema registry, if there is one.
    given
        Settings of the section `events` that are known already.

    Raises
    ------
    ConfigError
        If no record can be read.
    """
    events = dict(given)
    if registry is not None:
        events["schema_registry"] = {"url": registry}
    if "format" not in events:
        _refuse_unregistered(raws, topic, registry)
        events["format"] = "msgpack" if _are_msgpack(raws, registry) else "auto"
    plain = _read(raws, topic, events)
    if "envelope" not in events:
        events["envelope"] = _envelope(raws, plain.records)
    readable = plain if events["envelope"] == "none" else _read(raws, topic, events)
    if not readable.records:
        why = readable.faults[0] if readable.faults else "it has none yet"
        raise ConfigError(
            f"{topic}: no record can be read: {why}; send records, or set --format, --schema-file "
            "and --message-type"
        )
    return readable


def _read(raws: Sequence[RawRecord], topic: str, events: dict[str, Any]) -> Readable:
    reader = make_reader(Events(**events), topic, MAX_BYTES)
    records, faults = [], []
    try:
        reader.prepare([raw.value for raw in raws])
    except RegistryAway as err:
        raise ConfigError(f"--registry: {err}") from err
    for raw in raws:
        try:
            records.append(reader.read(raw.value, raw.headers))
        except EventError as err:
            faults.append(f"{err.code}: {err}")
        except Skipped:
            pass
    return Readable(events, [r for r in records if isinstance(r, Mapping)], faults)


def _refuse_unregistered(raws: Sequence[RawRecord], topic: str, registry: str | None) -> None:
    ids = [number for raw in raws if raw.value and (number := frame_id(raw.value)) is not None]
    if registry is None and 2 * len(ids) > len(raws):
        raise ConfigError(
            f"{topic}: records begin with a schema-registry frame, schema id {ids[0]}: pass "
            "--registry URL"
        )


def _are_msgpack(raws: Sequence[RawRecord], registry: str | None) -> bool:
    """Return whether more are objects in MessagePack than in JSON; maps begin with these bytes."""
    maps = [v for v in (raw.value for raw in raws) if v and (0x80 <= v[0] <= 0x8F or v[0] >= 0xDE)]
    return registry is None and 2 * len(maps) > len(raws)


def _envelope(raws: Sequence[RawRecord], records: Sequence[Any]) -> str:
    binary = sum(any(name == "ce_specversion" for name, _ in raw.headers) for raw in raws)
    structured = sum("specversion" in r and "source" in r and "type" in r for r in records)
    if 2 * (binary + structured) > len(raws):
        return "cloudevents"
    return "debezium" if records and 2 * sum(map(_is_change, records)) > len(records) else "none"


def _is_change(record: Mapping[str, Any]) -> bool:
    inner = record["payload"] if record.keys() == {"schema", "payload"} else record
    return inner is None or (isinstance(inner, Mapping) and "op" in inner and "after" in inner)
