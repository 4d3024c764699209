"""How much of what is learned comes from one key of records: none has more than its share."""

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

MEMORY = 1_000  # events: older ones count less, as in the windows of losses
DECAY = 1.0 - 1.0 / MEMORY
FORGOTTEN = 1e-3  # decayed weight, in units of the mean weight, below which a key is forgotten
KEYS, WEIGHTS, TOTALS = "influence.keys", "influence.weights", "influence.totals"


class KeyInfluence:
    """Decayed weights of keys; an event's weight is reduced where its key has had its share.

    Parameters
    ----------
    limit
        Largest share of the weight of about the last `MEMORY` events that one key may have; None
        for no limit.

    Examples
    --------
    >>> influence = KeyInfluence(limit=0.002)
    >>> influence.weigh([b"a", b"a", b"a", b"b", None], np.ones(5)).round(3).tolist()
    [1.0, 1.0, 0.003, 1.0, 1.0]
    """

    def __init__(self, limit: float | None = None) -> None:
        self.limit = limit
        self._seen: dict[int, tuple[float, int]] = {}  # hash → decayed weight, last event
        self._events = 0
        self._weight = self._count = 0.0  # decayed, of all events: their mean weight

    def limited_to(self, limit: float | None) -> "KeyInfluence":
        """Return the same weights with another limit; without one nothing is remembered."""
        made = KeyInfluence(limit)
        if limit is not None:  # a copy: states begin with one that they share
            made._seen = dict(self._seen)
            made._events, made._weight, made._count = self._events, self._weight, self._count
        return made

    def weigh(
        self, keys: Sequence[bytes | str | None], w: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return the weights (B,) that events of these keys count with, in their order.

        Events without a key keep theirs, and weights 0 stay 0.
        """
        if self.limit is None:
            return w
        return np.array([self._one(*pair) for pair in zip(keys, w.tolist(), strict=True)])

    def _one(self, key: bytes | str | None, weight: float) -> float:
        if weight <= 0.0:
            return weight
        self._events += 1
        self._weight, self._count = DECAY * self._weight + weight, DECAY * self._count + 1.0
        mean = self._weight / self._count
        if self._events % MEMORY == 0:
            self._forget(FORGOTTEN * mean)
        if key is None:
            return weight
        assert self.limit is not None
        number = _hash(key)
        before = self._decayed(number)
        allowed = min(weight, max(0.0, self.limit * MEMORY * mean - before))
        self._seen[number] = before + allowed, self._events
        return allowed

    def _decayed(self, number: int) -> float:
        weight, last = self._seen.get(number, (0.0, self._events))
        return float(weight * DECAY ** (self._events - last))

    def _forget(self, least: float) -> None:
        self._seen = {k: v for k, v in self._seen.items() if self._decayed(k) >= least}

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return the state as arrays: none without a limit."""
        if self.limit is None:
            return {}
        return {
            KEYS: np.array(list(self._seen), np.uint64),
            WEIGHTS: np.array(list(self._seen.values()), np.float64).reshape(-1, 2),
            TOTALS: np.array([self._events, self._weight, self._count]),
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> "KeyInfluence":
        """Return the state of arrays; an empty one where there are none."""
        made = cls()
        if TOTALS in arrays:
            pairs = ((weight, int(last)) for weight, last in arrays[WEIGHTS].tolist())
            made._seen = dict(zip(arrays[KEYS].tolist(), pairs, strict=True))
            events, made._weight, made._count = arrays[TOTALS].tolist()
            made._events = int(events)
        return made


def _hash(key: bytes | str) -> int:
    raw = key.encode() if isinstance(key, str) else key
    return int.from_bytes(blake2b(raw, digest_size=8).digest(), "little")
