"""Record what becomes of late labels: in the learner's metrics, and in the state."""

import logging
import math
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby

from confluent_kafka import Message

from kaboost.service.errors import EventError
from kaboost.service.events.metadata import REPLACED
from kaboost.service.learner.watermark import Topic
from kaboost.service.metrics import MAX_DELAY_SECONDS, LearnerMetrics
from kaboost.service.storage.late_figures import LabelFit, LateCounts, LateFigures
from kaboost.service.storage.waiting import WaitingStore

UNMATCHED = "label_unmatched"  # code of a label without features
NO_FEATURES = (
    "{}: no features with this id came within labels.early of the label; send them before, or set "
    "labels.early higher"
)
TOO_LATE = "{}: its features had expired, without a label; set labels.wait higher"
UNTIMED_SECONDS = 60.0  # between two log lines about records without a time
SETTINGS: dict[Topic, str] = {"features": "events.timestamp", "labels": "labels.timestamp"}

log = logging.getLogger(__name__)


class LateRecorder:
    """Count for one trainer; metrics start at 0, counts where the checkpoint left them."""

    def __init__(
        self,
        metrics: LearnerMetrics,
        counts: LateCounts,
        fit: LabelFit,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._metrics = metrics
        self.counts = counts
        self.fit = fit
        self._clock = clock
        self._untimed: Counter[Topic] = Counter()  # since the last log line
        self._logged_at = dict.fromkeys(SETTINGS, -math.inf)
        metrics.metadata_repaired.labels("timestamp", REPLACED)

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

    def fits(self, outcomes: Iterable[EventError | None]) -> None:
        """Note which labels fit their features, None for one that does, in their order."""
        for error, same in groupby(outcomes):
            count = len(list(same))
            if error is None:
                self.fit = self.fit.with_fitted(count)
            elif error.code == UNMATCHED:
                self.fit = self.fit.with_unmatched(count)
            else:
                self.fit = self.fit.with_rejected(error.message)

    def untimed(self, topic: Topic, message: Message) -> None:
        """Count a record without a readable time, and log such records once a minute."""
        self._metrics.metadata_repaired.labels("timestamp", REPLACED).inc()
        self._untimed[topic] += 1
        now = self._clock()
        if now - self._logged_at[topic] < UNTIMED_SECONDS:
            return
        self._logged_at[topic] = now
        fields = {
            "records": self._untimed.pop(topic),
            "at": f"{message.topic()}[{message.partition()}]@{message.offset()}",
            "remedy": f"send it, or correct {SETTINGS[topic]}; until then the latest time of the "
            "partition counts",
        }
        log.warning("records have no time", extra=fields)

    def store(self, store: WaitingStore) -> None:
        """Show what waits."""
        self._metrics.waiting_features.set(store.waiting)
        self._metrics.waiting_bytes.set(store.size)
        self._metrics.labels_early.set(store.early)
        self._metrics.labels_held.set(store.held)

    def figures(self, store: WaitingStore) -> LateFigures:
        """Return what waits and all counts."""
        return LateFigures(store.waiting, store.early, store.held, *self.counts)


def no_features(name: object) -> EventError:
    """Return the error of a label whose features never came; `name` is the id, if it is shown."""
    return EventError(UNMATCHED, NO_FEATURES.format(name))


def too_late(name: object) -> EventError:
    """Return the error of a label whose features had expired."""
    return EventError(UNMATCHED, TOO_LATE.format(name))
