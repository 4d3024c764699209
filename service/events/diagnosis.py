"""Say what is wrong with an event: the slow look at what the typed decode refused."""

import json
import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from datetime import datetime
from difflib import get_close_matches
from functools import lru_cache
from typing import Annotated, Any, NamedTuple, Self

import msgspec

from kaboost.models.features.datetimes import is_datetime
from kaboost.models.features.labels import Labels
from kaboost.models.features.rows import INFERRED
from kaboost.service.errors import EventError

# Of several faults the first in this order names the code.
CODES = (
    "null_value",
    "too_large",
    "json",
    "schema",
    "timestamp",
    "label",
    "weight",
    "feature_unknown",
    "feature_type",
    "not_finite",
)
LIMIT = 1e308  # numbers beyond it are as good as infinite: the sum of two of them is
EPOCH_MS = (-62_135_596_800_000, 253_402_300_799_999)  # the years 1 to 9999, as RFC 3339 has them
INT_DIGITS = 4300  # of an integer that Python and msgspec still read
SHOWN = 60  # characters of a faulty value that a message quotes
MESSAGE = 300  # characters of a message: it stands in a header, the whole value in the dead letter
REMEDY = "leave it out, or set features.unknown: ignore"
UNKNOWN = f"not in features.schema; {REMEDY}"
DECLARE = "{}: if that is wrong, declare features.schema.{} and begin anew with --cold-start"
MOST_COMPARED = 100  # names that an unknown one is compared with: that takes a millisecond or three
HALF = re.compile(r"\\u[dD][89aAbB]")  # how a surrogate pair begins

Instant = Annotated[datetime, msgspec.Meta(tz=True)]


class Fault(NamedTuple):
    """One thing that is wrong, at a key of the event or at a feature."""

    code: str
    where: str
    detail: str


class Rules(NamedTuple):
    """What an event must keep to."""

    schema: Mapping[str, str]  # feature to kind
    labels: Labels
    ignore_unknown: bool
    max_bytes: int
    inferred: Collection[str] = ()  # features whose kinds nobody told


class Beyond(float):
    """Infinity, for a number that no float holds: with its digits, since JSON has no infinity."""

    def __new__(cls, digits: str) -> Self:
        """Keep what was sent."""
        self = super().__new__(cls, -math.inf if digits.startswith("-") else math.inf)
        self.digits = digits
        return self

    digits: str


class _Object(tuple[tuple[str, object], ...]):
    """A JSON object with repeated keys kept: the typed decode looks at every one of them too."""


def explain(value: bytes | None, rules: Rules) -> EventError:
    """Make an error of the first fault of a record's value, by the order of `CODES`."""
    found = list(faults(value, rules))
    if not found:
        return EventError("json", "cannot be read, and no rule of an event says why")
    code, where, detail = min(found, key=lambda fault: CODES.index(fault.code))
    if code == "feature_unknown":
        detail = unknown(where, tuple(rules.schema))
    return EventError(code, shorten(f"{where}: {detail}" if where else detail, MESSAGE))


def faults(value: bytes | None, rules: Rules) -> Iterator[Fault]:
    """List what is wrong with a record's value; with broken JSON nothing else is looked for."""
    if value is None:
        yield Fault("null_value", "", "the record has no value; send the event as its value")
    elif len(value) > rules.max_bytes:
        detail = f"{len(value):,} bytes; kafka.max_event_bytes is {rules.max_bytes:,}"
        yield Fault("too_large", "", detail)
    else:
        try:
            event = parse(value)
        except RecursionError:
            yield Fault("json", "", "nested too deeply")
        except (ValueError, msgspec.DecodeError) as err:
            yield Fault("json", "", f"not JSON: {err}")
        else:
            yield from _event_faults(event, rules)


def feature_faults(features: Iterable[tuple[str, object]], rules: Rules) -> Iterator[Fault]:
    """List what is wrong with features, in the order they came."""
    for name, value in features:
        kind = rules.schema.get(name)
        if kind is not None:
            why = DECLARE.format(INFERRED, name) if name in rules.inferred else ""
            yield from _value_faults(name, kind, value, why)
        elif not rules.ignore_unknown:
            yield Fault("feature_unknown", name, UNKNOWN)


@lru_cache(maxsize=100)  # the same name is wrong in event after event
def unknown(name: str, known: tuple[str, ...]) -> str:
    """Say that a feature is not known, and which one may be meant where names are few: this is for
    one fault of an event or a request, to compare names takes a thousand times what a fault does.
    """
    few = len(known) <= MOST_COMPARED and len(name) <= SHOWN
    near = get_close_matches(name, known, n=1, cutoff=0.7) if few else []
    return f"not in features.schema; did you mean {near[0]}? Else {REMEDY}" if near else UNKNOWN


def show(value: object) -> str:
    """Show a value as JSON, cut short."""
    if isinstance(value, _Object | Mapping):
        return "an object"
    if isinstance(value, list):
        return "an array"
    if isinstance(value, Beyond):
        return shorten(value.digits)
    return shorten(json.dumps(value, ensure_ascii=False, default=repr), SHOWN)


def shorten(text: str, length: int = SHOWN) -> str:
    """Cut a text short."""
    return text if len(text) <= length else f"{text[:length]}..."


def parse(value: bytes) -> object:
    """Read JSON with repeated keys kept, by the very grammar of the typed decode."""
    text = str(value, "utf-8")
    keep_to_grammar(text)
    return json.loads(text, object_pairs_hook=_Object, parse_int=read_int, parse_float=read_float)


def keep_to_grammar(text: str) -> None:
    """Raise what the typed decode has against a text: NaN, lone surrogates, something trailing."""
    try:
        msgspec.json.decode(text, type=msgspec.Raw)
    except msgspec.DecodeError as err:
        constants = _constants(text)
        if constants:  # "invalid character", it says
            raise msgspec.DecodeError(f"{constants[0]} is none; send null for missing") from err
        if HALF.search(text) and constants is not None:  # "truncated", it says
            raise msgspec.DecodeError("half of a surrogate pair in a string") from err
        raise


def _constants(text: str) -> list[str] | None:
    """Return what stands in a text, NaN or Infinity, that else is JSON; None where it is not."""
    found: list[str] = []
    try:
        json.loads(text, parse_constant=found.append)
    except ValueError:
        return None
    return found


def read_int(digits: str) -> int | float:
    """Read an integer; where Python refuses so many digits it is only too large."""
    return int(digits) if len(digits) <= INT_DIGITS else Beyond(digits)


def read_float(digits: str) -> float:
    """Read a number; where no float holds it, keep the digits."""
    value = float(digits)
    return value if math.isfinite(value) else Beyond(digits)


def _event_faults(event: object, rules: Rules) -> Iterator[Fault]:
    if not isinstance(event, _Object):
        yield Fault("schema", "", f"{show(event)} is not a JSON object")
        return
    keys = {key for key, _ in event}
    for key in ("features", "label"):
        if key not in keys:
            yield Fault("schema", key, "is missing")
    for key, value in event:
        if key in _CHECKS:
            yield from _CHECKS[key](value, rules)
    if "label" in keys:  # of a repeated one the last counts, as for the typed decode
        yield from _class_faults(dict(event)["label"], rules)


def _features_faults(features: object, rules: Rules) -> Iterator[Fault]:
    if isinstance(features, _Object):
        yield from feature_faults(features, rules)
    else:
        yield Fault("schema", "features", f"{show(features)} is not an object")


def _id_faults(value: Any, _: Rules) -> Iterator[Fault]:
    if not isinstance(value, str | None):
        yield Fault("schema", "id", f"{show(value)} where a string belongs")


def _timestamp_faults(value: Any, _: Rules) -> Iterator[Fault]:
    if not (value is None or _is_millis(value) or _is_instant(value)):
        detail = f"{show(value)} is neither RFC 3339 with an offset nor milliseconds since 1970"
        yield Fault("timestamp", "timestamp", detail)


def _label_faults(label: Any, rules: Rules) -> Iterator[Fault]:
    if rules.labels.kind == "regression":
        if not (_is_number(label) and _is_finite(label)):
            detail = f"{show(label)} where a number belongs, within +-{LIMIT:g}"
            yield Fault("label", "label", detail)
        elif label < rules.labels.least:
            yield from _class_faults(label, rules)
    elif not isinstance(label, bool | int | float | str) or label in (math.inf, -math.inf):
        yield Fault("label", "label", f"{show(label)} is not a number, a boolean or a string")


def _class_faults(label: Any, rules: Rules) -> Iterator[Fault]:
    try:
        rules.labels.encode(label)
    except ValueError as err:
        yield Fault("label", "", str(err))


def _weight_faults(value: Any, _: Rules) -> Iterator[Fault]:
    if not (value is None or (_is_number(value) and _is_finite(value) and value >= 0)):
        yield Fault("weight", "weight", f"{show(value)} where a finite number >= 0 belongs")


def _value_faults(name: str, kind: str, value: object, why: str) -> Iterator[Fault]:
    if value is None:
        return
    fits, belongs = _KINDS[kind]
    if not fits(value):
        yield Fault("feature_type", name, f"{show(value)} where {belongs} or null belongs{why}")
    elif kind == "number" and not _is_finite(value):
        yield Fault("not_finite", name, f"{show(value)} is beyond {LIMIT:g}; send null")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_finite(value: Any) -> bool:
    try:
        return abs(float(value)) <= LIMIT
    except OverflowError:
        return False


def _is_millis(value: Any) -> bool:
    return _is_number(value) and EPOCH_MS[0] <= value <= EPOCH_MS[1]


def _is_instant(value: Any) -> bool:
    try:
        msgspec.convert(value, Instant)
    except msgspec.ValidationError:
        return False
    return True


_KINDS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "number": (_is_number, "a number"),
    "boolean": (lambda value: isinstance(value, bool), "true or false"),
    "category": (lambda value: isinstance(value, str), "a string"),
    "datetime": (
        lambda value: isinstance(value, str) and is_datetime(value),
        'a date and time such as "2026-11-20T10:00:00+01:00" (seconds are needed), a date',
    ),
    "text": (lambda value: isinstance(value, str), "a string"),
}
_CHECKS: dict[str, Callable[[object, Rules], Iterator[Fault]]] = {
    "features": _features_faults,
    "label": _label_faults,
    "id": _id_faults,
    "timestamp": _timestamp_faults,
    "weight": _weight_faults,
}
