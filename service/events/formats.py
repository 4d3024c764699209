"""Choose the reader of a topic by its settings."""

from collections.abc import Callable
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

from kaboost.service.config.records import Events
from kaboost.service.errors import ConfigError, EventError
from kaboost.service.events.cloudevents import CloudEventsReader
from kaboost.service.events.debezium import DebeziumReader
from kaboost.service.events.json_reader import decode_json, decode_unframed
from kaboost.service.events.msgpack import decode_msgpack
from kaboost.service.events.reader import Decode, GuardedReader, PlainReader, Reader

GROUP = "kaboost.formats"  # of entry points: the settings to a Reader
NO_SCHEMA = (
    "events.format: {} needs a schema; set events.schema_registry: {{url: ...}} for records with "
    "the registry's frame, or events.schema_file for those without"
)
BOTH = (
    "events.schema_file: is not used with events.schema_registry with the format {}; remove "
    "one of the two"
)


def make_reader(events: Events, topic: str, max_bytes: int) -> Reader:
    """Make the reader of a topic.

    Parameters
    ----------
    events
        The settings.
    topic
        Where the records are from, for messages.
    max_bytes
        Of a record; a larger one is not looked at.

    Raises
    ------
    ConfigError
        If a setting or a package is missing.
    """
    build = _FORMATS.get(events.format)
    reader = build(events, topic) if build else _plug_in(events)
    if events.envelope == "debezium":
        reader = DebeziumReader(reader)
    elif events.envelope == "cloudevents":
        reader = CloudEventsReader(reader)
    return GuardedReader(reader, max_bytes, events.format)


def _auto(events: Events, topic: str) -> Reader:
    if events.schema_registry is None:
        return PlainReader(decode_unframed)
    return _framed(events, topic, ("AVRO", "PROTOBUF", "JSON"), decode_json)


def _json(events: Events, topic: str) -> Reader:
    return PlainReader(decode_unframed)


def _msgpack(events: Events, topic: str) -> Reader:
    return PlainReader(decode_msgpack)


def _avro(events: Events, topic: str) -> Reader:
    return _with_schema(events, topic, "AVRO")


def _json_schema(events: Events, topic: str) -> Reader:
    return _with_schema(events, topic, "JSON")


def _protobuf(events: Events, topic: str) -> Reader:
    if events.schema_registry is not None:
        return _framed(events, topic, ("PROTOBUF",), None)
    return PlainReader(_file_protobuf(events))


def _with_schema(events: Events, topic: str, kind: str) -> Reader:
    if events.schema_registry is not None:
        if events.schema_file is not None:
            raise ConfigError(BOTH.format(events.format))
        return _framed(events, topic, (kind,), None)
    content = _read_file(events)
    try:
        return PlainReader(_compiler(kind, events)(content.decode(), {}, "events.schema_file"))
    except (EventError, UnicodeDecodeError) as err:
        raise ConfigError(f"events.schema_file: {events.schema_file}: {err}") from err


def _framed(events: Events, topic: str, kinds: tuple[str, ...], plain: Decode | None) -> Reader:
    try:
        from kaboost.service.events.framed import FramedReader
        from kaboost.service.events.registry import RegisteredSchema, Registry
    except ImportError as err:
        extra = EXTRAS[kinds[0]]
        raise _missing("events.schema_registry", extra, err) from err

    def compiler(kind: str) -> Callable[[RegisteredSchema], Decode]:
        def compile_(schema: RegisteredSchema) -> Decode:
            make = _compiler(kind, events)
            return make(schema.text, schema.references, f"schema id {schema.id}")

        return compile_

    if len(kinds) == 1:
        _compiler(kinds[0], events)  # a missing package is found at the start
    registry = Registry(events.schema_registry or {}, topic)
    return FramedReader(registry, {kind: compiler(kind) for kind in kinds}, plain)


def _compiler(kind: str, events: Events) -> Callable[..., Decode]:
    """Return what makes a decoder of a schema's text; import it when it is needed."""
    try:
        if kind == "AVRO":
            from kaboost.service.events.avro import compile_avro

            return compile_avro
        if kind == "JSON":
            from kaboost.service.events.json_schema import compile_json_schema

            return compile_json_schema
        from kaboost.service.events.protobuf import SkipIndexes, compile_protobuf
    except ImportError as err:
        raise _missing(f"events.format: a schema of type {kind}", EXTRAS[kind], err) from err
    if events.schema_file is None:
        return compile_protobuf
    decode = _file_protobuf(events)
    return lambda _text, _references, place: SkipIndexes(decode, place)


def _file_protobuf(events: Events) -> Decode:
    try:
        from kaboost.service.events.protobuf import ProtobufDecoder, load_descriptor
    except ImportError as err:
        raise _missing("events.format: protobuf", EXTRAS["PROTOBUF"], err) from err
    content = _read_file(events)
    if events.message_type is None:
        raise ConfigError(
            "events.message_type: is missing; set it to the full name of the message, such as "
            "shop.Order"
        )
    try:
        return ProtobufDecoder(load_descriptor(content, events.message_type), "events.schema_file")
    except ValueError as err:
        raise ConfigError(f"events.schema_file: {events.schema_file} {err}") from err


def _read_file(events: Events) -> bytes:
    if events.schema_file is None:
        raise ConfigError(NO_SCHEMA.format(events.format))
    try:
        return Path(events.schema_file).read_bytes()
    except OSError as err:
        raise ConfigError(
            f"events.schema_file: cannot be read: {err}; correct the path, from where kaboost runs"
        ) from err


def _plug_in(events: Events) -> Reader:
    found: dict[str, EntryPoint] = {point.name: point for point in entry_points(group=GROUP)}
    point = found.get(events.format)
    if point is None:
        names = ", ".join([*_FORMATS, *sorted(found)])
        raise ConfigError(
            f"events.format: {events.format!r} is unknown; use {names}, or install a package with "
            f"an entry point of this name in the group {GROUP}"
        )
    try:
        make = point.load()
    except (ImportError, AttributeError) as err:
        raise ConfigError(
            f"events.format: {events.format}: {point.value} cannot be imported: {err}; repair the "
            "package of this entry point"
        ) from err
    reader: Reader = make(events)
    return reader


def _missing(what: str, extra: str, err: ImportError) -> ConfigError:
    return ConfigError(f"{what} needs {err.name}; run pip install '.[{extra}]'")


EXTRAS = {"AVRO": "avro", "JSON": "json-schema", "PROTOBUF": "protobuf"}
_FORMATS: dict[str, Callable[[Events, str], Reader]] = {
    "auto": _auto,
    "json": _json,
    "avro": _avro,
    "protobuf": _protobuf,
    "json_schema": _json_schema,
    "msgpack": _msgpack,
}


def is_plug_in(name: str) -> bool:
    """Return whether a format comes from another package."""
    return name not in _FORMATS
