"""Draws inside kernels: SplitMix64 whose state is an array, so that a restored model goes on with
the same sequence (specification, section 0).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba.extending import overload

from models.rng import FIRST, GAMMA, SECOND
from models.verbs import JIT, kernel

State = np.ndarray[tuple[()], np.dtype[np.uint64]]

MASK = 2**64 - 1
RATE_LIMIT = 100.0  # of a Poisson draw: e^-rate underflows above 745


def generator(seed: int) -> State:
    """Return the state () of a generator that starts at `seed`."""
    return np.array(seed % 2**64, np.uint64)


def uniform(state: Any) -> float:
    """Return a draw in [0, 1); the state () moves on.

    Examples
    --------
    >>> uniform(generator(42))
    0.7415648787718233
    """
    word = (int(state[()]) + int(GAMMA)) & MASK  # Python's integers: NumPy's warn as they wrap
    state[()] = word
    z = ((word ^ (word >> 30)) * int(FIRST)) & MASK
    z = ((z ^ (z >> 27)) * int(SECOND)) & MASK
    return ((z ^ (z >> 31)) >> 11) * 2.0**-53


@overload(uniform, jit_options=JIT)
def _uniform(state: Any) -> Any:
    def compiled(state: Any) -> float:
        word = state[()] + GAMMA
        state[()] = word
        z = (word ^ (word >> np.uint64(30))) * FIRST
        z = (z ^ (z >> np.uint64(27))) * SECOND
        return np.float64((z ^ (z >> np.uint64(31))) >> np.uint64(11)) * 2.0**-53

    return compiled


@kernel
def reseed(state: Any, other: Any) -> None:
    """Start the generator `state` () where a draw of `other` says."""
    state[()] = int(uniform(other) * 2.0**53)


@kernel
def poisson(state: Any, rate: float) -> int:
    """Return a Poisson draw by multiplying uniforms; the rate counts as at most 100."""
    floor = math.exp(-min(rate, RATE_LIMIT))
    k = 0
    p = uniform(state)
    while p > floor:
        p *= uniform(state)
        k += 1
    return k
