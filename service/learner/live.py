"""What the page and `kaboost status` show of the learner, written once a second."""

import math
import os
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from statistics import quantiles
from typing import Any

from confluent_kafka import Message

from kaboost.models.evaluation.baselines import PREDICTORS
from kaboost.service.config.settings import Settings
from kaboost.service.errors import EventError
from kaboost.service.kafka.stored_record import StoredRecord
from kaboost.service.learner.harmless import harmless
from kaboost.service.learner.monitor import Monitor
from kaboost.service.learner.progress import Progress
from kaboost.service.learner.recent import MAX_FEATURES, Row
from kaboost.service.learner.records import place_of
from kaboost.service.learner.symptoms import Symptoms
from kaboost.service.learner.trainer import Trainer
from kaboost.service.metrics import LearnerMetrics
from kaboost.service.storage.live import FIGURES, RECORDS, LiveFiles
from kaboost.service.storage.state import State

EVERY_SECONDS = 1.0
RATE_SECONDS = 10.0  # over which events per second are averaged
SEEN_SECONDS = 5.0  # between two looks at all sampled rows
LETTERS = 50  # dead letters that are kept
LETTERS_OF_BATCH = 10
LETTER_BYTES = 2_000  # of a dead letter that are shown
EVENTS = 40  # last events that are shown
VALUES = 12  # of a category that are offered in the form
REVEAL = "hidden: privacy.fields is set; kaboost dlq show --reveal shows it"

Rejected = tuple[Message | StoredRecord, EventError]


class LiveReport:
    """Collect what is shown of one learner, and write it; one thread calls."""

    def __init__(
        self,
        settings: Settings,
        metrics: LearnerMetrics,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings = settings
        self._metrics = metrics
        self._clock = clock
        self._monitor = Monitor(settings, metrics, clock)
        self._symptoms = Symptoms()
        self._files = LiveFiles(settings.snapshots.directory)
        self._letters: deque[dict[str, Any]] = deque(maxlen=LETTERS)
        self._rates: deque[tuple[float, int]] = deque()
        self._written_at = self._seen_at = -math.inf
        self._points: tuple[str, int] | None = None  # of the history that was written last
        self._seen: dict[str, Any] = {}
        self._missing: dict[str, float] = {}

    def note_rejected(self, rejected: Sequence[Rejected]) -> None:
        """Keep the last dead letters of a batch."""
        if self._shows_records:
            with harmless("dead letters"):
                self._note_letters(rejected[-LETTERS_OF_BATCH:])

    def _note_letters(self, rejected: Sequence[Rejected]) -> None:
        hidden = bool(self._settings.privacy.fields)
        for message, error in rejected:
            value = message.value()
            shown = None if value is None else _text(value)
            self._letters.append(
                {
                    "time": time.time(),
                    "at": place_of(message),
                    "code": error.code,
                    "reason": error.message,
                    "bytes": 0 if value is None else len(value),
                    "value": REVEAL if hidden else shown,
                }
            )

    def publish(self, trainer: Trainer, progress: Progress) -> None:
        """Write the files that are due, or raise NotWritten."""
        now = self._clock()
        if now - self._written_at < EVERY_SECONDS:
            return
        self._written_at = now
        with harmless("live figures"):
            self._publish(trainer, progress, now)

    def _publish(self, trainer: Trainer, progress: Progress, now: float) -> None:
        self._files.write(FIGURES, self._figures(trainer, progress, now))
        self._files.write(RECORDS, self._records(trainer, now))
        history = trainer.state.history
        if history is not None:
            points = trainer.candidates.champion, history.size
            if points != self._points:
                self._files.write_history(history)
                self._points = points

    @property
    def _shows_records(self) -> bool:
        return self._settings.api.shows_records

    def _figures(self, trainer: Trainer, progress: Progress, now: float) -> dict[str, Any]:
        return {
            "time": time.time(),
            "pid": os.getpid(),
            "events_learned": trainer.events_learned,
            "events_per_second": self._rate(trainer.events_learned, now),
            "lag_records": self._lag(),
            "progressive": progressive(trainer.state),
            "rejections": progress.rejections,
            "annotations": trainer.annotations.state(),
            "symptoms": self._symptoms.report(trainer, progress, self._monitor),
            **trainer.candidates.header(),
        }

    def _records(self, trainer: Trainer, now: float) -> dict[str, Any]:
        self._monitor.follow(trainer.recent)
        if now - self._seen_at >= SEEN_SECONDS:
            self._seen_at = now
            sample = list(trainer.recent.sample)
            if sample:
                self._missing = missing_ratios(sample)
                self._seen = values_for_form(trainer, sample) if self._shows_records else {}
            elif self._shows_records:  # of an earlier learner, or of a replay
                self._seen = self._known_values(trainer)
        events = list(self._events(trainer)) if self._shows_records else []
        return {
            "shown": self._shows_records,
            "events": events,
            "dead_letters": list(reversed(self._letters)),
            "missing": self._missing,
            "seen": self._seen,
        }

    def _events(self, trainer: Trainer) -> Any:
        privacy = trainer.privacy
        for number, event in enumerate(trainer.recent.reports()):
            if number == EVENTS:
                return
            features = event["features"]
            if features is not None:
                event["features"] = {
                    name: None if value is None else privacy.shown_feature(name, value)
                    for name, value in features.items()
                }
            event["id"] = privacy.shown("id", event["id"])
            if privacy.hides("label"):  # with its prediction, the error tells the label
                label = privacy.shown("label", event["label"])
                event |= {"label": label, "loss": None, "error": None}
            yield event

    def _known_values(self, trainer: Trainer) -> dict[str, Any]:
        """Return the values that were seen before this learner, without those that are hidden."""
        kinds, hides = trainer.state.model.kinds, trainer.privacy.hides_feature
        known = self._files.read(RECORDS).get("seen", {})
        return {name: of for name, of in known.items() if name in kinds and not hides(name)}

    def _rate(self, events: int, now: float) -> float:
        if self._rates and events < self._rates[-1][1]:
            self._rates.clear()  # a rollback
        self._rates.append((now, events))
        while now - self._rates[0][0] > RATE_SECONDS:
            self._rates.popleft()
        (begin, first), (end, last) = self._rates[0], self._rates[-1]
        return round((last - first) / (end - begin), 1) if end > begin else 0.0

    def _lag(self) -> int | None:
        families = self._metrics.lag_records.collect()
        lag = sum(sample.value for family in families for sample in family.samples)
        return None if math.isnan(lag) else int(lag)


def values_for_form(trainer: Trainer, sample: Sequence[Row]) -> dict[str, Any]:
    """Return, for the first features, values to fill a form with."""
    names = [name for name in trainer.recent.kinds if not trainer.privacy.hides_feature(name)]
    return {name: seen_values([row.get(name) for row in sample]) for name in names[:MAX_FEATURES]}


def progressive(state: State) -> dict[str, dict[str, float | None]]:
    """Return the losses and errors of model and baselines, null where nothing was observed."""
    seen = state.validation
    columns = {
        "loss": seen.mean_loss,
        "error": seen.mean_error,
        "recent_loss": seen.window_loss,
        "recent_error": seen.window_error,
    }
    return {
        name: {
            key: float(values[k]) if math.isfinite(values[k]) else None
            for key, values in columns.items()
        }
        for k, name in enumerate(PREDICTORS)
    }


def missing_ratios(sample: Sequence[Row]) -> dict[str, float]:
    """Return the share of rows in which each feature is missing, the most often missing first.

    Examples
    --------
    >>> missing_ratios([{"a": 1.0, "b": None}, {"a": 2.0}])
    {'b': 1.0, 'a': 0.0}
    """
    names = dict.fromkeys(name for row in sample for name in row)
    counts = {name: sum(row.get(name) is None for row in sample) for name in names}
    ordered = sorted(counts, key=counts.__getitem__, reverse=True)
    return {name: round(counts[name] / len(sample), 4) for name in ordered}


def seen_values(values: Sequence[Any]) -> dict[str, Any]:
    """Return low, middle and high of numbers, or the commonest values, and the last one.

    Examples
    --------
    >>> seen_values([3.0, None, 1.0, 2.0])
    {'low': 1.0, 'middle': 2.0, 'high': 3.0, 'last': 2.0}
    >>> seen_values(["b", "a", "b"])
    {'values': ['b', 'a'], 'last': 'b'}
    """
    known = [value for value in values if value is not None]
    if not known:
        return {}
    last = known[-1]
    if isinstance(last, float) and len(known) > 1:
        _, middle, _ = quantiles(known, n=4, method="inclusive")
        return {"low": min(known), "middle": middle, "high": max(known), "last": last}
    return {"values": [value for value, _ in Counter(known).most_common(VALUES)], "last": last}


def _text(value: bytes) -> str:
    return value[:LETTER_BYTES].decode("utf-8", errors="backslashreplace")
