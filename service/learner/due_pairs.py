"""What one batch of records gives to learn: pairs that were joined, corrections, and pairs that
expired, in the order in which they are learned.
"""

from collections.abc import Iterator
from itertools import groupby
from typing import NamedTuple

from kaboost.service.learner.captured_learning import learn_correction, learn_pairs
from kaboost.service.learner.pairs import Learned, Pair
from kaboost.service.learner.recent import RecentEvents
from kaboost.service.storage.late_figures import LateCounts
from kaboost.service.storage.state import State
from kaboost.service.storage.waiting import Entry

FEW_LEARNED = 3  # labels of the expired class that are an exception, such as a reversed chargeback
MAX_LEARNED_SHARE = 0.1  # of joined labels, while those of one class alone are held


class Correction(NamedTuple):
    """Another label of an event that was learned."""

    entry: Entry
    before: Learned
    label: float
    weight: float


class DuePairs:
    """Joined pairs and corrections in the order of their labels, expired pairs in that of their
    age. The two are spread evenly over each other: expired pairs all have the same label, and a
    model that follows changes would take a block of them for one.
    """

    def __init__(self) -> None:
        self._joined: list[Pair | Correction] = []
        self._expired: list[Pair] = []

    def __len__(self) -> int:
        return len(self._joined) + len(self._expired)

    def join(self, due: Pair | Correction) -> None:
        """Add a pair whose label came, or a correction."""
        self._joined.append(due)

    def expire(self, pairs: list[Pair]) -> None:
        """Add pairs that waited long enough, oldest first."""
        self._expired += pairs

    def learn(self, state: State, recent: RecentEvents) -> float | None:
        """Learn what was added, in order, and note the last ones; return the time of the first
        pair's features.
        """
        oldest = None
        for run in self._runs():
            if isinstance(run, Correction):
                learn_correction(state, *run)
                continue
            learn_pairs(state, run, recent)
            oldest = run[0].entry.time if oldest is None else oldest
        return oldest

    def _runs(self) -> Iterator[list[Pair] | Correction]:
        """Return pairs that are learned together, and corrections, in order; empty both lists."""
        due = _spread(self._joined, self._expired)
        self._joined, self._expired = [], []
        for is_correction, run in groupby(due, lambda each: isinstance(each, Correction)):
            if is_correction:
                yield from (each for each in run if isinstance(each, Correction))
            else:
                yield [each for each in run if isinstance(each, Pair)]


def _spread(joined: list[Pair | Correction], expired: list[Pair]) -> list[Pair | Correction]:
    """Return both lists as one, in which the middle of each item's share decides."""
    places = [((k + 0.5) / len(joined), 0, k) for k in range(len(joined))]
    places += [((k + 0.5) / len(expired), 1, k) for k in range(len(expired))]
    lists: tuple[list[Pair | Correction], list[Pair]] = (joined, expired)
    return [lists[which][k] for _, which, k in sorted(places)]


def holds_joined(counts: LateCounts, learned: int, pairs: int) -> bool:
    """Return whether labels other than that of expired features are held, where so many events were
    learned, and so many pairs are joined and not counted yet.

    Until the first features expire, only these labels are known: a model of these alone would be
    sure of them for weeks. Where labels of the expired class come too, nothing is held.
    """
    if counts.expired > 0:
        return False
    return learned <= max(FEW_LEARNED, MAX_LEARNED_SHARE * (counts.joined + pairs))
