"""Protobuf messages as plain values."""

from collections.abc import Callable, Iterable
from datetime import date, timedelta
from decimal import Decimal
from functools import lru_cache
from typing import Any, NamedTuple

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.unknown_fields import UnknownFieldSet

from kaboost.service.events.numbers import MAX_SCALE, datetime_of, decimal_of

MESSAGES = (FieldDescriptor.TYPE_MESSAGE, FieldDescriptor.TYPE_GROUP)
ENUM = FieldDescriptor.TYPE_ENUM
WIRE_TYPES = {0: "a varint", 1: "64 bits", 2: "a length and bytes", 3: "a group", 5: "32 bits"}
NANOS = 1_000_000_000


def to_plain(message: Any) -> Any:
    """Return a message as a dict by field name; well-known types as what they stand for.

    A field that is not there is None where Protobuf tells the two apart (messages, `optional`,
    `oneof`), else its default.
    """
    convert = _WELL_KNOWN.get(message.DESCRIPTOR.full_name)
    if convert is not None:
        return convert(message)
    return {
        field.name: None
        if field.optional and not message.HasField(field.name)
        else field.read(getattr(message, field.name))
        for field in _fields(message.DESCRIPTOR)
    }


def mismatch(message: Any) -> str | None:
    """Return what is wrong where a field has another wire type than its own.

    Protobuf keeps such a field aside as an unknown one, and the field reads as absent.
    """
    numbers = message.DESCRIPTOR.fields_by_number
    unknown_fields: Any = UnknownFieldSet(message)
    for unknown in unknown_fields:
        field = numbers.get(unknown.field_number)
        # A new value of a closed enum is set aside too: the writer has a newer schema.
        if field is not None and not (field.type == ENUM and unknown.wire_type in (0, 2)):
            kind = WIRE_TYPES.get(unknown.wire_type, f"wire type {unknown.wire_type}")
            return f"field {field.name} is written as {kind}, not as its type"
    for below in _fields(message.DESCRIPTOR):
        if below.messages is None or (below.optional and not message.HasField(below.name)):
            continue
        for item in below.messages(getattr(message, below.name)):
            where = mismatch(item)
            if where:
                return f"in {below.name}: {where}"
    return None


class _Field(NamedTuple):
    """How one field is read."""

    name: str
    optional: bool  # whether its absence is distinguished from its default
    read: Callable[[Any], Any]
    messages: Callable[[Any], Iterable[Any]] | None  # those in it; None where there are none


@lru_cache(maxsize=1000)
def _fields(descriptor: Any) -> tuple[_Field, ...]:
    return tuple(map(_plan, descriptor.fields))


def _plan(field: Any) -> _Field:
    is_message = field.type in MESSAGES
    if not field.is_repeated:
        single = (lambda value: (value,)) if is_message else None
        return _Field(field.name, field.has_presence, _reader(field), single)
    if is_message and field.message_type.GetOptions().map_entry:
        item = field.message_type.fields_by_name["value"]
        read = _reader(item)
        values = (lambda value: value.values()) if item.type in MESSAGES else None
        return _Field(
            field.name,
            False,
            lambda value: {_key(key): read(value[key]) for key in value},
            values,
        )
    read = _reader(field)
    items = (lambda value: value) if is_message else None
    return _Field(field.name, False, lambda value: [read(item) for item in value], items)


def _reader(field: Any) -> Callable[[Any], Any]:
    if field.type in MESSAGES:
        return to_plain
    if field.type == ENUM:
        symbols = {number: value.name for number, value in field.enum_type.values_by_number.items()}
        return lambda value: symbols.get(value, value)
    return lambda value: value


def _key(key: Any) -> str:
    return str(key).lower() if isinstance(key, bool) else str(key)


def _timestamp(message: Any) -> Any:
    return datetime_of((message.seconds * NANOS + message.nanos) // 1000)


def _duration(message: Any) -> timedelta:
    return timedelta(microseconds=(message.seconds * NANOS + message.nanos) // 1000)


def _wrapped(message: Any) -> Any:
    return message.value


def _json(message: Any) -> Any:
    """Return a google.protobuf.Value."""
    kind = message.WhichOneof("kind")
    if kind in (None, "null_value"):
        return None
    value = getattr(message, kind)
    return to_plain(value) if kind in ("struct_value", "list_value") else value


def _struct(message: Any) -> dict[str, Any]:
    return {key: _json(message.fields[key]) for key in message.fields}


def _list(message: Any) -> list[Any]:
    return [_json(value) for value in message.values]


def _date(message: Any) -> Any:
    if message.year and message.month and message.day:
        return date(message.year, message.month, message.day)
    return {"year": message.year, "month": message.month, "day": message.day}


def _money(message: Any) -> dict[str, Any]:
    amount = Decimal(message.units) + Decimal(message.nanos).scaleb(-9)
    return {"currency_code": message.currency_code, "amount": amount}


def _decimal(message: Any) -> Decimal:
    if len(message.value) > MAX_SCALE:
        raise ValueError(
            f"a decimal of {len(message.value):,} characters, {MAX_SCALE} are the most"
        )
    return Decimal(message.value or "0")


def _confluent_decimal(message: Any) -> Decimal:
    return decimal_of(message.value, message.scale)


_WRAPPERS = ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
_WELL_KNOWN: dict[str, Callable[[Any], Any]] = {
    "google.protobuf.Timestamp": _timestamp,
    "google.protobuf.Duration": _duration,
    "google.protobuf.Value": _json,
    "google.protobuf.Struct": _struct,
    "google.protobuf.ListValue": _list,
    "google.type.Date": _date,
    "google.type.Money": _money,
    "google.type.Decimal": _decimal,
    "confluent.type.Decimal": _confluent_decimal,
    **{f"google.protobuf.{name}Value": _wrapped for name in _WRAPPERS},
}
