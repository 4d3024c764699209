"""Hide the values of private fields in what is written about a record: reasons, logs, reports."""

import hashlib
import json
import re
import secrets
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import cache, partial
from typing import NamedTuple

import msgspec

from kaboost.service.config.settings import Settings
from kaboost.service.errors import EventError
from kaboost.service.events.decoder import Faults
from kaboost.service.events.diagnosis import HugeNumber, parse
from kaboost.service.events.flat import feature_path
from kaboost.service.events.mapping import Path, dotted, parse_path, paths_of
from kaboost.service.events.metadata import RepairCounts, Repairs

HIDDEN = "[hidden]"
HASH_BYTES = 6
WINDOW = 6  # characters: a part of a value that is as long is hidden wherever it stands
MAX_CHARS = 10_000  # of a value that are looked for
SAFE = frozenset({"null_value", "too_large", "schema_id", "json"})  # their words quote no value
UNREADABLE = (
    "the record cannot be read by fields, and privacy.fields hides what it holds; see it by "
    "`kaboost dlq show --reveal`, and correct the producer, or the section events"
)
ROLES = ("id", "label", "timestamp", "weight")
ENVELOPES: dict[str, Path] = {
    "none": (),
    "debezium": ("payload", "after"),
    "cloudevents": (),  # its paths begin with data
}


Read = Callable[[int], object]  # the record at an index, as plain values


class Places(NamedTuple):
    """Where fields are in a record, from its root on."""

    feature: Callable[[str], Path]
    roles: Mapping[str, Collection[Path]]  # those of events and of later labels


NOWHERE = Places(lambda name: (name,), {})


class Privacy:
    """The private fields of a configuration; without any, everything is left as it is.

    Parameters
    ----------
    fields
        Names or dotted paths, at any depth.
    key
        Of the hashes that stand for values; None for `[hidden]`.
    places
        Where fields are in a record.
    """

    def __init__(
        self,
        fields: Collection[str] = (),
        key: bytes | None = None,
        places: Places = NOWHERE,
    ) -> None:
        self._fields = frozenset(map(_dotted, fields))
        self._key = key
        self._places = places

    @property
    def active(self) -> bool:
        """Whether anything is hidden."""
        return bool(self._fields)

    def hides(self, field: str) -> bool:
        """Return whether a role, such as `id`, or else a feature is private."""
        if field not in self._places.roles:
            return self.hides_feature(field)
        return any(map(self._covers, [(field,), *self._places.roles[field]]))

    def hides_feature(self, name: str) -> bool:
        """Return whether a feature is private, by its name or by a path to it."""
        return self._covers((name,)) or self._covers(self._places.feature(name))

    def shown(self, field: str, value: object) -> object:
        """Return the value of a role, or else of a feature, as it may be shown."""
        return self._mask(value) if self.hides(field) else value

    def shown_feature(self, name: str, value: object) -> object:
        """Return the value of a feature as it may be shown."""
        return self._mask(value) if self.hides_feature(name) else value

    def repairs(self, repairs: RepairCounts) -> RepairCounts:
        """Hide the examples of what was repaired."""
        if not self._fields:
            return repairs
        return {
            (field, action): Repairs(
                found.events, str(self.shown_feature(field, self.shown(field, found.example)))
            )
            for (field, action), found in repairs.items()
        }

    def faults(self, faults: Faults, read: Read) -> Faults:
        """Hide values in the messages of faults."""
        if not self._fields:
            return faults
        return [(index, self.error(error, partial(read, index))) for index, error in faults]

    def error(self, error: EventError, read: Callable[[], object]) -> EventError:
        """Hide values in the message of an error; without fields to look at, hide all of it."""
        if not self._fields or error.code in SAFE:
            return error
        return EventError(error.code, self.text(error.message, read))

    def text(self, text: str, read: Callable[[], object]) -> str:
        """Hide the values of a record in a text about it."""
        if not self._fields:
            return text
        try:
            record = read()
        except (KeyError, ValueError, TypeError, RecursionError, EventError, msgspec.DecodeError):
            return UNREADABLE
        marks: list[str | None] = [None] * len(text)
        for value in self._private(record, (), not isinstance(record, Mapping | tuple)):
            for start, end in _places(text, value):
                marks[start:end] = [self._mask(value)] * (end - start)
        return _replaced(text, marks)

    def _covers(self, path: tuple[str, ...]) -> bool:
        dotted = f".{'.'.join(path)}."
        return any(f".{field}." in dotted for field in self._fields)

    def _private(self, value: object, path: tuple[str, ...], within: bool) -> Iterator[object]:
        """Yield every single value of the private fields, and of all fields where `within`."""
        if isinstance(value, Mapping):
            value = tuple(value.items())
        if isinstance(value, tuple):
            for name, below in value:
                place = (*path, str(name))
                yield from self._private(below, place, within or self._covers(place))
        elif isinstance(value, list):
            for below in value:
                yield from self._private(below, path, within)
        elif within and value is not None:
            yield value

    def _mask(self, value: object) -> str:
        if self._key is None:
            return HIDDEN
        data = json.dumps(value, default=str, ensure_ascii=True).encode()
        digest = hashlib.blake2b(data, digest_size=HASH_BYTES, key=self._key)
        return f"[hash {digest.hexdigest()}]"


def make_privacy(settings: Settings) -> Privacy:
    """Make the privacy of the settings: a name stands for its path, and a path for its name."""
    section = settings.privacy
    fields = set(section.fields)
    events, labels = settings.events, settings.labels
    places = _places_of(settings)
    if isinstance(events.features, dict):
        paths = paths_of(events, labelled=True)
        fields |= {dotted(feature_path(paths, _dotted(field))) for field in section.fields}
    for role in filter(Privacy(fields, places=places).hides, ROLES):
        fields |= {role, getattr(events, role), getattr(labels, role)} - {None}
    if section.mode == "drop":
        return Privacy(fields, places=places)
    if section.key is None:
        return Privacy(fields, _process_key(), places)
    key = hashlib.sha256(section.key.get_secret_value().encode()).digest()
    return Privacy(fields, key, places)


def _places_of(settings: Settings) -> Places:
    """Return where the settings find features and roles, below the envelope."""
    events, labels = settings.events, settings.labels
    paths, above = paths_of(events, labelled=True), ENVELOPES[events.envelope]
    roles = {}
    for role in ROLES:
        here, later = getattr(paths, role), getattr(labels, role)
        roles[role] = [] if here is None else [(*above, *here)]
        if later is not None:
            roles[role].append((*ENVELOPES[labels.envelope or events.envelope], *parse_path(later)))
    return Places(lambda name: (*above, *feature_path(paths, name)), roles)


def read_plainly(value: bytes | None, read: Callable[[], object]) -> object:
    """Return a record with all that it brings, such as repeated keys and the envelope, if it is
    JSON; else what `read` returns.
    """
    try:
        found = parse(value or b"")
    except (ValueError, RecursionError, msgspec.DecodeError):
        return read()
    return found if isinstance(found, tuple) else read()


@cache
def _process_key() -> bytes:
    return secrets.token_bytes(32)


def _dotted(path: str) -> str:
    """Return a JSON pointer as names with dots."""
    return dotted(parse_path(path))


def _forms(value: object) -> set[str]:
    """Return the texts that a value may stand as."""
    if isinstance(value, HugeNumber):
        return {value.digits}
    if isinstance(value, bool):
        return {"true", "false", "True", "False"}  # to hide one of them would tell which it is
    forms = {str(value)}
    if isinstance(value, float) and value.is_integer():
        forms |= {str(int(value)), repr(value)}
    if isinstance(value, str):
        forms |= {json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1]}
        forms.add(repr(value)[1:-1])
    return {form[:MAX_CHARS] for form in forms if form}


def _places(text: str, value: object) -> Iterator[tuple[int, int]]:
    """Yield where a value stands in a text; of a long one any part, as messages are cut short."""
    for form in _forms(value):
        if len(form) < WINDOW:
            pattern = rf"(?<!\w){re.escape(form)}(?!\w)"
            yield from (match.span() for match in re.finditer(pattern, text))
        else:
            for start in range(len(text) - WINDOW + 1):
                if text[start : start + WINDOW] in form:
                    yield start, start + WINDOW


def _replaced(text: str, marks: list[str | None]) -> str:
    """Return a text with each run of one mask replaced by it."""
    parts: list[str] = []
    before: str | None = None
    for character, mask in zip(text, marks, strict=True):
        if mask is None:
            parts.append(character)
        elif mask != before:
            parts.append(mask)
        before = mask
    return "".join(parts)
