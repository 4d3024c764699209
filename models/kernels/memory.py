"""Memory for large states, in small pages.

NumPy asks the system for huge pages. The first write to one clears 2 MiB, which took an
event up to 7 ms: 35,000 events of 54 features fill one. A small page takes a microsecond.
"""

from __future__ import annotations

import contextlib
import math
import mmap
from typing import Any

import numpy as np
from numpy.typing import NDArray

LARGE = 1 << 22  # bytes; NumPy asks for huge pages from here on


def zeros(shape: tuple[int, ...], kind: Any = np.float64) -> NDArray[Any]:
    """Return zeros like `numpy.zeros`, without huge pages where the system allows that.

    Examples
    --------
    >>> zeros((2, 3), np.uint8).tolist()
    [[0, 0, 0], [0, 0, 0]]
    """
    count, advice = math.prod(shape), getattr(mmap, "MADV_NOHUGEPAGE", None)
    if advice is None or count * np.dtype(kind).itemsize < LARGE:
        return np.zeros(shape, kind)
    # Private, so that a forked process writes to a copy.
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    memory = mmap.mmap(-1, count * np.dtype(kind).itemsize, flags=flags)
    with contextlib.suppress(OSError):  # a system without huge pages rejects the advice
        memory.madvise(advice)
    return np.frombuffer(memory, kind).reshape(shape)
