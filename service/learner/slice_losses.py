"""The recent loss for each value of the features of `metrics.slices`, over sampled events."""

from collections import Counter, deque
from collections.abc import Sequence
from typing import Any

from kaboost.service.errors import ConfigError
from kaboost.service.events.privacy import Privacy
from kaboost.service.metrics import LearnerMetrics

EVENTS = 2_000  # over which losses are averaged
ENOUGH_EVENTS = 20  # of a value to be shown
MOST_VALUES = 20  # of a feature, the commonest ones
MISSING = "missing"
MAX_CHARS = 64


class SliceLosses:
    """The losses of one learner by the values of some features; one thread calls."""

    def __init__(self, names: Sequence[str], privacy: Privacy, metrics: LearnerMetrics) -> None:
        hidden = [name for name in names if privacy.hides_feature(name)]
        if hidden:
            raise ConfigError(
                f"metrics.slices has {hidden[0]}, whose values privacy.fields hides: they would be "
                "labels of a metric; leave it out"
            )
        self._names = names
        self._gauge = metrics.slice_loss
        self._events: deque[tuple[tuple[str, ...], float]] = deque(maxlen=EVENTS)
        self._shown: set[tuple[str, str]] = set()

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
