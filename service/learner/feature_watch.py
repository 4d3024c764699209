"""Whether features are as they were: missing values, shifted distributions, values never seen.

It compares the last sampled rows with a reference of earlier ones, every few seconds, apart from
learning. Rows reach the reference as they leave the window of the last ones; once it is full, so
slowly that it spans about a day: a shift is shown until it is the normal state.
"""

import math
import random
from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from kaboost.service.metrics import LearnerMetrics

RECENT_ROWS = 300
REFERENCE_ROWS = 2_000
ENOUGH_ROWS = 100  # with a value, on both sides
REFERENCE_SECONDS = 86_400.0  # in which a full reference is replaced about once
MOST_FEATURES = 50  # that are shown, those with the largest differences
KEPT_CATEGORIES = 20  # of the reference; others count together
USUAL = (0.05, 0.95)  # quantiles of the usual range, which is widened by its width on both sides
RARE = 0.05  # share of a value in the reference
NEW_RATIO, NEW_COUNT = 5.0, 5  # how much more frequent a value is that counts as new, and its rows
SEED = 1

Row = Mapping[str, Any]


class Difference(NamedTuple):
    """How the recent values of a feature differ; NaN where there are too few."""

    missing: float  # share of the recent rows
    shift: float  # 0 for the same distribution, 1 for values of which none is in common
    unseen: float  # share far outside the usual range, or of values that were rare
    missing_before: float  # share of the reference

    @property
    def size(self) -> float:
        """The largest of its differences, for the choice of those that are shown."""
        found = (self.missing - self.missing_before, self.shift, self.unseen)
        return max((abs(value) for value in found if math.isfinite(value)), default=0.0)


class FeatureWatch:
    """The rows of one learner; one thread calls."""

    def __init__(self, metrics: LearnerMetrics) -> None:
        self._metrics = metrics
        self._recent: deque[Row] = deque(maxlen=RECENT_ROWS)
        self._reference: list[Row] = []
        self._owed = 0.0  # rows of the reference that are to be replaced
        self._draw = random.Random(SEED)
        self._shown: set[str] = set()

    def add(self, rows: Sequence[Row], seconds: float) -> None:
        """Add sampled rows that came in some seconds."""
        leaving: list[Row] = []
        for row in rows:
            if len(self._recent) == RECENT_ROWS:
                leaving.append(self._recent[0])
            self._recent.append(row)
        free = REFERENCE_ROWS - len(self._reference)
        self._reference += leaving[:free]
        self._replace(leaving[free:], seconds)

    def _replace(self, rows: Sequence[Row], seconds: float) -> None:
        """Replace as many rows of a full reference as these seconds are of REFERENCE_SECONDS."""
        self._owed += REFERENCE_ROWS * seconds / REFERENCE_SECONDS if rows else 0.0
        due = rows[: int(self._owed)]
        for row in due:
            self._reference[self._draw.randrange(REFERENCE_ROWS)] = row
        self._owed = min(self._owed - len(due), float(RECENT_ROWS))

    def forget(self) -> None:
        """Begin again: the kind of a feature has changed, and with it the types of its values."""
        self._recent.clear()
        self._reference.clear()

    def show(self) -> None:
        """Set the metrics, and remove those of features that are not shown any more."""
        if len(self._reference) < ENOUGH_ROWS:
            return
        found = self.differences()
        ranked = sorted(found, key=lambda name: -round(found[name].size, 1))[:MOST_FEATURES]
        metrics = self._metrics
        gauges = metrics.feature_missing, metrics.feature_shift, metrics.feature_unseen
        for name in self._shown - set(ranked):
            for gauge in gauges:
                gauge.remove(name)
        self._shown = set(ranked)
        for name in ranked:
            for gauge, value in zip(gauges, found[name], strict=False):
                gauge.labels(name).set(value)

    def differences(self) -> dict[str, Difference]:
        """Compare every feature of the recent rows."""
        names = dict.fromkeys(name for row in self._recent for name in row)
        return {name: self._difference(name) for name in names}

    def _difference(self, name: str) -> Difference:
        now, before = _values(self._recent, name), _values(self._reference, name)
        missing = 1.0 - len(now) / len(self._recent)
        missing_before = 1.0 - len(before) / len(self._reference)
        shift = unseen = math.nan
        if min(len(now), len(before)) >= ENOUGH_ROWS:
            compare = _numbers if isinstance(before[0], float) else _words
            shift, unseen = compare(now, before)
        return Difference(missing, shift, unseen, missing_before)


def _values(rows: Iterable[Row], name: str) -> list[Any]:
    return [value for row in rows if (value := row.get(name)) is not None]


def _numbers(now: Sequence[float], before: Sequence[float]) -> tuple[float, float]:
    """Return the Kolmogorov-Smirnov distance, and the share far outside the usual range.

    Not outside of all earlier values: the first ones of a new range are among them soon.
    """
    a, b = np.sort(np.asarray(now, float)), np.sort(np.asarray(before, float))
    both = np.concatenate([a, b])
    gap = a.searchsorted(both, "right") / len(a) - b.searchsorted(both, "right") / len(b)
    low, high = np.quantile(b, USUAL)
    width = high - low
    outside = (a < low - width) | (a > high + width)
    return float(np.abs(gap).max()), float(outside.mean())


def _words(now: Sequence[Any], before: Sequence[Any]) -> tuple[float, float]:
    """Return the total variation distance of the commonest values, and the share of new ones."""
    a, b = Counter(now), Counter(before)
    kept = [value for value, _ in b.most_common(KEPT_CATEGORIES)]
    shares = [(a[value] / len(now), b[value] / len(before)) for value in kept]
    rest = 1.0 - sum(share for share, _ in shares), 1.0 - sum(share for _, share in shares)
    distance = 0.5 * sum(abs(x - y) for x, y in [*shares, rest])
    n, m = len(now), len(before)
    new = sum(count for value, count in a.items() if _is_new(count / n, count, b[value] / m))
    return distance, new / n


def _is_new(share: float, count: int, share_before: float) -> bool:
    """Whether a value that was rare is frequent; of many rare values each comes about once."""
    return count >= NEW_COUNT and share_before < min(RARE, share / NEW_RATIO)
