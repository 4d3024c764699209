"""Translate the bytes of records into events, and batches of events into arrays."""

import math
import struct
from collections.abc import Callable, Mapping, Sequence
from itertools import chain, starmap
from operator import attrgetter
from typing import Annotated, Any, Generic, Literal, TypeVar

import msgspec
import numpy as np

from kaboost.models.features.datetimes import PATTERN, wall_seconds
from kaboost.models.features.labels import Labels
from kaboost.models.features.onehot import EMPTY, Table
from kaboost.models.features.schema import Schema, parse_schema
from kaboost.models.types import Mat, Vec
from kaboost.service.errors import ConfigError, EventError
from kaboost.service.events.diagnosis import (
    EPOCH_MS,
    LIMIT,
    Instant,
    Rules,
    explain,
    feature_faults,
    show,
)
from kaboost.service.events.inference import newcomers
from kaboost.service.events.sparse import COLUMNS, Sparse

Number = Annotated[float, msgspec.Meta(ge=-LIMIT, le=LIMIT)]
Weight = Annotated[float, msgspec.Meta(ge=0.0, le=LIMIT)]
Millis = Annotated[float, msgspec.Meta(ge=EPOCH_MS[0], le=EPOCH_MS[1])]
PIECE = 100  # events decoded in one go
LITERAL = 2**62  # msgspec has types of smaller integers only
TOGETHER = 1_000_000  # bytes that are checked in one go: as text they may be four times as many
Moment = Annotated[str, msgspec.Meta(pattern=PATTERN)]
KINDS: dict[str, Any] = {
    "number": Number,
    "boolean": bool,
    "category": str,
    "datetime": Moment,
    "text": str,
}

F = TypeVar("F")
L = TypeVar("L")
Faults = list[tuple[int, EventError]]


class Event(msgspec.Struct, Generic[F, L], gc=False):
    """One labelled event; `features` is a struct made from the schema, None where it has none, or
    a dict of what is there where most is not.
    """

    features: F
    label: L
    id: str | None = None
    timestamp: Instant | Millis | None = None
    weight: Weight | None = None


class _Names(msgspec.Struct):
    features: dict[str, msgspec.Raw]


class _Joining(Exception):
    """An event brings features that may join."""

    def __init__(self, found: dict[str, str]) -> None:
        super().__init__(found)
        self.found = found


class Decoder:
    """Decode by types made once from the schema; what they refuse is looked at slowly."""

    def __init__(
        self,
        schema: Mapping[str, str] | Schema | str,
        labels: Labels,
        unknown: Literal["refuse", "ignore"] = "refuse",
        max_bytes: int = 1_000_000,
    ) -> None:
        self.ignored = 0  # unknown features that were passed over
        self.joining: dict[str, str] = {}  # features, and their kinds, that came up in `taken`
        self.taken = 0  # values that the last `decode_many` has decoded
        self._told = schema if isinstance(schema, Schema) else parse_schema(schema)
        self._full = False  # whether no further feature may join
        lenient = unknown == "ignore" or self._told.auto
        self._rules = Rules(
            self._told.kinds, labels, lenient, max_bytes, frozenset(self._told.inferred)
        )
        self._regression = labels.kind == "regression"
        self._codes = {label: float(code) for code, label in enumerate(labels.classes)}
        # 1, 1.0 and true are one key of a dict but three labels: known ones are kept by type.
        self._known: set[tuple[type, object]] = set()
        self._make_types()

    def add_features(self, found: Mapping[str, str]) -> None:
        """Know features from now on, of the kinds that were inferred."""
        self._told = self._told.with_inferred(found)
        inferred = frozenset(self._told.inferred)
        self._rules = self._rules._replace(schema=self._told.kinds, inferred=inferred)
        self._make_types()

    def close(self) -> None:
        """Ignore features that are not known from now on, and count them."""
        self._full = True

    def _make_types(self) -> None:
        kinds = self._told.kinds
        self._groups = [[n for n in kinds if kinds[n] == kind] for kind in KINDS]
        self.FeatureType = self._feature_type(forbid=not self._rules.ignore_unknown)
        # A strict type goes first where unknown features are ignored, too: it notices them.
        strict = self._feature_type(forbid=True)
        self._strict = self._event_decoder(strict)
        self._lenient = self._event_decoder(self._feature_type(forbid=False))
        self._sparse = False  # whether events of late were mostly empty
        usual = self._usual_decoder(strict)
        self._narrow = usual.decode if usual else None
        wide = len(self._groups[0]) == len(kinds) >= COLUMNS and usual is not None
        self._dicts = Sparse(self._groups[0]) if wide else None
        told = self._usual_decoder(dict[str, Number | None]) if wide else None
        self._few = told.decode if told else None

    def decode(self, value: bytes | None) -> Event[Any, Any]:
        """Return the event, or raise an EventError with the first fault's code."""
        if value is None or len(value) > self._rules.max_bytes:
            raise explain(value, self._rules)
        try:
            # msgspec does not look into the strings it skips: `str` finds broken UTF-8 there too.
            event = self._strict.decode(str(value, "utf-8"))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            event = self._decode_leniently(value)
        self._check_label(event, value)
        return event

    def decode_many(self, values: Sequence[bytes | None]) -> tuple[list[Event[Any, Any]], Faults]:
        """Return the events among many values, and the index and error of every other one.

        Where features may join it ends before an event that brings some: `taken` is its index, and
        `joining` has them. After `join` or `close` it goes on from there.
        """
        events: list[Event[Any, Any]] = []
        faults: Faults = []
        self.joining, self.taken = {}, len(values)
        try:
            for first in range(0, len(values), PIECE):
                self._decode_piece(values[first : first + PIECE], first, events, faults)
        except _Joining as news:
            self.joining, self.taken = news.found, len(events) + len(faults)
        return events, faults

    def _decode_piece(
        self,
        values: Sequence[bytes | None],
        first: int,
        events: list[Event[Any, Any]],
        faults: Faults,
    ) -> None:
        """Do what `decode` does for each value, in fewer steps for as long as they are as most."""
        usual, k = self._usual() if self._is_sound(values) else None, 0
        while k < len(values):
            if usual is not None:
                before = len(events)
                try:
                    events.extend(map(usual, values[k:]))
                    return
                except (msgspec.DecodeError, RecursionError):
                    k += len(events) - before  # the values before the one it fails at are there
            try:
                events.append(self.decode(values[k]))
                usual = None  # an event, but its label is written as few are
            except EventError as error:
                faults.append((first + k, error))
            k += 1

    def _usual(self) -> Callable[[Any], Event[Any, Any]] | None:
        """Return what decodes most events: what it refuses may still be one."""
        return self._decode_few if self._sparse else self._narrow

    def _decode_few(self, value: bytes) -> Event[Any, Any]:
        """Decode the features as a dict; the same values are refused as where it is a struct."""
        assert self._few is not None
        assert self._dicts is not None
        event = self._few(value)
        if not self._dicts.knows(event.features):
            raise msgspec.ValidationError("a feature is unknown")
        return event

    def _is_sound(self, values: Sequence[bytes | None]) -> bool:
        """Say whether all values are UTF-8 throughout and not too large; if not sure, they are
        not.
        """
        try:
            size = sum(map(len, values))  # type: ignore[arg-type] # is caught
            if size > TOGETHER or size > self._rules.max_bytes < max(map(len, values)):  # type: ignore[arg-type]
                return False
            str(b"\n".join(values), "utf-8")  # type: ignore[arg-type]
        except (TypeError, UnicodeDecodeError):
            return False
        return True

    def tabulate(self, events: Sequence[Event[Any, Any]]) -> tuple[Table, Vec, Vec]:
        """Return the features, the labels (B,) and the weights (B,) of B events; how empty these
        are says how the next are decoded.
        """
        table = self.tabulate_features(list(map(attrgetter("features"), events)))
        if self._dicts is not None:
            self._sparse = self._dicts.pays(table.numbers)
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

    def tabulate_features(self, features: Sequence[Any]) -> Table:
        """Return the features of B events, grouped by kind."""
        n, b, c, t, v = map(len, self._groups)
        B = len(features)
        if not b + c + t + v:
            return Table(self._numbers(features, n), np.empty((B, 0)), [])
        rows = map(msgspec.structs.astuple, features)
        columns = list(zip(*rows, strict=True)) or [()] * (n + b + c + t + v)
        numbers, booleans = _pack(columns[:n], B).T, _pack(columns[n : n + b], B).T
        categories, told = columns[n + b : n + b + c], columns[n + b + c :]
        times = wall_seconds(told[:t], B) if t else EMPTY
        return Table(numbers.copy("C"), booleans.copy("C"), categories, times, told[t:])

    def _numbers(self, features: Sequence[Any], n: int) -> Mat:
        """Return numbers (B, n) where there is nothing else."""
        if self._dicts is not None and any(each.__class__ is dict for each in features):
            return self._dicts.tabulate(features)
        # No column to take out: the rows one after another are the matrix.
        return _pack(list(map(msgspec.structs.astuple, features)), n)

    def faults(self, obj: object, pointer: str) -> list[tuple[str, str]]:
        """List all that is wrong with one features object, each with its JSON pointer."""
        if not isinstance(obj, Mapping):
            return [(pointer, f"{show(obj)} is not an object of features")]
        return [
            (f"{pointer}/{where.replace('~', '~0').replace('/', '~1')}", detail)
            for _, where, detail in feature_faults(obj.items(), self._rules)
        ]

    def _feature_type(self, *, forbid: bool) -> type[msgspec.Struct]:
        names = list(chain.from_iterable(self._groups))
        kinds = [KINDS[self._rules.schema[name]] for name in names]
        try:
            return msgspec.defstruct(
                "Features",
                [(f"f{i}", kind | None, _missing(kind)) for i, kind in enumerate(kinds)],
                rename={f"f{i}": name for i, name in enumerate(names)},
                forbid_unknown_fields=forbid,
                gc=False,
            )
        except ValueError as err:
            raise ConfigError(f"features.schema has a name that cannot be used: {err}") from err

    def _event_decoder(
        self, features: type, label: Any = bool | int | float | str
    ) -> msgspec.json.Decoder[Event[Any, Any]]:
        if self._regression:
            label = Annotated[float, msgspec.Meta(ge=self._rules.labels.least, le=LIMIT)]
        return msgspec.json.Decoder(Event[features, label])  # type: ignore[valid-type]

    def _usual_decoder(self, features: type) -> msgspec.json.Decoder[Event[Any, Any]] | None:
        """Make a decoder that takes labels only as most spell them, and checks them by itself; none
        where msgspec has no type for that.
        """
        classes: Any = self._rules.labels.classes
        kinds = set(map(type, classes))
        if self._regression:
            return self._event_decoder(features)
        if kinds == {bool}:
            return self._event_decoder(features, bool)
        if kinds == {str} or (kinds == {int} and max(map(abs, classes)) < LITERAL):
            exact = Literal[classes]  # type: ignore[valid-type] # made as it runs
            return self._event_decoder(features, bool | exact if classes == (0, 1) else exact)
        return None

    def _decode_leniently(self, value: bytes) -> Event[Any, Any]:
        """Pass over unknown features and count them, where that is what the settings say."""
        if not self._rules.ignore_unknown:
            raise explain(value, self._rules)
        try:
            event = self._lenient.decode(str(value, "utf-8"))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise explain(value, self._rules) from None
        if self._told.auto and not self._full:
            self._check_label(event, value)
            found = newcomers(value, self._rules.schema)
            if found and event.weight != 0.0:
                raise _Joining(found)
            return event
        names = msgspec.json.decode(value, type=_Names).features.keys()
        self.ignored += len(names - self._rules.schema.keys())
        return event

    def _check_label(self, event: Event[Any, Any], value: bytes) -> None:
        """Raise for a label that is none of the classes."""
        if not self._regression and (event.label.__class__, event.label) not in self._known:
            try:
                self._rules.labels.encode(event.label)
            except ValueError:
                raise explain(value, self._rules) from None
            self._known.add((event.label.__class__, event.label))


def _missing(kind: Any) -> float | None:
    """Return what stands for an absent feature: what its column is made of, if it can."""
    return math.nan if kind in (Number, bool) else None


def _pack(rows: list[tuple[Any, ...]], width: int) -> Mat:
    """Return rows as floats (rows, width); true and false are 1 and 0, None is NaN."""
    pack = struct.Struct(f"{width}d").pack
    try:  # three times as fast as NumPy
        flat = np.frombuffer(bytearray().join(starmap(pack, rows)))
    except struct.error:  # features that are null, not just absent
        flat = np.fromiter(chain.from_iterable(rows), np.float64, len(rows) * width)
    return flat.reshape(len(rows), width)
