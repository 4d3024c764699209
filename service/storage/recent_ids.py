"""The ids of the last learned events, so that an event that comes twice is learned once."""

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

NAME = "recent_ids"  # of the array: ids as a JSON list in UTF-8, the oldest first


class RecentIds:
    """The last `window` ids, in order.

    Parameters
    ----------
    window
        How many ids are remembered; with 0 every id is new.
    ids
        Those before, the oldest first.

    Examples
    --------
    >>> recent = RecentIds(2)
    >>> [recent.is_new(id_) for id_ in ["a", "b", "a", "c", "a"]]
    [True, True, False, True, True]
    """

    def __init__(self, window: int = 0, ids: Iterable[str] = ()) -> None:
        self.window = window
        self._order = deque(ids, maxlen=window)
        self._known = set(self._order)

    def is_new(self, id_: str) -> bool:
        """Return whether an id is not among the last ones, and remember it."""
        if not self.window:
            return True
        if id_ in self._known:
            return False
        if len(self._order) == self.window:
            self._known.remove(self._order[0])
        self._order.append(id_)
        self._known.add(id_)
        return True

    def resized(self, window: int) -> "RecentIds":
        """Return the same ids with another window."""
        return self if window == self.window else RecentIds(window, self._order)

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return the ids as an array of bytes; none while there are none."""
        if not self._order:
            return {}
        return {NAME: np.frombuffer(msgspec.json.encode(list(self._order)), np.uint8)}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> "RecentIds":
        """Return the ids of a checkpoint, with a window that holds all of them."""
        if NAME not in arrays:
            return cls()
        ids = msgspec.json.decode(arrays[NAME].tobytes(), type=list[str])
        return cls(len(ids), ids)
