"""Describe pydantic's validation errors with key, value, origin and remedy."""

import re
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from kaboost.service.config.sources import Leaf, Merged, env_name

# By pydantic's error type, where its own message uses Python's terms.
WORDS = {
    "missing": "missing",
    "int_type": "should be a whole number",
    "int_parsing": "should be a whole number",
    "int_from_float": "should be a whole number",
    "float_type": "should be a number",
    "float_parsing": "should be a number",
    "bool_type": "should be true or false",
    "bool_parsing": "should be true or false",
    "string_type": "should be text (in quotes)",
    "string_too_short": "is empty; write at least one character",
    "path_type": "should be text (in quotes)",
    "list_type": 'should be a list: [a, b] in the file or a flag, ["a", "b"] in a variable',
    "dict_type": 'should be a mapping: {a: b} in the file or a flag, {"a": "b"} in a variable',
    "too_short": "is empty; write at least one entry",
}

NAMED = re.compile(r"Value error, ((?:labels|events|predictions|score)(?:\.[a-z_]+)+): ")
SHORTHANDS = {("features",): "auto", ("api", "auth"): "none"}  # sections that one word can replace


def describe_errors(
    err: ValidationError,
    settings: type[BaseModel],
    merged: Merged,
    is_hidden: Callable[[Leaf], bool],
) -> str:
    """Write one line for each key with its faults."""
    known = names(settings)
    lines: dict[Leaf, list[str]] = {}
    described: dict[Leaf, str] = {}  # what the setting is, once behind all its faults
    for fault in err.errors(include_url=False):
        path = _named(fault, known) or _path(fault, merged, known)
        origin = _origin(merged, path)
        head = ".".join(path)
        if origin and not _is_section(fault):
            value = merged.leaves.get(path, fault["input"])
            head += f" = {'**********' if is_hidden(path) else repr(value)}"
        head += f" ({origin})" if origin else ""
        reason = _reason(fault, path, known, is_set=bool(origin))
        lines.setdefault(path, [head]).append(reason)
        if not _is_section(fault) and fault["type"] != "extra_forbidden":
            described[path] = known.get(path) or known.get(path[:-1], "")
    return "\n".join(
        f"{head}: {_joined(reasons, described.get(path, ''))}"
        for path, (head, *reasons) in lines.items()
    )


def _joined(reasons: Sequence[str], description: str) -> str:
    text = " or ".join(dict.fromkeys(reasons)).replace(" or should be ", " or ")
    return f"{text}{'' if text.endswith('?') else '.'} {description}" if description else text


def names(settings: type[BaseModel]) -> dict[Leaf, str]:
    """List every setting and section with its description."""
    descriptions: dict[Leaf, str] = {}
    for name, field in settings.model_fields.items():
        key = field.alias or name
        inner = field.annotation
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            descriptions[(key,)] = inner.__doc__ or ""
            descriptions |= {(key, *below): text for below, text in names(inner).items()}
        else:
            descriptions[(key,)] = field.description or ""
    return descriptions


def _named(fault: ErrorDetails, known: Mapping[Leaf, str]) -> Leaf | None:
    """Return the setting that a message about several begins with, such as `labels.early: `."""
    match = NAMED.match(fault["msg"])
    path = tuple(match[1].split(".")) if match else ()
    return path if path in known or path[:-1] in known else None


def _path(fault: ErrorDetails, merged: Merged, known: Mapping[Leaf, str]) -> Leaf:
    """Remove what pydantic adds to a location: union members, list indices, [key]."""
    loc = tuple(str(part) for part in fault["loc"])
    if fault["type"] in ("extra_forbidden", "missing"):
        return loc
    prefixes = (loc[:n] for n in range(len(loc), 0, -1))
    return next((path for path in prefixes if path in merged.leaves or path in known), loc)


def _origin(merged: Merged, path: Leaf) -> str:
    """Return where the value or those below it were set; empty if nowhere."""
    origins = [text for leaf, text in merged.origins.items() if leaf[: len(path)] == path]
    return ", ".join(dict.fromkeys(origins))


def _reason(fault: ErrorDetails, path: Leaf, known: Mapping[Leaf, str], *, is_set: bool) -> str:
    if fault["type"] == "extra_forbidden":
        return f"unknown key; {_nearest(path, known)}"
    if _is_section(fault):
        below = [leaf[-1] for leaf in known if leaf[:-1] == path]
        actual = "empty" if fault["input"] is None else "one value"
        word = f"write {SHORTHANDS[path]}, or " if path in SHORTHANDS else ""
        return f"{actual} where a section belongs; {word}write below it any of {', '.join(below)}"
    reason = WORDS.get(fault["type"], fault["msg"])
    for opening in ("Value error, ", "Input ", "String ", f"{'.'.join(path)}: "):
        reason = reason.removeprefix(opening)
    is_section = any(leaf[:-1] == path for leaf in known)
    if not is_set and not is_section:
        reason += f"; set it in the configuration file or set {env_name(path)}"
    return reason


def _is_section(fault: ErrorDetails) -> bool:
    return fault["type"] == "model_type"


def _nearest(path: Leaf, known: Mapping[Leaf, str]) -> str:
    siblings = [leaf[-1] for leaf in known if leaf[:-1] == path[:-1]]
    near = get_close_matches(path[-1], siblings, n=1, cutoff=0.7)
    if near:
        return f"did you mean {'.'.join((*path[:-1], near[0]))}?"
    if path[:-1] == ("features",):
        return f"kinds of features belong below schema: did you mean features.schema.{path[-1]}?"
    elsewhere = [".".join(leaf) for leaf in known if leaf[-1] == path[-1]]
    return f"did you mean {elsewhere[0]}?" if elsewhere else f"known keys: {', '.join(siblings)}"
