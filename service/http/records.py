"""Requests with records as they are on the topic: the mapping of the events makes them rows.

So training and serving cannot differ.
"""

import math
from collections.abc import Mapping
from typing import Any

import msgspec

from kaboost.service.config.records import Events
from kaboost.service.errors import EventError, RequestError
from kaboost.service.events.diagnosis import MAX_INT_DIGITS
from kaboost.service.events.mapping import RecordMapping, find
from kaboost.service.events.metadata import read_id
from kaboost.service.http.predict import parse

KEY = b'"record"'  # bodies without it are not looked into
BOTH = "send either record, as it is on the topic, or features"


class RecordRequests:
    """Replace the records of a request by the features that the settings map."""

    def __init__(self, events: Events) -> None:
        self._mapping = RecordMapping(events, labelled=False)

    def to_rows(self, body: bytes | bytearray, schema: Mapping[str, str]) -> bytes | bytearray:
        """Return the body with `features` and `id` in the place of every `record`.

        Raises
        ------
        RequestError
            Where a record has no features, or comes together with features.
        HTTPException
            Where the body is not JSON.
        """
        if KEY not in body:
            return body
        try:
            request: Any = parse(body)
        except UnicodeDecodeError:
            return body  # is diagnosed with the request
        if not isinstance(request, dict):
            return body
        rows = request.get("instances")
        if "record" in request:
            request = self._to_row(request, "#", schema)
        elif isinstance(rows, list) and any(_is_wrapped(row) for row in rows):
            request["instances"] = [
                self._to_row(row, f"#/instances/{k}", schema) if _is_wrapped(row) else row
                for k, row in enumerate(rows)
            ]
        else:
            return body
        return msgspec.json.encode(request)

    def _to_row(
        self, row: dict[str, Any], pointer: str, schema: Mapping[str, str]
    ) -> dict[str, Any]:
        if "features" in row or (pointer == "#" and "instances" in row):
            raise RequestError([(f"{pointer}/record", BOTH)])
        record = row.pop("record")
        try:
            row["features"] = self._mapping.features_of(record, schema)
        except EventError as err:
            raise RequestError([(f"{pointer}/record", err.message)]) from err
        for name, value in row["features"].items():
            if _is_huge(value):
                detail = f"{name}: is beyond 1e308; send null"
                raise RequestError([(f"{pointer}/record", detail)])
        path = self._mapping.paths.id
        id_ = None if path is None else read_id(find(record, path))
        if "id" not in row and id_ is not None:
            row["id"] = str(id_)
        return row


def _is_wrapped(row: object) -> bool:
    return isinstance(row, dict) and isinstance(row.get("record"), dict) and "features" not in row


def _is_huge(value: object) -> bool:
    if isinstance(value, int):
        return value.bit_length() > 4 * MAX_INT_DIGITS or abs(value) > 10**308
    return isinstance(value, float) and not math.isfinite(value)
