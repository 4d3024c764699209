"""Decode events with types built once from the schema; what these refuse is diagnosed slowly.

The base of every event format: a subclass reads the bytes of a record.
"""

import struct
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
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
from kaboost.service.events.decoder import DUPLICATE, Decoded, Faults, Headers, no_headers
from kaboost.service.events.diagnosis import Rules, feature_faults, show
from kaboost.service.events.inference import infer_new_features
from kaboost.service.events.json_types import FEATURE_TYPES, Event, feature_type
from kaboost.service.events.metadata import RepairCounts, normalise
from kaboost.service.events.reader import Skipped

CHUNK = 100  # events decoded in one call of msgspec's decoder
REFUSED = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)  # by a typed decoder

Events = list[Event[Any, Any]]
Fast = Callable[[Any], Event[Any, Any]]


class _NewFeatures(Exception):
    """Interrupt decoding before an event that brings new features."""

    def __init__(self, kinds: dict[str, str]) -> None:
        super().__init__(kinds)
        self.kinds = kinds


class TypedDecoder(ABC):
    """Decode with types built once from the schema; diagnose slowly what these refuse.

    Parameters
    ----------
    schema
        Feature name to kind, `auto`, or the schema of a model.
    labels
        The labels of the task.
    unknown
        What becomes of an event with a feature that the schema lacks.
    max_bytes
        Larger records are faults.
    """

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
        self._skipped: list[tuple[int, str]] = []
        self._repairs: RepairCounts = {}
        self._headers: Callable[[int], Headers] = no_headers
        lenient = unknown == "ignore" or self._schema.auto
        inferred = frozenset(self._schema.inferred)
        self._rules = Rules(self._schema.kinds, labels, lenient, max_bytes, inferred)
        self._regression = labels.kind == "regression"
        self._codes = {label: float(code) for code, label in enumerate(labels.classes)}
        # 1, 1.0 and true are one key of a dict but three labels: known ones are kept by type.
        self._known_labels: set[tuple[type, object]] = set()
        self._build_types()

    def prepare(self, values: Sequence[bytes | None]) -> None:
        """Fetch what decoding these takes; by default nothing."""
        del values

    def decode(
        self,
        values: Sequence[bytes | None],
        headers: Callable[[int], Headers] = no_headers,
        is_new: Callable[[str], bool] | None = None,
    ) -> Decoded:
        """Decode records in order, up to one that brings new features."""
        events: Events = []
        faults: Faults = []
        new_features: dict[str, str] = {}
        consumed, self._ignored, self._skipped, self._headers = len(values), 0, [], headers
        self._repairs = {}
        try:
            for first in range(0, len(values), CHUNK):
                self._decode_chunk(values[first : first + CHUNK], first, events, faults)
        except _NewFeatures as found:
            new_features, consumed = found.kinds, len(events) + len(faults) + len(self._skipped)
        skipped = self._skipped
        if is_new is not None and events:
            events = self._drop_duplicates(events, faults, is_new)
        table, y, w = self._tabulate(events)
        others = (events, faults, new_features, consumed, self._ignored, skipped, self._repairs)
        return Decoded(table, y, w, *others)

    def _drop_duplicates(
        self, events: Events, faults: Faults, is_new: Callable[[str], bool]
    ) -> Events:
        """Return the events with a new id or none; the others count as skipped."""
        ids = list(map(attrgetter("id"), events))
        if ids.count(None) == len(ids):
            return events
        repeated = [k for k, id_ in enumerate(ids) if id_ is not None and not is_new(str(id_))]
        if not repeated:
            return events
        gone = {index for index, _ in chain(faults, self._skipped)}
        total = len(events) + len(gone)
        places = [index for index in range(total) if index not in gone]
        self._skipped += [(places[k], DUPLICATE) for k in repeated]
        self._skipped.sort()
        dropped = frozenset(repeated)
        return [event for k, event in enumerate(events) if k not in dropped]

    def tabulate(self, features: Sequence[Any]) -> Table:
        """Return the features of B decoded rows, grouped by kind."""
        n, b, c, t, v = map(len, self._groups)
        B = len(features)
        if not b + c + t + v:
            return Table(self._numbers(features, n), np.empty((B, 0)), [])
        rows = self._rows(features)
        columns = list(zip(*rows, strict=True)) or [()] * (n + b + c + t + v)
        numbers, booleans = pack(columns[:n], B).T, pack(columns[n : n + b], B).T
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

    @property
    def feature_names(self) -> list[str]:
        """The features in the order of `FeatureType`."""
        return list(chain.from_iterable(self._groups))

    def _build_types(self) -> None:
        """Build the types of the schema; called again when it grows."""
        kinds = self._schema.kinds
        self._groups = [[n for n in kinds if kinds[n] == kind] for kind in FEATURE_TYPES]
        names = self.feature_names
        self._strict_type = feature_type(names, kinds, forbid_unknown=True)
        self._lenient_type = feature_type(names, kinds, forbid_unknown=False)
        self.FeatureType = self._lenient_type if self._rules.ignore_unknown else self._strict_type

    # What a format implements.

    @abstractmethod
    def _read(self, value: bytes | None, index: int) -> Any:
        """Return what the methods below take for a record; raise its EventError, or Skipped."""

    @abstractmethod
    def _decode_strictly(self, raw: Any) -> Any:
        """Return the event, id and timestamp as they came, or raise one of REFUSED.

        An unknown feature is refused.
        """

    @abstractmethod
    def _decode_known(self, raw: Any) -> Any:
        """Return the event without its unknown features, or raise one of REFUSED."""

    @abstractmethod
    def _feature_items(self, raw: Any) -> Iterable[tuple[str, object]]:
        """Return names and values of the features of a record that holds an event."""

    @abstractmethod
    def _diagnose(self, raw: Any) -> EventError:
        """Return the error of a refused record."""

    def _fast_path(self, values: Sequence[bytes | None]) -> Fast | None:
        """Return what decodes most of these; what it refuses may still be an event."""
        return None

    def _rows(self, features: Sequence[Any]) -> Iterable[tuple[Any, ...]]:
        """Return the values of every row in the order of `feature_names`."""
        return map(msgspec.structs.astuple, features)

    def _numbers(self, features: Sequence[Any], n: int) -> Mat:
        """Return numbers (B, n) where there is nothing else."""
        # No column to take out: the rows one after another are the matrix.
        return pack(list(self._rows(features)), n)

    def _features(self, events: Events) -> list[Any]:
        """Return what `tabulate` takes for every event."""
        return list(map(attrgetter("features"), events))

    def _decode_chunk(
        self, values: Sequence[bytes | None], first: int, events: Events, faults: Faults
    ) -> None:
        """Do what `_decode_one` does to each value, in fewer steps while events look usual."""
        fast, k = self._fast_path(values), 0
        while k < len(values):
            if fast is not None:
                before = len(events)
                try:
                    events.extend(map(fast, values[k:]))
                    return
                except (msgspec.DecodeError, RecursionError, EventError, Skipped):
                    k += len(events) - before  # the values before the failing one are decoded
            try:
                events.append(self._decode_one(values[k], first + k))
                fast = None  # an event, but not as usual
            except EventError as error:
                faults.append((first + k, error))
            except Skipped as skipped:
                self._skipped.append((first + k, skipped.reason))
            k += 1

    def _decode_one(self, value: bytes | None, index: int) -> Event[Any, Any]:
        """Return the event, or raise an EventError with the first fault's code."""
        raw = self._read(value, index)
        try:
            event = self._decode_strictly(raw)
        except REFUSED:
            event = self._decode_leniently(raw)
        self._check_label(event, raw)
        normalise(event, self._repairs)
        decoded: Event[Any, Any] = event
        return decoded

    def _decode_leniently(self, raw: Any) -> Any:
        """Skip and count unknown features, or interrupt at new ones, as the settings say."""
        if not self._rules.ignore_unknown:
            raise self._diagnose(raw)
        try:
            event = self._decode_known(raw)
        except REFUSED:
            raise self._diagnose(raw) from None
        items = list(self._feature_items(raw))
        if self._schema.auto and not self._frozen:
            self._check_label(event, raw)
            kinds = infer_new_features(items, self._rules.schema)
            if kinds and event.weight != 0.0:
                raise _NewFeatures(kinds)
            return event
        self._ignored += len({name for name, _ in items} - self._rules.schema.keys())
        return event

    def _check_label(self, event: Any, raw: Any) -> None:
        """Raise for a label that is none of the classes."""
        if not self._rules.labelled or self._regression:
            return
        if (event.label.__class__, event.label) not in self._known_labels:
            try:
                self._rules.labels.encode(event.label)
            except ValueError:
                raise self._diagnose(raw) from None
            self._known_labels.add((event.label.__class__, event.label))

    def _labels(self, events: Events) -> Vec:
        """Return the labels (B,); zeros where they come in other records."""
        if not self._rules.labelled:
            return np.zeros(len(events))
        labels: Any = map(attrgetter("label"), events)
        if not self._regression:
            labels = map(self._codes.__getitem__, labels)
        y: Vec = pack([tuple(labels)], len(events))[0]
        return y

    def _tabulate(self, events: Events) -> tuple[Table, Vec, Vec]:
        """Return the features, the labels (B,) and the weights (B,) of B events."""
        table = self.tabulate(self._features(events))
        y = self._labels(events)
        weights = list(map(attrgetter("weight"), events))
        if weights.count(None) == len(weights):
            return table, y, np.ones(len(weights))
        w = np.array(weights, np.float64)
        w[np.isnan(w)] = 1.0
        return table, y, w


def pack(rows: list[tuple[Any, ...]], width: int) -> Mat:
    """Return rows as floats (rows, width); true and false are 1 and 0, None is NaN."""
    pack = struct.Struct(f"{width}d").pack
    try:  # three times as fast as NumPy
        flat = np.frombuffer(bytearray().join(starmap(pack, rows)))
    except struct.error:  # features that are null, not just absent
        flat = np.fromiter(chain.from_iterable(rows), np.float64, len(rows) * width)
    return flat.reshape(len(rows), width)
