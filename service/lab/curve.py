"""Means over the events of a stream in a bounded number of steps of equal length."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from kaboost.models.types import Mat, Vec

STEPS = 250  # at most; then two become one
FIRST_LENGTH = 10  # events of a step


class Curve:
    """Weighted sums of some quantities over steps of a stream; memory is bounded."""

    def __init__(self) -> None:
        self.length = FIRST_LENGTH
        self.events = 0
        self._weight = np.zeros(STEPS)
        self._sums: dict[str, Vec] = {}

    def add(self, values: Mapping[str, Vec], w: Vec) -> None:
        """Add B events: name to values (B,), and their weights (B,).

        A quantity that is new has no value in the steps before.
        """
        while self.events + len(w) > STEPS * self.length:
            self._halve()
        step = (self.events + np.arange(len(w))) // self.length
        self._weight += np.bincount(step, w, STEPS)
        for name, each in values.items():
            sums = self._sums.setdefault(name, np.zeros(STEPS))
            sums += np.bincount(step, w * each, STEPS)
        self.events += len(w)

    def _halve(self) -> None:
        self.length *= 2
        for sums in (self._weight, *self._sums.values()):
            sums[: STEPS // 2] = sums[::2] + sums[1::2]
            sums[STEPS // 2 :] = 0.0

    @property
    def ends(self) -> list[int]:
        """The number of events at the end of each step."""
        used = -(-self.events // self.length)
        return [min((k + 1) * self.length, self.events) for k in range(used)]

    def means(self, name: str) -> Vec:
        """Return the mean of each step."""
        used = len(self.ends)
        with np.errstate(invalid="ignore"):
            return np.asarray(self._sums[name][:used] / self._weight[:used])

    def running(self, name: str) -> Vec:
        """Return the mean of all events up to the end of each step."""
        used = len(self.ends)
        with np.errstate(invalid="ignore"):
            sums: Vec = np.cumsum(self._sums[name][:used]) / np.cumsum(self._weight[:used])
        return sums

    @property
    def names(self) -> list[str]:
        """The quantities."""
        return list(self._sums)


class GroupSums:
    """Weighted sums of some quantities by group."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._rows: dict[str, dict[str, float]] = {}

    def add(self, groups: list[str], values: Mapping[str, Vec], w: Vec, other: str) -> None:
        """Add B events of named groups; those beyond the most go to `other`."""
        names, places = np.unique(np.array(groups, object).astype(str), return_inverse=True)
        table: Mat = np.stack([w, (w > 0.0).astype(np.float64), *(w * v for v in values.values())])
        sums = np.stack([np.bincount(places, row, len(names)) for row in table])
        for name, column in zip(names, sums.T, strict=True):
            known = str(name)
            if known not in self._rows and len(self._rows) >= self._most:
                known = other
            row = self._rows.setdefault(known, {})
            for key, value in zip(("weight", "events", *values), column, strict=True):
                row[key] = row.get(key, 0.0) + float(value)

    def rows(self) -> list[dict[str, Any]]:
        """Return the means of every group, the largest first."""
        order = sorted(self._rows.items(), key=lambda item: -item[1]["events"])
        found: list[dict[str, Any]] = []
        for name, sums in order:
            weight = sums["weight"] or 1.0
            means = {k: v / weight for k, v in sums.items() if k not in ("weight", "events")}
            found.append({"group": name, "events": int(sums["events"]), **means})
        return found
