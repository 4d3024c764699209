"""Compare a stored header with the configured model, and name every difference."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from kaboost.service.errors import Incompatible

# By the start of a name in the description.
SETTINGS = (
    ("model.spec", "model"),
    ("model.schema", "features.schema"),
    ("model.declared", "features.schema"),
    ("model.task", "task.kind"),
    ("model.labels", "task.labels"),
    ("model.max_classes", "task.max_classes"),
    ("topic", "kafka.topic"),
)
MAY_CHANGE = (
    "What a model takes over: model.bank.budget, effort and max_memory of reboosted_trees, "
    "features added to a declared schema, and renamed or dropped ones in features.aliases"
)


def require_equal(path: Path, header: Mapping[str, Any], expected: Mapping[str, Any]) -> None:
    """Refuse a checkpoint of another model than the configured one."""
    wanted = json.loads(json.dumps(expected))
    stored = {key: _without_learned(header.get(key), wanted[key]) for key in expected}
    differences = "; ".join(_differences(stored, wanted, ""))
    if differences:
        raise Incompatible(
            f"{path} belongs to another model: {differences}. Configure what it was, or begin a "
            f"new model in a new folder with --cold-start (the old one stays). {MAY_CHANGE}"
        )


def _differences(stored: Any, wanted: Any, name: str) -> Iterator[str]:
    stored, wanted = _to_mapping(stored), _to_mapping(wanted)
    if isinstance(stored, dict) and isinstance(wanted, dict):
        for key in dict.fromkeys([*stored, *wanted]):
            below = f"{name}.{key}".lstrip(".")
            yield from _differences(stored.get(key), wanted.get(key), below)
    elif stored != wanted and name.endswith("declared"):
        before, now = ("all" if n is None else n for n in (stored, wanted))
        yield f"{_setting(name)}: {before} of its features were declared there, {now} are now"
    elif stored != wanted:
        yield f"{_setting(name)} is {stored!r} there, {wanted!r} configured"


def _setting(name: str) -> str:
    """Return the setting that a difference is about."""
    for prefix, setting in SETTINGS:
        if name.startswith(prefix):
            return setting + name.removeprefix(prefix)
    return name


def _without_learned(stored: Any, wanted: Any) -> Any:
    """Drop what was inferred and learned from a stored description: features, and classes where
    they are learned as they come.
    """
    stored = _without_inferred(stored, wanted)
    if isinstance(stored, dict) and isinstance(wanted, dict) and "max_classes" in wanted:
        return {**stored, "labels": []} if "max_classes" in stored else stored
    return stored


def _without_inferred(stored: Any, wanted: Any) -> Any:
    """Drop inferred features from a stored description, except those that are declared now."""
    if not isinstance(stored, dict) or stored.get("declared") is None:
        return stored
    schema, declared = stored["schema"], stored["declared"]
    known = dict(wanted["schema"]) if isinstance(wanted, dict) else {}
    return {**stored, "schema": schema[:declared] + [p for p in schema[declared:] if p[0] in known]}


def _to_mapping(value: Any) -> Any:
    """Convert the description's schema, a list of pairs, to a mapping."""
    pairs = isinstance(value, list) and all(isinstance(x, list) and len(x) == 2 for x in value)
    return dict(value) if pairs else value
