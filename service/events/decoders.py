"""Choose the decoder of the settings."""

from collections.abc import Mapping, Sequence

from kaboost.models.features.labels import Labels
from kaboost.models.features.schema import Schema
from kaboost.service.config.settings import Settings
from kaboost.service.errors import EventError
from kaboost.service.events.decoder import Headers
from kaboost.service.events.json import JsonDecoder
from kaboost.service.events.mapping import RecordMapping
from kaboost.service.events.plain import parse_plain
from kaboost.service.events.record_decoder import RecordDecoder
from kaboost.service.events.typed import TypedDecoder

JSON_FORMATS = ("auto", "json")


def make_decoder(
    schema: Mapping[str, str] | Schema | str, labels: Labels, settings: Settings
) -> TypedDecoder:
    """Make the decoder of events for a model's features and labels."""
    events, unknown, limit = (
        settings.events,
        settings.features.unknown,
        settings.kafka.max_event_bytes,
    )
    labelled = settings.labels.topic is None
    plain_json = (
        events.format in JSON_FORMATS and events.envelope == "none" and not events.schema_registry
    )
    if plain_json and labelled and not events.is_mapped and not events.coerce:
        return JsonDecoder(schema, labels, unknown, limit)
    mapping = RecordMapping(events, labelled=labelled)
    return RecordDecoder(
        JsonReader(), mapping, schema, labels, unknown, limit, plain_json=plain_json
    )


class JsonReader:
    """Read records in JSON."""

    def prepare(self, values: Sequence[bytes | None]) -> None:
        """Do nothing: JSON needs no schema."""

    def read(self, value: bytes | None, headers: Headers) -> object:
        """Return the record, or raise an EventError."""
        if value is None:
            raise EventError("null_value", "the record has no value; send the event as its value")
        return parse_plain(value)
