"""The JSON event format: the envelope of docs/events.md."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from kaboost.models.features.onehot import Table
from kaboost.models.types import Mat, Vec
from kaboost.service.errors import EventError
from kaboost.service.events.diagnosis import diagnose, parse
from kaboost.service.events.json_types import (
    Event,
    EventNames,
    Number,
    event_decoder,
    exact_decoder,
)
from kaboost.service.events.sparse import MIN_COLUMNS, SparseReader
from kaboost.service.events.typed import Events, Fast, TypedDecoder

CHECKED_BYTES = 1_000_000  # bytes checked in one call: as text they may take four times as many


class JsonDecoder(TypedDecoder):
    """Decode events in JSON with msgspec."""

    def _build_types(self) -> None:
        super()._build_types()
        labels = self._rules.labels
        # The strict type goes first even where unknown features are ignored: it detects them.
        self._strict = event_decoder(self._strict_type, labels)
        self._lenient = event_decoder(self._lenient_type, labels)
        exact = None if self.aliases else exact_decoder(self._strict_type, labels)
        self._fast = exact.decode if exact else None
        self._sparse = False  # whether the last events were mostly empty
        names, kinds = self._groups[0], self._schema.kinds
        wide = len(names) == len(kinds) >= MIN_COLUMNS and exact is not None
        self._sparse_reader = SparseReader(names) if wide else None
        dicts = exact_decoder(dict[str, Number | None], labels) if wide else None
        self._fast_dict = dicts.decode if dicts else None

    def _fast_path(self, values: Sequence[bytes | None]) -> Fast | None:
        """Return what decodes most events; what it refuses may still be an event."""
        if not is_sound(values, self._rules.max_bytes):
            return None
        return self._decode_dict if self._sparse else self._fast

    def _decode_dict(self, value: bytes) -> Event[Any, Any]:
        """Decode the features as a dict; refuse the same values as for a struct."""
        assert self._fast_dict is not None
        assert self._sparse_reader is not None
        event = self._fast_dict(value)
        if not self._sparse_reader.covers(event.features):
            raise msgspec.ValidationError("a feature is unknown")
        return event

    def _read(self, value: bytes | None, index: int) -> bytes:
        if value is None or len(value) > self._rules.max_bytes:
            raise diagnose(value, self._rules)
        return value

    def _decode_strictly(self, raw: bytes) -> Any:
        # msgspec does not look into the strings it skips: `str` finds broken UTF-8 there too.
        return self._strict.decode(str(self._aliased(raw), "utf-8"))

    def _decode_known(self, raw: bytes) -> Any:
        return self._lenient.decode(str(self._aliased(raw), "utf-8"))

    def _aliased(self, raw: bytes) -> bytes:
        """Return an event with the names that the types have."""
        if not self.aliases:
            return raw
        event = msgspec.json.decode(str(raw, "utf-8"), type=dict[str, msgspec.Raw])
        if "features" in event:
            event["features"] = self.rename(event["features"])
        return msgspec.json.encode(event)

    def rename(self, features: msgspec.Raw) -> msgspec.Raw:
        """Return a JSON object of features with the names that the types have.

        Raises
        ------
        msgspec.DecodeError
            For anything but an object.
        """
        pairs = msgspec.json.decode(features, type=dict[str, msgspec.Raw])
        fields = {self.aliases.get(name, name): value for name, value in pairs.items()}
        return msgspec.Raw(msgspec.json.encode(fields))

    def _feature_items(self, raw: bytes) -> Iterable[tuple[str, object]]:
        if self._frozen or not self._schema.auto:  # only the names are asked for
            return msgspec.json.decode(raw, type=EventNames).features.items()
        event: Any = parse(raw)  # an object, with repeated keys kept: the last one counts
        features: Iterable[tuple[str, object]] = dict(event)["features"]
        return features

    def _known_values(self, raw: bytes) -> dict[str, Any]:
        return self._values_of(msgspec.json.decode(raw, type=EventNames).features)

    def _with_values(self, raw: bytes, values: Mapping[str, Any]) -> bytes:
        event = msgspec.json.decode(raw, type=dict[str, msgspec.Raw])
        event["features"] = _replaced(event["features"], values)
        return msgspec.json.encode(event)

    def reread(self, features: msgspec.Raw) -> msgspec.Raw:
        """Return a JSON object of features with each value as its kind reads it, if it can.

        Raises
        ------
        msgspec.DecodeError
            For anything but an object.
        """
        values = self._values_of(msgspec.json.decode(features, type=dict[str, msgspec.Raw]))
        other = self._readings(values)
        return _replaced(features, other) if other else features

    def _values_of(self, features: Mapping[str, msgspec.Raw]) -> dict[str, Any]:
        """Return the values of known features that can be decoded."""
        values = {}
        for name in features.keys() & self._schema.kinds.keys():
            with suppress(msgspec.DecodeError, RecursionError):  # numbers beyond a float
                values[name] = msgspec.json.decode(features[name])
        return {name: values[name] for name in features if name in values}

    def _diagnose(self, raw: bytes) -> EventError:
        return diagnose(raw, self._rules)

    def _tabulate(self, events: Events) -> tuple[Table, Vec, Vec]:
        """Tabulate; how empty the events are decides how the next are decoded."""
        table, y, w = super()._tabulate(events)
        if self._sparse_reader is not None:
            self._sparse = self._sparse_reader.is_worthwhile(table.numbers)
        return table, y, w

    def _numbers(self, features: Sequence[Any], n: int) -> Mat:
        if self._sparse_reader is not None and any(row.__class__ is dict for row in features):
            return self._sparse_reader.tabulate(features)
        return super()._numbers(features, n)


def _replaced(features: msgspec.Raw, values: Mapping[str, Any]) -> msgspec.Raw:
    """Return a JSON object with other values."""
    pairs = msgspec.json.decode(features, type=dict[str, msgspec.Raw])
    return msgspec.Raw(
        msgspec.json.encode(
            pairs | {name: msgspec.Raw(msgspec.json.encode(v)) for name, v in values.items()}
        )
    )


def is_sound(values: Sequence[bytes | None], max_bytes: int) -> bool:
    """Return whether all values are certainly UTF-8 throughout and not too large."""
    try:
        size = sum(map(len, values))  # type: ignore[arg-type] # is caught
        if size > CHECKED_BYTES or size > max_bytes < max(map(len, values)):  # type: ignore[arg-type]
            return False
        str(b"\n".join(values), "utf-8")  # type: ignore[arg-type]
    except (TypeError, UnicodeDecodeError):
        return False
    return True
