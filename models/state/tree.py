"""A tree of NamedTuples to named arrays and back: the only such pair."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from kaboost.models.state.records import as_records, plain, plain_like
from kaboost.models.types import ModelError
from kaboost.models.verbs import learning_only

Arrays = dict[str, NDArray[Any]]
Tree = TypeVar("Tree")


def to_arrays(part: Any, prefix: str = "", *, serving: bool = False) -> Arrays:
    """Return the arrays of a tree by their dotted names; no copy.

    Parameters
    ----------
    part
        A NamedTuple of arrays, such NamedTuples and tuples of them; other fields are skipped.
    prefix
        First part of every name, without the dot.
    serving
        Leave out the arrays that only learning reads.

    Examples
    --------
    >>> from typing import NamedTuple
    >>> class Mean(NamedTuple):
    ...     count: NDArray[Any]
    >>> to_arrays(Mean(np.zeros(2)), "mean")
    {'mean.count': array([0., 0.])}
    """
    return {name: array for name, array, serves in _leaves(part, prefix) if serves or not serving}


def from_arrays(template: Tree, arrays: Mapping[str, NDArray[Any]], prefix: str = "") -> Tree:
    """Return the tree over these arrays, without copies, with the structure of a template.

    Arrays that only learning reads may be missing; they are then empty.

    Raises
    ------
    ModelError
        An array is missing, has another type or shape than in the template, or is not
        C-contiguous.
    """
    part: Any = template
    optional = learning_only(part)
    fields = {
        field: _filled(value, arrays, _join(prefix, field), field in optional)
        for field, value in part._asdict().items()
    }
    filled: Tree = part._replace(**fields)
    return filled


def copied(part: Tree) -> Tree:
    """Return the tree with copies of its arrays."""
    copy: Any = _mapped(part, lambda array: array.copy())
    return copy  # type: ignore[no-any-return]


def without_memory(part: Any) -> Any:
    """Return the tree with arrays of the same types and shapes but no memory, as a template."""
    return _mapped(part, lambda array: np.broadcast_to(np.zeros((), array.dtype), array.shape))


def _mapped(part: Any, change: Callable[[NDArray[Any]], NDArray[Any]]) -> Any:
    """Return the tree with every array changed."""
    if isinstance(part, np.ndarray):
        return change(part)
    if hasattr(part, "_asdict"):
        fields = {name: _mapped(value, change) for name, value in part._asdict().items()}
        return part._replace(**fields)
    return tuple(_mapped(one, change) for one in part) if isinstance(part, tuple) else part


def _join(prefix: str, field: str) -> str:
    return f"{prefix}.{field}" if prefix else field


def _leaves(part: Any, prefix: str) -> Iterator[tuple[str, NDArray[Any], bool]]:
    """Yield name and array of every leaf, and whether a prediction reads it."""
    optional = learning_only(part)
    for field, value in part._asdict().items():
        name = _join(prefix, field)
        if isinstance(value, np.ndarray):
            assert value.flags.c_contiguous, f"{name} must be C-contiguous"
            yield name, plain(value), field not in optional
        elif hasattr(value, "_asdict"):
            yield from _leaves(value, name)
        elif isinstance(value, tuple):  # the classes of one_vs_rest
            for k, inner in enumerate(value):
                yield from _leaves(inner, f"{name}.{k}")


def _filled(value: Any, arrays: Mapping[str, NDArray[Any]], name: str, optional: bool) -> Any:
    if isinstance(value, np.ndarray):
        return _checked(value, arrays, name, optional)
    if hasattr(value, "_asdict"):
        return from_arrays(value, arrays, name)
    if isinstance(value, tuple):
        return tuple(from_arrays(inner, arrays, f"{name}.{k}") for k, inner in enumerate(value))
    return value


def _checked(
    template: NDArray[Any], arrays: Mapping[str, NDArray[Any]], name: str, optional: bool
) -> NDArray[Any]:
    """Return the array of that name after checks; an empty one if it is optional and missing."""
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
    if not array.flags.c_contiguous:
        raise ModelError(f"arrays: {name!r} is not C-contiguous; pass np.ascontiguousarray of it")
    return as_records(array, template.dtype)
