"""A tree of NamedTuples to named arrays and back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kaboost.models.state.records import as_records, plain, plain_like
from kaboost.models.types import ModelError
from kaboost.models.verbs import learning_only

Arrays = dict[str, NDArray[Any]]


def _without_memory(part: Any) -> Any:
    if isinstance(part, np.ndarray):
        return np.broadcast_to(np.zeros((), part.dtype), part.shape)
    if hasattr(part, "_asdict"):
        return part._replace(**{k: _without_memory(v) for k, v in part._asdict().items()})
    return tuple(map(_without_memory, part)) if isinstance(part, tuple) else part


def _refill(prefix: str, part: Any, arrays: Mapping[str, NDArray[Any]]) -> Any:
    only = learning_only(part)
    found: dict[str, Any] = {}
    for field, template in part._asdict().items():
        name = f"{prefix}.{field}" if prefix else field
        if hasattr(template, "_asdict"):
            found[field] = _refill(name, template, arrays)
        elif isinstance(template, tuple):
            parts = enumerate(template)
            found[field] = tuple(_refill(f"{name}.{k}", part, arrays) for k, part in parts)
        elif isinstance(template, np.ndarray):
            found[field] = _same(name, template, arrays, field in only)
    return part._replace(**found)


def _same(
    name: str, template: NDArray[Any], arrays: Mapping[str, NDArray[Any]], optional: bool
) -> NDArray[Any]:
    """Return the array of that name, like its template; an empty one if it may be missing."""
    if name not in arrays:
        if optional:
            return np.zeros((0,) * template.ndim, template.dtype)
        raise ModelError(f"arrays: {name!r} is missing; take the arrays of the same specification")
    array, expected = arrays[name], plain_like(template)
    if array.dtype != expected.dtype or array.shape != expected.shape:
        raise ModelError(
            f"arrays: {name!r} is {array.dtype} {array.shape}, "
            f"not {expected.dtype} {expected.shape}; take those of the same specification and build"
        )
    return as_records(array, template.dtype)


def _leaves(prefix: str, part: Any) -> Iterator[tuple[str, NDArray[Any], bool]]:
    only = learning_only(part) if prefix else ()
    for field, value in part._asdict().items():
        name = f"{prefix}.{field}" if prefix else field
        if isinstance(value, np.ndarray):
            assert value.flags.c_contiguous, f"{name} must be C-contiguous"
            yield name, plain(value), field not in only
        elif hasattr(value, "_asdict"):
            yield from _leaves(name, value)
        elif isinstance(value, tuple):  # the classes of one_vs_rest
            for k, each in enumerate(value):
                yield from _leaves(f"{name}.{k}", each)
