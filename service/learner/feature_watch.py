"""Whether features are as they were: missing values, shifted distributions, values never seen.

It compares the last sampled rows with a reference of earlier ones, every few seconds, apart from
learning. Rows reach the reference as they leave the window of the last ones; once it is full, so
slowly that it spans about a day: a shift is shown until it is the normal state.
"""

import math
import random
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from kaboost.models.types import Mat, Vec
from kaboost.service.metrics import LearnerMetrics

RECENT_ROWS = 300
BEFORE_ROWS = 1_200  # right before them, for a jump; the newest of these may be as the recent ones
REFERENCE_ROWS = 2_000
ENOUGH_ROWS = 100  # with a value, on both sides
REFERENCE_SECONDS = 86_400.0  # in which a full reference is replaced about once
MOST_FEATURES = 50  # that are shown, those with the largest differences
KEPT_CATEGORIES = 20  # of the reference; others count together
USUAL = (0.05, 0.95)  # quantiles of the usual range, which is widened by its width on both sides
RARE = 0.05  # share of a value in the reference
CONSTANT = 0.95  # share of the commonest value of a feature that says nothing
NEW_RATIO, NEW_COUNT = 5.0, 5  # how much more frequent a value is that counts as new, and its rows
CHANGED = 0.05  # share of the reference that changes until it is looked through again
LOOKED_THROUGH = 25  # references in one call of `show`
MOST_COLUMNS = 500
HASH_BITS = 2**53 - 1  # that a float64 holds
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

    @property
    def is_constant(self) -> bool:
        """Whether there is one value, but for a few rows; of numbers it is not known."""
        common = self.counts.most_common(1) if self.counts else []
        return bool(common) and common[0][1] > CONSTANT * self.rows


class Jump(NamedTuple):
    """How the recent values of a feature differ from those some rows before."""

    recent: Difference
    before: tuple[Difference, Difference]  # those from the reference, and from some before them
    was_constant: bool


class FeatureWatch:
    """The rows of one learner; one thread calls.

    Rows are kept as float64, a column for each feature: 14 MB for 500 of them. A value that is no
    number is kept as its hash, which is all that a comparison needs of it.
    """

    def __init__(self, metrics: LearnerMetrics) -> None:
        self._metrics = metrics
        self._draw = random.Random(SEED)
        self._shown: set[str] = set()
        self.forget()

    def forget(self) -> None:
        """Begin again: the kind of a feature has changed, and with it the types of its values."""
        self._recent = _empty(RECENT_ROWS, 0)  # a ring, whose next row is at `_rows`
        self._before = _empty(BEFORE_ROWS, 0)  # a ring of those that have left the recent ones
        self._reference = _empty(REFERENCE_ROWS, 0)
        self._rows, self._kept = 0, 0  # that came in all; that are in the reference
        self._owed = 0.0  # rows of the reference that are to be replaced
        self._changes = 0  # rows that have come into the reference
        self._columns: dict[str, int] = {}
        self._last: dict[str, int] = {}  # the row that had a feature last, missing or not
        self._numbers: set[str] = set()  # features whose values are numbers
        self._known: dict[str, Reference] = {}
        self.held: Collection[str] = ()  # features whose references stay: they are broken now

    def add(
        self, rows: Sequence[Row], seconds: float, instants: Collection[str] = frozenset()
    ) -> None:
        """Add sampled rows that came in some seconds; of features that are instants it counts only
        whether they are missing: their values are always new.
        """
        if not rows:
            return
        self._make_columns(rows)
        leaving = max(0, min(len(rows), self._rows + len(rows) - RECENT_ROWS))
        free = min(leaving, REFERENCE_ROWS - self._kept)
        if leaving > free:  # as many rows of a full reference as these seconds are of a day
            self._owed += REFERENCE_ROWS * seconds / REFERENCE_SECONDS
        due = min(leaving - free, int(self._owed))
        for row in rows:
            slot = self._rows % RECENT_ROWS
            if self._rows >= RECENT_ROWS:
                due -= self._leave(slot, due)
            self._recent[slot] = np.nan
            for name, value in row.items():
                if value is not None and name in self._columns:
                    value = 0.0 if name in instants else value
                    self._recent[slot, self._columns[name]] = self._code(name, value)
            self._last |= {name: self._rows for name in row if name in self._columns}
            self._rows += 1
        self._owed = min(self._owed, float(RECENT_ROWS))

    def _leave(self, slot: int, due: int) -> int:
        """Move a row into the reference if there is place, or some are due; count those due."""
        self._before[(self._rows - RECENT_ROWS) % BEFORE_ROWS] = self._recent[slot]
        full = self._kept == REFERENCE_ROWS
        if full and due < 1:
            return 0
        at = self._draw.randrange(REFERENCE_ROWS) if full else self._kept
        self._reference[at] = self._recent[slot]
        self._kept += not full
        self._owed -= full
        self._changes += 1
        return int(full)

    def _make_columns(self, rows: Sequence[Row]) -> None:
        """Make columns of new features, in the place of those that come no more."""
        new = [
            name
            for name in dict.fromkeys(n for row in rows for n in row)
            if name not in self._columns
        ]
        if not new:
            return
        if len(self._columns) + len(new) > MOST_COLUMNS:
            self._drop(set(self._present()))
        for name in new[: MOST_COLUMNS - len(self._columns)]:
            self._columns[name] = len(self._columns)
        more = len(self._columns) - self._recent.shape[1]
        self._recent = np.hstack([self._recent, _empty(RECENT_ROWS, more)])
        self._before = np.hstack([self._before, _empty(BEFORE_ROWS, more)])
        self._reference = np.hstack([self._reference, _empty(REFERENCE_ROWS, more)])

    def _drop(self, kept: set[str]) -> None:
        names = [name for name in self._columns if name in kept]
        chosen = [self._columns[name] for name in names]
        self._recent, self._before = self._recent[:, chosen], self._before[:, chosen]
        self._reference = self._reference[:, chosen]
        self._columns = {name: k for k, name in enumerate(names)}
        for held in (self._last, self._known):
            for name in set(held) - kept:
                del held[name]
        self._numbers &= kept

    def _code(self, name: str, value: Any) -> float:
        if isinstance(value, float):
            self._numbers.add(name)
            return value
        return float(hash(value) & HASH_BITS)

    def _present(self) -> list[str]:
        """List the features of the recent rows."""
        return [name for name, row in self._last.items() if row >= self._rows - RECENT_ROWS]

    def show(self) -> dict[str, Difference]:
        """Set the metrics, and remove those of features that are not shown any more; return all
        differences, none while there are too few rows.
        """
        if self._kept < ENOUGH_ROWS:
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
        names = self._present()
        known = {name: self._known[name].changes for name in names if name in self._known}
        changed = [name for name in names if self._has_changed(name)]
        for name in sorted(changed, key=lambda name: known.get(name, -1))[:LOOKED_THROUGH]:
            values = self._reference[: self._kept, self._columns[name]]
            self._known[name] = _reference(values, name in self._numbers, self._changes)
        return {
            name: _compare(self._column(name), self._known[name])
            for name in names
            if name in self._known
        }

    def jump(self, name: str) -> Jump | None:
        """Compare the recent values of a feature with those some rows before; None for too few:
        what only grows stays within the range of twice as many before, which is widened.
        """
        left = self._rows - RECENT_ROWS
        if left < 3 * RECENT_ROWS:
            return None
        chosen = np.arange(max(0, left - BEFORE_ROWS), left - RECENT_ROWS) % BEFORE_ROWS
        before = self._before[chosen, self._columns[name]]
        older, last = before[:-RECENT_ROWS], before[-RECENT_ROWS:]
        of_before, of_older = (_reference(of, name in self._numbers, 0) for of in (before, older))
        return Jump(
            _compare(self._column(name), of_before),
            (_compare(before, self._known[name]), _compare(last, of_older)),
            of_before.is_constant,
        )

    def _has_changed(self, name: str) -> bool:
        known = self._known.get(name)
        if known is not None and name in self.held:
            return False
        return known is None or self._changes - known.changes > self._kept * CHANGED

    def _column(self, name: str) -> Vec:
        """Return the recent values of a feature, NaN for missing ones."""
        return self._recent[: self._rows, self._columns[name]]


def _compare(column: Vec, before: Reference) -> Difference:
    """Compare values, NaN for missing ones, with earlier ones."""
    now = column[~np.isnan(column)]
    missing = 1.0 - len(now) / len(column)
    shift = unseen = times = math.nan
    if min(len(now), before.rows) >= ENOUGH_ROWS:
        if before.ordered is not None:
            shift, unseen = _numbers(now, before)
            times = float(np.median(now)) / before.median if before.median else math.nan
        else:
            shift, unseen = _words(now.tolist(), before)
    return Difference(missing, shift, unseen, before.missing, times)


def _empty(rows: int, columns: int) -> Mat:
    return np.full((rows, columns), np.nan)


def _reference(column: Vec, are_numbers: bool, changes: int) -> Reference:
    values = column[~np.isnan(column)]
    missing = 1.0 - len(values) / len(column)
    if len(values) and are_numbers:
        ordered = np.sort(values)
        usual, median = np.quantile(ordered, USUAL).tolist(), float(np.median(ordered))
        return Reference(changes, len(values), missing, ordered, usual, median)
    return Reference(changes, len(values), missing, counts=Counter(values.tolist()))


def _numbers(now: Vec, before: Reference) -> tuple[float, float]:
    """Return the Kolmogorov-Smirnov distance, and the share far outside the usual range.

    The distance is the largest at a recent value, or right before one. Not outside of all earlier
    values: the first ones of a new range are among them soon.
    """
    a, b = np.sort(now), before.ordered
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
