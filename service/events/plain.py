"""Parse JSON to plain values; numbers beyond the range of a float keep their digits."""

import json

import msgspec

from kaboost.service.errors import EventError
from kaboost.service.events.diagnosis import keep_to_grammar, read_float, read_int


def parse_plain(value: bytes) -> object:
    """Return a JSON value; of a repeated key the last value.

    Raises
    ------
    EventError
        With the code `json`.
    """
    try:
        text = str(value, "utf-8")
        keep_to_grammar(text)
        parsed: object = json.loads(text, parse_int=read_int, parse_float=read_float)
    except RecursionError as err:
        raise EventError("json", "nested too deeply; send fewer levels") from err
    except (ValueError, msgspec.DecodeError) as err:
        raise EventError("json", f"not JSON: {err}; send one JSON value in UTF-8") from err
    return parsed
