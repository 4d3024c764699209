"""Decode events from records of any format: a reader gives plain values, a mapping the event."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import msgspec

from kaboost.models.features.labels import Labels
from kaboost.models.features.schema import Schema
from kaboost.service.errors import EventError
from kaboost.service.events.decoder import NO_ID, Headers
from kaboost.service.events.diagnosis import diagnose_event, show
from kaboost.service.events.flat import FlatTypes, flat_types
from kaboost.service.events.json import is_sound
from kaboost.service.events.json_types import LooseEvent, label_type
from kaboost.service.events.mapping import RecordMapping
from kaboost.service.events.metadata import read_id
from kaboost.service.events.reader import Reader
from kaboost.service.events.typed import Events, Fast, TypedDecoder
from kaboost.service.events.values import coerce

BAD_ID = "{} is no id, by which features wait for their label; send text or a whole number"


class RecordDecoder(TypedDecoder):
    """Decode what a reader reads, with the fields that a mapping names.

    Parameters
    ----------
    reader, mapping
        Bytes to a record, a record to an event.
    plain_json
        Whether records are JSON without an envelope: usual ones are then decoded by their types.
    needs_headers
        Whether the reader takes what a record is from its headers, too.
    """

    def __init__(
        self,
        reader: Reader,
        mapping: RecordMapping,
        schema: Mapping[str, str] | Schema | str,
        labels: Labels,
        unknown: Literal["refuse", "ignore"] = "refuse",
        max_bytes: int = 1_000_000,
        *,
        plain_json: bool = False,
        needs_headers: bool = False,
    ) -> None:
        self._reader = reader
        self._needs_headers = needs_headers
        self.mapping = mapping
        self._plain_json = plain_json
        super().__init__(schema, labels, unknown, max_bytes)
        self._rules = self._rules._replace(labelled=mapping.paths.label is not None)

    def prepare(self, values: Sequence[bytes | None]) -> None:
        """Fetch what decoding these takes; raise RegistryAway if that is not there now."""
        self._reader.prepare(values)

    def read_row(self, record: object) -> dict[str, Any]:
        """Return the features of a record that needs no label, as `diagnose` takes them."""
        return self.mapping.features_of(record, self._rules.schema, self._rules.open)

    def _build_types(self) -> None:
        super()._build_types()
        label: Any = label_type(self._rules.labels) if self.mapping.paths.label else Any
        self._strict, self._lenient = (
            LooseEvent[kind, label]  # type: ignore[valid-type] # made at run time
            for kind in (self._strict_type, self._lenient_type)
        )
        names, labels = self.feature_names, self._rules.labels
        self._flat: FlatTypes | None = None
        if not self._needs_headers and not (self.mapping.coerces and self._schema.open):
            self._flat = flat_types(
                self.mapping, names, self._schema, labels, is_json=self._plain_json
            )

    def _fast_path(self, values: Sequence[bytes | None]) -> Fast | None:
        if self._flat is None:
            return None
        if not self._plain_json:
            return self._read_flat
        return self._flat.decode if is_sound(values, self._rules.max_bytes) else None

    def _read_flat(self, value: bytes | None) -> Any:
        """Read a usual record; another one is read again, and then mapped field by field."""
        assert self._flat is not None
        record = self._reader.read(value, ())
        try:
            return self._flat.decode(record)
        except ValueError as err:  # such as a decimal that is a signaling NaN
            raise msgspec.ValidationError(str(err)) from err

    def _read(self, value: bytes | None, index: int) -> dict[str, Any]:
        record = self._reader.read(value, self._headers(index))
        event = self.mapping.envelope(record, self._rules.schema, self._rules.open)
        if not self._rules.labelled:
            event["label"] = None
            self._require_id(event)
        elif self.mapping.coerces and "label" in event:
            event["label"] = self._coerce_label(event["label"])
        return event

    def _read_plain(self, value: bytes | None, headers: Headers) -> object:
        return self._reader.read(value, headers)

    def _require_id(self, event: Mapping[str, Any]) -> None:
        """Refuse a record without an id, by which features wait for their label."""
        sent = event.get("id")
        if read_id(sent) is None:
            what = NO_ID if sent is None else BAD_ID.format(show(sent))
            raise EventError("schema", f"{self.mapping.names.get('id', 'id')}: {what}")

    def _coerce_label(self, label: Any) -> Any:
        """Return a label in text as the number or boolean that the task knows."""
        if self._regression:
            return coerce(label, "number")
        labels = self._rules.labels
        if label.__class__ is str and label not in labels.classes:
            converted = [coerce(label, kind) for kind in ("number", "boolean")]
            for one in converted:
                if one in labels.classes:
                    return one
            if labels.new_class(label) is None:  # a text among classes that are not
                return next((one for one in converted if labels.new_class(one) is not None), label)
        return label

    def _decode_strictly(self, raw: dict[str, Any]) -> Any:
        return msgspec.convert(self._aliased(raw), self._strict)

    def _decode_known(self, raw: dict[str, Any]) -> Any:
        return msgspec.convert(self._aliased(raw), self._lenient)

    def _aliased(self, raw: dict[str, Any]) -> dict[str, Any]:
        """Return a record with the names that the types have."""
        if not self.aliases:
            return raw
        find = self.aliases.get
        return {**raw, "features": {find(name, name): v for name, v in raw["features"].items()}}

    def _feature_items(self, raw: dict[str, Any]) -> Iterable[tuple[str, object]]:
        features: dict[str, object] = raw["features"]
        return features.items()

    def _known_values(self, raw: dict[str, Any]) -> dict[str, Any]:
        kinds = self._schema.kinds
        return {name: value for name, value in raw["features"].items() if name in kinds}

    def _with_values(self, raw: dict[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
        return {**raw, "features": {**raw["features"], **values}}

    def _diagnose(self, raw: dict[str, Any]) -> EventError:
        return diagnose_event(raw, self._rules, self.mapping.names)

    def _features(self, events: Events) -> list[Any]:
        flat = self._flat
        if flat is None:
            return super()._features(events)
        return [event if event.__class__ is flat.record else event.features for event in events]

    def _rows(self, features: Sequence[Any]) -> Iterable[tuple[Any, ...]]:
        flat, to_tuple = self._flat, msgspec.structs.astuple
        if flat is None:
            return map(to_tuple, features)
        if all(row.__class__ is flat.record for row in features):
            return map(flat.row, features)
        return [
            flat.row(row) if row.__class__ is flat.record else to_tuple(row) for row in features
        ]
