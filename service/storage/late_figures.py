"""What became of labels that come later: counts and delays over all restarts."""

from collections.abc import Iterable
from typing import NamedTuple

RECENT_LABELS = 1_000  # that the recent delay is over, about
MISFITS = 10  # times as many in a row as are usual between two labels that fit: none fits any more


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


class LabelFit(NamedTuple):
    """Labels that fit no features: how many in a row; part of the checkpoint."""

    rejected: int = 0  # since the last label that fits: those that could not be read
    unmatched: int = 0  # likewise: those without features
    reason: str = ""  # why the last one could not be read
    fitted: int = 0  # labels that found their features
    between: int = 0  # those that fit none, among them

    @property
    def misfits(self) -> int:
        """How many labels in a row fit no features, up to now."""
        return self.rejected + self.unmatched

    @property
    def is_failing(self) -> bool:
        """Whether they are more than is usual: settings or labels are wrong."""
        return self.misfits >= self._limit

    @property
    def _limit(self) -> float:
        return MISFITS * (1.0 + self.between / max(1, self.fitted))

    def with_fitted(self, labels: int) -> "LabelFit":
        """Count labels that found their features; a fault before them is not what is usual."""
        between = self.between + min(self.misfits, int(self._limit))
        return LabelFit(fitted=self.fitted + labels, between=between)

    def with_rejected(self, reason: str) -> "LabelFit":
        """Count a label that could not be read."""
        return self._replace(rejected=self.rejected + 1, reason=reason)

    def with_unmatched(self, labels: int = 1) -> "LabelFit":
        """Count labels without features."""
        return self._replace(unmatched=self.unmatched + labels)


class LateFigures(NamedTuple):
    """What a learner reports of late labels: what waits now, and the counts."""

    waiting: int  # features
    early: int  # labels
    held: int  # labels that are joined and learned later
    joined: int
    expired: int
    unmatched: int
    corrected: int
    mean_delay: float
    recent_delay: float
