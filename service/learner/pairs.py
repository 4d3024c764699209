"""Features with the label that they waited for, and what is known of a label that was learned."""

from typing import NamedTuple

from kaboost.service.storage.waiting import JOINED, Entry


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
