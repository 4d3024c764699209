"""The origins of replayed events that were learned, so that a second replay teaches nothing."""

from bisect import bisect_right
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

NAME = "replayed_origins"  # of the array: JSON in UTF-8
MAX_RANGES = 100_000  # of all partitions; beyond it the lowest of the longest is forgotten

Place = tuple[str, int, int]  # topic, partition, offset


class ReplayedOrigins:
    """Sets of offsets by topic and partition, as ranges: neighbours take no memory.

    Examples
    --------
    >>> origins = ReplayedOrigins()
    >>> for offset in (7, 9, 8):
    ...     origins.add(("events", 0, offset))
    >>> ("events", 0, 8) in origins, ("events", 1, 8) in origins, origins.ranges
    (True, False, 1)
    """

    def __init__(self) -> None:
        self._starts: dict[tuple[str, int], list[int]] = {}
        self._ends: dict[tuple[str, int], list[int]] = {}  # exclusive
        self.ranges = 0  # how many there are

    def __contains__(self, place: Place) -> bool:
        k = bisect_right(self._starts.get(place[:2], ()), place[2])
        return k > 0 and place[2] < self._ends[place[:2]][k - 1]

    def add(self, place: Place) -> None:
        """Add an offset, and join the ranges that it closes."""
        if place in self:
            return
        key, offset = place[:2], place[2]
        starts, ends = self._starts.setdefault(key, []), self._ends.setdefault(key, [])
        k = bisect_right(starts, offset)
        left = k > 0 and ends[k - 1] == offset
        right = k < len(starts) and starts[k] == offset + 1
        if left and right:
            ends[k - 1] = ends.pop(k)
            del starts[k]
            self.ranges -= 1
        elif left:
            ends[k - 1] = offset + 1
        elif right:
            starts[k] = offset
        else:
            starts.insert(k, offset)
            ends.insert(k, offset + 1)
            self.ranges += 1
        if self.ranges > MAX_RANGES:
            longest = max(self._starts, key=lambda key: len(self._starts[key]))
            del self._starts[longest][0], self._ends[longest][0]
            self.ranges -= 1

    def discard(self, place: Place) -> None:
        """Remove an offset: its event was rejected after all, so it may be replayed again."""
        if place not in self:
            return
        starts, ends = self._starts[place[:2]], self._ends[place[:2]]
        k = bisect_right(starts, place[2])
        start, end, offset = starts.pop(k - 1), ends.pop(k - 1), place[2]
        self.ranges -= 1
        for first, after in ((offset + 1, end), (start, offset)):
            if first < after:
                starts.insert(k - 1, first)
                ends.insert(k - 1, after)
                self.ranges += 1

    def forget(self, topic: str, partition: int) -> None:
        """Remove all offsets of a partition, whose numbers stand for other records now."""
        self.ranges -= len(self._starts.pop((topic, partition), ()))
        self._ends.pop((topic, partition), None)

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return the ranges as one array of bytes; none while there are none."""
        whole: dict[str, dict[str, list[int]]] = {}
        for (topic, partition), starts in self._starts.items():
            if starts:
                ends = self._ends[topic, partition]
                whole.setdefault(topic, {})[str(partition)] = _steps(starts, ends)
        return {NAME: np.frombuffer(msgspec.json.encode(whole), np.uint8)} if whole else {}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> "ReplayedOrigins":
        """Return the origins of a checkpoint."""
        self = cls()
        if NAME in arrays:
            kind = dict[str, dict[str, list[int]]]
            for topic, partitions in msgspec.json.decode(arrays[NAME].tobytes(), type=kind).items():
                for partition, steps in partitions.items():
                    bounds = np.cumsum(steps).tolist()
                    self._starts[topic, int(partition)] = bounds[::2]
                    self._ends[topic, int(partition)] = bounds[1::2]
                    self.ranges += len(steps) // 2
        return self


def _steps(starts: list[int], ends: list[int]) -> list[int]:
    """Return the differences of all bounds, which are short."""
    bounds = [bound for pair in zip(starts, ends, strict=True) for bound in pair]
    return [bounds[0], *(b - a for a, b in pairwise(bounds))]
