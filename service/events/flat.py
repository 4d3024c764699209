"""Types that decode mapped records at once, from JSON or from plain values: structs as nested as
the paths of the fields.
"""

from collections.abc import Callable, Mapping
from functools import partial
from operator import attrgetter
from typing import Any, NamedTuple

import msgspec

from kaboost.models.features.labels import Labels
from kaboost.models.features.schema import Schema
from kaboost.service.events.json_types import (
    Instant,
    Millis,
    Weight,
    exact_label,
    missing,
    value_type,
)
from kaboost.service.events.mapping import Path, Paths, RecordMapping, parse_path

PART_TYPES: dict[str, Any] = {
    "id": str | int | None,
    "timestamp": Instant | Millis | None,
    "weight": Weight | None,
}


class FlatTypes(NamedTuple):
    """Decode the usual records of one mapping and schema, and refuse all others."""

    record: type  # with the attributes label, id, timestamp and weight
    decode: Callable[[Any], Any]  # bytes, or plain values → record
    row: Callable[[Any], tuple[Any, ...]]  # its features in the order of the schema


class _Conflict(Exception):
    """Two paths cannot be in one record: one goes through the value of the other."""


class _Object:
    """The fields of one object of the record, and the objects below it."""

    def __init__(self, strict: bool) -> None:
        self.fields: dict[str, tuple[str, Any, Any]] = {}  # key → attribute, type, default
        self.below: dict[str, tuple[str, _Object]] = {}  # key → attribute, object
        self.strict = strict
        self.is_required = False

    def add(self, path: Path, attribute: str, kind: Any, default: Any) -> str:
        """Add a field and return the attributes that lead to it."""
        key = path[0]
        if key in self.fields or (len(path) == 1 and key in self.below):
            raise _Conflict
        if len(path) == 1:
            self.fields[key] = (attribute, kind, default)
            return attribute
        if key not in self.below:
            self.below[key] = (f"o{len(self.below)}", _Object(self.strict))
        name, inner = self.below[key]
        return f"{name}.{inner.add(path[1:], attribute, kind, default)}"

    def make(self, name: str, namespace: Mapping[str, Any]) -> type[msgspec.Struct]:
        """Build the struct."""
        required: list[Any] = []
        optional: list[Any] = []
        keys = {}
        for key, (attribute, kind, default) in self.fields.items():
            keys[attribute] = key
            if default is msgspec.NODEFAULT:
                required.append((attribute, kind))
            else:
                optional.append((attribute, kind, default))
        for key, (attribute, inner) in self.below.items():
            keys[attribute], made = key, inner.make(f"{name}_{attribute}", {})
            if inner.is_required or any(f.required for f in msgspec.structs.fields(made)):
                required.append((attribute, made))
            else:
                optional.append((attribute, made, made()))
        return msgspec.defstruct(
            name,
            [*required, *optional],
            rename=keys,
            namespace=dict(namespace),
            forbid_unknown_fields=self.strict,
            frozen=True,
            gc=False,
        )


def flat_types(
    mapping: RecordMapping, names: list[str], schema: Schema, labels: Labels, *, is_json: bool
) -> FlatTypes | None:
    """Build the types; None for a mapping, a schema or labels that they cannot express.

    Parameters
    ----------
    mapping, names, schema, labels
        Where the fields are, the features in their order and their kinds, and the labels.
    is_json
        Whether `decode` takes JSON; else what a reader has read.
    """
    if mapping.coerces and not is_json:
        return None  # other conversions than those of JSON
    label = exact_label(labels) if mapping.paths.label else msgspec.Raw
    if label is None or not names:
        return None
    kinds = {name: value_type(schema, name, lax=mapping.coerces) for name in names}
    try:
        unread = (msgspec.Raw, b"") if is_json else (Any, None)
        root, attributes, parts = _fields(mapping.paths, kinds, label, unread)
        # A part at the top is a field, one below is read through, and one that is nowhere is None.
        namespace = {
            name: property(attrgetter(where)) if where else None
            for name, where in parts.items()
            if where != name
        }
        record = root.make("Record", namespace)
    except (_Conflict, ValueError):  # msgspec refuses some names
        return None
    decode: Callable[[Any], Any] = (
        msgspec.json.Decoder(record, strict=not mapping.coerces).decode
        if is_json
        else partial(msgspec.convert, type=record)
    )
    one = attrgetter(*attributes)
    return FlatTypes(record, decode, one if len(names) > 1 else lambda event: (one(event),))


def _fields(
    paths: Paths, kinds: Mapping[str, Any], label: Any, unread: tuple[Any, Any]
) -> tuple[_Object, list[str], dict[str, str | None]]:
    """Return all fields, the attributes of the features, and those of label, id and so on.

    `unread` is type and default of fields that are left out.
    """
    root = _Object(strict=paths.features is None)
    attributes = []
    for j, (name, kind) in enumerate(kinds.items()):
        path = feature_path(paths, name)
        attributes.append(root.add(path, f"f{j}", kind | None, missing(kind)))
    parts: dict[str, str | None] = {}
    for key in ("label", "id", "timestamp", "weight"):
        where: Path | None = getattr(paths, key)
        kind = label if key == "label" else PART_TYPES[key]
        default = msgspec.NODEFAULT if key == "label" else None
        if key == "id" and paths.label is None:  # features wait for their label by it
            kind, default = str | int, msgspec.NODEFAULT
        parts[key] = root.add(where, key, kind, default) if where else None
    known = {paths.label, paths.id, paths.timestamp, paths.weight}
    if paths.features is None:
        others = (parse_path(name) for name in sorted(paths.ignored))
        for k, path in enumerate(path for path in others if path not in known):
            root.add(path, f"i{k}", *unread)
    elif isinstance(paths.features, tuple):
        _require_features(root, paths, unread)
    return root, attributes, parts


def _require_features(root: _Object, paths: Paths, unread: tuple[Any, Any]) -> None:
    """Require the object of the features, and refuse unknown fields in it and below it."""
    assert isinstance(paths.features, tuple)
    node = root
    for key in paths.features:
        node = node.below[key][1]
        node.is_required = True
    known = {p for p in (paths.label, paths.id, paths.timestamp, paths.weight) if p}
    for k, name in enumerate(sorted(paths.ignored)):
        path = parse_path(name)
        if (*paths.features, *path) not in known:
            node.add(path, f"i{k}", *unread)
    pending = [node]
    while pending:
        inner = pending.pop()
        inner.strict = True
        pending += [below for _, below in inner.below.values()]


def feature_path(paths: Paths, name: str) -> Path:
    """Return where a feature is in a record."""
    if isinstance(paths.features, dict):
        top = next((n for n in paths.features if name == n or name.startswith(f"{n}.")), None)
        if top is not None:
            return (*paths.features[top], *filter(None, name[len(top) :].lstrip(".").split(".")))
    above = paths.features if isinstance(paths.features, tuple) else ()
    return (*above, *name.split("."))
