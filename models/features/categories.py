"""Category values to slots by first sight, in bounded memory; shared by all encoders."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from kaboost.models.types import Ints, Vec

MISSING, UNSEEN, NEW = -1, -2, -3  # no slot; none yet; the slot NEW - s from the next event on
NOT_CACHED = -(2**40)  # not remembered: look further
CACHE_SIZE = 65_536  # remembered strings, shared by all categories of an encoder
CACHED_LENGTH = 128  # longer strings are hashed anew each time: what is remembered stays small


class _Memo(dict[str | None, int]):
    """Slots that can never change again, by value."""

    def __missing__(self, value: str | None) -> int:
        return NOT_CACHED


class ValueSlots:
    """Slots of one category's values; the look-ups are derived from the arrays of the state.

    Parameters
    ----------
    keys
        Hash of each value that has a slot, (S,), in order of first sight.
    known
        How many of them are used, (1,).
    shared
        The slots that values share by hash once all S are taken.
    room
        Values to remember.
    """

    def __init__(self, keys: NDArray[np.uint64], known: Ints, shared: range, room: int) -> None:
        self._keys, self._known, self._shared, self._room = keys, known, shared, room
        self._slots = {key: slot for slot, key in enumerate(keys[: known[0]].tolist())}
        self._memo = _Memo({None: MISSING})

    def encode(self, values: Sequence[str | None], out: Ints) -> None:
        """Fill out (B,) with the slot of every value; the state does not change."""
        for k in self._look_up(values, out):
            out[k] = self._slot(values[k])

    def learn(self, values: Sequence[str | None], w: Vec, out: Ints) -> None:
        """Fill out (B,) with the slot each value had before its event; a new value of positive
        weight gets one, and shows it as NEW - slot.
        """
        for k in self._look_up(values, out):  # in stream order: what is new to one is known to next
            slot = self._slot(values[k])
            if slot == UNSEEN and w[k] > 0.0:
                slot = NEW - self._register(values[k])
            out[k] = slot

    def _look_up(self, values: Sequence[str | None], out: Ints) -> list[int]:
        """Fill out with the slots that are remembered; list the places of all others."""
        if len(values) == 1:  # a row to predict: arrays would cost more than the look-up
            out[0] = slot = self._memo[values[0]]
            return [0] if slot == NOT_CACHED else []
        out[:] = np.fromiter(map(self._memo.__getitem__, values), np.int64, len(values))
        return list(np.flatnonzero(out == NOT_CACHED).tolist())

    def _slot(self, value: str | None) -> int:
        key = hash64(value)
        full = len(self._slots) == len(self._keys)
        other = self._shared[key % len(self._shared)] if full else UNSEEN
        slot = self._slots.get(key, other)
        if slot != UNSEEN:
            self._remember(value, slot)
        return slot

    def _register(self, value: str | None) -> int:
        key, slot = hash64(value), len(self._slots)
        self._keys[slot] = key
        self._known[0] = slot + 1
        self._slots[key] = slot
        self._remember(value, slot)
        return slot

    def _remember(self, value: str | None, slot: int) -> None:
        if len(self._memo) >= self._room:
            self._memo = _Memo({None: MISSING})
        if len(value or "") <= CACHED_LENGTH:
            self._memo[value] = slot


def hash64(value: str | None) -> int:
    """Return the fixed 64-bit hash of a string; lone surrogates are strings as well."""
    text = (value or "").encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(text, digest_size=8).digest(), "little")
