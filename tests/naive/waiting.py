"""The waiting store as dictionaries; a generation is a copy of everything."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from math import nan

from kaboost.service.storage.waiting import WAITING, EarlyLabel, Entry, NewEntry


class NaiveStore:
    """What `WaitingStore` promises, without a disk."""

    def __init__(self) -> None:
        self.entries: dict[str, Entry] = {}
        self.labels: list[EarlyLabel] = []
        self.next = 1
        self.generations: dict[int, tuple[dict[str, Entry], list[EarlyLabel], int]] = {}
        self.commit(0, 0)

    def commit(self, generation: int, keep_from: int) -> None:
        """Copy everything."""
        self.generations[generation] = deepcopy((self.entries, self.labels, self.next))
        for old in [each for each in self.generations if each < keep_from]:
            del self.generations[old]

    def begin(self, generation: int) -> None:
        """Go back to a copy."""
        self.entries, self.labels, self.next = deepcopy(self.generations[generation])
        for newer in [each for each in self.generations if each > generation]:
            del self.generations[newer]

    def add(self, entries: Sequence[NewEntry]) -> list[int]:
        """Add entries with new ids."""
        refused = []
        for i, new in enumerate(entries):
            if new.id in self.entries:
                refused.append(i)
            else:
                self.entries[new.id] = Entry(self.next, *new, WAITING, nan, nan)
                self.next += 1
        return refused

    def mark(
        self,
        numbers: Sequence[int],
        state: int,
        labels: Sequence[float],
        weights: Sequence[float],
    ) -> None:
        """Set state, label and its weight."""
        by_number = {entry.number: entry.id for entry in self.entries.values()}
        for number, *learned in zip(numbers, labels, weights, strict=True):
            key = by_number[number]
            label, weight = (nan, nan) if state == WAITING else learned
            entry = self.entries[key]
            self.entries[key] = entry._replace(state=state, label=label, label_weight=weight)

    def oldest_waiting(self, before: float, limit: int) -> list[Entry]:
        """Sort by time."""
        early = [e for e in self.entries.values() if e.state == WAITING and e.time < before]
        return sorted(early, key=lambda entry: (entry.time, entry.number))[:limit]

    def oldest_by_arrival(self, limit: int) -> list[Entry]:
        """Sort by number."""
        waiting = [entry for entry in self.entries.values() if entry.state == WAITING]
        return sorted(waiting, key=lambda entry: entry.number)[:limit]

    def forget(self, before: float, limit: int) -> int:
        """Delete what is joined or expired."""
        done = [e for e in self.entries.values() if e.state != WAITING and e.time < before]
        done = sorted(done, key=lambda entry: (entry.time, entry.number))[:limit]
        for entry in done:
            del self.entries[entry.id]
        return len(done)

    def pop_early(self, ids: Sequence[str]) -> dict[str, list[EarlyLabel]]:
        """Take labels of ids out of the list."""
        popped: dict[str, list[EarlyLabel]] = {}
        for label in self.labels:
            if label.id in ids:
                popped.setdefault(label.id, []).append(label)
        self.labels = [label for label in self.labels if label.id not in ids]
        return popped

    def pop_early_before(self, before: float, limit: int) -> list[EarlyLabel]:
        """Take old labels out of the list."""
        old = [i for i, label in enumerate(self.labels) if label.time < before]
        old = sorted(old, key=lambda i: (self.labels[i].time, i))[:limit]
        popped = [self.labels[i] for i in old]
        self.labels = [label for i, label in enumerate(self.labels) if i not in old]
        return popped
