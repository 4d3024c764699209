"""SplitMix64, the only random generator of Kaboost: language independent and seekable
(specification, section 0). In kernels its state is an array, so that a restored model continues the
sequence.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from kaboost.models.kernels.jit import compiled_twin, kernel
from kaboost.models.types import Vec

State = np.ndarray[tuple[()], np.dtype[np.uint64]]

MASK = 2**64 - 1
GAMMA = np.uint64(0x9E3779B97F4A7C15)
FIRST = np.uint64(0xBF58476D1CE4E5B9)
SECOND = np.uint64(0x94D049BB133111EB)
RATE_LIMIT = 100.0  # of a Poisson draw: e^-rate underflows above 745


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


def generator(seed: int) -> State:
    """Return the state () of a generator that starts at `seed`."""
    return np.array(seed % 2**64, np.uint64)


def uniform(state: State) -> float:
    """Return a draw in [0, 1) and advance the state ().

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


@compiled_twin(uniform)
def _uniform(state: State) -> Any:
    def compiled(state: State) -> float:
        word = state[()] + GAMMA
        state[()] = word
        z = (word ^ (word >> np.uint64(30))) * FIRST
        z = (z ^ (z >> np.uint64(27))) * SECOND
        return np.float64((z ^ (z >> np.uint64(31))) >> np.uint64(11)) * 2.0**-53

    return compiled


@kernel
def reseed(state: State, other: State) -> None:
    """Seed the generator `state` () with a draw of `other`."""
    state[()] = int(uniform(other) * 2.0**53)


@kernel
def poisson(state: State, rate: float) -> int:
    """Return a Poisson draw by multiplying uniforms; the rate counts as at most 100."""
    floor = math.exp(-min(rate, RATE_LIMIT))
    k = 0
    p = uniform(state)
    while p > floor:
        p *= uniform(state)
        k += 1
    return k
