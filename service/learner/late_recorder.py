"""Record what becomes of late labels: in the learner's metrics, and in the state."""

from collections.abc import Sequence

from kaboost.service.metrics import MAX_DELAY_SECONDS, LearnerMetrics
from kaboost.service.storage.late_figures import LateCounts, LateFigures
from kaboost.service.storage.waiting import WaitingStore


class LateRecorder:
    """Count for one trainer; metrics start at 0, counts where the checkpoint left them."""

    def __init__(self, metrics: LearnerMetrics, counts: LateCounts) -> None:
        self._metrics = metrics
        self.counts = counts

    def joined(self, delays: Sequence[float]) -> None:
        """Count labels joined with their features, by the seconds between both."""
        self._metrics.labels_joined.inc(len(delays))
        count = len(delays)
        delays = [max(0.0, delay) for delay in delays if delay <= MAX_DELAY_SECONDS]
        for delay in delays:
            self._metrics.label_delay.observe(delay)
        self.counts = self.counts.with_joined(delays, wrong=count - len(delays))

    def expired(self, features: int) -> None:
        """Count features that waited too long."""
        self._metrics.labels_expired.inc(features)
        self.counts = self.counts._replace(expired=self.counts.expired + features)

    def corrected(self) -> None:
        """Count a label that replaces one."""
        self._metrics.labels_corrected.inc()
        self.counts = self.counts._replace(corrected=self.counts.corrected + 1)

    def unmatched(self, labels: int) -> None:
        """Count labels that became dead letters, without features."""
        self._metrics.labels_unmatched.inc(labels)
        self.counts = self.counts._replace(unmatched=self.counts.unmatched + labels)

    def store(self, store: WaitingStore) -> None:
        """Show what waits."""
        self._metrics.waiting_features.set(store.waiting)
        self._metrics.waiting_bytes.set(store.size)
        self._metrics.labels_early.set(store.early)

    def figures(self, store: WaitingStore) -> LateFigures:
        """Return what waits and all counts."""
        return LateFigures(store.waiting, store.early, *self.counts)
