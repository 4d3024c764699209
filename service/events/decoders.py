"""Choose the decoder of the settings."""

from collections.abc import Mapping

from kaboost.models.features.labels import Labels
from kaboost.models.features.schema import Schema
from kaboost.service.config.settings import Settings
from kaboost.service.events.formats import is_plug_in, make_reader
from kaboost.service.events.json import JsonDecoder
from kaboost.service.events.label_records import make_label_decoder
from kaboost.service.events.mapping import RecordMapping
from kaboost.service.events.privacy import make_privacy
from kaboost.service.events.record_decoder import RecordDecoder
from kaboost.service.events.typed import TypedDecoder

JSON_FORMATS = ("auto", "json")


def make_decoder(
    schema: Mapping[str, str] | Schema | str, labels: Labels, settings: Settings
) -> TypedDecoder:
    """Make the decoder of events for a model's features and labels."""
    labelled = settings.labels.topic is None
    decoder = _make_decoder(schema, labels, settings, settings.kafka.topic, labelled=labelled)
    decoder.privacy = make_privacy(settings)
    return decoder


def make_unlabelled_decoder(
    schema: Schema, labels: Labels, settings: Settings, topic: str
) -> TypedDecoder:
    """Make the decoder of a topic's records without labels, as a model's features; no record adds
    any.
    """
    decoder = _make_decoder(schema, labels, settings, topic, labelled=False)
    decoder.privacy = make_privacy(settings)
    decoder.freeze()
    return decoder


def _make_decoder(
    schema: Mapping[str, str] | Schema | str,
    labels: Labels,
    settings: Settings,
    topic: str,
    *,
    labelled: bool,
) -> TypedDecoder:
    events, unknown, limit = (
        settings.events,
        settings.features.unknown,
        settings.kafka.max_event_bytes,
    )
    plain_json = (
        events.format in JSON_FORMATS and events.envelope == "none" and not events.schema_registry
    )
    if plain_json and labelled and not events.is_mapped and not events.coerce:
        return JsonDecoder(schema, labels, unknown, limit)
    mapping = RecordMapping(events, labelled=labelled)
    reader = make_reader(events, topic, limit)
    return RecordDecoder(
        reader,
        mapping,
        schema,
        labels,
        unknown,
        limit,
        plain_json=plain_json,
        needs_headers=events.envelope == "cloudevents" or is_plug_in(events.format),
    )


def check_formats(settings: Settings) -> None:
    """Check the formats of records, with the packages and files that they need.

    Raises
    ------
    ConfigError
        If a format is unknown, a package is missing, or a file cannot be read.
    """
    make_reader(settings.events, settings.kafka.topic, settings.kafka.max_event_bytes)
    if settings.labels.topic is not None:
        make_label_decoder(settings, settings.task.known_labels)
