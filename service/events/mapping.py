"""Read an event from a record as it is: paths to features, label, id, timestamp and weight."""

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from kaboost.service.config.records import Events
from kaboost.service.errors import EventError
from kaboost.service.events.diagnosis import shorten, show
from kaboost.service.events.values import coerce, coerce_undeclared, flatten, scalar

MAX_KEYS = 10  # of a record that a message lists

Path = tuple[str, ...]


class Missing(NamedTuple):
    """Stands for a value that a record lacks; null is None."""


MISSING = Missing()


class Paths(NamedTuple):
    """Where the parts of an event are in a record; None where no record has them."""

    features: Path | dict[str, Path] | None  # None: all that is not named
    label: Path | None
    id: Path | None
    timestamp: Path | None
    weight: Path | None
    ignored: frozenset[str]  # names below the features that are left out


class RecordMapping:
    """Map a record to the envelope of docs/events.md, its features flat.

    Parameters
    ----------
    events
        The settings.
    labelled
        Whether a record has to have a label.
    """

    def __init__(self, events: Events, *, labelled: bool = True) -> None:
        self.paths = paths_of(events, labelled=labelled)
        parts = self.paths._asdict()
        keys = ("label", "id", "timestamp", "weight")
        # All but the features, where there is one.
        self._parts: dict[str, Path] = {key: parts[key] for key in keys if parts[key] is not None}
        self.names = {key: dotted(path) for key, path in self._parts.items()}
        self.coerces = events.coerce

    def envelope(
        self, record: object, schema: Mapping[str, str], unsure: Collection[str] = ()
    ) -> dict[str, Any]:
        """Return features, label, id, timestamp and weight of a record.

        Raises
        ------
        EventError
            With the code `schema` where the features or the label are not there.
        """
        event: dict[str, Any] = {"features": self.features_of(record, schema, unsure)}
        assert isinstance(record, Mapping)
        for key, path in self._parts.items():
            value = find(record, path)
            if value is not MISSING:
                event[key] = scalar(value)
            elif key == "label":
                raise EventError("schema", self._missing(key, record))
        return event

    def features_of(
        self, record: object, schema: Mapping[str, str], unsure: Collection[str] = ()
    ) -> dict[str, Any]:
        """Return the features of a record by name, coerced to the schema where that is set.

        Features that the schema lacks, and those whose kinds are not sure, are coerced to what they
        read as.

        Raises
        ------
        EventError
            Where the record has no features.
        """
        where = self.paths.features
        if not isinstance(record, Mapping):
            what = f"{show(record)} is not an object; send an object of fields"
            raise EventError("schema", what)
        if where is None:
            found = flatten(record, self.paths.ignored)
        elif isinstance(where, dict):
            present = ((name, find(record, path)) for name, path in where.items())
            named = {name: value for name, value in present if value is not MISSING}
            found = flatten(named, frozenset())
        else:
            below = find(record, where)
            if not isinstance(below, Mapping):
                raise EventError("schema", self._no_features(below, record))
            found = flatten(below, self.paths.ignored)
        if self.coerces:
            found = {
                name: coerce(value, schema[name])
                if name in schema and name not in unsure
                else coerce_undeclared(value)
                for name, value in found.items()
            }
        return found

    def _missing(self, key: str, record: Mapping[str, Any]) -> str:
        remedy = f"send it, or set events.{key} to its path; labels that come later: labels.topic"
        return f"{self.names[key]}: is missing; {listed(record)}: {remedy}"

    def _no_features(self, below: object, record: Mapping[str, Any]) -> str:
        assert isinstance(self.paths.features, tuple)
        name = dotted(self.paths.features)
        what = "is missing" if below is MISSING else f"{show(below)} is not an object"
        return f"{name}: {what}; {listed(record)}: set events.features to where they are"


def paths_of(events: Events, *, labelled: bool) -> Paths:
    """Return the paths that the settings name, or those of the envelope of docs/events.md."""
    label = parse_path(events.label) if labelled else None
    if not events.is_mapped:
        return Paths(("features",), label, ("id",), ("timestamp",), ("weight",), frozenset())
    one = [events.id, events.timestamp, events.weight]
    id_, timestamp, weight = (parse_path(path) if path else None for path in one)
    ignored = [parse_path(path) for path in events.ignore]
    where: Path | dict[str, Path] | None
    if events.features == "*":
        where = None
        # The label is no feature either where it comes later.
        ignored += [path for path in (id_, timestamp, weight, parse_path(events.label)) if path]
    elif isinstance(events.features, dict):
        where = {name: parse_path(path) for name, path in events.features.items()}
    else:
        where = parse_path(events.features)
        depth = len(where)
        named = [path for path in (id_, timestamp, weight, label) if path]
        ignored = [p[depth:] for p in [*ignored, *named] if p[:depth] == where] + ignored
    return Paths(where, label, id_, timestamp, weight, frozenset(map(dotted, ignored)))


def parse_path(text: str) -> Path:
    """Return the names of a path: dotted, or a JSON pointer (RFC 6901).

    Examples
    --------
    >>> parse_path("outcome.is_fraud"), parse_path("/outcome/is.fraud")
    (('outcome', 'is_fraud'), ('outcome', 'is.fraud'))
    """
    if text.startswith("/"):
        return tuple(name.replace("~1", "/").replace("~0", "~") for name in text[1:].split("/"))
    return tuple(text.split("."))


def dotted(path: Path) -> str:
    """Return a path as one name."""
    return ".".join(path)


def find(record: object, path: Path) -> Any:
    """Return the value at a path; MISSING where a name on it is."""
    value = record
    for name in path:
        if isinstance(value, Mapping) and name in value:
            value = value[name]
        elif isinstance(value, list | tuple) and name.isdigit() and int(name) < len(value):
            value = value[int(name)]
        else:
            return MISSING
    return value


def listed(record: Mapping[str, Any]) -> str:
    """List the first keys of a record, for a message."""
    keys = [shorten(str(key), 30) for key in list(record)[:MAX_KEYS]]
    more = f" and {len(record) - MAX_KEYS} more" if len(record) > MAX_KEYS else ""
    return f"the record has {', '.join(keys)}{more}" if keys else "the record is empty"
