"""Arrays of records as the plain numbers that files hold: every field is one more column."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def plain(array: NDArray[Any]) -> NDArray[Any]:
    """Return records (...,) of n numbers as these (..., n), any other array as it is; no copy.

    Examples
    --------
    >>> plain(np.zeros(2, [("start", np.int64), ("stop", np.int64)]))
    array([[0, 0],
           [0, 0]])
    """
    if array.dtype.names is None:
        return array
    return array.view(array.dtype[0]).reshape(*array.shape, len(array.dtype.names))


def plain_like(array: NDArray[Any]) -> NDArray[Any]:
    """Return an array of the type and shape of `plain`, which takes no memory."""
    names = array.dtype.names
    if names is None:
        return array
    return np.broadcast_to(np.zeros((), array.dtype[0]), (*array.shape, len(names)))


def as_records(array: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return plain numbers as the records that they were, any other type as it is; no copy."""
    return array.view(dtype).reshape(array.shape[:-1]) if dtype.names else array
