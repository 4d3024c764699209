"""Decode events with types built once from the schema; what these refuse is diagnosed slowly.

The base of every event format: a subclass reads the bytes of a record.
"""

import struct
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import chain, starmap
from operator import attrgetter
from typing import Any, Literal

import msgspec
import numpy as np

from kaboost.models.features.datetimes import wall_seconds
from kaboost.models.features.labels import Label, Labels
from kaboost.models.features.onehot import EMPTY, Table
from kaboost.models.features.readings import UNREADABLE, is_misfit, is_odd, name_of, reading
from kaboost.models.features.schema import Schema, parse_schema
from kaboost.models.types import Mat, Vec
from kaboost.service.errors import EventError
from kaboost.service.events.decoder import DUPLICATE, Decoded, Faults, Headers, no_headers
from kaboost.service.events.diagnosis import Rules, feature_faults, show
from kaboost.service.events.inference import infer_new_features
from kaboost.service.events.json_types import FEATURE_TYPES, Event, alias, feature_type
from kaboost.service.events.metadata import RepairCounts, normalise
from kaboost.service.events.new_names import NewNames
from kaboost.service.events.privacy import Privacy, read_plainly
from kaboost.service.events.reader import Skipped

_NAMES = frozenset((str, type(None)))
CHUNK = 100  # events decoded in one call of msgspec's decoder
REFUSED = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)  # by a typed decoder

Events = list[Event[Any, Any]]
Fast = Callable[[Any], Event[Any, Any]]


class _NewFeatures(Exception):
    """Interrupt decoding before an event that brings new features."""

    def __init__(self, kinds: dict[str, str]) -> None:
        super().__init__(kinds)
        self.kinds = kinds


class _NewClass(Exception):
    """Interrupt decoding before an event whose label begins a class."""

    def __init__(self, label: Label) -> None:
        super().__init__(label)
        self.label = label


class _Undecided(Exception):
    """Interrupt decoding before an event that may correct an inferred kind."""


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
        self._names: NewNames | None = None  # without it every new name becomes a feature
        self._on_trial: dict[str, str] = {}  # new names of the event that is decoded
        self._ignored = 0  # values of unknown features that this call of `decode` skipped
        self._skipped: list[tuple[int, str]] = []
        self._repairs: RepairCounts = {}
        # Values of open features in the last event, if its values were of other types than usual.
        self._reread: list[tuple[str, Any]] | None = None
        self._headers: Callable[[int], Headers] = no_headers
        self.privacy = Privacy()
        lenient = unknown == "ignore" or self._schema.auto
        inferred = frozenset(self._schema.inferred)
        self._rules = Rules(
            self._schema.kinds, labels, lenient, max_bytes, inferred, open=self._schema.open
        )
        self._odd: list[tuple[int, str, Any]] = []  # of the events of this call of `decode`
        self._regression = labels.kind == "regression"
        self._codes = _codes(labels)
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
        """Decode records in order, up to one that brings new features or a new class."""
        events: Events = []
        faults: Faults = []
        new_features: dict[str, str] = {}
        new_class: Label | None = None
        consumed, self._ignored, self._skipped, self._headers = len(values), 0, [], headers
        self._repairs, self._odd = {}, []
        try:
            for first in range(0, len(values), CHUNK):
                self._decode_chunk(values[first : first + CHUNK], first, events, faults)
        except _NewFeatures as found:
            new_features, consumed = found.kinds, len(events) + len(faults) + len(self._skipped)
        except _NewClass as found:
            new_class, consumed = found.label, len(events) + len(faults) + len(self._skipped)
        except _Undecided:
            consumed = len(events) + len(faults) + len(self._skipped)
        skipped = self._skipped
        if consumed and self._names is not None:
            self._names.end_event()
        if is_new is not None and events:
            events = self._drop_duplicates(events, faults, is_new)
        table, y, w = self._tabulate(events)
        if self._odd and events:
            table = table._replace(odd=self._odd)
        faults = self.privacy.faults(
            faults, lambda index: self.plain(values[index], headers(index))
        )
        repairs = self.privacy.repairs(self._repairs)
        others = (events, faults, new_features, consumed, self._ignored, skipped, repairs)
        return Decoded(table, y, w, *others, new_class=new_class)

    def plain(self, value: bytes | None, headers: Headers) -> object:
        """Return a record as plain values with all that it brings, or raise an EventError."""
        return read_plainly(value, lambda: self._read_plain(value, headers))

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
        self._odd = [
            (k - bisect_left(repeated, k), *odd) for k, *odd in self._odd if k not in dropped
        ]
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
        categories, others = list(map(names_of, columns[n + b : n + b + c])), columns[n + b + c :]
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
        schema = self._schema.with_inferred(kinds)
        self.follow(schema._replace(open=schema.open | kinds.keys()))

    def follow(self, schema: Schema) -> None:
        """Take the schema of the model, which has learned what was decoded so far."""
        if schema is self._schema:
            return
        before, self._schema = self._schema, schema
        self._rules = self._rules._replace(
            schema=schema.kinds, inferred=frozenset(schema.inferred), open=schema.open
        )
        closed = before.open - schema.open
        if closed and not schema.open:
            self._build_types()  # some types are for sure kinds only
        elif schema.kinds != before.kinds or any(schema.kinds[n] == "category" for n in closed):
            self._build_types()

    def limit_names(self, names: NewNames) -> None:
        """Ask before names that nobody declared become features."""
        self._names = names

    def follow_labels(self, labels: Labels) -> None:
        """Take the labels of the model, to which a class was added."""
        self._rules = self._rules._replace(labels=labels)
        self._codes = _codes(labels)
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
        schema, kinds = self._schema, self._schema.kinds
        self._groups = [[n for n in kinds if kinds[n] == kind] for kind in FEATURE_TYPES]
        names = self.feature_names
        self.aliases = {name: field for name in names if (field := alias(name)) != name}
        self._strict_type = feature_type(names, schema, forbid_unknown=True)
        self._lenient_type = feature_type(names, schema, forbid_unknown=False)
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
    def _known_values(self, raw: Any) -> dict[str, Any]:
        """Return the values of a record's known features that can be decoded, or raise one of
        REFUSED.
        """

    @abstractmethod
    def _with_values(self, raw: Any, values: Mapping[str, Any]) -> Any:
        """Return a record with other values of some features."""

    @abstractmethod
    def _diagnose(self, raw: Any) -> EventError:
        """Return the error of a refused record."""

    def _read_plain(self, value: bytes | None, headers: Headers) -> object:
        """Return a record that is no JSON object as plain values, or raise an EventError."""
        raise EventError("json", "not JSON")

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
                fast = None if self._reread is None else fast  # an event, but not as usual
                self._odd += [(len(events) - 1, *odd) for odd in self._reread or ()]
            except EventError as error:
                faults.append((first + k, error))
            except Skipped as skipped:
                self._skipped.append((first + k, skipped.reason))
            k += 1

    def _decode_one(self, value: bytes | None, index: int) -> Event[Any, Any]:
        """Return the event, or raise an EventError with the first fault's code."""
        raw = self._read(value, index)
        self._on_trial, again = {}, index == 0  # the first record may have been decoded before
        values: dict[str, Any] = {}
        other: dict[str, Any] = {}
        try:
            event = self._decode_strictly(raw)
        except REFUSED:
            with suppress(*REFUSED):  # no event at all: the diagnosis says why
                values = self._known_values(raw)
                other = self._readings(values)
            reread = self._with_values(raw, other) if other else raw
            event = self._decode_again(reread, raw, again=again)
        self._check_label(event, raw)
        self._reread = None
        if other:
            self._note_odd(values, index)
        if self._on_trial and self._names is not None:
            if proven := self._names.count(self._on_trial):
                raise _NewFeatures(proven)
            self._ignored += len(self._on_trial)
        normalise(event, self._repairs)
        decoded: Event[Any, Any] = event
        return decoded

    def _decode_again(self, reread: Any, raw: Any, *, again: bool) -> Any:
        """Return the event of a record that was refused, whose values may be read otherwise now."""
        if reread is not raw:
            with suppress(*REFUSED):
                return self._decode_strictly(reread)
        return self._decode_leniently(reread, again=again)

    def _readings(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return what values mean whose types are not the usual ones; none where one of them means
        nothing.
        """
        found = {}
        for name, value in values.items():
            read = reading(value, self._schema.kinds[name], self._rules.sureness(name))
            if read is UNREADABLE:
                return {}
            if read is not value:
                found[name] = read
        return found

    def _note_odd(self, values: Mapping[str, Any], index: int) -> None:
        """Note the values of open features that are of another class than their kind.

        Those that may correct it are counted after all events before them, so these are learned
        first.
        """
        kinds, is_open = self._schema.kinds, self._schema.open
        found = [(name, v) for name, v in values.items() if name in is_open]
        if index and any(is_misfit(value, kinds[name]) for name, value in found):
            raise _Undecided
        self._reread = [(name, value) for name, value in found if is_odd(value, kinds[name])]

    def _decode_leniently(self, raw: Any, *, again: bool) -> Any:
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
            names = self._names
            on_trial = names is not None and names.on_trial(again=again)
            kinds = infer_new_features(
                items, self._rules.schema, on_trial=on_trial, shown=self.privacy.shown_feature
            )
            if kinds and event.weight != 0.0:
                if not on_trial:
                    raise _NewFeatures(kinds)
                self._on_trial = kinds
            return event
        self._ignored += len({name for name, _ in items} - self._rules.schema.keys())
        return event

    def _check_label(self, event: Any, raw: Any) -> None:
        """Raise for a label that is none of the classes, and interrupt where it begins one."""
        if not self._rules.labelled or self._regression:
            return
        if (event.label.__class__, event.label) not in self._known_labels:
            new = self._rules.labels.new_class(event.label)
            if new is not None:
                if event.weight == 0.0:
                    return  # it teaches nothing
                raise _NewClass(new)
            try:
                self._rules.labels.encode(event.label)
            except ValueError:
                raise self._diagnose(raw) from None
            self._known_labels.add((event.label.__class__, event.label))

    def _labels(self, events: Events) -> Vec:
        """Return the labels (B,); zeros where they come in other records."""
        if not self._rules.labelled:
            return np.zeros(len(events))
        labels: Any = tuple(map(attrgetter("label"), events))
        if not self._regression:
            try:
                labels = tuple(map(self._codes.__getitem__, labels))
            except KeyError:  # unknown, where classes are learned: its weight is 0
                labels = tuple(self._codes.get(label, 0.0) for label in labels)
        y: Vec = pack([labels], len(events))[0]
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


def _codes(labels: Labels) -> dict[Label, float]:
    return {label: float(code) for code, label in enumerate(labels.classes)}


def names_of(column: tuple[Any, ...]) -> Sequence[str | None]:
    """Return the values of a category, of which some may be numbers or booleans, by name."""
    if _NAMES.issuperset(map(type, column)):
        return column
    return [x if x is None or x.__class__ is str else name_of(x) for x in column]


def pack(rows: list[tuple[Any, ...]], width: int) -> Mat:
    """Return rows as floats (rows, width); true and false are 1 and 0, None is NaN."""
    pack = struct.Struct(f"{width}d").pack
    try:  # three times as fast as NumPy
        flat = np.frombuffer(bytearray().join(starmap(pack, rows)))
    except struct.error:  # features that are null, not just absent
        flat = np.fromiter(chain.from_iterable(rows), np.float64, len(rows) * width)
    return flat.reshape(len(rows), width)
