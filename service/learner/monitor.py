"""Why a model got worse: features and slices of sampled events, as metrics."""

import math
from collections.abc import Callable, Mapping
from typing import Any

from kaboost.service.config.settings import Settings
from kaboost.service.learner.broken_features import BrokenFeatures
from kaboost.service.learner.feature_watch import FeatureWatch
from kaboost.service.learner.recent import RecentEvents
from kaboost.service.learner.slice_losses import SliceLosses, check_slices
from kaboost.service.metrics import LearnerMetrics

SHOWN_SECONDS = 5.0  # between two comparisons, which take some milliseconds


class Monitor:
    """Follow the sampled events of one learner; one thread calls, about once a second."""

    def __init__(
        self, settings: Settings, metrics: LearnerMetrics, clock: Callable[[], float]
    ) -> None:
        check_slices(settings)
        self._features = FeatureWatch(metrics)
        self._slices = SliceLosses(settings.metrics.slices, metrics)
        self._names = settings.metrics.slices
        self._clock = clock
        self._before = clock()
        self._shown_at = -math.inf
        self._kinds: Mapping[str, str] = {}
        self._broken = BrokenFeatures()
        self.broken_features: list[dict[str, Any]] = []  # what has happened to them

    def follow(self, recent: RecentEvents) -> None:
        """Take the new events of the sample, and show what they have changed."""
        now, rows = self._clock(), recent.take_sample()
        if any(recent.kinds.get(name, kind) != kind for name, kind in self._kinds.items()):
            self._features.forget()
        self._kinds = recent.kinds or self._kinds  # none yet, right after a promotion or rollback
        instants = {name for name, kind in recent.kinds.items() if kind == "datetime"}
        self._features.add(rows, now - self._before, instants)
        self._before = now
        if self._names:
            self._slices.check(recent.kinds)
            for features, loss in recent.take_losses(self._names):
                self._slices.add(features, loss)
        if now - self._shown_at >= SHOWN_SECONDS:
            self._shown_at = now
            found = self._features.show()
            self._broken.update(self._features, found)
            self.broken_features = self._broken.report(found)
            self._slices.show()
