"""The JSON event format: translate the bytes of records into typed columns."""

import struct
from collections.abc import Callable, Mapping, Sequence
from itertools import chain, starmap
from operator import attrgetter
from typing import Any, Literal

import msgspec
import numpy as np

from kaboost.models.features.datetimes import wall_seconds
from kaboost.models.features.labels import Labels
from kaboost.models.features.onehot import EMPTY, Table
from kaboost.models.features.schema import Schema, parse_schema
from kaboost.models.types import Mat, Vec
from kaboost.service.errors import EventError
from kaboost.service.events.decoder import Decoded, Faults
from kaboost.service.events.diagnosis import Rules, diagnose, feature_faults, show
from kaboost.service.events.inference import infer_new_features
from kaboost.service.events.json_types import (
    FEATURE_TYPES,
    Event,
    EventNames,
    Number,
    event_decoder,
    exact_decoder,
    feature_type,
)
from kaboost.service.events.sparse import MIN_COLUMNS, SparseReader

CHUNK = 100  # events decoded in one call of msgspec's decoder
CHECKED_BYTES = 1_000_000  # bytes checked in one call: as text they may take four times as many

Events = list[Event[Any, Any]]


class _NewFeatures(Exception):
    """Interrupt decoding before an event that brings new features."""

    def __init__(self, kinds: dict[str, str]) -> None:
        super().__init__(kinds)
        self.kinds = kinds


class JsonDecoder:
    """Decode with types built once from the schema; diagnose slowly what these refuse."""

    def __init__(
        self,
        schema: Mapping[str, str] | Schema | str,
        labels: Labels,
        unknown: Literal["refuse", "ignore"] = "refuse",
        max_bytes: int = 1_000_000,
    ) -> None:
        self._schema = schema if isinstance(schema, Schema) else parse_schema(schema)
        self._frozen = False
        self._ignored = 0  # values of unknown features that this call of `decode` skipped
        lenient = unknown == "ignore" or self._schema.auto
        inferred = frozenset(self._schema.inferred)
        self._rules = Rules(self._schema.kinds, labels, lenient, max_bytes, inferred)
        self._regression = labels.kind == "regression"
        self._codes = {label: float(code) for code, label in enumerate(labels.classes)}
        # 1, 1.0 and true are one key of a dict but three labels: known ones are kept by type.
        self._known_labels: set[tuple[type, object]] = set()
        self._build_types()

    def decode(self, values: Sequence[bytes | None]) -> Decoded:
        """Decode records in order, up to one that brings new features."""
        events: Events = []
        faults: Faults = []
        new_features: dict[str, str] = {}
        consumed, self._ignored = len(values), 0
        try:
            for first in range(0, len(values), CHUNK):
                self._decode_chunk(values[first : first + CHUNK], first, events, faults)
        except _NewFeatures as found:
            new_features, consumed = found.kinds, len(events) + len(faults)
        table, y, w = self._tabulate(events)
        return Decoded(table, y, w, events, faults, new_features, consumed, self._ignored)

    def tabulate(self, features: Sequence[Any]) -> Table:
        """Return the features of B decoded rows, grouped by kind."""
        n, b, c, t, v = map(len, self._groups)
        B = len(features)
        if not b + c + t + v:
            return Table(self._numbers(features, n), np.empty((B, 0)), [])
        rows = map(msgspec.structs.astuple, features)
        columns = list(zip(*rows, strict=True)) or [()] * (n + b + c + t + v)
        numbers, booleans = _pack(columns[:n], B).T, _pack(columns[n : n + b], B).T
        categories, others = columns[n + b : n + b + c], columns[n + b + c :]
        times = wall_seconds(others[:t], B) if t else EMPTY
        return Table(numbers.copy("C"), booleans.copy("C"), categories, times, others[t:])

    def diagnose(self, features: object, pointer: str) -> list[tuple[str, str]]:
        """List every fault of one row's features, each with its JSON pointer."""
        if not isinstance(features, Mapping):
            return [(pointer, f"{show(features)} is not an object of features")]
        return [
            (f"{pointer}/{name.replace('~', '~0').replace('/', '~1')}", detail)
            for _, name, detail in feature_faults(features.items(), self._rules)
        ]

    def add_features(self, kinds: Mapping[str, str]) -> None:
        """Add features of inferred kinds to the schema."""
        self._schema = self._schema.with_inferred(kinds)
        inferred = frozenset(self._schema.inferred)
        self._rules = self._rules._replace(schema=self._schema.kinds, inferred=inferred)
        self._build_types()

    def freeze(self) -> None:
        """Add no more features: ignore unknown ones from now on, and count them."""
        self._frozen = True

    def _build_types(self) -> None:
        kinds, labels = self._schema.kinds, self._rules.labels
        self._groups = [[n for n in kinds if kinds[n] == kind] for kind in FEATURE_TYPES]
        names = list(chain.from_iterable(self._groups))
        strict = feature_type(names, kinds, forbid_unknown=True)
        lenient = feature_type(names, kinds, forbid_unknown=False)
        self.FeatureType = lenient if self._rules.ignore_unknown else strict
        # The strict type goes first even where unknown features are ignored: it detects them.
        self._strict = event_decoder(strict, labels)
        self._lenient = event_decoder(lenient, labels)
        exact = exact_decoder(strict, labels)
        self._fast = exact.decode if exact else None
        self._sparse = False  # whether the last events were mostly empty
        numeric = len(self._groups[0]) == len(kinds)
        wide = numeric and len(kinds) >= MIN_COLUMNS and exact is not None
        self._sparse_reader = SparseReader(self._groups[0]) if wide else None
        dicts = exact_decoder(dict[str, Number | None], labels) if wide else None
        self._fast_dict = dicts.decode if dicts else None

    def _decode_chunk(
        self, values: Sequence[bytes | None], first: int, events: Events, faults: Faults
    ) -> None:
        """Do what `_decode_one` does to each value, in fewer steps while events look usual."""
        fast, k = self._fast_path() if self._is_sound(values) else None, 0
        while k < len(values):
            if fast is not None:
                before = len(events)
                try:
                    events.extend(map(fast, values[k:]))
                    return
                except (msgspec.DecodeError, RecursionError):
                    k += len(events) - before  # the values before the failing one are decoded
            try:
                events.append(self._decode_one(values[k]))
                fast = None  # an event, but its label has an unusual spelling
            except EventError as error:
                faults.append((first + k, error))
            k += 1

    def _fast_path(self) -> Callable[[Any], Event[Any, Any]] | None:
        """Return what decodes most events; what it refuses may still be an event."""
        return self._decode_dict if self._sparse else self._fast

    def _decode_dict(self, value: bytes) -> Event[Any, Any]:
        """Decode the features as a dict; refuse the same values as for a struct."""
        assert self._fast_dict is not None
        assert self._sparse_reader is not None
        event = self._fast_dict(value)
        if not self._sparse_reader.covers(event.features):
            raise msgspec.ValidationError("a feature is unknown")
        return event

    def _decode_one(self, value: bytes | None) -> Event[Any, Any]:
        """Return the event, or raise an EventError with the first fault's code."""
        if value is None or len(value) > self._rules.max_bytes:
            raise diagnose(value, self._rules)
        try:
            # msgspec does not look into the strings it skips: `str` finds broken UTF-8 there too.
            event = self._strict.decode(str(value, "utf-8"))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            event = self._decode_leniently(value)
        self._check_label(event, value)
        return event

    def _decode_leniently(self, value: bytes) -> Event[Any, Any]:
        """Skip and count unknown features, or interrupt at new ones, as the settings say."""
        if not self._rules.ignore_unknown:
            raise diagnose(value, self._rules)
        try:
            event = self._lenient.decode(str(value, "utf-8"))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise diagnose(value, self._rules) from None
        if self._schema.auto and not self._frozen:
            self._check_label(event, value)
            kinds = infer_new_features(value, self._rules.schema)
            if kinds and event.weight != 0.0:
                raise _NewFeatures(kinds)
            return event
        names = msgspec.json.decode(value, type=EventNames).features.keys()
        self._ignored += len(names - self._rules.schema.keys())
        return event

    def _check_label(self, event: Event[Any, Any], value: bytes) -> None:
        """Raise for a label that is none of the classes."""
        if not self._regression and (event.label.__class__, event.label) not in self._known_labels:
            try:
                self._rules.labels.encode(event.label)
            except ValueError:
                raise diagnose(value, self._rules) from None
            self._known_labels.add((event.label.__class__, event.label))

    def _is_sound(self, values: Sequence[bytes | None]) -> bool:
        """Return whether all values are certainly UTF-8 throughout and not too large."""
        try:
            size = sum(map(len, values))  # type: ignore[arg-type] # is caught
            if size > CHECKED_BYTES or size > self._rules.max_bytes < max(map(len, values)):  # type: ignore[arg-type]
                return False
            str(b"\n".join(values), "utf-8")  # type: ignore[arg-type]
        except (TypeError, UnicodeDecodeError):
            return False
        return True

    def _tabulate(self, events: Events) -> tuple[Table, Vec, Vec]:
        """Return the features, the labels (B,) and the weights (B,) of B events; how empty these
        are decides how the next are decoded.
        """
        table = self.tabulate(list(map(attrgetter("features"), events)))
        if self._sparse_reader is not None:
            self._sparse = self._sparse_reader.is_worthwhile(table.numbers)
        labels: Any = map(attrgetter("label"), events)
        if not self._regression:
            labels = map(self._codes.__getitem__, labels)
        y = _pack([tuple(labels)], len(events))[0]
        weights = list(map(attrgetter("weight"), events))
        if weights.count(None) == len(weights):
            return table, y, np.ones(len(weights))
        w = np.array(weights, np.float64)
        w[np.isnan(w)] = 1.0
        return table, y, w

    def _numbers(self, features: Sequence[Any], n: int) -> Mat:
        """Return numbers (B, n) where there is nothing else."""
        if self._sparse_reader is not None and any(row.__class__ is dict for row in features):
            return self._sparse_reader.tabulate(features)
        # No column to take out: the rows one after another are the matrix.
        return _pack(list(map(msgspec.structs.astuple, features)), n)


def _pack(rows: list[tuple[Any, ...]], width: int) -> Mat:
    """Return rows as floats (rows, width); true and false are 1 and 0, None is NaN."""
    pack = struct.Struct(f"{width}d").pack
    try:  # three times as fast as NumPy
        flat = np.frombuffer(bytearray().join(starmap(pack, rows)))
    except struct.error:  # features that are null, not just absent
        flat = np.fromiter(chain.from_iterable(rows), np.float64, len(rows) * width)
    return flat.reshape(len(rows), width)
