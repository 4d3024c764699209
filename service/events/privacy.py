"""Hide the values of private fields in what is written about a record: reasons, logs, reports."""

import hashlib
import json
import re
import secrets
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import cache, partial

import msgspec

from kaboost.service.config.settings import Settings
from kaboost.service.errors import EventError
from kaboost.service.events.decoder import Faults
from kaboost.service.events.diagnosis import HugeNumber, parse
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

Read = Callable[[int], object]  # the record at an index, as plain values


class Privacy:
    """The private fields of a configuration; without any, everything is left as it is.

    Parameters
    ----------
    fields
        Names or dotted paths, at any depth.
    key
        Of the hashes that stand for values; None for `[hidden]`.
    """

    def __init__(self, fields: Collection[str] = (), key: bytes | None = None) -> None:
        self._fields = frozenset(map(_dotted, fields))
        self._key = key

    @property
    def active(self) -> bool:
        """Whether anything is hidden."""
        return bool(self._fields)

    def shown(self, field: str, value: object) -> object:
        """Return a value of a field as it may be shown."""
        return self._mask(value) if self._covers((field,)) else value

    def repairs(self, repairs: RepairCounts) -> RepairCounts:
        """Hide the examples of what was repaired."""
        if not self._fields:
            return repairs
        return {
            (field, action): Repairs(found.events, str(self.shown(field, found.example)))
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
    """Make the privacy of the settings: a feature's name stands for its path, too."""
    section = settings.privacy
    fields = set(section.fields)
    events, labels = settings.events, settings.labels
    if isinstance(events.features, dict):
        fields |= {path for name, path in events.features.items() if name in section.fields}
    for role in ROLES:
        paths = {getattr(events, role), getattr(labels, role)} - {None}
        if role in fields or {_dotted(path) for path in paths} & set(map(_dotted, fields)):
            fields |= {role, *paths}
    if section.mode == "drop":
        return Privacy(fields)
    if section.key is None:
        return Privacy(fields, _process_key())
    return Privacy(fields, hashlib.sha256(section.key.get_secret_value().encode()).digest())


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
    return path.lstrip("/").replace("/", ".") if path.startswith("/") else path


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
