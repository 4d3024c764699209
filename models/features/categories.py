"""Category values to slots by first sight, in bounded memory; shared by all encoders."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from kaboost.models.types import Ints, Vec

MISSING, UNSEEN, NEW = -1, -2, -3  # no value; no slot yet; NEW - s: slot s from the next event on
NOT_CACHED = -(2**40)
CACHE_SIZE = 65_536  # cached strings of all categories of an encoder
CACHED_LENGTH = 128  # characters; longer strings are not cached, so that the cache stays small


class _Cache(dict[str | None, int]):
    """Slots that never change again, by value."""

    def __missing__(self, value: str | None) -> int:
        return NOT_CACHED


class ValueSlots:
    """Slots of one category's values; the dictionaries are derived from the arrays of the state.

    Parameters
    ----------
    keys
        Hash of every value that has a slot, (S,), in order of first sight.
    known
        How many of them are used, (1,).
    shared
        The slots that values share by hash once all S are taken.
    cache_size
        Values to cache.
    """

    def __init__(
        self, keys: NDArray[np.uint64], known: Ints, shared: range, cache_size: int
    ) -> None:
        self._keys, self._known, self._shared = keys, known, shared
        self._cache_size = cache_size
        self._slots = {key: slot for slot, key in enumerate(keys[: known[0]].tolist())}
        self._cache = _Cache({None: MISSING})

    def encode(self, values: Sequence[str | None], out: Ints) -> None:
        """Fill out (B,) with the slot of every value; the state does not change."""
        for k in self._look_up(values, out):
            out[k] = self._slot(values[k])

    def learn(self, values: Sequence[str | None], w: Vec, out: Ints) -> None:
        """Fill out (B,) with the slot of every value before its event.

        A new value of positive weight gets a slot and is encoded as NEW - slot.
        """
        for k in self._look_up(values, out):  # in stream order: a value is new only once
            slot = self._slot(values[k])
            if slot == UNSEEN and w[k] > 0.0:
                slot = NEW - self._register(values[k])
            out[k] = slot

    def _look_up(self, values: Sequence[str | None], out: Ints) -> list[int]:
        """Fill out (B,) with the cached slots; return the indices of all other values."""
        if len(values) == 1:  # a row to predict: arrays would cost more than the look-up
            out[0] = slot = self._cache[values[0]]
            return [0] if slot == NOT_CACHED else []
        out[:] = np.fromiter(map(self._cache.__getitem__, values), np.int64, len(values))
        return list(np.flatnonzero(out == NOT_CACHED).tolist())

    def _slot(self, value: str | None) -> int:
        key = hash64(value)
        full = len(self._slots) == len(self._keys)
        other = self._shared[key % len(self._shared)] if full else UNSEEN
        slot = self._slots.get(key, other)
        if slot != UNSEEN:
            self._store(value, slot)
        return slot

    def _register(self, value: str | None) -> int:
        key, slot = hash64(value), len(self._slots)
        self._keys[slot] = key
        self._known[0] = slot + 1
        self._slots[key] = slot
        self._store(value, slot)
        return slot

    def _store(self, value: str | None, slot: int) -> None:
        if len(self._cache) >= self._cache_size:
            self._cache = _Cache({None: MISSING})
        if len(value or "") <= CACHED_LENGTH:
            self._cache[value] = slot


def hash64(value: str | None) -> int:
    """Return the 64-bit hash of a string, which may hold lone surrogates."""
    text = (value or "").encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(text, digest_size=8).digest(), "little")
