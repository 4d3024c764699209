"""Records in Debezium's envelope: the row after a change."""

from collections.abc import Mapping, Sequence
from typing import Any

from kaboost.service.events.connect_types import convert
from kaboost.service.events.decoder import Headers
from kaboost.service.events.diagnosis import shorten, show
from kaboost.service.events.reader import Reader, Skipped, fault

ROWS = frozenset("cru")  # create, read (of a snapshot), update
SKIPPED = {"d": "delete", "t": "truncate", "m": "message"}
NO_ENVELOPE = "send Debezium's change events, or set events.envelope: none"


class DebeziumReader:
    """Read the row after a change from what another reader reads."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    def prepare(self, values: Sequence[bytes | None]) -> None:
        """Fetch what reading these takes."""
        self._reader.prepare(values)

    def read(self, value: bytes | None, headers: Headers) -> object:
        """Return the row; skip deletes and tombstones."""
        if value is None:
            raise Skipped("tombstone")
        record, schema = _unwrap(self._reader.read(value, headers))
        if record is None:
            raise Skipped("tombstone")
        if not isinstance(record, Mapping):
            raise fault(f"{show(record)} is no Debezium envelope", NO_ENVELOPE, "schema")
        return _row(record, schema)


def _row(record: Mapping[str, Any], schema: object) -> object:
    if "op" not in record:
        keys = ", ".join(shorten(str(key), 30) for key in list(record)[:10]) or "nothing"
        raise fault(
            f"op: is missing from Debezium's envelope; the record has {keys}", NO_ENVELOPE, "schema"
        )
    operation = record["op"]
    if isinstance(operation, str) and operation in SKIPPED:
        raise Skipped(SKIPPED[operation])
    if not isinstance(operation, str) or operation not in ROWS:
        raise fault(
            f"op: {show(operation)} is no operation of Debezium",
            "send c, r, u, d, t or m",
            "schema",
        )
    after = record.get("after")
    if not isinstance(after, Mapping):
        what = "is missing" if "after" not in record else f"{show(after)} is not an object"
        raise fault(
            f"after: {what}, where op is {operation}", "send the row after the change", "schema"
        )
    return convert(after, _schema_of(schema, "after"), "after")


def _unwrap(record: object) -> tuple[object, object]:
    """Return the payload and the schema of Connect's JSON, or the record itself."""
    if isinstance(record, Mapping) and record.keys() == {"schema", "payload"}:
        return record["payload"], record["schema"]
    return record, None


def _schema_of(schema: object, name: str) -> object:
    fields = schema.get("fields") if isinstance(schema, Mapping) else None
    if isinstance(fields, list):
        for field in fields:
            if isinstance(field, Mapping) and field.get("field") == name:
                return field
    return None
