"""Values of Kafka Connect's JSON with their schema, as Connect and Debezium write it."""

import base64
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

from kaboost.service.events.diagnosis import shorten, show
from kaboost.service.events.numbers import date_of, datetime_of, decimal_of, time_of
from kaboost.service.events.reader import fault

VARIABLE_SCALE = "io.debezium.data.VariableScaleDecimal"


def convert(value: Any, schema: object, path: str) -> Any:
    """Return a value as its schema means it; without a schema it is unchanged.

    Raises
    ------
    EventError
        With the code `format` and the path, where a value cannot be what its schema says.
    """
    if value is None or not isinstance(schema, Mapping):
        return value
    name = schema.get("name")
    read = _NAMED.get(name) if isinstance(name, str) else None
    if read is None and schema.get("type") == "bytes":
        read = _bytes
    if read is None:
        return _convert_below(value, schema, path)
    try:
        return read(value, schema)
    except (ValueError, TypeError, KeyError, OverflowError, AttributeError) as err:
        kind = shorten(str(name or schema.get("type")))
        raise fault(
            f"{shorten(path, 100)}: {show(value)} is no {kind}: {err}",
            "send what Connect's JsonConverter writes",
        ) from err


def _convert_below(value: Any, schema: Mapping[str, Any], path: str) -> Any:
    kind = schema.get("type")
    if kind == "struct" and isinstance(value, Mapping):
        fields = _fields(schema)
        return {
            key: convert(item, fields[key], f"{path}.{key}") if key in fields else item
            for key, item in value.items()
        }
    if kind == "array" and isinstance(value, list):
        items = schema.get("items")
        return [convert(item, items, f"{path}.{k}") for k, item in enumerate(value)]
    if kind == "map" and isinstance(value, Mapping):
        values = schema.get("values")
        return {key: convert(item, values, f"{path}.{key}") for key, item in value.items()}
    return value


def _fields(schema: Mapping[str, Any]) -> dict[str, Any]:
    fields = schema.get("fields")
    if not isinstance(fields, list):
        return {}
    return {
        field["field"]: field
        for field in fields
        if isinstance(field, Mapping) and isinstance(field.get("field"), str)
    }


def _bytes(value: Any, schema: Mapping[str, Any]) -> bytes:
    return base64.b64decode(value, validate=True)


def _decimal(value: Any, schema: Mapping[str, Any]) -> Any:
    if isinstance(value, int | float):  # JsonConverter with decimal.format=NUMERIC
        return value
    return decimal_of(_bytes(value, schema), int(schema["parameters"]["scale"]))


def _variable_scale(value: Any, schema: Mapping[str, Any]) -> Any:
    return decimal_of(_bytes(value["value"], schema), _whole(value["scale"]))


def _whole(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError("a whole number belongs there")
    return value


def _micros(make: Callable[[int], Any], factor: float) -> Callable[[Any, Mapping[str, Any]], Any]:
    """Return a reader of a whole number that times `factor` is microseconds."""
    if factor < 1:
        divisor = round(1 / factor)
        return lambda value, _: make(_whole(value) // divisor)
    return lambda value, _: make(_whole(value) * int(factor))


def _days(value: Any, _: Mapping[str, Any]) -> Any:
    return date_of(_whole(value))


def _duration(micros: int) -> timedelta:
    return timedelta(microseconds=micros)


_NAMED: dict[str, Callable[[Any, Mapping[str, Any]], Any]] = {
    "org.apache.kafka.connect.data.Decimal": _decimal,
    "org.apache.kafka.connect.data.Date": _days,
    "org.apache.kafka.connect.data.Time": _micros(time_of, 1000),
    "org.apache.kafka.connect.data.Timestamp": _micros(datetime_of, 1000),
    "io.debezium.time.Date": _days,
    "io.debezium.time.Time": _micros(time_of, 1000),
    "io.debezium.time.MicroTime": _micros(time_of, 1),
    "io.debezium.time.NanoTime": _micros(time_of, 1e-3),
    "io.debezium.time.Timestamp": _micros(datetime_of, 1000),
    "io.debezium.time.MicroTimestamp": _micros(datetime_of, 1),
    "io.debezium.time.NanoTimestamp": _micros(datetime_of, 1e-3),
    "io.debezium.time.MicroDuration": _micros(_duration, 1),
    "io.debezium.time.NanoDuration": _micros(_duration, 1e-3),
    VARIABLE_SCALE: _variable_scale,
}
