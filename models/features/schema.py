"""Schemas: the kind of every feature, declared or inferred from its first values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from typing import Any, NamedTuple

from kaboost.models.features.readings import (
    CLASS_OF_KIND,
    DECLARED,
    EXACT_INTEGERS,
    INFERRED,
    OPEN,
    is_missing_text,
    value_class,
)
from kaboost.models.types import ModelError

KINDS = ("number", "boolean", "category", "datetime", "text")  # the last two are never inferred
AUTO = "auto"  # in place of a kind: infer it from the first value
WILDCARD = "*"  # in place of a name: every feature that is not named
NAME_LENGTH_LIMIT = 200  # characters of a feature's name: every file's header holds the names
KIND_ALIASES = {  # names of the kinds in other libraries and schemas
    "number": "float double int integer numeric num real decimal long float32 float64 int32 int64",
    "boolean": "flag bit",
    "category": "categorical cat str string enum object nominal varchar factor",
    "datetime": "date time timestamp datetime64",
    AUTO: "automatic infer inferred guess",
}
KIND_OF_ALIAS = {word: kind for kind, words in KIND_ALIASES.items() for word in words.split()}


ONE_COLUMN = frozenset(("number", "boolean"))  # kinds that a feature changes between in place


class Schema(NamedTuple):
    """Kinds by feature: the declared ones first, then the inferred ones in order of first sight."""

    kinds: dict[str, str]
    declared: int | None  # how many are declared; None where no other feature is allowed
    # Features and kinds in the order of columns, those that were given up included; empty while no
    # inferred kind was corrected, and no feature was added to a declared schema.
    history: tuple[tuple[str, str], ...] = ()
    open: frozenset[str] = frozenset()  # features whose inferred kind may still be corrected

    @property
    def auto(self) -> bool:
        """Whether features that come later are added."""
        return self.declared is not None

    @property
    def inferred(self) -> list[str]:
        """The features whose kinds were inferred, in order of first sight."""
        return [] if self.declared is None else list(self.kinds)[self.declared :]

    @property
    def column_kinds(self) -> tuple[tuple[str, str], ...]:
        """Features and kinds in the order of columns; of a feature that comes twice the last pair
        counts.
        """
        return self.history or tuple(self.kinds.items())

    def with_inferred(self, new: Mapping[str, str]) -> Schema:
        """Return the schema with new features at its end, or with other kinds of inferred ones.

        A feature of another kind has new columns, unless it has one column before and after.
        """
        pairs = list(self.column_kinds)
        for name, kind in new.items():
            before = self.kinds.get(name)
            if before in ONE_COLUMN and kind in ONE_COLUMN:
                pairs[pairs.index((name, before))] = (name, kind)
            else:
                pairs.append((name, kind))
        kinds = {**self.kinds, **new}
        history = tuple(pairs) if len(pairs) > len(kinds) else ()
        return self._replace(kinds=kinds, history=history)


def declared_features(schema: Schema) -> dict[str, str]:
    """Return the mapping that a schema was made of, without what was inferred.

    Examples
    --------
    >>> declared_features(parse_schema({"zip": "category", "*": "auto"}))
    {'zip': 'category', '*': 'auto'}
    """
    if schema.declared is None:
        return dict(schema.kinds)
    return dict(list(schema.kinds.items())[: schema.declared]) | {WILDCARD: AUTO}


def parse_schema(features: Mapping[str, str] | str) -> Schema:
    """Return the schema of a mapping of features to kinds, or of the word `auto`.

    The feature `*` of kind `auto` stands for all that the mapping does not name: their kinds are
    inferred from their first values.

    Raises
    ------
    ModelError
        For an unknown kind, and for a schema that knows no feature and infers none.

    Examples
    --------
    >>> parse_schema({"zip": "category", "*": "auto"}).kinds
    {'zip': 'category'}
    """
    if isinstance(features, str):
        features = {WILDCARD: features}
    if not isinstance(features, Mapping):
        raise ModelError(
            f"features: {features!r} is not a schema; map every feature's name to its kind, or "
            "pass 'auto'"
        )
    kinds: dict[Any, Any] = {}  # callers may pass names and kinds of any type
    kinds |= {name: kind for name, kind in features.items() if (name, kind) != (WILDCARD, AUTO)}
    auto = len(kinds) < len(features)
    if not kinds and not auto:
        raise ModelError(
            "features: the schema is empty; name at least one feature and its kind, or pass 'auto'"
        )
    for name, kind in kinds.items():
        if kind not in KINDS or name == WILDCARD:
            raise ModelError(_unknown_kind(name, kind))
        if not isinstance(name, str) or not name:
            raise ModelError(f"features: {name!r} {check_name(name)}")
    return Schema(kinds, len(kinds) if auto else None)


def _unknown_kind(name: str, kind: object) -> str:
    """Return the message for an unknown kind, with the one that was probably meant."""
    if name == WILDCARD:
        return (
            f"features: {kind!r} is not {AUTO!r}, the only kind of {WILDCARD!r}; write "
            "that, or name every feature and its kind"
        )
    return f"features.{name}: kind {kind!r} is not one of {', '.join(KINDS)}{kind_hint(kind)}"


def kind_hint(kind: object) -> str:
    """Return a hint to the kind that was probably meant by an unknown one; empty if none is near.

    Examples
    --------
    >>> kind_hint("float"), kind_hint("auto")
    ("; did you mean 'number'?", "; to infer kinds write '*': auto")
    """
    if not isinstance(kind, str):
        return ""
    word = kind.strip().lower()
    near = KIND_OF_ALIAS.get(word) or next(iter(get_close_matches(word, KINDS, 1, 0.5)), None)
    if near == AUTO or word == AUTO:
        return f"; to infer kinds write {WILDCARD!r}: {AUTO}"
    return f"; did you mean {near!r}?" if near else ""


def check_name(name: object) -> str | None:
    """Return why a feature cannot have this name; None if it can.

    Examples
    --------
    >>> check_name("age"), check_name(3)
    (None, 'is not a text; rename it to one')
    """
    if not isinstance(name, str):
        return "is not a text; rename it to one"
    if name in ("", WILDCARD):
        return "cannot be a feature's: it must not be empty, and '*' stands for others; rename it"
    if len(name) > NAME_LENGTH_LIMIT or any("\ud800" <= letter <= "\udfff" for letter in name):
        return (
            f"cannot be a feature's: at most {NAME_LENGTH_LIMIT} characters, without halves of "
            "surrogate pairs; rename it"
        )
    return None


def infer_kind(value: object) -> str | None:
    """Return the kind of a feature by its first value; None for a value without a kind.

    Examples
    --------
    >>> infer_kind(True), infer_kind(3), infer_kind("PT"), infer_kind(None), infer_kind("N/A")
    ('boolean', 'number', 'category', None, None)
    """
    if isinstance(value, int) and abs(value) >= EXACT_INTEGERS:
        return "category"
    found = None if is_missing_text(value) else value_class(value)
    return None if found is None else _KIND_OF_CLASS[found]


_KIND_OF_CLASS = {found: kind for kind, found in CLASS_OF_KIND.items()}


def names_by_kind(kinds: Mapping[str, str]) -> Iterator[tuple[str, ...]]:
    """Return the names of the features for every one of `KINDS`, in the order of the schema."""
    return (tuple(name for name, of in kinds.items() if of == kind) for kind in KINDS)


class Layout(NamedTuple):
    """The columns of a schema's features in a table."""

    kinds: Mapping[str, str]  # feature name to kind
    places: dict[Any, tuple[str, int]]  # feature name to kind, and column within the kind
    counts: dict[str, int]  # columns of each kind
    inferred: frozenset[str]  # features whose kinds were inferred
    open: frozenset[str] = frozenset()  # of these, those whose kinds may still be corrected

    def sureness(self, name: str) -> int:
        """Return how sure the kind of a feature is, as for `readings.reading`."""
        return OPEN if name in self.open else INFERRED if name in self.inferred else DECLARED


def layout(
    kinds: Mapping[str, str], inferred: Iterable[str] = (), still_open: Iterable[str] = ()
) -> Layout:
    """Return the layout of features of these kinds, in the order of the schema.

    Examples
    --------
    >>> layout({"age": "number", "vip": "boolean", "size": "number"}).places["size"]
    ('number', 1)
    """
    counts, places = dict.fromkeys(KINDS, 0), {}
    for name, kind in kinds.items():
        places[name] = (kind, counts[kind])
        counts[kind] += 1
    return Layout(kinds, places, counts, frozenset(inferred), frozenset(still_open))


def describe_schema(schema: Schema) -> dict[str, Any]:
    """Return the schema as plain JSON values: pairs, because sorted JSON loses the order."""
    ordered = {} if schema.auto or not schema.history else {"ordered": True}
    pairs = [list(pair) for pair in schema.column_kinds]
    return {"schema": pairs, "declared": schema.declared, **ordered}


def from_description(description: Mapping[str, Any]) -> Schema:
    """Return the schema that `describe_schema` described."""
    pairs = tuple((name, kind) for name, kind in description["schema"])
    kinds = dict(pairs)
    history = pairs if len(pairs) > len(kinds) or description.get("ordered") else ()
    return Schema(kinds, description.get("declared"), history)
