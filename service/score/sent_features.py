"""The features of a record as they were sent: for the learner that joins labels to answers."""

from typing import Any

import msgspec
from confluent_kafka import Message

from kaboost.models.model import Model
from kaboost.service.config.settings import Settings
from kaboost.service.events.decoders import JSON_FORMATS
from kaboost.service.events.formats import make_reader
from kaboost.service.events.mapping import RecordMapping


class _Envelope(msgspec.Struct):
    """A record of docs/events.md, of which only the features are read."""

    features: msgspec.Raw


class SentFeatures:
    """Read the features of records that are events, those that no model knows yet too."""

    def __init__(self, settings: Settings) -> None:
        events, limit = settings.events, settings.kafka.max_event_bytes
        is_json = events.format in JSON_FORMATS and not events.schema_registry
        self._is_plain = (
            is_json and events.envelope == "none" and not events.is_mapped and not events.coerce
        )
        self._decode = msgspec.json.Decoder(_Envelope).decode
        self._reader = make_reader(events, settings.score.topic or "", limit)
        self._mapping = RecordMapping(events, labelled=False)

    def read(self, message: Message, model: Model) -> Any:
        """Return the features of a record that was decoded before."""
        value = message.value()
        if self._is_plain and value is not None:
            return self._decode(value).features
        headers: Any = message.headers()
        record = self._reader.read(value, headers or ())
        schema = model.encoder.schema
        return self._mapping.features_of(record, schema.kinds, schema.open)
