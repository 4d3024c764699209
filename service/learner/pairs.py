"""Features with the label that they waited for, and what is known of a label that was learned."""

import math
from collections.abc import Sequence
from typing import NamedTuple

from kaboost.service.storage.waiting import HELD, JOINED, Entry, WaitingStore


class Pair(NamedTuple):
    """Features and their label."""

    entry: Entry
    label: float
    weight: float
    delay: float = 0.0  # seconds from the features to the label
    state: int = JOINED  # of the entry, once the pair is handled


class Learned(NamedTuple):
    """A label that was learned."""

    label: float
    weight: float  # that its loss counts with
    state: int = JOINED  # of its entry; HELD where it is learned later


def oldest_first(entry: Entry) -> tuple[float, int]:
    """Return what orders entries by their age."""
    return entry.time, entry.number


def oldest(store: WaitingStore, count: int) -> tuple[list[Entry], list[Entry]]:
    """Return so many of the oldest entries that are not learned: those that wait, and held ones."""
    both = store.oldest_waiting(math.inf, count) + store.oldest_held(math.inf, count)
    both = sorted(both, key=oldest_first)[:count]
    held = [entry for entry in both if entry.state == HELD]
    return [entry for entry in both if entry.state != HELD], held


def mark(store: WaitingStore, pairs: Sequence[Pair]) -> None:
    """Mark features with their labels."""
    for state in sorted({pair.state for pair in pairs}):
        part = [pair for pair in pairs if pair.state == state]
        numbers, values = [p.entry.number for p in part], [p.label for p in part]
        store.mark(numbers, state, values, [p.weight for p in part])
