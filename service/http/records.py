"""Requests with records as they are on the topic: reader and mapping of the events make them rows.

So training and serving cannot differ.
"""

import math
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from starlette.exceptions import HTTPException

from kaboost.service.config.records import Events
from kaboost.service.errors import EventError, RequestError
from kaboost.service.events.diagnosis import MAX_INT_DIGITS
from kaboost.service.events.formats import make_reader
from kaboost.service.events.json_reader import decode_json
from kaboost.service.events.mapping import Path, RecordMapping, find
from kaboost.service.events.metadata import read_id
from kaboost.service.events.reader import Skipped

KEY = b'"record"'  # bodies without it are not looked into
BOTH = "send either record, as it is on the topic, or features"
AS_RECORD = "or send the row as record: its text is read as on the topic (events.coerce)"
NO_ROW = "is skipped on the topic, as a {}; send a record with a row"
# Keys that show the envelope: a record without them is the row or the data itself.
ENVELOPE_KEYS = {
    "none": frozenset[str](),
    "debezium": frozenset(("op", "before", "after", "payload")),
    "cloudevents": frozenset(("specversion",)),
}
FEATURE = re.compile(r"(#(?:/instances/(\d+))?)/features/(.*)", re.DOTALL)

Row = dict[str, msgspec.Raw]
Body = bytes | bytearray


class RecordRequests:
    """Replace the records of a request by the features that the settings map."""

    def __init__(self, events: Events) -> None:
        self._mapping = RecordMapping(events, labelled=False)
        self._envelope = ENVELOPE_KEYS[events.envelope]
        others = {"schema_registry": None, "schema_file": None, "message_type": None}
        as_json: Events = events.model_copy(update={"format": "json", **others})
        self._reader = make_reader(as_json, "", sys.maxsize)  # the body has a limit of its own

    def to_rows(self, body: Body, schema: Mapping[str, str]) -> Body:
        """Return the body with `features` and `id` in the place of every `record`.

        Raises
        ------
        RequestError
            Where a record has no features, or comes together with features.
        HTTPException
            With 400, where a record is not JSON.
        """
        request = _parse(body) if KEY in body else None
        if request is None:
            return body
        rows = _rows_of(request)
        if "record" in request:
            return msgspec.json.encode(self._to_row(request, "#", schema))
        if not any(_is_wrapped(row) for row, _ in rows):
            return body
        made = [
            self._to_row(row, f"#/instances/{k}", schema) if _is_wrapped(row) else raw
            for k, (row, raw) in enumerate(rows)
        ]
        return msgspec.json.encode({**request, "instances": made})

    def locate(self, body: Body, errors: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
        """Return the faults of rows with pointers into the records that they were made of."""
        request = _parse(body) if KEY in body else None
        if request is None:
            return [(pointer, self._with_remedy(pointer, detail)) for pointer, detail in errors]
        rows = _rows_of(request)
        found = []
        for pointer, detail in errors:
            if match := FEATURE.fullmatch(pointer):
                row = request if match[2] is None else rows[int(match[2])][0]
                if "record" in row:
                    name = match[3].replace("~1", "/").replace("~0", "~")
                    pointer = self._pointer(match[1], row["record"], name)
            found.append((pointer, detail))
        return found

    def _with_remedy(self, pointer: str, detail: str) -> str:
        """Add that text which records are read from may be sent as one."""
        is_text = FEATURE.fullmatch(pointer) is not None and detail.startswith('"')
        return f"{detail}, {AS_RECORD}" if is_text and self._mapping.coerces else detail

    def _to_row(self, row: Row, pointer: str, schema: Mapping[str, str]) -> dict[str, Any]:
        if "features" in row or (pointer == "#" and "instances" in row):
            raise RequestError([(f"{pointer}/record", BOTH)])
        made: dict[str, Any] = {key: value for key, value in row.items() if key != "record"}
        try:
            record = self._read(row["record"])
            made["features"] = self._mapping.features_of(record, schema)
        except EventError as err:
            if err.code == "json":  # such as text that is not UTF-8
                raise HTTPException(400, err.message) from err
            raise RequestError([(f"{pointer}/record", err.message)]) from err
        except Skipped as err:
            raise RequestError([(f"{pointer}/record", NO_ROW.format(err.reason))]) from err
        huge = [name for name, value in made["features"].items() if _is_huge(value)]
        if huge:
            detail = "is beyond 1e308; send null"
            places = [self._pointer(pointer, row["record"], name) for name in huge]
            raise RequestError([(place, detail) for place in places])
        path = self._mapping.paths.id
        id_ = None if path is None else read_id(find(record, path))
        if "id" not in row and id_ is not None:
            made["id"] = str(id_)
        return made

    def _read(self, raw: msgspec.Raw) -> object:
        """Return a record as the learner reads it; the row or the data need no envelope."""
        record = decode_json(bytes(raw))
        if not isinstance(record, Mapping) or self._envelope.isdisjoint(record):
            return record
        return self._reader.read(bytes(raw), ())

    def _pointer(self, above: str, raw: msgspec.Raw, name: str) -> str:
        """Return where a feature is in a record."""
        record = decode_json(bytes(raw))
        prefix: Path = ()
        if "after" in self._envelope and isinstance(record, Mapping):
            prefix += ("payload",) if "payload" in record else ()
            inner = find(record, prefix)
            prefix += ("after",) if isinstance(inner, Mapping) and "after" in inner else ()
        base, rest = self._base(name)
        base = prefix + base
        below = _locate(find(record, base), rest) if rest else ()
        path = (*base, *(rest.split(".") if below is None else below))
        keys = [key.replace("~", "~0").replace("/", "~1") for key in path]
        return "/".join((above, "record", *keys))

    def _base(self, name: str) -> tuple[Path, str]:
        """Split a feature's name into the path that the settings give and what is below it."""
        where = self._mapping.paths.features
        if not isinstance(where, dict):
            return where or (), name
        top = next((n for n in where if name == n or name.startswith(f"{n}.")), None)
        return ((), name) if top is None else (where[top], name[len(top) + 1 :])


def _parse(body: Body) -> Row | None:
    """Return the keys of a request; None for what is none, which is diagnosed with the request."""
    try:
        return msgspec.json.decode(body, type=Row)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _rows_of(request: Row) -> list[tuple[Row, msgspec.Raw]]:
    """Return the keys of every instance; none for one that is no object."""
    try:
        raws = msgspec.json.decode(request.get("instances", b"[]"), type=list[msgspec.Raw])
    except (msgspec.DecodeError, RecursionError):
        return []
    return [(_parse(bytes(raw)) or {}, raw) for raw in raws]


def _is_wrapped(row: Row) -> bool:
    return "features" not in row and bytes(row.get("record", b""))[:1] == b"{"


def _locate(value: object, name: str) -> Path | None:
    """Return the keys that lead to a flattened name; a key may have dots itself."""
    if isinstance(value, list | tuple):
        value = {str(k): item for k, item in enumerate(value)}
    if not isinstance(value, Mapping):
        return None
    for key, inner in value.items():
        if name == key:
            return (key,)
        if name.startswith(f"{key}."):
            rest = _locate(inner, name[len(key) + 1 :])
            if rest is not None:
                return (key, *rest)
    return None


def _is_huge(value: object) -> bool:
    if isinstance(value, int):
        return value.bit_length() > 4 * MAX_INT_DIGITS or abs(value) > 10**308
    return isinstance(value, float) and not math.isfinite(value)
