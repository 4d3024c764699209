"""The msgspec types and decoders of a JSON event, built once from the schema and the labels."""

import math
from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, Generic, Literal, TypeVar

import msgspec

from kaboost.models.features.datetimes import COMPACT_DATES, EPOCH_LIMIT, PATTERN
from kaboost.models.features.labels import Labels
from kaboost.models.features.schema import Schema
from kaboost.service.errors import ConfigError
from kaboost.service.events.diagnosis import LIMIT

Number = Annotated[float, msgspec.Meta(ge=-LIMIT, le=LIMIT)]
Weight = Annotated[float, msgspec.Meta(ge=0.0, le=LIMIT)]
Instant = Annotated[datetime, msgspec.Meta(tz=True)]
# Other forms of a time, such as seconds, are read by `metadata`.
Millis = Annotated[float, msgspec.Meta(ge=1e11, lt=1e14)]
DateText = Annotated[str, msgspec.Meta(pattern=PATTERN)]
# A smaller number could be a date, such as 20261120; `readings` has a look at it.
Epoch = Annotated[float, msgspec.Meta(ge=COMPACT_DATES[1], lt=EPOCH_LIMIT)]
FEATURE_TYPES: dict[str, Any] = {
    "number": Number,
    "boolean": bool,
    "category": str | int | bool,  # by name
    "datetime": DateText | Epoch,
    "text": str,
}
ALIAS = "\ue000"  # begins the fields of names that msgspec does not have: a private character
NULL = msgspec.Raw(b"null")
MAX_LITERAL = 2**62  # msgspec has literal types of smaller integers only

F = TypeVar("F")
L = TypeVar("L")


class Event(msgspec.Struct, Generic[F, L], gc=False):
    """One labelled event; `features` is a struct of all features of the schema, or, where most are
    missing, a dict of those present.
    """

    features: F
    label: L
    id: str | int | None = None
    timestamp: Instant | Millis | None = None
    weight: Weight | None = None


class LooseEvent(msgspec.Struct, Generic[F, L], gc=False):
    """An event whose id and timestamp are still to be read; they are no reason to reject it."""

    features: F
    label: L
    id: Any = None
    timestamp: Any = None
    weight: Weight | None = None


class RawEvent(msgspec.Struct, Generic[F, L], gc=False):
    """The same, of JSON: not even numbers beyond a float are a reason."""

    features: F
    label: L
    id: msgspec.Raw = NULL
    timestamp: msgspec.Raw = NULL
    weight: Weight | None = None


EventDecoder = msgspec.json.Decoder[Event[Any, Any]]


class EventNames(msgspec.Struct):
    """An event of which only the names of its features matter."""

    features: dict[str, msgspec.Raw]


def value_type(schema: Schema, name: str, *, lax: bool = False) -> Any:
    """Return the type of a feature's usual values.

    An open category has texts only, so that numbers are looked at; a lax decoder would read a text
    as a number where it can.
    """
    kind = schema.kinds[name]
    return str if kind == "category" and (lax or name in schema.open) else FEATURE_TYPES[kind]


def alias(name: str) -> str:
    """Return the name of a feature's field: msgspec has none with quotes, backslashes and control
    characters.

    Examples
    --------
    >>> alias("age"), alias("a\\nb")[1:]
    ('age', '610a62')
    """
    if any(letter in '"\\' or letter < " " for letter in name):
        return ALIAS + name.encode("utf-8", "surrogatepass").hex()
    return name


def feature_type(
    names: Sequence[str], schema: Schema, *, forbid_unknown: bool
) -> type[msgspec.Struct]:
    """Build the struct of a schema's features, in the order of the names."""
    kinds = [value_type(schema, name) for name in names]
    try:
        return msgspec.defstruct(
            "Features",
            [(f"f{i}", kind | None, missing(kind)) for i, kind in enumerate(kinds)],
            rename={f"f{i}": alias(name) for i, name in enumerate(names)},
            forbid_unknown_fields=forbid_unknown,
            gc=False,
        )
    except ValueError as err:
        raise ConfigError(f"features.schema has a name that cannot be used: {err}") from err


def event_decoder(features: type, labels: Labels) -> Any:
    """Build a decoder of events; labels of classes, ids and timestamps are still to be read."""
    return msgspec.json.Decoder(RawEvent[features, label_type(labels)])  # type: ignore[misc, valid-type]


def exact_decoder(features: type, labels: Labels) -> EventDecoder | None:
    """Build a decoder that accepts only the usual spelling of labels, which needs no other check;
    None where msgspec has no type for the labels.
    """
    label = exact_label(labels)
    return None if label is None else msgspec.json.Decoder(Event[features, label])  # type: ignore[valid-type]


def label_type(labels: Labels) -> Any:
    """Return the type of all labels; those of classes are still to be checked."""
    if labels.kind == "regression":
        return Annotated[float, msgspec.Meta(ge=labels.least, le=LIMIT)]
    return bool | int | float | str


def exact_label(labels: Labels) -> Any:
    """Return the type of the usual spelling of the labels; None where msgspec has none."""
    classes: Any = labels.classes
    types = set(map(type, classes))
    if labels.kind == "regression":
        return label_type(labels)
    if types == {bool} and len(classes) == len((False, True)):
        return bool
    if types == {str} or (types == {int} and max(map(abs, classes)) < MAX_LITERAL):
        exact = Literal[classes]  # type: ignore[valid-type] # made at run time
        return bool | exact if classes == (0, 1) and not labels.is_open else exact
    return None


def missing(kind: Any) -> float | None:
    """Return what stands for an absent feature: what its column is made of, if it can."""
    return math.nan if kind in (Number, bool) else None
