"""Report the progress of learning: log lines at intervals, and the condition for the API."""

import logging
import math
import re
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from confluent_kafka import Message

from kaboost.models.evaluation.baselines import PREDICTORS
from kaboost.models.kernels.compile_progress import (
    LEARNING,
    CompileProgress,
    observe_compilation,
)
from kaboost.models.types import Vec
from kaboost.service.config.settings import Settings
from kaboost.service.errors import EventError
from kaboost.service.kafka.stored_record import StoredRecord
from kaboost.service.learner.label_silence import LabelSilence
from kaboost.service.learner.stalls import Stalls
from kaboost.service.metrics import LearnerMetrics
from kaboost.service.storage.late_figures import LabelFit
from kaboost.service.storage.snapshots import MIN_RECORDS, RECENT_RECORDS, Condition
from kaboost.service.storage.state import State

PROBLEM_SECONDS = 60.0  # between two log lines about one problem
UNMATCHED = (
    "have no features: set labels.id and events.id to paths of the same id, or labels.wait and "
    "labels.early higher"
)
# Codes whose messages begin with a name of the settings, not with a key that a record has.
PLACED = frozenset({"schema", "label", "feature_type", "not_finite"})
PLACE = re.compile(r"[\w.\-]{1,40}")
COMPILING_SECONDS = 5.0  # between two log lines while kernels compile

log = logging.getLogger(__name__)

Rejected = tuple[Message | StoredRecord, EventError]


class RecentRecords:
    """What became of the last RECENT_RECORDS records of one topic."""

    def __init__(self, noun: str = "records") -> None:
        self._noun = noun
        self._errors: deque[EventError | None] = deque(maxlen=RECENT_RECORDS)
        self._rejected = 0
        self._last: dict[str, Message | StoredRecord] = {}  # the last rejected record of each code

    def note(self, messages: Sequence[Message], rejected: Sequence[Rejected]) -> None:
        """Take the records of a batch, in their order."""
        recent = messages[-RECENT_RECORDS:]
        errors = {id(message): error for message, error in rejected}
        if errors or self._rejected:
            self._errors.extend(errors.get(id(message)) for message in recent)
            self._rejected = len(self._errors) - self._errors.count(None)
            self._last.update((error.code, message) for message, error in rejected)
        else:
            self._errors.extend([None] * len(recent))

    @property
    def records(self) -> int:
        """How many they are."""
        return len(self._errors)

    @property
    def rejected(self) -> int:
        """How many of them were rejected."""
        return self._rejected

    @property
    def ratio(self) -> float:
        """The share of rejected ones among them."""
        return self._rejected / max(1, len(self._errors))

    def describe(self, *, with_example: bool = True) -> str:
        """Describe how many were rejected, and why most of them; an example quotes a value."""
        code, reason = self._commonest()
        of_all = f"{self._rejected:,} of the last {self.records:,} {self._noun} were rejected"
        place, _, _ = reason.partition(": ")
        if with_example:
            example = f", such as: {reason}"
        else:
            example = f" at {place}" if code in PLACED and PLACE.fullmatch(place) else ""
        return f"{of_all}, most of them with code {code}{example}"

    def fields(self) -> dict[str, Any]:
        """Return the commonest reason and an example of it, for the log."""
        code, reason = self._commonest()
        last = self._last[code]
        at = f"{last.topic()}[{last.partition()}]@{last.offset()}"
        counts = {"rejected": self._rejected, "records": self.records}
        return {**counts, "code": code, "reason": reason, "at": at}

    def rejections(self) -> list[dict[str, Any]]:
        """Count the rejected ones by code, the commonest first, each with its last message."""
        errors = [error for error in self._errors if error is not None] if self._rejected else []
        last = {error.code: error.message for error in errors}
        return [
            {"code": code, "records": count, "recent_records": self.records, "reason": last[code]}
            for code, count in Counter(error.code for error in errors).most_common()
        ]

    def _commonest(self) -> tuple[str, str]:
        """Return the commonest code, and the last message with it, which quotes the value."""
        errors = [error for error in self._errors if error is not None]
        ((code, _),) = Counter(error.code for error in errors).most_common(1)
        return code, next(error.message for error in reversed(errors) if error.code == code)


class Progress:
    """Report the progress of one learner."""

    def __init__(
        self,
        settings: Settings,
        metrics: LearnerMetrics,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._limit = settings.api.max_rejected_ratio
        self._every = settings.log.progress_seconds
        self._metrics = metrics
        self._clock = clock
        self._labels_topic = settings.labels.topic
        self._events, self._labels = RecentRecords(), RecentRecords("labels")
        self._fit = LabelFit()
        self._keep_features = settings.labels.expired != "drop"
        self.label_silence = LabelSilence(clock)
        self.stalls = Stalls(metrics, clock)
        self._compilation: CompileProgress | None = None
        self._rejected = self._learned = 0  # records rejected, events learned until the last line
        self._reported_at = clock()
        self._problem_at = self._compiling_at = -math.inf

    @property
    def condition(self) -> Condition:
        """What other processes should know."""
        fit, known = self._fit, self._labels if self._fit.is_failing else None
        problems = [each.describe() for each in self._failing if each is not known]
        problems += [self._describe_misfits()] if fit.is_failing else []
        return self._counts._replace(
            problem="; ".join(problems),
            compiling=self._compiling,
            stalled=self.stalls.description,
            misfit_labels=fit.misfits if fit.is_failing else 0,
        )

    @property
    def _counts(self) -> Condition:
        events, labels = self._events, self._labels
        return Condition(
            events.records,
            events.ratio,
            labels=labels.records,
            labels_rejected_ratio=labels.ratio,
        )

    @contextmanager
    def compiling(self, spec: Mapping[str, Any]) -> Iterator[None]:
        """Report kernels of a model that compile meanwhile; those from the cache are no news."""
        with observe_compilation(LEARNING, spec, self._clock) as self._compilation:
            yield
        compiled, self._compilation = self._compilation.done, None
        if compiled:
            log.info("compiled", extra={"functions": compiled})

    def start(self, events_learned: int) -> None:
        """Begin to count: the first line comes one interval later."""
        self._reported_at, self._learned = self._clock(), events_learned

    def note(
        self,
        messages: Sequence[Message],
        rejected: Sequence[Rejected],
        skipped: Sequence[Message] = (),
    ) -> None:
        """Take what became of a batch. The labels' topic counts by itself: it has few records.

        Skipped records, such as deletes of a table, are neither good nor bad.
        """
        if skipped:
            neither = set(map(id, skipped))
            messages = [message for message in messages if id(message) not in neither]
        if self._labels_topic is None:
            self._events.note(messages, rejected)
        else:
            counts = []
            for recent, of_labels in ((self._events, False), (self._labels, True)):
                noted = [m for m in messages if (m.topic() == self._labels_topic) == of_labels]
                counts.append(len(noted))
                recent.note(
                    noted,
                    [r for r in rejected if (r[0].topic() == self._labels_topic) == of_labels],
                )
            self.label_silence.note(*counts)
        self._rejected += len(rejected)
        self._metrics.rejected_ratio.set(self._counts.rejected_ratio)

    def note_labels(self, fit: LabelFit | None) -> None:
        """Take whether labels that come later fit; None where labels are in the events."""
        self._fit = fit or LabelFit()

    def report(self, state: State) -> None:
        """Write the log lines that are due."""
        now = self._clock()
        failing, fits_nothing = self._failing, self._fit.is_failing
        if (failing or fits_nothing) and now - self._problem_at >= PROBLEM_SECONDS:
            self._problem_at = now
            for recent in failing:
                log.error("nearly all records are rejected", extra=recent.fields())
            if fits_nothing:
                log.error("no label has features", extra={"reason": self._describe_misfits()})
        seconds = now - self._reported_at
        if seconds >= self._every:
            log.info("progress", extra=self._fields(state, seconds))
            self._reported_at, self._rejected = now, 0
            self._learned = state.events_learned

    def report_compiling(self) -> None:
        """Write the log line about kernels that compile, if one is due."""
        now, text = self._clock(), self._compiling
        if text and now - self._compiling_at >= COMPILING_SECONDS:
            self._compiling_at = now
            log.info(text)

    @property
    def rejections(self) -> list[dict[str, Any]]:
        """Why records among the last ones were rejected, the commonest reason first."""
        return [row for recent in (self._events, self._labels) for row in recent.rejections()]

    @property
    def topics(self) -> tuple[RecentRecords, RecentRecords]:
        """The last records of the events, and of labels that come later."""
        return self._events, self._labels

    @property
    def _failing(self) -> list[RecentRecords]:
        """The topics whose records are nearly all rejected, each judged by itself."""
        enough = [each for each in (self._events, self._labels) if each.records >= MIN_RECORDS]
        return [each for each in enough if each.ratio >= self._limit]

    def _describe_misfits(self) -> str:
        """Describe that no label fits, why, and what that stops."""
        fit = self._fit
        reasons = [f"none of the last {fit.misfits:,} labels has found its features"]
        if fit.rejected:
            reasons.append(f"{fit.rejected:,} could not be read, such as: {fit.reason}")
        if fit.unmatched:
            reasons.append(f"{fit.unmatched:,} {UNMATCHED}")
        reasons += ["no features expire until one label fits"] if self._keep_features else []
        return "; ".join(reasons)

    @property
    def _compiling(self) -> str:
        return self._compilation.describe() if self._compilation else ""

    def _fields(self, state: State, seconds: float) -> dict[str, Any]:
        validation = state.validation
        samples = [
            sample for family in self._metrics.lag_records.collect() for sample in family.samples
        ]
        lag = sum(sample.value for sample in samples)  # nan where the broker does not answer
        return {
            "events_learned": state.events_learned,
            "events_per_second": round((state.events_learned - self._learned) / seconds, 1),
            "lag_records": None if math.isnan(lag) else int(lag),
            "loss": _by_predictor(validation.mean_loss),
            "recent_loss": _by_predictor(validation.window_loss),
            "rejected": self._rejected,
        }


def _by_predictor(losses: Vec) -> dict[str, float | None]:
    """Round the losses of the model and both baselines; null where nothing was observed."""
    rounded = (round(loss, 4) if math.isfinite(loss) else None for loss in losses.tolist())
    return dict(zip(PREDICTORS, rounded, strict=True))
