"""Records in Avro's binary form as plain values, with fastavro.

fastavro is called as confluent-kafka's AvroDeserializer calls it, which takes 4.6 times as long
because it expands the schema again for every record.
"""

import io
import json
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import fastavro
import fastavro._read_py as fastavro_python
import fastavro.read
from fastavro.schema import SchemaParseException

from kaboost.service.errors import EventError
from kaboost.service.events.avro_schema import (
    DECIMAL,
    endless_array,
    is_recursive,
    with_logical_types,
)
from kaboost.service.events.numbers import decimal_of
from kaboost.service.events.reader import Decode, fault

CONTAINER = b"Obj\x01"  # an Avro file begins with it
REASONS = {
    EOFError: "ends too early",
    IndexError: "an index beyond the branches of a union or the symbols of an enum",
    UnicodeDecodeError: "text that is not UTF-8",
    OverflowError: "a date or time out of range",
    MemoryError: "a length beyond all memory",
}


def compile_avro(text: str, references: Mapping[str, str], place: str) -> Decode:
    """Make a decoder of one schema.

    Parameters
    ----------
    text, references
        The schema, and those that it names, in the order in which they need one another.
    place
        Where the schema is from, for messages.

    Raises
    ------
    EventError
        With the code `format`, if it is no schema or one by which a few bytes decode without end.
    """
    named: dict[str, Any] = {}
    try:
        for reference in references.values():
            _parse(reference, named)
        schema = _parse(text, named)
        endless = endless_array(schema, named)
        recursive = is_recursive(schema, named)
    except (SchemaParseException, ValueError, TypeError, KeyError, RecursionError) as err:
        raise fault(
            f"{place}: not an Avro schema: {type(err).__name__}: {err}", "register a valid one"
        ) from err
    if endless:
        raise fault(
            f"{place}: {endless}: an array whose items take no bytes has no limit",
            "declare an item that has a size",
        )
    return AvroDecoder(schema, place, recursive=recursive)


class AvroDecoder:
    """Decode payloads that one schema wrote."""

    def __init__(self, schema: Any, place: str, *, recursive: bool) -> None:
        self._schema = schema
        self._place = place
        # In C a record nested too deeply overflows the stack and ends the process.
        self._read: Any = (
            fastavro_python.schemaless_reader if recursive else fastavro.schemaless_reader
        )

    def __call__(self, payload: bytes) -> object:
        """Return the value; the payload has to end where it does."""
        stream = io.BytesIO(payload)
        try:
            value: object = self._read(stream, self._schema, None)
        except RecursionError as err:
            raise fault(f"{self._place}: nested too deeply", "send fewer levels") from err
        except Exception as err:  # fastavro raises by the dozen what bytes can bring about
            detail = f"at byte {stream.tell()} of {len(payload)}: {_reason(err)}"
            raise self._fault(payload, detail) from err
        if stream.tell() != len(payload):
            detail = f"the record ends at byte {stream.tell()} of {len(payload)}"
            raise self._fault(payload, detail)
        return value

    def _fault(self, payload: bytes, detail: str) -> EventError:
        if payload.startswith(CONTAINER):
            return fault(f"{self._place}: an Avro file in the record", "send the record alone")
        return fault(
            f"{self._place}: not Avro of this schema, {detail}",
            "send the bytes that this schema writes",
        )


def _reason(err: Exception) -> str:
    if isinstance(err, IndexError) and "list" not in str(err):
        return REASONS[EOFError]  # fastavro looks for the next byte of a number in no bytes
    return REASONS.get(type(err), f"{type(err).__name__}: {err}")


def _read_decimal(value: bytes, schema: Any = None, reader_schema: Any = None) -> Decimal:
    return decimal_of(value, int(schema.get("scale", 0)))


in_python: Any = fastavro_python  # two modules, two tables
for readers in (fastavro.read.LOGICAL_READERS, in_python.LOGICAL_READERS):
    readers[f"bytes-{DECIMAL}"] = readers[f"fixed-{DECIMAL}"] = _read_decimal


def _parse(text: str, named: dict[str, Any]) -> Any:
    try:
        schema = json.loads(text)
    except ValueError:
        schema = text.strip()  # a registry may give the name of a primitive type without quotes
    return fastavro.parse_schema(with_logical_types(schema), named_schemas=named)
