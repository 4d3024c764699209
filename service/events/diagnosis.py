"""Diagnose an event: the slow check of what the typed decoder refused."""

import json
import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from difflib import get_close_matches
from functools import lru_cache
from typing import Any, NamedTuple, Self

import msgspec

from kaboost.models.features.datetimes import is_compact_date
from kaboost.models.features.labels import Labels
from kaboost.models.features.readings import DECLARED, INFERRED, OPEN, UNREADABLE, reading
from kaboost.models.features.rows import INFERRED as WAS_INFERRED
from kaboost.models.features.values import COMPACT_REMEDY
from kaboost.service.errors import EventError
from kaboost.service.events.frames import unexpected_frame

# Of several faults the first in this order names the code.
CODES = (
    "null_value",
    "too_large",
    "schema_id",
    "format",
    "json",
    "schema",
    "timestamp",
    "label",
    "weight",
    "feature_unknown",
    "feature_type",
    "not_finite",
    "label_unmatched",
    "internal",  # of no record: our own code failed at it
)
LIMIT = 1e308  # of a number's magnitude: the sum of two larger ones is infinite
EPOCH_MS = (-62_135_596_800_000, 253_402_300_799_999)  # the years 1 to 9999, the range of RFC 3339
MAX_INT_DIGITS = 4300  # of an integer that Python and msgspec still read
QUOTED_CHARS = 60  # of a faulty value in a message
MESSAGE = 300  # characters of a message: it becomes a header; the dead letter has the whole value
MAX_LISTED = 5  # keys of a record in a message
KEY_CHARS = 20  # of one of them
ENVELOPE = 'send an event such as {"features": {"age": 31}, "label": 1}'
POINT = "set events.features and events.label to where they are (kaboost init writes it)"
NO_LABEL = (
    "send the event once its label is known; if labels come on a topic of their own, set "
    "labels.topic"
)
HALF_PAIR = "half of a surrogate pair in a string; send the character as UTF-8"
REPORT = "please report it, as this is a bug"
REMEDY = "leave it out, or set features.unknown: ignore"
UNKNOWN = f"not in features.schema; {REMEDY}"
DECLARE_KIND = "{}: if that is wrong, declare features.schema.{} and start again with --cold-start"
MAX_COMPARED = 100  # known names that an unknown one is compared with: takes about 2 ms
NUMERAL = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?")
HIGH_SURROGATE = re.compile(r"\\u[dD][89aAbB]")  # the first half of a surrogate pair


class Fault(NamedTuple):
    """One fault, at a key of the event or at a feature."""

    code: str
    where: str
    detail: str


class Rules(NamedTuple):
    """What an event must satisfy."""

    schema: Mapping[str, str]  # feature to kind
    labels: Labels
    ignore_unknown: bool
    max_bytes: int
    inferred: Collection[str] = ()  # features whose kinds were not declared
    labelled: bool = True  # false where the label comes in another record
    open: Collection[str] = ()  # features whose inferred kinds may still be corrected

    def sureness(self, name: str) -> int:
        """Return how sure the kind of a feature is, as for `readings.reading`."""
        return OPEN if name in self.open else INFERRED if name in self.inferred else DECLARED


class HugeNumber(float):
    """Infinity, for a number beyond the range of a float; keeps the digits as sent."""

    def __new__(cls, digits: str) -> Self:
        """Make plus or minus infinity, by the sign of the digits."""
        self = super().__new__(cls, -math.inf if digits.startswith("-") else math.inf)
        self.digits = digits
        return self

    digits: str


class _Object(tuple[tuple[str, object], ...]):
    """A JSON object with repeated keys kept: the typed decoder checks all of them too."""


def diagnose(value: bytes | None, rules: Rules) -> EventError:
    """Return the error of a value's first fault, in the order of `CODES`."""
    return _first(faults(value, rules), rules, {})


def diagnose_event(
    event: Mapping[str, object], rules: Rules, names: Mapping[str, str]
) -> EventError:
    """Return the error of the first fault of an event that was read from a record; `names` maps
    its keys to the paths in the record.
    """
    features = event["features"]
    assert isinstance(features, Mapping)
    whole = _Object({**event, "features": _Object(features.items())}.items())
    return _first(_event_faults(whole, rules), rules, names)


def _first(all_faults: Iterable[Fault], rules: Rules, names: Mapping[str, str]) -> EventError:
    first = min(all_faults, key=lambda fault: CODES.index(fault.code), default=None)
    if first is None:
        return EventError("json", f"cannot be decoded, and breaks no rule of an event; {REPORT}")
    code, where, detail = first
    if code == "feature_unknown":
        detail = unknown(where, tuple(rules.schema))
    elif code not in ("feature_type", "not_finite"):
        where = names.get(where or code, where)
    return EventError(code, fit(f"{where}: {detail}" if where else detail))


def faults(value: bytes | None, rules: Rules) -> Iterator[Fault]:
    """List the faults of a record's value; of broken JSON only that."""
    if value is None:
        yield Fault("null_value", "", "the record has no value; send the event as its value")
    elif len(value) > rules.max_bytes:
        detail = (
            f"{len(value):,} bytes, and kafka.max_event_bytes is {rules.max_bytes:,}; raise it, or "
            "send less in one event"
        )
        yield Fault("too_large", "", detail)
    else:
        try:
            event = parse(value)
        except RecursionError:
            yield Fault("json", "", "nested too deeply; send features as one flat object")
        except (ValueError, msgspec.DecodeError) as err:
            why = unexpected_frame(value) or f"not JSON: {_with_remedy(explain_json(err))}"
            yield Fault("json", "", why)
        else:
            yield from _event_faults(event, rules)


def feature_faults(features: Iterable[tuple[str, object]], rules: Rules) -> Iterator[Fault]:
    """List the faults of features, in the order of the event."""
    for name, value in features:
        kind = rules.schema.get(name)
        if kind is not None:
            why = DECLARE_KIND.format(WAS_INFERRED, name) if name in rules.inferred else ""
            yield from _value_faults(name, kind, value, (why, rules.sureness(name)))
        elif not rules.ignore_unknown:
            yield Fault("feature_unknown", name, UNKNOWN)


@lru_cache(maxsize=100)  # the same name is wrong in event after event
def unknown(name: str, known: tuple[str, ...]) -> str:
    """Word the fault of an unknown feature; of a small schema, name the most similar feature.

    Comparing names takes a thousand times what a fault does: word one of an event or a request.
    """
    near = nearest(name, known)
    return f"not in features.schema; did you mean {near}? Else {REMEDY}" if near else UNKNOWN


def nearest(name: str, known: Collection[str]) -> str | None:
    """Return the most similar of a few known names; None if none is similar."""
    below = next((one for one in known if one.startswith(f"{name}.")), None)
    if below is not None:
        return below  # the name of an object whose fields are the features
    few = len(known) <= MAX_COMPARED and len(name) <= QUOTED_CHARS
    return next(iter(get_close_matches(name, known, n=1, cutoff=0.7)), None) if few else None


def show(value: object) -> str:
    """Return a value as JSON, cut short."""
    if isinstance(value, _Object | Mapping):
        return "an object"
    if isinstance(value, list):
        return "an array"
    if isinstance(value, HugeNumber):
        return shorten(value.digits)
    return shorten(json.dumps(value, ensure_ascii=False, default=repr), QUOTED_CHARS)


def shorten(text: str, length: int = QUOTED_CHARS) -> str:
    """Cut a text short."""
    return text if len(text) <= length else f"{text[:length]}..."


def fit(text: str) -> str:
    """Cut a message short, but not the remedy at its end."""
    what, _, remedy = text.rpartition("; ")
    if len(text) <= MESSAGE or len(remedy) > MESSAGE // 2:
        return shorten(text, MESSAGE)
    return f"{shorten(what, MESSAGE - len(remedy))}; {remedy}"


def parse(value: bytes) -> object:
    """Parse JSON with repeated keys kept, by the grammar of the typed decoder."""
    text = str(value, "utf-8")
    keep_to_grammar(text)
    return json.loads(text, object_pairs_hook=_Object, parse_int=read_int, parse_float=read_float)


def keep_to_grammar(text: str) -> None:
    """Raise for what the typed decoder refuses: NaN, lone surrogates, trailing characters."""
    try:
        msgspec.json.decode(text, type=msgspec.Raw)
    except msgspec.DecodeError as err:
        constants = _constants(text)
        if constants:  # msgspec's message is only "invalid character"
            raise msgspec.DecodeError(f"{constants[0]} is none; send null for missing") from err
        if HIGH_SURROGATE.search(text) and constants is not None:  # and here "truncated"
            raise msgspec.DecodeError(HALF_PAIR) from err
        raise


def explain_json(err: Exception) -> str:
    """Word why bytes are not JSON, without Python's terms."""
    if isinstance(err, UnicodeDecodeError):
        return f"byte {err.start} (0x{err.object[err.start]:02x}) is not UTF-8"
    return str(err)


def explain_label(label: object, err: Exception) -> str:
    """Word why a label is none of the task, with null, true and false as JSON has them."""
    text = str(err).removeprefix("label: ")
    return show(label) + text.removeprefix(repr(label)) if label in (None, True, False) else text


def _constants(text: str) -> list[str] | None:
    """List NaN and Infinity in a text that is JSON otherwise; None where it is not."""
    constants: list[str] = []
    try:
        json.loads(text, parse_constant=constants.append)
    except ValueError:
        return None
    return constants


def read_int(digits: str) -> int | float:
    """Parse an integer; one of more digits than Python accepts becomes infinite."""
    return int(digits) if len(digits) <= MAX_INT_DIGITS else HugeNumber(digits)


def read_float(digits: str) -> float:
    """Parse a number; one beyond the range of a float becomes infinite and keeps its digits."""
    value = float(digits)
    return value if math.isfinite(value) else HugeNumber(digits)


def _event_faults(event: object, rules: Rules) -> Iterator[Fault]:
    if not isinstance(event, _Object):
        yield Fault("schema", "", f"{show(event)} is not a JSON object; {ENVELOPE}")
        return
    keys = dict(event).keys()  # in their order
    for key in ("features", "label") if rules.labelled else ("features",):
        if key not in keys:
            remedy = NO_LABEL if key == "label" and "features" in keys else POINT
            yield Fault("schema", key, _missing(keys, remedy))
    for key, value in event:
        if key in _CHECKS and (key != "label" or rules.labelled):
            yield from _CHECKS[key](value, rules)
    if (
        "label" in keys and rules.labelled
    ):  # of a repeated key the last counts, as in the typed decoder
        yield from _class_faults(dict(event)["label"], rules)


def _features_faults(features: object, rules: Rules) -> Iterator[Fault]:
    if isinstance(features, _Object):
        yield from feature_faults(features, rules)
    else:
        detail = f"{show(features)} is not an object; send an object of names and values"
        yield Fault("schema", "features", detail)


def _label_faults(label: Any, rules: Rules) -> Iterator[Fault]:
    if rules.labels.kind == "regression":
        if not (_is_number(label) and _is_finite(label)):
            detail = (
                f"{show(label)} where a number belongs, within +-{LIMIT:g}; send one, or set "
                "task.kind: binary or multiclass"
            )
            yield Fault("label", "label", detail)
        elif label < rules.labels.least:
            yield from _class_faults(label, rules)
    elif not isinstance(label, bool | int | float | str) or label in (math.inf, -math.inf):
        detail = (
            f"{show(label)} is not a number, a boolean or a string; send one of task.labels, or no "
            "event until there is one"
        )
        yield Fault("label", "label", detail)


def _class_faults(label: Any, rules: Rules) -> Iterator[Fault]:
    try:
        rules.labels.encode(label)
    except ValueError as err:
        yield Fault("label", "label", explain_label(label, err))


def _weight_faults(value: Any, _: Rules) -> Iterator[Fault]:
    if not (value is None or (_is_number(value) and _is_finite(value) and value >= 0)):
        detail = f"{show(value)} where a finite number >= 0 belongs; send one, or leave it out"
        yield Fault("weight", "weight", detail)


def _value_faults(name: str, kind: str, value: object, feature: tuple[str, int]) -> Iterator[Fault]:
    why, sure = feature
    if value is None:
        return
    belongs = _KINDS[kind]
    if reading(value, kind, sure) is UNREADABLE:
        detail = f"{show(value)} where {belongs} or null belongs{why or _kind_remedy(kind, value)}"
        yield Fault("feature_type", name, detail)
    elif kind == "number" and _is_number(value) and not _is_finite(value):
        yield Fault("not_finite", name, f"{show(value)} is beyond {LIMIT:g}; send null")


def _missing(keys: Collection[str], remedy: str) -> str:
    """Word a missing key: what the record has instead, and what to do."""
    seen = ", ".join(shorten(name, KEY_CHARS) for name in list(keys)[:MAX_LISTED])
    rest = len(keys) - MAX_LISTED
    has = f"the record has the keys {seen}" if keys else "the record has no keys"
    more = f" and {rest} more" if rest > 0 else ""
    return f"is missing; {has}{more}: {remedy}"


def _kind_remedy(kind: str, value: object) -> str:
    """Return the remedy for a value of another type than its feature's kind."""
    if isinstance(value, str) and kind == "number" and NUMERAL.fullmatch(value):
        return "; send it without quotes"
    if kind == "datetime" and is_compact_date(value):
        return f"; {COMPACT_REMEDY}"
    if isinstance(value, int | float) and kind in ("category", "text"):
        return "; quote it"
    return "; send one of them, or correct the kind in features.schema"


def _with_remedy(problem: str) -> str:
    """Add a remedy to what the JSON parser reports, unless it has one."""
    return problem if "; " in problem else f"{problem}; {ENVELOPE}"


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_finite(value: Any) -> bool:
    try:
        return abs(float(value)) <= LIMIT
    except OverflowError:
        return False


_KINDS = {
    "number": "a number",
    "boolean": "true or false",
    "category": "a string, a whole number, a boolean",
    "datetime": 'a date and time such as "2026-11-20T10:00:00+01:00", a date, a number since 1970',
    "text": "a string",
}
_CHECKS: dict[str, Callable[[object, Rules], Iterator[Fault]]] = {
    "features": _features_faults,
    "label": _label_faults,
    "weight": _weight_faults,
}
