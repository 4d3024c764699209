"""Records in JSON that a JSON Schema describes, validated with jsonschema.

Its faults name a JSON pointer, which those of confluent-kafka's JSONDeserializer do not.
"""

import json
from collections.abc import Mapping
from typing import Any

from jsonschema import ValidationError
from jsonschema.exceptions import SchemaError, best_match
from jsonschema.validators import validator_for
from referencing import Registry, Resource
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT7

from kaboost.service.errors import EventError
from kaboost.service.events.diagnosis import shorten
from kaboost.service.events.json_reader import decode_json
from kaboost.service.events.reader import Decode, fault

DETAIL = 150  # characters of a fault: it shows the value


def compile_json_schema(text: str, references: Mapping[str, str], place: str) -> Decode:
    """Make a decoder that validates by one schema.

    Parameters
    ----------
    text, references
        The schema, and those that it names.
    place
        Where the schema is from, for messages.

    Raises
    ------
    EventError
        With the code `format`, if it is no JSON Schema.
    """
    try:
        schema = json.loads(text)
        kind = validator_for(schema)
        kind.check_schema(schema)
        resources = [
            (name, Resource.from_contents(json.loads(other), default_specification=DRAFT7))
            for name, other in references.items()
        ]
    except (ValueError, TypeError, SchemaError, RecursionError) as err:
        detail = err.message if isinstance(err, SchemaError) else err
        raise fault(f"{place}: not a JSON Schema: {detail}", "register a valid one") from err
    registry: Registry[Any] = Registry().with_resources(resources)  # fetches nothing by itself
    return JsonSchemaDecoder(kind(schema, registry=registry), place)


class JsonSchemaDecoder:
    """Decode JSON and validate it."""

    def __init__(self, validator: Any, place: str) -> None:
        self._validator = validator
        self._place = place

    def __call__(self, payload: bytes) -> object:
        """Return the value; of several faults the message names the best match."""
        value = decode_json(payload)
        try:
            error = best_match(self._validator.iter_errors(value))
        except Unresolvable as err:
            raise fault(
                f"{self._place}: the schema refers to {err.ref}, which is not registered with it",
                "register it as a reference",
            ) from err
        except RecursionError as err:
            raise fault(f"{self._place}: nested too deeply", "send fewer levels") from err
        if error is not None:
            raise self._fault(error)
        return value

    def _fault(self, error: ValidationError) -> EventError:
        names = (str(name).replace("~", "~0").replace("/", "~1") for name in error.absolute_path)
        pointer = "#" + "".join(f"/{shorten(name)}" for name in names)
        detail = shorten(error.message, DETAIL)
        return fault(
            f"{shorten(pointer, 100)}: {detail} ({self._place}, {error.validator})",
            "send what the schema allows",
            "schema",
        )
