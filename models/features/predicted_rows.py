"""Rows that a model predicted and whose labels may come later.

A label that is learned after labels of other events must teach what the model knew when it
predicted. `Model` therefore remembers its last predictions, by the values of their rows.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from threading import Lock
from typing import Any, NamedTuple

from kaboost.models.features.onehot import Table
from kaboost.models.types import Mat, ModelError, Vec

MAX_ROWS = 50_000
MAX_NUMBERS = 8_000_000  # 64 MB of encoded features and captured parts

Key = tuple[bytes | str | None, ...]


class PredictedRow(NamedTuple):
    """One row as it was predicted."""

    X: Vec  # (d,) encoded features
    parts: Vec  # (S,) what the booster captures
    scores: Vec  # (m,) that were predicted


class PredictedRows:
    """The last predicted rows, oldest out first; of equal rows the oldest is found first.

    Threads may add rows at the same time. A copy has a lock of its own.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self.labels = 0  # learned batches of labels so far
        self._of_key: dict[Key, deque[tuple[int, int, PredictedRow]]] = {}
        self._order: OrderedDict[int, Key] = OrderedDict()  # by serial number
        self._next = 0

    def __len__(self) -> int:
        """Return the number of remembered rows."""
        return len(self._order)

    def add(self, table: Table, X: Mat, parts: Mat, scores: Mat) -> None:
        """Remember B rows: X (B, d), parts (B, S), scores (B, m)."""
        most = room(X.shape[1] + parts.shape[1] + scores.shape[1])
        rows = list(zip(keys(table), X, parts, scores, strict=True))
        with self._lock:
            for key, *row in rows:
                found = self._of_key.setdefault(key, deque())
                found.append((self._next, self.labels, PredictedRow(*row)))
                self._order[self._next] = key
                self._next += 1
                while len(self._order) > most:
                    self._forget_oldest()

    def pop(self, table: Table) -> list[PredictedRow | None]:
        """Return the rows of a table as they were predicted, and forget them; None for a row that
        is not remembered, or since whose prediction no label was learned.
        """
        if not self._order:
            return [None] * len(table.numbers)
        with self._lock:
            return self._pop(keys(table))

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without the lock, which cannot be copied."""
        with self._lock:
            rows = {key: deque(rows) for key, rows in self._of_key.items()}
            state = {**vars(self), "_of_key": rows, "_order": self._order.copy()}
        return {name: value for name, value in state.items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take a state, with a lock of its own."""
        vars(self).update(state, _lock=Lock())

    def _pop(self, wanted: list[Key]) -> list[PredictedRow | None]:
        found: list[PredictedRow | None] = []
        for key in wanted:
            known = self._of_key.get(key)
            if known is None:
                found.append(None)
                continue
            serial, labels, row = known.popleft()
            if not known:
                del self._of_key[key]
            del self._order[serial]
            found.append(None if labels == self.labels else row)
        return found

    def _forget_oldest(self) -> None:
        _, key = self._order.popitem(last=False)
        known = self._of_key[key]
        known.popleft()
        if not known:
            del self._of_key[key]


def check_delay(delay: object) -> int:
    """Return a delay of labels in rows; raise ModelError for any that cannot be remembered."""
    if isinstance(delay, int) and not isinstance(delay, bool) and 0 < delay <= MAX_ROWS:
        return delay
    raise ModelError(f"delay: {delay!r} is not a whole number from 0 to {MAX_ROWS}, in rows")


def room(numbers: int) -> int:
    """Return how many rows of so many numbers are remembered at most."""
    return max(1, min(MAX_ROWS, MAX_NUMBERS // max(numbers, 1)))


def keys(table: Table) -> list[Key]:
    """Return the values of every row, hashable."""
    numbers, booleans, categories, times, texts, _ = table
    packed = [
        a.tobytes() + b.tobytes() for a, b in zip(numbers, booleans, strict=True)
    ]  # NaN, the missing value, has one representation here
    clocks = [row.tobytes() for row in times] if times.shape[1] else [None] * len(packed)
    return list(zip(packed, clocks, *categories, *texts, strict=True))
