"""What became of labels that come later: counts and delays over all restarts."""

from collections.abc import Iterable
from typing import NamedTuple

RECENT_LABELS = 1_000  # that the recent delay is over, about


class LateCounts(NamedTuple):
    """What became of labels and of the features that waited for them; part of the checkpoint."""

    joined: int = 0
    expired: int = 0
    unmatched: int = 0
    corrected: int = 0
    mean_delay: float = 0.0  # seconds from features to label, over all that were joined
    recent_delay: float = 0.0  # over about the last RECENT_LABELS of them

    def with_joined(self, delays: Iterable[float], wrong: int = 0) -> "LateCounts":
        """Count joined labels with their delays, in their order; and some with a wrong time, which
        count as if they had come after the mean delay.
        """
        joined, mean, recent = self.joined + wrong, self.mean_delay, self.recent_delay
        for delay in delays:
            joined += 1
            mean += (delay - mean) / joined
            recent += (delay - recent) / min(joined, RECENT_LABELS)
        return self._replace(joined=joined, mean_delay=mean, recent_delay=recent)


class LateFigures(NamedTuple):
    """What a learner reports of late labels: what waits now, and the counts."""

    waiting: int  # features
    early: int  # labels
    joined: int
    expired: int
    unmatched: int
    corrected: int
    mean_delay: float
    recent_delay: float
