"""Translate the bytes of records into events, and batches of events into arrays."""

from collections.abc import Mapping, Sequence
from itertools import chain
from operator import attrgetter, itemgetter
from typing import Annotated, Any, Generic, Literal, TypeVar

import msgspec
import numpy as np

from models.encoding import Table
from models.labels import Labels
from models.types import Mat, Vec
from service.errors import ConfigError, EventError
from service.faults import EPOCH_MS, LIMIT, Instant, Rules, explain, feature_faults, show

Number = Annotated[float, msgspec.Meta(ge=-LIMIT, le=LIMIT)]
Weight = Annotated[float, msgspec.Meta(ge=0.0, le=LIMIT)]
Millis = Annotated[float, msgspec.Meta(ge=EPOCH_MS[0], le=EPOCH_MS[1])]
KINDS: dict[str, Any] = {"number": Number, "boolean": bool, "category": str}

F = TypeVar("F")
L = TypeVar("L")
Faults = list[tuple[int, EventError]]


class Event(msgspec.Struct, Generic[F, L], gc=False):
    """One labelled event; `features` is a struct made from the schema, None where it has none."""

    features: F
    label: L
    id: str | None = None
    timestamp: Instant | Millis | None = None
    weight: Weight | None = None


class _Names(msgspec.Struct):
    features: dict[str, msgspec.Raw]


class Decoder:
    """Decode by types made once from the schema; what they refuse is looked at slowly."""

    def __init__(
        self,
        schema: Mapping[str, str],
        labels: Labels,
        unknown: Literal["refuse", "ignore"] = "refuse",
        max_bytes: int = 1_000_000,
    ) -> None:
        self.ignored = 0  # unknown features that were passed over
        self._rules = Rules(dict(schema), labels, unknown == "ignore", max_bytes)
        self._groups = [[n for n in schema if schema[n] == kind] for kind in KINDS]
        self._regression = labels.kind == "regression"
        # 1, 1.0 and true are one key of a dict but three labels: codes are kept by type.
        self._codes: dict[tuple[type, object], float] = {}
        self.FeatureType = self._feature_type(forbid=unknown == "refuse")
        # The strict type goes first where unknown features are ignored, too: it notices them.
        self._strict = self._event_decoder(self._feature_type(forbid=True))
        self._lenient = self._event_decoder(self._feature_type(forbid=False))

    def decode(self, value: bytes | None) -> Event[Any, Any]:
        """Return the event, or raise an EventError with the first fault's code."""
        if value is None or len(value) > self._rules.max_bytes:
            raise explain(value, self._rules)
        try:
            # msgspec does not look into the strings it skips: `str` finds broken UTF-8 there too.
            event = self._strict.decode(str(value, "utf-8"))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            event = self._decode_leniently(value)
        if not self._regression and (event.label.__class__, event.label) not in self._codes:
            self._remember(value, event.label)
        return event

    def decode_many(self, values: Sequence[bytes | None]) -> tuple[list[Event[Any, Any]], Faults]:
        """Return the events among many values, and the index and error of every other one."""
        events: list[Event[Any, Any]] = []
        faults: Faults = []
        read, codes, limit = self._strict.decode, self._codes, self._rules.max_bytes
        for index, value in enumerate(values):
            try:  # the way almost all go: `decode` in one piece, without a call of its own
                if value is not None and len(value) <= limit:
                    event = read(str(value, "utf-8"))
                    if self._regression or (event.label.__class__, event.label) in codes:
                        events.append(event)
                        continue
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                pass  # `decode` says what is wrong with it
            try:
                events.append(self.decode(value))
            except EventError as error:
                faults.append((index, error))
        return events, faults

    def tabulate(self, events: Sequence[Event[Any, Any]]) -> tuple[Table, Vec, Vec]:
        """Return the features, the labels (B,) and the weights (B,) of B events."""
        table = self.tabulate_features(list(map(attrgetter("features"), events)))
        labels = map(attrgetter("label"), events)
        if not self._regression:
            codes = self._codes
            labels = (codes[label.__class__, label] for label in labels)  # type: ignore[assignment]
        y = np.fromiter(labels, np.float64, len(events))
        w = np.fromiter(map(attrgetter("weight"), events), np.float64, len(events))
        w[np.isnan(w)] = 1.0
        return table, y, w

    def tabulate_features(self, features: Sequence[Any]) -> Table:
        """Return the features of B instances of `FeatureType`, grouped by kind."""
        rows = list(map(msgspec.structs.astuple, features))
        n, b, c = map(len, self._groups)
        return Table(
            numbers=_matrix(rows, slice(0, n)),
            booleans=_matrix(rows, slice(n, n + b)),
            categories=[list(map(itemgetter(n + b + i), rows)) for i in range(c)],
        )

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
                [(f"f{i}", kind | None, None) for i, kind in enumerate(kinds)],
                rename={f"f{i}": name for i, name in enumerate(names)},
                forbid_unknown_fields=forbid,
                gc=False,
            )
        except ValueError as err:
            raise ConfigError(f"features.schema has a name that cannot be used: {err}") from err

    def _event_decoder(self, features: type) -> msgspec.json.Decoder[Event[Any, Any]]:
        label: Any = bool | int | float | str
        if self._regression:
            label = Annotated[float, msgspec.Meta(ge=self._rules.labels.least, le=LIMIT)]
        return msgspec.json.Decoder(Event[features, label])  # type: ignore[valid-type]

    def _decode_leniently(self, value: bytes) -> Event[Any, Any]:
        """Pass over unknown features and count them, where that is what the settings say."""
        if not self._rules.ignore_unknown:
            raise explain(value, self._rules)
        try:
            event = self._lenient.decode(str(value, "utf-8"))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise explain(value, self._rules) from None
        names = msgspec.json.decode(value, type=_Names).features.keys()
        self.ignored += len(names - self._rules.schema.keys())
        return event

    def _remember(self, value: bytes, label: Any) -> None:
        try:
            self._codes[label.__class__, label] = self._rules.labels.encode(label)
        except ValueError:
            raise explain(value, self._rules) from None


def _matrix(rows: list[tuple[Any, ...]], columns: slice) -> Mat:
    """Take some columns as floats; NumPy makes None a NaN, and true and false 1 and 0."""
    width = columns.stop - columns.start
    values = chain.from_iterable(map(itemgetter(columns), rows))
    return np.fromiter(values, np.float64, len(rows) * width).reshape(len(rows), width)
