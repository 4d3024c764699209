"""From what pydantic found wrong to sentences with key, value, origin and remedy."""

from collections.abc import Callable, Mapping
from difflib import get_close_matches

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from kaboost.service.config.sources import Leaf, Merged, env_name

# What pydantic finds, where its own words speak of Python.
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
    "string_too_short": "is empty; give at least one character",
    "path_type": "should be text (in quotes)",
    "list_type": 'should be a list: [a, b] in the file or a flag, ["a", "b"] in a variable',
    "dict_type": 'should be a mapping: {a: b} in the file or a flag, {"a": "b"} in a variable',
    "too_short": "is empty; give at least one entry",
}

SHORT = {("features",): "auto"}  # sections that one word may stand for


def describe_errors(
    err: ValidationError,
    settings: type[BaseModel],
    merged: Merged,
    hidden: Callable[[Leaf], bool],
) -> str:
    """Write one line for each fault, each key once."""
    known = names(settings)
    lines: dict[Leaf, list[str]] = {}
    for fault in err.errors(include_url=False):
        path = _path(fault, merged, known)
        origin = _origin(merged, path)
        head = ".".join(path)
        if origin and not _is_section(fault):
            head += f" = {'**********' if hidden(path) else repr(fault['input'])}"
        head += f" ({origin})" if origin else ""
        reason = _reason(fault, path, known, given=bool(origin))
        lines.setdefault(path, [head]).append(reason)
    return "\n".join(
        f"{head}: {' or '.join(dict.fromkeys(reasons)).replace(' or should be ', ' or ')}"
        for head, *reasons in lines.values()
    )


def names(settings: type[BaseModel]) -> dict[Leaf, str]:
    """List every setting and section with its description."""
    found: dict[Leaf, str] = {}
    for name, field in settings.model_fields.items():
        key = field.alias or name
        inner = field.annotation
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            found[(key,)] = inner.__doc__ or ""
            found |= {(key, *below): text for below, text in names(inner).items()}
        else:
            found[(key,)] = field.description or ""
    return found


def _path(fault: ErrorDetails, merged: Merged, known: Mapping[Leaf, str]) -> Leaf:
    """Cut off what pydantic adds to a location: union members, list positions, [key]."""
    loc = tuple(str(part) for part in fault["loc"])
    if fault["type"] in ("extra_forbidden", "missing"):
        return loc
    whole = (loc[:n] for n in range(len(loc), 0, -1))
    return next((path for path in whole if path in merged.leaves or path in known), loc)


def _origin(merged: Merged, path: Leaf) -> str:
    """Say where the value, or all that is below it, was given; empty where nothing was."""
    found = [text for leaf, text in merged.origins.items() if leaf[: len(path)] == path]
    return ", ".join(dict.fromkeys(found))


def _reason(fault: ErrorDetails, path: Leaf, known: Mapping[Leaf, str], *, given: bool) -> str:
    if fault["type"] == "extra_forbidden":
        return f"unknown key; {_nearest(path, known)}"
    if _is_section(fault):
        below = [leaf[-1] for leaf in known if leaf[:-1] == path]
        found = "empty" if fault["input"] is None else "one value"
        word = f"give {SHORT[path]}, or " if path in SHORT else ""
        return f"{found} where a section belongs; {word}write below it any of {', '.join(below)}"
    reason = WORDS.get(fault["type"], fault["msg"])
    for opening in ("Value error, ", "Input ", "String ", f"{'.'.join(path)}: "):
        reason = reason.removeprefix(opening)
    whole = any(leaf[:-1] == path for leaf in known)  # of a section some key is at fault
    if not given and not whole:
        reason += f"; write it into the configuration file or set {env_name(path)}"
    about = known.get(path, "")
    return reason + ("" if reason.endswith("?") else ".") * bool(about) + f" {about}".rstrip()


def _is_section(fault: ErrorDetails) -> bool:
    return fault["type"] == "model_type"


def _nearest(path: Leaf, known: Mapping[Leaf, str]) -> str:
    siblings = [leaf[-1] for leaf in known if leaf[:-1] == path[:-1]]
    near = get_close_matches(path[-1], siblings, n=1, cutoff=0.7)
    if near:
        return f"did you mean {'.'.join((*path[:-1], near[0]))}?"
    if path[:-1] == ("features",):
        return f"kinds of features stand below schema: did you mean features.schema.{path[-1]}?"
    elsewhere = [".".join(leaf) for leaf in known if leaf[-1] == path[-1]]
    return f"did you mean {elsewhere[0]}?" if elsewhere else f"known are {', '.join(siblings)}"
