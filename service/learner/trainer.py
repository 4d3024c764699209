"""The room: model, baselines and position, moved by batches, published and checkpointed."""

import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import islice
from operator import methodcaller
from pathlib import Path
from typing import Any, NamedTuple

from confluent_kafka import Message

from kaboost.models.evaluation.baselines import ProgressiveValidation, record
from kaboost.models.model import Model
from kaboost.service.config.settings import Settings
from kaboost.service.errors import EventError, NotWritten
from kaboost.service.events.decoder import Decoder, Event
from kaboost.service.events.diagnosis import CODES
from kaboost.service.metrics import LearnerMetrics
from kaboost.service.storage import checkpoints, snapshots
from kaboost.service.storage.checkpoints import Checkpoint

log = logging.getLogger(__name__)

RETRY = 1.0  # seconds after which a file that could not be written is tried again

Rejected = tuple[Message, EventError]

_OFFSET, _VALUE = methodcaller("offset"), methodcaller("value")  # called for every record


class State(NamedTuple):
    """What a checkpoint holds: all that decides what comes next."""

    model: Model
    baselines: ProgressiveValidation
    positions: dict[int, int]  # partition → next offset
    damaged: tuple[int, ...] = ()  # checkpoints that were passed over


class Room:
    """One state and its files; one thread calls."""

    def __init__(self, settings: Settings, state: State, metrics: LearnerMetrics) -> None:
        features, files = settings.features, (settings.snapshots, settings.checkpoints)
        self.state = state
        self.batch_events = settings.kafka.batch_events  # to hand over in one call at most
        self._settings = settings
        self._metrics = metrics
        model = state.model
        self._decoder = Decoder(
            model.encoder.schema, model.labels, features.unknown, settings.kafka.max_event_bytes
        )
        self._run = checkpoints.current(settings.checkpoints.directory).name
        self._published = -1  # events learned by the newest snapshot of this run
        self._publish_after, self._save_after = (
            _Due(s.every_events, s.every_seconds) for s in files
        )
        self._oldest: float | None = None  # time of the first event learned that no snapshot holds
        self._show()
        self._look_back()

    @property
    def events_learned(self) -> int:
        """How many events taught the model, over all restarts."""
        return int(self.state.model.booster.progress.events)

    @property
    def unpublished(self) -> bool:
        """Whether no snapshot of this run has learned as much; one may have, after a restore."""
        return self.events_learned > self._published

    @property
    def publish_due(self) -> bool:
        """Whether a snapshot should be published."""
        return self.unpublished and self._publish_after.due

    @property
    def unsaved(self) -> bool:
        """Whether the position has moved since the last checkpoint."""
        return self._save_after.events > 0

    @property
    def checkpoint_due(self) -> bool:
        """Whether a checkpoint should be written."""
        return self._save_after.due

    def warm(self) -> None:
        """Compile the kernels before the first event waits for them."""
        self._learn([])

    def apply(self, messages: Sequence[Message]) -> list[Rejected]:
        """Learn the events among some records in their order; return the others.

        The position passes all of them: no checkpoint may be written before the rejected ones
        are in the dead-letter topic.
        """
        fresh = self._unread(messages)
        learned, ignored = self.events_learned, self._decoder.ignored
        rejected: list[Rejected] = []
        joined: dict[str, str] = {}
        rest = fresh
        while rest:
            events, faults = self._decoder.decode_many(list(map(_VALUE, rest)))
            rejected += [(rest[index], error) for index, error in faults]
            taken = self._decoder.taken
            if events:
                self._learn(events)
                self._note_oldest(rest[:taken], events, {index for index, _ in faults})
            if self._decoder.joining:
                joined |= self._join(self._decoder.joining)
            rest = rest[taken:]
        if joined:
            log.info("features inferred", extra={"kinds": joined})
            self._show_memory()
        self._metrics.learned.inc(self.events_learned - learned)
        self._metrics.ignored.inc(self._decoder.ignored - ignored)
        self._count(messages, rejected)
        return rejected

    def _join(self, found: dict[str, str]) -> dict[str, str]:
        """Take features that have come up into the model; return those it has room for."""
        fitting = self.state.model.affordable_features(found)
        if fitting:
            self.state.model.add_features(fitting)
            self._decoder.add_features(fitting)
        if len(fitting) < len(found):
            self._decoder.close()
            told = {
                "first": next(name for name in found if name not in fitting),
                "known": len(self.state.model.encoder.kinds),
                "max_memory": self.state.model.spec["bank"]["max_memory"],
                "remedy": "declare what matters, or begin anew with more model.bank.max_memory",
            }
            log.warning("no room for more features, they are ignored", extra=told)
        return fitting

    def _unread(self, messages: Sequence[Message]) -> Sequence[Message]:
        """Move the positions past some records; return those not read before."""
        positions = self.state.positions
        if len(positions) == 1:
            ((only, position),) = positions.items()
            after = position + len(messages)
            if list(map(_OFFSET, messages)) == list(range(position, after)):  # as nearly always
                positions[only] = after
                return messages
        fresh = []
        for message in messages:
            partition: int = message.partition()  # type: ignore[assignment] # a record has both
            offset: int = message.offset()  # type: ignore[assignment]
            if offset >= positions[partition]:  # else read before: the client went back
                positions[partition] = offset + 1
                fresh.append(message)
        return fresh

    def publish(self, *, cold: bool = False) -> int:
        """Publish a snapshot of the state as it is; `cold` marks the prior, before any event."""
        try:
            with self._metrics.publish_duration.time():
                version = snapshots.publish(
                    self._settings.snapshots.directory,
                    self.state.model,
                    {**self._header(), "cold_start": cold},
                    self._settings.snapshots.keep,
                    baselines=self.state.baselines,
                )
        except NotWritten:
            self._publish_after.retry()
            raise
        self._note_published(version)
        return version

    def checkpoint(self) -> Path:
        """Write state and position as one file; only when every dead letter is confirmed."""
        model, seen, positions, damaged = self.state
        checkpoint = Checkpoint(0, model, seen, positions, self._header(), damaged)
        folder = self._settings.checkpoints
        with self._writing_checkpoint():
            path = checkpoints.write(folder.directory, checkpoint, folder.keep)
        self._note_written(path)
        return path

    def find_culprit(self, messages: Sequence[Message]) -> Message | None:
        """Name the event that learning failed at, where that is known without another try."""
        return None

    def _note_published(self, version: int) -> None:
        self._published = self.events_learned
        self._publish_after.restart()
        self._metrics.snapshot_version.set(version)
        self._metrics.snapshot_timestamp.set_to_current_time()
        if self._oldest is not None:
            self._metrics.event_to_snapshot.observe(max(0.0, time.time() - self._oldest))
            self._oldest = None

    @contextmanager
    def _writing_checkpoint(self) -> Iterator[None]:
        try:
            with self._metrics.checkpoint_duration.time():
                yield
        except NotWritten:
            self._metrics.checkpoint_failures.labels("not_written").inc()
            self._save_after.retry()
            raise

    def _note_written(self, path: Path) -> None:
        self._save_after.restart()
        self._metrics.checkpoint_timestamp.set_to_current_time()
        self._metrics.checkpoint_size.set(path.stat().st_size)

    def _learn(self, events: list[Event[Any, Any]]) -> None:
        table, y, w = self._decoder.tabulate(events)
        model = self.state.model
        begin = time.perf_counter()
        record(self.state.baselines, model.learn(table, y, w), y, w)
        if events:
            self._metrics.learn_duration.observe(time.perf_counter() - begin)
            self._metrics.batch_events.observe(len(events))

    def _count(self, messages: Sequence[Message], rejected: Sequence[Rejected]) -> None:
        self._publish_after.events += len(messages)
        self._save_after.events += len(messages)
        self._metrics.consumed.inc(len(messages))
        for _, error in rejected:
            self._metrics.rejected.labels(error.code).inc()
        self._record()

    def _note_oldest(
        self, messages: Sequence[Message], events: list[Event[Any, Any]], faulty: set[int]
    ) -> None:
        """Remember since when learning waits for a snapshot; only what it learned waits."""
        if self._oldest is None:
            good = (message for index, message in enumerate(messages) if index not in faulty)
            pairs = zip(good, events, strict=True)
            self._oldest = next((_time(m, event) for m, event in pairs if event.weight != 0), None)

    def _show(self) -> None:
        """Set what stays as it is while the process lives."""
        self._metrics.model_info.labels(self._settings.name, *self._kinds()).set(1)
        for code in CODES:  # at 0, or the first of a kind is no increase for Prometheus
            self._metrics.rejected.labels(code)
            self._metrics.dead_letters.labels(code)
        self._metrics.checkpoint_failures.labels("not_written")
        self._show_memory()
        self._record()

    def _record(self) -> None:
        model = self.state.model
        seen, progress = self.state.baselines, model.booster.progress
        self._metrics.validation.record(seen, progress, model.intervals)

    def _show_memory(self) -> None:
        arrays = self.state.model.to_arrays().values()
        self._metrics.model_memory.set(sum(array.nbytes for array in arrays))

    def _kinds(self) -> tuple[str, str, str]:
        spec = self.state.model.spec
        return spec["rule"]["kind"], spec["bank"]["kind"], spec["loss"]["kind"]

    def _look_back(self) -> None:
        """Take up what is on disk: a restart without new events is no model without a version."""
        found = snapshots.newest(self._settings.snapshots.directory)
        if found:
            self._metrics.snapshot_version.set(found.version)
            created = datetime.fromisoformat(found.header["created"])
            self._metrics.snapshot_timestamp.set(created.timestamp())
        if found and found.header.get("run") == self._run:
            self._published = found.header["events_learned"]
        for path in islice(checkpoints.listing(self._settings.checkpoints.directory), 1):
            self._metrics.checkpoint_timestamp.set(path.stat().st_mtime)
            self._metrics.checkpoint_size.set(path.stat().st_size)

    def _header(self) -> dict[str, Any]:
        return {
            "name": self._settings.name,
            "topic": self._settings.kafka.topic,
            "run": self._run,
            "created": _now(),
            "events_learned": self.events_learned,
            "offsets": {str(p): offset for p, offset in self.state.positions.items()},
        }


def _time(message: Message, event: Event[Any, Any]) -> float:
    """Give an event's own time, or its record's, in seconds since 1970."""
    own = event.timestamp
    if isinstance(own, datetime):
        return own.timestamp()
    return (message.timestamp()[1] if own is None else own) / 1000


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class _Due:
    """So many events or so many seconds after the last time, or soon after it went wrong."""

    def __init__(self, every_events: int, every_seconds: float) -> None:
        self._every_events = every_events
        self._every_seconds = every_seconds
        self.restart()

    def restart(self) -> None:
        self.events = 0
        self._since = time.monotonic()
        self._again: float | None = None

    def retry(self) -> None:
        self._again = time.monotonic() + RETRY

    @property
    def due(self) -> bool:
        now = time.monotonic()
        if self._again is not None:
            return now >= self._again
        if not self.events:
            return False
        return self.events >= self._every_events or now - self._since >= self._every_seconds
