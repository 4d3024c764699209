"""What a replay measures: losses of all predictors by event, by time and by slice, and coverage."""

import math
import time
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import numpy as np

from kaboost.models.evaluation.baselines import (
    PREDICTORS,
    ProgressiveValidation,
    progressive_validation,
    with_classes,
)
from kaboost.models.evaluation.each_event import EachEvent, record_each
from kaboost.models.evaluation.intervals import (
    LEVELS,
    WARMUP_EVENTS,
    Intervals,
    bounds,
    update_many,
)
from kaboost.models.evaluation.outcome import Outcome
from kaboost.models.evaluation.reliability import BINS
from kaboost.models.features.onehot import Table
from kaboost.models.model import Model
from kaboost.models.types import Vec
from kaboost.service.errors import ConfigError
from kaboost.service.lab.curve import Curve, GroupSums
from kaboost.service.lab.other_models import SMALLEST_PROBABILITY, OtherModel, Part
from kaboost.service.onboarding.plan import hint

MOST_LOG_LOSS = -math.log(SMALLEST_PROBABILITY)  # nats
MOST_GROUPS = 30  # of a slice; the others are one
QUANTILES = (0.25, 0.5, 0.75)  # that numbers are sliced at, those of their first values
SPAN_SECONDS = (60, 600, 3600, 6 * 3600, 86_400, 7 * 86_400, 30 * 86_400, 365 * 86_400)
INTERVAL_EVENTS = 50  # that the intervals before them are judged by
MOST_SPANS = 60  # of time, before a longer one is taken
OTHER, MISSING = "(other)", "(missing)"


class Recording:
    """Observe a model while it learns; `observe` is its observer."""

    def __init__(
        self, model: Model, others: Sequence[OtherModel] = (), slices: Sequence[str] = ()
    ) -> None:
        self._model = model
        self._others = others
        self._slices = {name: GroupSums(MOST_GROUPS) for name in slices}
        self._cuts: dict[str, Vec] = {}
        self.seen = progressive_validation(model.labels)
        self.seen_of_others = {each.name: progressive_validation(model.labels) for each in others}
        self.curve = Curve()
        self.times = Times()
        self.covered = np.zeros(len(LEVELS))
        self.covered_weight = 0.0
        self.widths = np.zeros(len(LEVELS))
        self.reliability = np.zeros((3, BINS))  # weight, predicted, observed
        self.alarms: list[dict[str, Any]] = []
        self.labels: Counter[int] = Counter()
        self.other_model_seconds = {each.name: 0.0 for each in others}
        self.names = [*PREDICTORS, *(each.name for each in others)]
        self.event_times: Vec = np.empty(0)  # of the events to come, nan where they have none
        self.each_loss: list[Vec] | None = None  # of the model, where every one is kept
        self._known_alarms = self._alarm_marks()
        self._intervals = _copied(model.intervals)

    def observe(self, table: Table, y: Vec, w: Vec, outcome: Outcome) -> None:
        """Record B events that the model has learned."""
        model, C = self._model, len(self._model.classes_)
        if C > len(self.seen.counts) and model.task != "regression":
            self.seen = with_classes(self.seen, C)
            self.seen_of_others = {
                name: with_classes(seen, C) for name, seen in self.seen_of_others.items()
            }
        each = self._bounded(self.seen, outcome, y, w)
        losses = dict(zip(PREDICTORS, each.losses.T, strict=True))
        errors = dict(zip(PREDICTORS, each.errors.T, strict=True))
        part = Part(table, model.encoder.layout, model.labels, y, w)
        for other in self._others:
            begin = time.perf_counter()
            theirs = dict(zip(("losses", "errors"), other.learn(part), strict=True))
            self.other_model_seconds[other.name] += time.perf_counter() - begin
            seen = self.seen_of_others[other.name]
            of_other = self._bounded(seen, outcome._replace(**theirs), y, w)
            losses[other.name], errors[other.name] = of_other.losses[:, 0], of_other.errors[:, 0]
        values = {f"loss {name}": v for name, v in losses.items()}
        values |= {f"error {name}": v for name, v in errors.items()}
        self.curve.add(values, w)
        self._record_times(values, w)
        self._record_slices(part, values)
        self._record_coverage(outcome, y, w)
        self._record_reliability(outcome, y, w)
        if model.task != "regression":
            self.labels.update(y[w > 0.0].astype(np.int64).tolist())
        if self.each_loss is not None:
            self.each_loss.append(each.losses[:, 0].copy())
        self._record_alarms()

    def _bounded(self, seen: ProgressiveValidation, outcome: Outcome, y: Vec, w: Vec) -> EachEvent:
        """Record a model's losses with the bounds that hold for every model: of log-losses by the
        smallest probability, of outliers among numbers as in the service.
        """
        if self._model.task != "regression" and self._model.has_probabilities:
            outcome = outcome._replace(losses=np.minimum(outcome.losses, MOST_LOG_LOSS))
        return record_each(seen, outcome, y, w)

    def _record_times(self, values: dict[str, Vec], w: Vec) -> None:
        at, self.event_times = self.event_times[: len(w)], self.event_times[len(w) :]
        if len(at) == len(w):
            self.times.add(at, values, w)

    def _record_slices(self, part: Part, values: dict[str, Vec]) -> None:
        kept = {name: v for name, v in values.items() if "last_label" not in name}
        for name, sums in self._slices.items():
            sums.add(self._groups(name, part), kept, part.w, OTHER)

    def _groups(self, name: str, part: Part) -> list[str]:
        """Return the group of every event (B,) by one feature."""
        if name not in part.layout.places:
            return [MISSING] * len(part.y)
        kind, j = part.layout.places[name]
        if kind == "category":
            return [MISSING if v is None else v for v in part.table.categories[j]]
        if kind == "boolean":
            return [MISSING if v != v else str(bool(v)).lower() for v in part.table.booleans[:, j]]
        if kind != "number":
            raise ConfigError(f"--slice {name}: is a {kind}; name a category, boolean or number")
        return self._number_groups(name, part.table.numbers[:, j])

    def _number_groups(self, name: str, values: Vec) -> list[str]:
        known = values[~np.isnan(values)]
        if name not in self._cuts and len(known):
            self._cuts[name] = np.unique(np.quantile(known, QUANTILES))
        cuts = self._cuts.get(name, np.empty(0))
        groups = _ranges(name, cuts)
        places = np.searchsorted(cuts, values)
        return [MISSING if v != v else groups[p] for v, p in zip(values, places, strict=True)]

    def _record_coverage(self, outcome: Outcome, y: Vec, w: Vec) -> None:
        """Count labels inside the intervals of just before them; the first events have none."""
        seen = self._intervals
        for first in range(0, len(y) if seen is not None else 0, INTERVAL_EVENTS):
            span = slice(first, first + INTERVAL_EVENTS)
            predicted, label, weight = outcome.predictions[span], y[span], w[span]
            assert seen is not None
            if seen.events[()] >= WARMUP_EVENTS:
                for k, level in enumerate(LEVELS):
                    low, high = bounds(seen, predicted, level).T
                    self.covered[k] += float((weight * ((low <= label) & (label <= high))).sum())
                    self.widths[k] += float((weight * (high - low)).sum())
                self.covered_weight += float(weight.sum())
            update_many(seen, predicted, label, weight)

    def _record_reliability(self, outcome: Outcome, y: Vec, w: Vec) -> None:
        p = outcome.probabilities
        if p is not None:
            places = np.minimum((p * BINS).astype(np.int64), BINS - 1)
            for row, values in zip(self.reliability, (w, w * p, w * y), strict=True):
                row += np.bincount(places, values, BINS)

    def _alarm_marks(self) -> list[tuple[int, int]]:
        """Return the events of the last drift and warning of every booster."""
        booster: Any = self._model.booster
        boosters = getattr(booster, "boosters", None) or [booster]
        found = [_schedule(each) for each in boosters]
        return [(int(s.drift_at), int(s.warning_at)) for s in found if s is not None]

    def _record_alarms(self) -> None:
        now = self._alarm_marks()
        if len(now) == len(self._known_alarms):
            for before, after in zip(self._known_alarms, now, strict=True):
                for kind, old, new in zip(("drift", "warning"), before, after, strict=True):
                    if new != old and new > 0:
                        self.alarms.append({"event": new, "kind": kind})
        self._known_alarms = now

    def check_slices(self) -> None:
        """Raise for a slice of which there is no feature."""
        kinds = self._model.kinds
        for name in self._slices:
            if name not in kinds:
                raise ConfigError(f"--slice {name}: is no feature; {hint(name, list(kinds))}")

    @property
    def slices(self) -> dict[str, list[dict[str, Any]]]:
        """The figures of every group of every slice."""
        return {name: self._ordered(name, sums.rows()) for name, sums in self._slices.items()}

    def _ordered(self, name: str, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return the groups of numbers from low to high."""
        cuts = self._cuts.get(name)
        if cuts is None:
            return rows
        order = {group: k for k, group in enumerate([*_ranges(name, cuts), MISSING])}
        return sorted(rows, key=lambda row: order.get(row["group"], len(order)))


class Times:
    """Sums over spans of the events' time, longer ones when there would be too many."""

    def __init__(self) -> None:
        self._span = 0
        self._sums: dict[int, dict[str, float]] = {}

    def add(self, at: Vec, values: dict[str, Vec], w: Vec) -> None:
        """Add B events at seconds since 1970; those without a time are left out."""
        known = np.isfinite(at)
        if not known.any():
            return
        spans, places = np.unique(at[known] // SPAN_SECONDS[self._span], return_inverse=True)
        for name, each in (("weight", np.ones(len(w))), *values.items()):
            sums = np.bincount(places, (w * each)[known], len(spans))
            for span, total in zip(spans.tolist(), sums.tolist(), strict=True):
                row = self._sums.setdefault(int(span), {})
                row[name] = row.get(name, 0.0) + total
        while len(self._sums) > MOST_SPANS and self._span + 1 < len(SPAN_SECONDS):
            self._widen()

    def _widen(self) -> None:
        old, new = SPAN_SECONDS[self._span], SPAN_SECONDS[self._span + 1]
        self._span += 1
        before, self._sums = self._sums, {}
        for span, row in before.items():
            merged = self._sums.setdefault(span * old // new, {})
            for name, total in row.items():
                merged[name] = merged.get(name, 0.0) + total

    def rows(self) -> list[dict[str, Any]]:
        """Return the means of every span, in order."""
        length = SPAN_SECONDS[self._span]
        found = []
        for span, sums in sorted(self._sums.items()):
            start = datetime.fromtimestamp(span * length, UTC)
            weight = sums["weight"] or 1.0
            means = {name: total / weight for name, total in sums.items() if name != "weight"}
            row = {"from": start.isoformat().replace("+00:00", "Z"), "seconds": length}
            found.append({**row, "weight": sums["weight"], **means})
        return found


def _copied(seen: Intervals | None) -> Intervals | None:
    return None if seen is None else Intervals(*map(np.copy, seen))


def _ranges(name: str, cuts: Vec) -> list[str]:
    """Name the groups of numbers between cuts."""
    texts = [f"{cut:.6g}" for cut in cuts]
    if not texts:
        return ["all"]
    between = (f"{low} .. {high}" for low, high in pairwise(texts))
    return [f"{name} <= {texts[0]}", *between, f"> {texts[-1]}"]


def _schedule(booster: Any) -> Any:
    """Return the schedule of a booster of trees; None for others."""
    return getattr(getattr(booster, "trees", None), "schedule", None)
