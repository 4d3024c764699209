"""Record what a trainer does in the learner's metrics."""

import logging
import math
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime

from kaboost.service.errors import GAP_KINDS, EventError, NotWritten, StoreAway
from kaboost.service.events.decoder import DUPLICATE
from kaboost.service.events.diagnosis import CODES
from kaboost.service.events.metadata import CONVERTED, FIELDS, IGNORED, Repairs
from kaboost.service.events.new_names import NewNames
from kaboost.service.metrics import MAX_DELAY_SECONDS, LearnerMetrics
from kaboost.service.storage.checkpoints import Written
from kaboost.service.storage.snapshots import Snapshot
from kaboost.service.storage.state import State

METADATA_REMEDIES = {
    "id": "send text or a whole number, or leave it out",
    "timestamp": "send RFC 3339 with an offset, or milliseconds since 1970, or leave it out",
}

log = logging.getLogger(__name__)


class Recorder:
    """Set and count the metrics of one trainer."""

    def __init__(self, metrics: LearnerMetrics) -> None:
        self._metrics = metrics
        self._repaired: Counter[tuple[str, str]] = Counter()

    def start(self, name: str, kinds: tuple[str, str, str], state: State, names: NewNames) -> None:
        """Set what stays constant, and show the state that learning begins with."""
        self._metrics.model_info.clear()  # that of a champion before
        self._metrics.model_info.labels(name, *kinds).set(1)
        for code in CODES:  # at 0: Prometheus sees no increase in a series that starts at 1
            self._metrics.rejected.labels(code)
            self._metrics.dead_letters.labels(code)
        for field in FIELDS:
            for action in (CONVERTED, IGNORED):
                self._metrics.metadata_repaired.labels(field, action)
        for reason in ("not_written", "object_store"):
            self._metrics.checkpoint_failures.labels(reason)
        for kind in GAP_KINDS:
            self._metrics.gaps_accepted.labels(kind)
        self._metrics.snapshot_failures.labels("not_written")
        self.names_on_trial(len(names.candidates))
        self.memory(state)
        self.validation(state)

    def resume(self, snapshot: Snapshot | None, written: Written | None) -> None:
        """Show the newest files of an earlier start."""
        if snapshot:
            self._metrics.snapshot_version.set(snapshot.version)
            created = datetime.fromisoformat(snapshot.header["created"])
            self._metrics.snapshot_timestamp.set(created.timestamp())
        if written:
            self._metrics.checkpoint_timestamp.set(written.time)
            self._metrics.checkpoint_size.set(written.size)

    def batch(self, records: int, learned: int, ignored: int, errors: Sequence[EventError]) -> None:
        """Count the records of a batch, and what became of them."""
        self._metrics.consumed.inc(records)
        self._metrics.learned.inc(learned)
        self._metrics.ignored.inc(ignored)
        for error in errors:
            self._metrics.rejected.labels(error.code).inc()

    def names_on_trial(self, names: int) -> None:
        """Show how many names of features are on trial."""
        self._metrics.feature_names_on_trial.set(names)

    def evicted(self, features: int) -> None:
        """Count features that have made way for new ones."""
        self._metrics.features_evicted.inc(features)

    def limited(self, events: int) -> None:
        """Count events whose weight was reduced for their key."""
        self._metrics.influence_limited.inc(events)

    def skipped(self, reasons: Iterable[str]) -> None:
        """Count records that are valid and teach nothing."""
        for reason in reasons:
            if reason == DUPLICATE:
                self._metrics.duplicates.inc()
            else:
                self._metrics.skipped.labels(reason).inc()

    def repairs(self, repairs: Mapping[tuple[str, str], Repairs]) -> None:
        """Count ids and timestamps that were converted or ignored, and log the first of a kind and
        then each time that there are ten times as many.
        """
        for (field, action), (count, example) in repairs.items():
            self._metrics.metadata_repaired.labels(field, action).inc(count)
            before = self._repaired[field, action]
            after = self._repaired[field, action] = before + count
            if len(str(after)) > len(str(before)) or not before:
                fields = {"field": field, "value": example, "events": after}
                remedy = {"remedy": METADATA_REMEDIES[field]}
                message = "the %s of events is %s, the events are learned"
                log.warning(message, field, action, extra={**fields, **remedy})

    def learning(self, events: int, seconds: float) -> None:
        """Observe one call of the model."""
        self._metrics.learn_duration.observe(seconds)
        self._metrics.batch_events.observe(events)

    def validation(self, state: State) -> None:
        """Show losses, prefixes and intervals."""
        model, validation = state.model, state.validation
        self._metrics.validation.record(validation, model.booster.progress, model.intervals)

    def memory(self, state: State) -> None:
        """Show the size of the model."""
        arrays = state.model.to_arrays().values()
        self._metrics.model_memory.set(sum(array.nbytes for array in arrays))

    def published(self, version: int, oldest: float | None) -> None:
        """Show a snapshot, and how long its oldest event has waited for it."""
        self._metrics.snapshot_version.set(version)
        self._metrics.snapshot_timestamp.set_to_current_time()
        delay = math.inf if oldest is None else max(0.0, time.time() - oldest)
        if delay <= MAX_DELAY_SECONDS:
            self._metrics.event_to_snapshot.observe(delay)

    @contextmanager
    def publishing(self) -> Iterator[None]:
        """Time a snapshot, and count its failure."""
        try:
            with self._metrics.publish_duration.time():
                yield
        except NotWritten:
            self._metrics.snapshot_failures.labels("not_written").inc()
            raise

    def saved(self, written: Written) -> None:
        """Show a checkpoint."""
        self._metrics.checkpoint_timestamp.set_to_current_time()
        self._metrics.checkpoint_size.set(written.size)

    @contextmanager
    def saving(self) -> Iterator[None]:
        """Time a checkpoint, and count its failure."""
        try:
            with self._metrics.checkpoint_duration.time():
                yield
        except NotWritten as err:
            reason = "object_store" if isinstance(err, StoreAway) else "not_written"
            self._metrics.checkpoint_failures.labels(reason).inc()
            raise
