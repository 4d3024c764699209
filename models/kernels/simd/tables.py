"""Alignment of tables of weights."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

LINE = 64  # bytes of a cache line


def aligned(array: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return a copy that starts at a cache line: NumPy aligns to 16 bytes, where half of the
    vectors of a row may span two lines and cost twice.

    Examples
    --------
    >>> aligned(np.ones((3, 4))).ctypes.data % 64
    0
    """
    buffer: Any = np.empty(array.nbytes + LINE, np.uint8)
    start = -buffer.ctypes.data % LINE
    copy: NDArray[np.float64] = buffer[start : start + array.nbytes].view(np.float64)
    copy = copy.reshape(array.shape)
    copy[...] = array
    return copy
