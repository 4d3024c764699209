"""The room of a live model: it publishes by showing itself, and its file is a note, no state."""

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path

from confluent_kafka import Message

from kaboost.models.adapters.from_river import RiverModel
from kaboost.models.evaluation.baselines import copied
from kaboost.service.config.settings import Settings
from kaboost.service.learner.trainer import Rejected, Room, State
from kaboost.service.metrics import LearnerMetrics
from kaboost.service.river import progress as notes
from kaboost.service.river.progress import Note
from kaboost.service.river.replay import Replay
from kaboost.service.river.shared_model import Live
from kaboost.service.storage import snapshots
from kaboost.service.storage.snapshots import Snapshot

BATCH = 100  # events at most: each may take ten milliseconds, and signs of life come in between
RESERVED = 1_000_000  # versions that a note sets aside: a restart begins above them

log = logging.getLogger(__name__)


class LiveRoom(Room):
    """A model of River, its baselines and its position; it begins with a replay of the topic."""

    def __init__(
        self,
        settings: Settings,
        state: State,
        metrics: LearnerMetrics,
        *,
        live: Live,
        replay: Replay,
        cold_start: bool,
    ) -> None:
        assert isinstance(state.model, RiverModel)
        self._model = state.model
        self._live = live
        self._replay: Replay | None = replay
        self._folder = settings.checkpoints.directory
        self._topic = settings.kafka.topic
        note = notes.read(self._folder, self._topic)
        self._noted = {} if cold_start else _trusted(note, replay.ends)
        # Above all that this folder has served, by whichever kind of model.
        self._base = max(note.limit, snapshots.last(settings.snapshots.directory)) + 1
        self._limit = self._base
        self._weights_ignored = 0
        super().__init__(settings, state, metrics)
        self._model.turn = live
        self.batch_events = min(self.batch_events, BATCH)
        live.progress = replay.describe()

    @property
    def version(self) -> int:
        """The version of this moment: every event learned makes the next one."""
        return self._base + self.events_learned

    @property
    def publish_due(self) -> bool:
        """Whether there is news to show: after every batch, and throughout the replay."""
        return self._replay is not None or self._publish_after.events > 0

    @property
    def checkpoint_due(self) -> bool:
        """Whether the note should be written: in time, or when versions run out."""
        return super().checkpoint_due or self.version > self._limit - RESERVED // 2

    def apply(self, messages: Sequence[Message]) -> list[Rejected]:
        """Learn the events among some records; return those others that are no dead letters yet."""
        rejected = super().apply(messages)
        ignored = self._model.weights_ignored
        if ignored and not self._weights_ignored:
            log.warning(
                "weights other than 1 are ignored: the model learns such an event once",
                extra={"model": self._model.spec["river"]},
            )
        self._metrics.weights_ignored.inc(ignored - self._weights_ignored)
        self._weights_ignored = ignored
        return [each for each in rejected if not self._is_noted(each[0])]

    def publish(self, *, cold: bool = False) -> int:
        """Let the answering thread see what there is now; not before the topic is replayed."""
        if self._replay is not None:
            self._replay.note(self.state.positions)
            self._live.progress = self._replay.describe()
            if not self._replay.done:
                return self.version
            self._replay = None
            self._live.trouble = ""
        header = {**self._header(), "cold_start": cold, "model": self._model.describe()}
        seen = copied(self.state.baselines)
        self._live.snapshot = Snapshot(self.version, self._model, header, seen)
        self._note_published(self.version)
        return self.version

    def checkpoint(self) -> Path:
        """Write the note; only when every dead letter is confirmed.

        While it replays, what was noted before stands: those dead letters are written.
        """
        positions = self.state.positions
        done = {p: max(offset, self._noted.get(p, 0)) for p, offset in positions.items()}
        limit = self.version + RESERVED
        with self._writing_checkpoint():
            path = notes.write(self._folder, Note(self._topic, done, limit))
        self._noted, self._limit = done, limit
        self._note_written(path)
        return path

    def find_culprit(self, messages: Sequence[Message]) -> Message | None:
        """Name the record whose event was being learned."""
        _, faults = self._decoder.decode_many([message.value() for message in messages])
        faulty = {index for index, _ in faults}
        good = [message for index, message in enumerate(messages) if index not in faulty]
        at = self._model.failed_at
        return good[at] if at < len(good) else None

    def _kinds(self) -> tuple[str, str, str]:
        loss = "squared" if self._model.task == "regression" else "log"
        return "river", self._model.spec["river"], loss

    def _look_back(self) -> None:
        """Take up nothing: the model begins anew, whatever lies in the folders."""

    def _is_noted(self, message: Message) -> bool:
        return (message.offset() or 0) < self._noted.get(message.partition() or 0, 0)


def _trusted(note: Note, ends: Mapping[int, int]) -> dict[int, int]:
    """Take the noted offsets; beyond the end of a partition they belong to a topic that is gone."""
    gone = sorted(p for p, offset in note.offsets.items() if offset > ends.get(p, offset))
    if gone:
        told = {"topic": note.topic, "partitions": gone}
        log.warning("topic made anew, dead letters are written from its beginning", extra=told)
        return {}
    return note.offsets
