"""Records in JSON as plain values: objects, arrays, text, numbers, booleans, null."""

import json

import msgspec

from kaboost.service.errors import EventError
from kaboost.service.events.diagnosis import explain_json, keep_to_grammar, read_float, read_int
from kaboost.service.events.frames import unexpected_frame
from kaboost.service.events.reader import fault

REMEDY = "send one JSON value in UTF-8"


def decode_json(value: bytes) -> object:
    """Return a JSON value; of a repeated key the last counts.

    Whole numbers stay whole at any size; a number beyond the range of a float becomes infinite.

    Raises
    ------
    EventError
        With the code `json`.
    """
    try:
        return msgspec.json.decode(value)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _decode_slowly(value)


def decode_unframed(value: bytes) -> object:
    """Return a JSON value; name a schema registry's frame where no registry is set."""
    frame = unexpected_frame(value)
    if frame is not None:
        raise EventError("json", frame)
    return decode_json(value)


def _decode_slowly(value: bytes) -> object:
    """Decode what msgspec refuses: numbers out of range; anything else is a fault with its reason.

    Numbers beyond the range of a float keep their digits for messages.
    """
    if not value:
        raise fault("not JSON: the value is empty", REMEDY, "json")
    try:
        text = str(value, "utf-8")
        keep_to_grammar(text)
        parsed: object = json.loads(text, parse_int=read_int, parse_float=read_float)
    except RecursionError as err:
        raise fault(
            "not JSON that can be read: nested too deeply", "send fewer levels", "json"
        ) from err
    except (ValueError, msgspec.DecodeError) as err:
        raise fault(f"not JSON: {explain_json(err)}", REMEDY, "json") from err
    return parsed
