"""Records in JSON as plain values: objects, arrays, text, numbers, booleans, null."""

import json
from typing import Any

import msgspec

from kaboost.service.errors import EventError
from kaboost.service.events.diagnosis import keep_to_grammar, read_float, read_int
from kaboost.service.events.reader import FRAME, fault, frame_id

REMEDY = "send one JSON value in UTF-8"


def decode_json(value: bytes) -> object:
    """Return a JSON value; of a repeated key the last counts.

    Whole numbers stay whole at any size; a number beyond the range of a float becomes infinite.
    """
    try:
        return msgspec.json.decode(value)
    except RecursionError as err:
        raise fault("not JSON that can be read: nested too deeply", "send fewer levels") from err
    except (msgspec.DecodeError, UnicodeDecodeError):
        return _decode_carefully(value)


def decode_unframed(value: bytes) -> object:
    """Return a JSON value; name a schema registry's frame where no registry is set."""
    if value[:1] == b"\0":
        number = frame_id(value)
        if number is None:
            raise fault(f"begins with byte 0 and has {len(value)} of {FRAME} bytes", REMEDY, "json")
        raise EventError(
            "json",
            f"begins with a schema-registry frame, schema id {number}: set events.schema_registry",
        )
    return decode_json(value)


def _decode_carefully(value: bytes) -> Any:
    """Decode what msgspec refuses: numbers out of range; anything else is a fault with its reason.

    The code is that of broken JSON.
    """
    if not value:
        raise fault("not JSON: the value is empty", REMEDY, "json")
    try:
        text = str(value, "utf-8")
        keep_to_grammar(text)
        return json.loads(text, parse_int=read_int, parse_float=read_float)
    except (ValueError, msgspec.DecodeError) as err:
        raise fault(f"not JSON: {err}", REMEDY, "json") from err
