"""Decode the records of a topic of labels: id, label, time and weight."""

import math
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from kaboost.models.features.labels import Label, Labels
from kaboost.service.config.records import Events
from kaboost.service.config.records import Labels as LabelSettings
from kaboost.service.config.settings import Settings
from kaboost.service.errors import ConfigError, EventError
from kaboost.service.events.decoder import Faults, Headers
from kaboost.service.events.diagnosis import explain_label, show
from kaboost.service.events.formats import make_reader
from kaboost.service.events.mapping import MISSING, find, listed, parse_path
from kaboost.service.events.metadata import Instant, read_time
from kaboost.service.events.privacy import Privacy, make_privacy, read_plainly
from kaboost.service.events.reader import Reader, Skipped
from kaboost.service.events.values import coerce, scalar


class LabelRecord(NamedTuple):
    """One label."""

    place: int  # of its record in the batch
    id: str
    label: float  # encoded
    time: float | None  # seconds since 1970; None for the record's time
    weight: float | None  # None for that of the features


class DecodedLabels(NamedTuple):
    """What the first `consumed` records of a batch hold."""

    labels: list[LabelRecord]
    faults: Faults
    skipped: list[tuple[int, str]]
    consumed: int
    new_class: Label | None = None  # to add before the next record


class _NewClass(Exception):
    """Interrupt decoding before a label that begins a class."""

    def __init__(self, label: Label) -> None:
        super().__init__(label)
        self.label = label


class LabelDecoder:
    """Decode labels by the paths of the settings."""

    def __init__(self, settings: LabelSettings, reader: Reader, labels: Labels) -> None:
        self._reader = reader
        self._labels = labels
        self.privacy = Privacy()
        self._names = {
            key: getattr(settings, key)
            for key in ("id", "label", "timestamp", "weight")
            if getattr(settings, key) is not None
        }
        self._paths = {key: parse_path(name) for key, name in self._names.items()}

    def prepare(self, values: Sequence[bytes | None]) -> None:
        """Fetch what decoding these takes; raise RegistryAway if that cannot be had now."""
        self._reader.prepare(values)

    def decode(
        self, values: Sequence[bytes | None], headers: Callable[[int], Headers]
    ) -> DecodedLabels:
        """Decode records in order, up to one whose label begins a class.

        To continue, call `follow_labels`; then pass the records from `consumed` on.
        """
        decoded = DecodedLabels([], [], [], len(values))
        for index, value in enumerate(values):
            try:
                record = self._reader.read(value, headers(index))
                decoded.labels.append(self._read(index, record))
            except EventError as error:
                decoded.faults.append((index, error))
            except Skipped as skipped:
                decoded.skipped.append((index, skipped.reason))
            except _NewClass as found:
                decoded = decoded._replace(consumed=index, new_class=found.label)
                break
        read = lambda index: self.plain(values[index], headers(index))  # noqa: E731
        return decoded._replace(faults=self.privacy.faults(decoded.faults, read))

    def plain(self, value: bytes | None, headers: Headers) -> object:
        """Return a record as plain values with all that it brings, or raise an EventError."""
        return read_plainly(value, lambda: self._reader.read(value, headers))

    def follow_labels(self, labels: Labels) -> None:
        """Take the labels of the model, to which a class was added, or to which none can be."""
        self._labels = labels

    def _read(self, index: int, record: object) -> LabelRecord:
        if not isinstance(record, Mapping):
            raise EventError("schema", f"{show(record)} is not an object; send an object of fields")
        id_, label = (self._find(record, key) for key in ("id", "label"))
        if isinstance(id_, bool) or not isinstance(id_, str | int):
            detail = f"{show(id_)} where an id belongs; send text or a whole number"
            raise EventError("schema", f"{self._names['id']}: {detail}")
        code = self._encode(label)
        time, weight = self._time(record), self._weight(record)
        if not isinstance(code, float):
            raise code
        return LabelRecord(index, str(id_), code, time, weight)

    def _find(self, record: Mapping[str, Any], key: str) -> Any:
        value = find(record, self._paths[key])
        if value is MISSING:
            name = self._names[key]
            remedy = f"send it, or set labels.{key} to its path"
            raise EventError("schema", f"{name}: is missing; {listed(record)}: {remedy}")
        return scalar(value)

    def _encode(self, label: Any) -> float | _NewClass:
        """Return a label as the model learns it, or the class that it begins; text that is no label
        may be a number.
        """
        reason = "is not finite; send a finite number"
        readings = (label, coerce(label, "number"), coerce(label, "boolean"))
        for value in readings:
            try:
                encoded = self._labels.encode(value)
            except (ValueError, TypeError) as error:
                reason = explain_label(label, error) if value is label else reason
            else:
                if math.isfinite(encoded):
                    return encoded
        for value in readings:
            new = self._labels.new_class(value)
            if new is not None:
                return _NewClass(new)
        raise EventError("label", f"{self._names['label']}: {reason}")

    def _time(self, record: Mapping[str, Any]) -> float | None:
        if "timestamp" not in self._paths:
            return None
        value = self._find(record, "timestamp")
        seconds = to_seconds(read_time(value))
        if seconds is None and value is not None:
            detail = f"{show(value)} is no time; send RFC 3339 or milliseconds since 1970"
            raise EventError("timestamp", f"{self._names['timestamp']}: {detail}")
        return seconds

    def _weight(self, record: Mapping[str, Any]) -> float | None:
        if "weight" not in self._paths:
            return None
        value = coerce(self._find(record, "weight"), "number")
        if value is None:
            return None
        if isinstance(value, int | float) and not isinstance(value, bool):
            weight = float(value)
            if weight >= 0.0 and math.isfinite(weight):
                return weight
        detail = f"{show(value)} where a finite number >= 0 belongs; correct it, or send null"
        raise EventError("weight", f"{self._names['weight']}: {detail}")


def make_label_decoder(settings: Settings, labels: Labels) -> LabelDecoder:
    """Make the decoder of the topic of labels: format and envelope are those of the events where
    the section `labels` names none.
    """
    section = settings.labels
    changes = {
        key: value for key in ("format", "envelope") if (value := getattr(section, key)) is not None
    }
    events: Events = settings.events.model_copy(update=changes)
    try:
        reader = make_reader(events, section.topic or "", settings.kafka.max_event_bytes)
    except ConfigError as err:
        if section.format is None:
            raise
        named = str(err).replace("events.format", "labels.format")
        raise ConfigError(named) from err
    decoder = LabelDecoder(section, reader, labels)
    decoder.privacy = make_privacy(settings)
    return decoder


def to_seconds(moment: Instant) -> float | None:
    """Return a time in seconds since 1970; None for none."""
    if isinstance(moment, datetime):
        return moment.timestamp()
    return None if moment is None else moment / 1000.0
