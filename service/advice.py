"""From what pydantic found wrong to sentences with key, value, origin and remedy."""

from collections.abc import Callable, Mapping
from difflib import get_close_matches

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from service.layers import Leaf, Merged, env_name


def advise(
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
        head = ".".join(path)
        if fault["type"] != "missing":
            head += f" = {'**********' if hidden(path) else repr(fault['input'])}"
        if path in merged.origins:
            head += f" ({merged.origins[path]})"
        lines.setdefault(path, [head]).append(_reason(fault, path, known))
    return "\n".join(
        f"{head}: {' or '.join(dict.fromkeys(reasons))}" for head, *reasons in lines.values()
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


def _reason(fault: ErrorDetails, path: Leaf, known: Mapping[Leaf, str]) -> str:
    if fault["type"] == "extra_forbidden":
        return f"unknown key; {_nearest(path, known)}"
    about = known.get(path, "")
    if fault["type"] == "missing":
        return f"missing; write it into the configuration file or set {env_name(path)}. {about}"
    reason = fault["msg"].removeprefix("Value error, ").removeprefix("Input ")
    reason = reason.removeprefix(f"{'.'.join(path)}: ")
    if fault["type"] in ("list_type", "dict_type"):
        reason += ", as JSON in a variable or a flag"
    return reason + (f". {about}" if about else "")


def _nearest(path: Leaf, known: Mapping[Leaf, str]) -> str:
    siblings = [leaf[-1] for leaf in known if leaf[:-1] == path[:-1]]
    near = get_close_matches(path[-1], siblings, n=1, cutoff=0.7)
    if near:
        return f"did you mean {'.'.join((*path[:-1], near[0]))}?"
    elsewhere = [".".join(leaf) for leaf in known if leaf[-1] == path[-1]]
    return f"did you mean {elsewhere[0]}?" if elsewhere else f"known are {', '.join(siblings)}"
