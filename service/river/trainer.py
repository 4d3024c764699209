"""The trainer of a River model: it publishes by sharing the model, and saves only its progress."""

import logging
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from confluent_kafka import Message

from kaboost.models.adapters.from_river import RiverModel
from kaboost.models.evaluation.baselines import copied
from kaboost.service.kafka.stored_record import StoredRecord
from kaboost.service.learner.guard import Fallback
from kaboost.service.learner.parts import Parts
from kaboost.service.learner.records import events_of
from kaboost.service.learner.trainer import Rejected, Trainer
from kaboost.service.river.progress import RiverProgress
from kaboost.service.river.replay import Replay
from kaboost.service.river.shared_model import SharedModel
from kaboost.service.storage.checkpoints import Written
from kaboost.service.storage.snapshots import Snapshot
from kaboost.service.storage.state import State

MAX_BATCH = 100  # events: each may take 10 ms, and heartbeats come between batches
RESERVED_VERSIONS = 1_000_000  # per progress file: a restart begins above them

log = logging.getLogger(__name__)


class Sharing(NamedTuple):
    """What a River trainer needs besides parts and state."""

    shared: SharedModel
    replay: Replay
    cold_start: bool


class RiverTrainer(Trainer):
    """Own a River model, its validation and its offsets; begin with a replay of the topic."""

    def __init__(self, parts: Parts, state: State, sharing: Sharing) -> None:
        assert isinstance(state.model, RiverModel)
        self._model = state.model
        self._shared, replay, cold_start = sharing
        self._replay: Replay | None = replay
        self._folder = parts.settings.checkpoints.folder
        self._topic = parts.settings.kafka.topic
        progress = RiverProgress.read(self._folder, self._topic)
        self._saved_offsets = {} if cold_start else _trusted(progress, replay.ends)
        # Above every version that this folder has served, of whichever kind of model.
        newest = max(progress.version_limit, parts.stores.snapshots.last_version())
        self._first_version = self._version_limit = newest + 1
        self._weights_metric = parts.metrics.weights_ignored
        self._weights_ignored = 0
        super().__init__(parts, state, restored=False)
        self._model.turn = self._shared.lock
        self.batch_events = min(self.batch_events, MAX_BATCH)
        self._shared.progress = replay.describe()

    @property
    def version(self) -> int:
        """The current version: every event learned makes the next one."""
        return self._first_version + self.events_learned

    @property
    def publish_due(self) -> bool:
        """Whether to share a new state: after every batch, and throughout the replay."""
        return self._replay is not None or self._snapshots.events > 0

    @property
    def checkpoint_due(self) -> bool:
        """Whether to save the progress: by schedule, or when reserved versions run out."""
        return super().checkpoint_due or self.version > self._version_limit - RESERVED_VERSIONS // 2

    def learn(self, messages: Sequence[Message]) -> list[Rejected]:
        """Learn the events among some records; return the others that are no dead letters yet."""
        rejected = super().learn(messages)
        ignored = self._model.weights_ignored
        if ignored and not self._weights_ignored:
            log.warning(
                "weights other than 1 are ignored: the model learns such an event once",
                extra={"model": self._model.spec["river"]},
            )
        self._weights_metric.inc(ignored - self._weights_ignored)
        self._weights_ignored = ignored
        return [(message, error) for message, error in rejected if not self._is_saved(message)]

    def publish(self, *, cold: bool = False, instead: Fallback | None = None) -> int:
        """Share the current state with the serving thread, once the topic is replayed."""
        if self._replay is not None:
            self._replay.update(self.state.offsets)
            self._shared.progress = self._replay.describe()
            if not self._replay.done:
                return self.version
            self._replay = None
            self._shared.problem = ""
        header = {**self._header(), "cold_start": cold, "model": self._model.describe()}
        validation = copied(self.state.validation)
        self._shared.snapshot = Snapshot(self.version, self._model, header, validation)
        self._note_published(self.version)
        return self.version

    def write_checkpoint(self) -> Written:
        """Save the progress; only when every dead letter is confirmed.

        During a replay the saved offsets stay: dead letters before them are written.
        """
        offsets = {
            p: max(offset, self._saved_offsets.get(p, 0))
            for p, offset in self.state.offsets.items()
        }
        limit = self.version + RESERVED_VERSIONS
        with self._writing_checkpoint():
            written = RiverProgress(self._topic, offsets, limit).write(self._folder)
        self._saved_offsets, self._version_limit = offsets, limit
        self._note_checkpoint(written)
        return written

    def find_culprit(self, messages: Sequence[Message]) -> Message | None:
        """Return the record whose event was being learned."""
        if self._learning is None:
            return None
        usable = list(events_of(*self._learning))
        failed = self._model.failed_at
        return usable[failed] if failed < len(usable) else None

    def _kinds(self) -> tuple[str, str, str]:
        loss = "squared" if self._model.task == "regression" else "log"
        return "river", self._model.spec["river"], loss

    def _resume(self) -> None:
        """Resume nothing: the model is rebuilt, whatever the folders hold."""

    def find_lost_snapshot(self) -> bool:
        """Find none: there are no snapshots."""
        return False

    def _is_saved(self, message: Message | StoredRecord) -> bool:
        return (message.offset() or 0) < self._saved_offsets.get(message.partition() or 0, 0)


def _trusted(progress: RiverProgress, ends: Mapping[int, int]) -> dict[int, int]:
    """Return the saved offsets; beyond the end of a partition they are those of a deleted topic."""
    beyond = sorted(p for p, offset in progress.offsets.items() if offset > ends.get(p, offset))
    if beyond:
        fields = {"topic": progress.topic, "partitions": beyond}
        log.warning(
            "topic created again, dead letters are written from its beginning", extra=fields
        )
        return {}
    return progress.offsets
