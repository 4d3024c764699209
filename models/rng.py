"""SplitMix64: the one generator of Kaboost, language independent and seekable (specification,
section 0).
"""

from __future__ import annotations

import numpy as np

from models.types import Vec

GAMMA = np.uint64(0x9E3779B97F4A7C15)
FIRST = np.uint64(0xBF58476D1CE4E5B9)
SECOND = np.uint64(0x94D049BB133111EB)


def words(seed: int, count: int, skip: int = 0) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    """Return draws skip .. skip + count - 1 of the generator that starts at `seed`, as uint64
    (count,).
    """
    steps = np.arange(skip + 1, skip + count + 1, dtype=np.uint64)
    z = np.uint64(seed % 2**64) + steps * GAMMA  # arrays wrap modulo 2^64 without a warning
    z = (z ^ (z >> np.uint64(30))) * FIRST
    z = (z ^ (z >> np.uint64(27))) * SECOND
    return z ^ (z >> np.uint64(31))


def uniforms(seed: int, count: int, skip: int = 0) -> Vec:
    """Return uniform draws in [0, 1), float64 (count,).

    Examples
    --------
    >>> uniforms(42, 2).tolist()
    [0.7415648787718233, 0.1599103928769201]
    """
    return (words(seed, count, skip) >> np.uint64(11)).astype(np.float64) * 2.0**-53
