"""The recent loss for each value of the features of `metrics.slices`, over sampled events."""

import logging
from collections import Counter, deque
from collections.abc import Collection, Sequence
from typing import Any

from kaboost.models.features.schema import WILDCARD
from kaboost.service.config.settings import Settings
from kaboost.service.errors import ConfigError
from kaboost.service.events.diagnosis import nearest
from kaboost.service.events.privacy import make_privacy
from kaboost.service.metrics import LearnerMetrics

EVENTS = 2_000  # over which losses are averaged
ENOUGH_EVENTS = 20  # of a value to be shown
MOST_VALUES = 20  # of a feature, the commonest ones
MISSING = "missing"
MAX_CHARS = 64
REMEDY = "correct metrics.slices, unless it comes later"

log = logging.getLogger(__name__)


def check_slices(settings: Settings) -> None:
    """Refuse slices that are private, or no feature of a declared schema."""
    privacy, declared = make_privacy(settings), settings.features.columns
    for name in settings.metrics.slices:
        if privacy.hides_feature(name):
            raise ConfigError(
                f"metrics.slices has {name}, whose values privacy.fields hides: they would be "
                "labels of a metric; leave it out"
            )
        if name not in declared and WILDCARD not in declared:
            near = nearest(name, declared)
            meant = f"did you mean {near}? Else declare it" if near else "declare it"
            raise ConfigError(
                f"metrics.slices has {name}, which is not in features.schema: {meant}, or leave it "
                "out"
            )


class SliceLosses:
    """The losses of one learner by the values of some features; one thread calls."""

    def __init__(self, names: Sequence[str], metrics: LearnerMetrics) -> None:
        self._names = names
        self._gauge = metrics.slice_loss
        self._events: deque[tuple[tuple[str, ...], float]] = deque(maxlen=EVENTS)
        self._shown: set[tuple[str, str]] = set()
        self._unknown: set[str] = set()  # of the names, as was logged

    def check(self, kinds: Collection[str]) -> None:
        """Log names that are no feature so far; those of inferred features show only now."""
        if not kinds:  # right after a promotion or a rollback
            return
        unknown = {name for name in self._names if name not in kinds}
        for name in sorted(unknown - self._unknown):
            near = nearest(name, kinds)
            fields = {"feature": name, "nearest": near, "remedy": REMEDY}
            log.warning("a slice is no feature so far", extra=fields)
        self._unknown |= unknown

    def add(self, features: dict[str, Any], loss: float | None) -> None:
        """Add a sampled event that was predicted before it was learned."""
        if self._names and loss is not None:
            values = tuple(_word(features.get(name)) for name in self._names)
            self._events.append((values, loss))

    def show(self) -> None:
        """Set the metrics, and remove those of values that are not shown any more."""
        found: dict[tuple[str, str], float] = {}
        for k, name in enumerate(self._names):
            counts = Counter(values[k] for values, _ in self._events)
            sums: dict[str, float] = {}
            for values, loss in self._events:
                sums[values[k]] = sums.get(values[k], 0.0) + loss
            for value, count in counts.most_common(MOST_VALUES):
                if count >= ENOUGH_EVENTS:
                    found[name, value] = sums[value] / count
        for key in self._shown - set(found):
            self._gauge.remove(*key)
        self._shown = set(found)
        for key, mean in found.items():
            self._gauge.labels(*key).set(mean)


def _word(value: Any) -> str:
    if value is None:
        return MISSING
    return str(value).lower() if isinstance(value, bool) else str(value)[:MAX_CHARS]
