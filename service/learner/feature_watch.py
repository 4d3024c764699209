"""Whether features are as they were: missing values, shifted distributions, values never seen.

It compares the last sampled rows with a reference of earlier ones, every few seconds, apart from
learning. Rows reach the reference as they leave the window of the last ones; once it is full, so
slowly that it spans about a day: a shift is shown until it is the normal state.
"""

import math
import random
from collections import Counter, deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from kaboost.models.types import Vec
from kaboost.service.metrics import LearnerMetrics

RECENT_ROWS = 300
BEFORE_ROWS = 900  # right before them, for a jump: more than come between two comparisons
REFERENCE_ROWS = 2_000
ENOUGH_ROWS = 100  # with a value, on both sides
REFERENCE_SECONDS = 86_400.0  # in which a full reference is replaced about once
MOST_FEATURES = 50  # that are shown, those with the largest differences
KEPT_CATEGORIES = 20  # of the reference; others count together
USUAL = (0.05, 0.95)  # quantiles of the usual range, which is widened by its width on both sides
RARE = 0.05  # share of a value in the reference
NEW_RATIO, NEW_COUNT = 5.0, 5  # how much more frequent a value is that counts as new, and its rows
CHANGED = 0.05  # share of the reference that changes until it is looked through again
LOOKED_THROUGH = 25  # references in one call of `show`
SEED = 1

Row = Mapping[str, Any]


class Difference(NamedTuple):
    """How the recent values of a feature differ; NaN where there are too few."""

    missing: float  # share of the recent rows
    shift: float  # 0 for the same distribution, 1 for values of which none is in common
    unseen: float  # share far outside the usual range, or of values that were rare
    missing_before: float  # share of the reference
    times: float = math.nan  # the median of numbers, in medians of the reference

    @property
    def size(self) -> float:
        """The largest of its differences, for the choice of those that are shown."""
        found = (self.missing - self.missing_before, self.shift, self.unseen)
        return max((abs(value) for value in found if math.isfinite(value)), default=0.0)


class Reference(NamedTuple):
    """The earlier values of a feature."""

    changes: int  # of the reference until then
    rows: int  # with a value
    missing: float  # share of the rows
    ordered: Vec | None = None  # of numbers
    usual: Sequence[float] = ()  # low and high
    median: float = math.nan
    counts: Counter[Any] | None = None  # of other values


class FeatureWatch:
    """The rows of one learner; one thread calls."""

    def __init__(self, metrics: LearnerMetrics) -> None:
        self._metrics = metrics
        self._recent: deque[Row] = deque(maxlen=RECENT_ROWS)
        self._before: deque[Row] = deque(maxlen=BEFORE_ROWS)  # that have left the recent ones
        self._reference: list[Row] = []
        self._owed = 0.0  # rows of the reference that are to be replaced
        self._draw = random.Random(SEED)
        self._shown: set[str] = set()
        self._changes = 0  # rows that have come into the reference
        self._known: dict[str, Reference] = {}
        self.held: Collection[str] = ()  # features whose references stay: they are broken now

    def add(self, rows: Sequence[Row], seconds: float) -> None:
        """Add sampled rows that came in some seconds."""
        leaving: list[Row] = []
        for row in rows:
            if len(self._recent) == RECENT_ROWS:
                leaving.append(self._recent[0])
            self._recent.append(row)
        self._before.extend(leaving)
        free = REFERENCE_ROWS - len(self._reference)
        self._reference += leaving[:free]
        self._changes += len(leaving[:free])
        self._replace(leaving[free:], seconds)

    def _replace(self, rows: Sequence[Row], seconds: float) -> None:
        """Replace as many rows of a full reference as these seconds are of REFERENCE_SECONDS."""
        self._owed += REFERENCE_ROWS * seconds / REFERENCE_SECONDS if rows else 0.0
        due = rows[: int(self._owed)]
        for row in due:
            self._reference[self._draw.randrange(REFERENCE_ROWS)] = row
        self._changes += len(due)
        self._owed = min(self._owed - len(due), float(RECENT_ROWS))

    def forget(self) -> None:
        """Begin again: the kind of a feature has changed, and with it the types of its values."""
        self._recent.clear()
        self._before.clear()
        self._reference.clear()
        self._known.clear()

    def show(self) -> dict[str, Difference]:
        """Set the metrics, and remove those of features that are not shown any more; return all
        differences, none while there are too few rows.
        """
        if len(self._reference) < ENOUGH_ROWS:
            return {}
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
        return found

    def differences(self) -> dict[str, Difference]:
        """Compare the features of the recent rows.

        Of many features the references are looked through a few at a time, a fifth of a millisecond
        each; those of which there is none yet come later.
        """
        names = dict.fromkeys(name for row in self._recent for name in row)
        known = {name: self._known[name].changes for name in names if name in self._known}
        changed = [name for name in names if self._has_changed(name)]
        for name in sorted(changed, key=lambda name: known.get(name, -1))[:LOOKED_THROUGH]:
            self._known[name] = _reference(self._reference, name, self._changes)
        return {
            name: _compare(self._recent, name, self._known[name])
            for name in names
            if name in self._known
        }

    def jump(self, name: str) -> Difference | None:
        """Compare the recent values of a feature with those right before; None for too few: what
        only grows stays within the range of twice as many before, which is widened.
        """
        if len(self._before) < 2 * RECENT_ROWS:
            return None
        return _compare(self._recent, name, _reference(self._before, name, 0))

    def _has_changed(self, name: str) -> bool:
        known = self._known.get(name)
        if known is not None and name in self.held:
            return False
        return known is None or self._changes - known.changes > len(self._reference) * CHANGED


def _compare(recent: Sequence[Row], name: str, before: Reference) -> Difference:
    now = _values(recent, name)
    missing = 1.0 - len(now) / len(recent)
    shift = unseen = times = math.nan
    if min(len(now), before.rows) >= ENOUGH_ROWS:
        compare = _numbers if before.ordered is not None else _words
        shift, unseen = compare(now, before)
        if before.ordered is not None and before.median:
            times = float(np.median(now)) / before.median
    return Difference(missing, shift, unseen, before.missing, times)


def _reference(rows: Sequence[Row], name: str, changes: int) -> Reference:
    values = _values(rows, name)
    missing = 1.0 - len(values) / len(rows)
    if values and isinstance(values[0], float):
        ordered = np.sort(np.asarray(values, float))
        usual, median = np.quantile(ordered, USUAL), float(np.median(ordered))
        return Reference(changes, len(values), missing, ordered, usual, median)
    return Reference(changes, len(values), missing, counts=Counter(values))


def _values(rows: Iterable[Row], name: str) -> list[Any]:
    return [value for row in rows if (value := row.get(name)) is not None]


def _numbers(now: Sequence[float], before: Reference) -> tuple[float, float]:
    """Return the Kolmogorov-Smirnov distance, and the share far outside the usual range.

    The distance is the largest at a recent value, or right before one. Not outside of all earlier
    values: the first ones of a new range are among them soon.
    """
    a, b = np.sort(np.asarray(now, float)), before.ordered
    assert b is not None
    gaps = [
        np.abs(a.searchsorted(a, side) / len(a) - b.searchsorted(a, side) / len(b)).max()
        for side in ("left", "right")
    ]
    low, high = before.usual
    width = high - low
    outside = (a < low - width) | (a > high + width)
    return float(max(gaps)), float(outside.mean())


def _words(now: Sequence[Any], before: Reference) -> tuple[float, float]:
    """Return the total variation distance of the commonest values, and the share of new ones."""
    a, b, n, m = Counter(now), before.counts, len(now), before.rows
    assert b is not None
    kept = [value for value, _ in b.most_common(KEPT_CATEGORIES)]
    shares = [(a[value] / n, b[value] / m) for value in kept]
    rest = 1.0 - sum(share for share, _ in shares), 1.0 - sum(share for _, share in shares)
    distance = 0.5 * sum(abs(x - y) for x, y in [*shares, rest])
    new = sum(count for value, count in a.items() if _is_new(count / n, count, b[value] / m))
    return distance, new / n


def _is_new(share: float, count: int, share_before: float) -> bool:
    """Whether a value that was rare is frequent; of many rare values each comes about once."""
    return count >= NEW_COUNT and share_before < min(RARE, share / NEW_RATIO)
