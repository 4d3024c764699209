"""The learner process: builds door and room, and lets records pass from one to the other."""

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

from confluent_kafka import KafkaException, Message
from prometheus_client import CollectorRegistry, start_http_server

from kaboost.models.adapters.from_river import RiverModel
from kaboost.models.evaluation.baselines import progressive_validation
from kaboost.models.model import Model
from kaboost.models.types import ModelError
from kaboost.service.config import settings as config
from kaboost.service.config.settings import Settings
from kaboost.service.errors import BrokerError, ConfigError, Exit, KaboostError, NotWritten, Refused
from kaboost.service.kafka import topics
from kaboost.service.kafka.consumer import Source
from kaboost.service.kafka.dead_letters import DeadLetters
from kaboost.service.learner.trainer import Rejected, Room, State
from kaboost.service.metrics import LearnerMetrics, learner_metrics
from kaboost.service.river.replay import Replay
from kaboost.service.river.shared_model import Live
from kaboost.service.river.trainer import LiveRoom
from kaboost.service.storage import checkpoints, files, snapshots
from kaboost.service.storage.checkpoints import Checkpoint

BEAT = 1.0  # seconds between two signs of life
# A dead letter is logged where it is this of its code since the start: the first, then ever fewer.
TOLD_AT = frozenset({1, *(10**power for power in range(2, 16))})

log = logging.getLogger(__name__)


def run(
    settings: Settings,
    *,
    cold_start: bool,
    stop: threading.Event,
    restarts: int = 0,
    live: Live | None = None,
) -> int:
    """Learn until told to stop; `live` is where a model that has no snapshots is shown.

    1. Take the folders, so that no second learner writes to them.
    2. Begin the folder of a cold start, so that it outlives what may end this attempt.
    3. Restore the newest checkpoint; wait for the topic; find the position.
    4. Publish what there is, and compile; answers need not wait for that.
    5. Read, learn, publish, checkpoint.
    6. Told to stop: read no more, write a last checkpoint and snapshot.
    """
    registry = CollectorRegistry()
    metrics = learner_metrics(registry)
    metrics.restarts.inc(restarts)
    kafka = settings.kafka
    cold_start = cold_start and restarts == 0  # a supervisor repeats its flags
    with ExitStack() as stack:
        with _wished(cold_start):
            for folder in _folders(settings):
                stack.enter_context(files.lock(folder))
        stack.enter_context(_exposed(settings.metrics, registry))
        try:
            door = stack.enter_context(closing(Source(kafka, metrics)))
            letters = DeadLetters(
                kafka.client(), kafka.dlq, kafka.dlq_timeout, metrics.dead_letters
            )
            stack.enter_context(closing(letters))
            learner = Learner(settings, door, letters, metrics, stop)
            learner.live = live
            if learner.begin(cold_start=cold_start):
                learner.learn()
                learner.finish()
        except KafkaException as err:
            raise BrokerError(f"{kafka.bootstrap_servers}: {err.args[0].str()}") from err
    return Exit.DONE


class Learner:
    """Door, room and dead letters, and the order in which they take turns."""

    room: Room
    live: Live | None = None

    def __init__(
        self,
        settings: Settings,
        door: Source,
        letters: DeadLetters,
        metrics: LearnerMetrics,
        stop: threading.Event,
    ) -> None:
        self._settings = settings
        self._door = door
        self._letters = letters
        self._metrics = metrics
        self._stop = stop
        self._paused = False
        self._beaten = 0.0
        self._refused: Counter[str] = Counter()  # dead letters of each code, since the start
        self._unwritten: set[str] = set()  # kinds of files that could not be written last time

    def begin(self, *, cold_start: bool) -> bool:
        """Find state and position; false when told to stop before the topic is there."""
        model = _configured(self._settings)
        if cold_start and not self.live:
            with _wished(cold_start):
                checkpoints.new_run(self._settings.checkpoints.directory)
        checkpoint = None if self.live else self._restore(model)
        partitions = topics.wait(self._door.consumer, self._settings.kafka, self._beat)
        if not partitions:
            return False
        if self._settings.kafka.create_dlq:
            topics.create_dead_letter_topic(self._settings.kafka)
        if self.live:
            state = self._fresh(model, partitions)
            self.room = self._open_live(self.live, state, cold_start)
        else:
            state = self._state(checkpoint, partitions, model)
            self.room = Room(self._settings, state, self._metrics)
        self._door.assign(state.positions)
        if checkpoint is None:
            self._save()  # at once: a start from `latest` must not be resolved a second time
        if self.room.unpublished:
            self._attempt("snapshot", self._publish)
        self._warm()
        told = {"offsets": dict(state.positions), "events_learned": self.room.events_learned}
        log.info("learner replays" if self.live else "learner ready", extra=told)
        return True

    def _warm(self) -> None:
        """Compile, with signs of life meanwhile."""
        with ThreadPoolExecutor(1, "compile") as beside:
            compiling = beside.submit(self.room.warm)
            while not wait([compiling], BEAT).done:
                self._beat()
            compiling.result()

    def learn(self) -> None:
        """Take turns until told to stop."""
        while self._beat():
            self._letters.poll()
            self._pause_or_resume()
            if self.room.checkpoint_due and self._letters.outstanding and not self._paused:
                self._letters.poll(0.05)  # what waits is confirmed in a moment, or is stuck
                continue
            # Paused, the door has nothing but still answers the broker.
            messages = self._door.poll(self.room.batch_events)
            for message, error in self._apply(messages):
                self._letters.send(message, error)
            if self.room.publish_due:
                self._attempt("snapshot", self._publish)
            if self.room.checkpoint_due and not self._letters.outstanding:
                self._attempt("checkpoint", self._save)
            self._door.look_for_partitions()

    def finish(self) -> None:
        """Write what was learned; a position that would pass an unconfirmed dead letter stays."""
        if not self._letters.confirm(self._settings.kafka.dlq_timeout):
            told = {"waiting": self._letters.outstanding}
            log.warning("no last checkpoint: dead letters are not confirmed", extra=told)
        elif self.room.unsaved:
            self._save()
        if self.room.unpublished:
            self._publish()
        log.info("learner stopped", extra={"events_learned": self.room.events_learned})

    def _restore(self, model: Model) -> Checkpoint | None:
        expected = {"model": model.describe(), "topic": self._settings.kafka.topic}
        directory = self._settings.checkpoints.directory
        checkpoint, fallbacks = checkpoints.restore(directory, expected)
        self._metrics.restore_fallbacks.inc(fallbacks)
        return checkpoint

    def _state(self, checkpoint: Checkpoint | None, partitions: list[int], model: Model) -> State:
        if checkpoint is None:
            self._refuse_lost(partitions)
            return self._fresh(model, partitions)
        gone = sorted(checkpoint.offsets.keys() - partitions)
        if gone:
            raise Refused(
                f"topic {self._settings.kafka.topic} has no partitions {gone} any more, the state "
                "has read them: begin a new model with --cold-start, or restore the topic"
            )
        positions = dict.fromkeys(partitions, 0) | checkpoint.offsets
        return State(checkpoint.model, checkpoint.baselines, positions, checkpoint.damaged)

    def _fresh(self, model: Model, partitions: list[int]) -> State:
        return State(model, progressive_validation(model.labels), self._door.begin(partitions))

    def _open_live(self, live: Live, state: State, cold_start: bool) -> LiveRoom:
        lag, topic = self._metrics.lag_records, self._settings.kafka.topic
        replay = Replay(self._door.consumer, topic, state.positions, lag)
        return LiveRoom(
            self._settings, state, self._metrics, live=live, replay=replay, cold_start=cold_start
        )

    def _refuse_lost(self, partitions: list[int]) -> None:
        directory = self._settings.checkpoints.directory
        if not checkpoints.is_begun(directory) and self._door.is_committed(partitions):
            raise Refused(
                f"group {self._settings.kafka.group_id} has committed offsets, but {directory} has "
                "no checkpoint: bring it back, begin a new model with --cold-start, or set another "
                "kafka.group_id for a second model"
            )

    def _save(self) -> None:
        """Write a checkpoint.

        1. State and next offsets become one durable file.
        2. The group's offsets are committed, for lag tools only.
        """
        path = self.room.checkpoint()
        self._door.commit(self.room.state.positions)
        log.debug("checkpoint written", extra={"path": str(path)})

    def _publish(self) -> None:
        self.room.publish(cold=self.room.events_learned == 0)

    def _attempt(self, kind: str, write: Callable[[], None]) -> None:
        """Write a file; the room says when to try again what could not be written."""
        try:
            write()
        except NotWritten as err:
            if kind not in self._unwritten:
                self._unwritten.add(kind)
                log.error(f"{kind} not written, it is tried again", extra={"reason": str(err)})
        else:
            if kind in self._unwritten:
                self._unwritten.remove(kind)
                log.info(f"{kind} written again")

    def _apply(self, messages: list[Message]) -> list[Rejected]:
        """Let the room learn; what fails there is a bug of ours: stop at the event it fails at."""
        try:
            rejected = self.room.apply(messages) if messages else []
        except Exception as err:
            where = _find_culprit(self.room, messages)
            log.exception("internal error", extra={"at": where})
            kept = "the model answers on" if self.live else "the checkpoint before it is untouched"
            raise KaboostError(
                f"internal error at {where}: {err!r}; {kept}, please report the event"
            ) from err
        for message, error in rejected:
            self._refused[error.code] += 1
            count = self._refused[error.code]
            if count in TOLD_AT:
                told = {"code": error.code, "at": _name(message), "reason": error.message}
                which = f"number {count:,}" if count > 1 else "the first"
                log.warning(f"dead letter, {which} of its code", extra=told)
        return rejected

    def _pause_or_resume(self) -> None:
        """Read nothing while dead letters or checkpoints cannot be written: rather late than lost.

        Once paused, all dead letters must be confirmed before it goes on.
        """
        waiting = self._letters.outstanding
        stuck = self._letters.stuck or (self._paused and waiting > 0)
        pause = stuck or "checkpoint" in self._unwritten
        if pause and not self._paused:
            log.error("learning paused", extra={"dead_letters": waiting})
            self._door.pause()
        elif self._paused and not pause:
            log.info("learning goes on")
            self._door.resume()
        self._paused = pause
        self._metrics.paused.set(pause)

    def _beat(self) -> bool:
        """Give a sign of life every second; false when it is time to stop."""
        now = time.monotonic()
        if now - self._beaten >= BEAT:
            self._beaten = now
            folder = self._settings.snapshots.directory
            self._attempt("heartbeat", lambda: snapshots.heartbeat(folder))
        return not self._stop.is_set()


def _configured(settings: Settings) -> Model:
    """Make the model that the settings describe, before any event."""
    task = settings.task
    made = RiverModel if settings.is_live else Model
    try:
        return made(task.kind, settings.model, settings.features.columns, task.labels)
    except ModelError as err:
        raise ConfigError(str(err)) from err


@contextmanager
def _wished(cold_start: bool) -> Iterator[None]:
    """Refuse a cold start that cannot be begun: the next attempt would not know of the wish."""
    try:
        yield
    except NotWritten as err:
        if cold_start:
            raise Refused(f"--cold-start is not begun, ask for it again: {err}") from err
        raise


def _folders(settings: Settings) -> list[Path]:
    both = settings.checkpoints.directory, settings.snapshots.directory
    return list(dict.fromkeys(folder.resolve() for folder in both))


@contextmanager
def _exposed(metrics: config.Metrics, registry: CollectorRegistry) -> Iterator[None]:
    """Show the metrics on their own port."""
    try:
        server, thread = start_http_server(metrics.port, metrics.host, registry)
    except OSError as err:
        raise ConfigError(
            f"metrics.port = {metrics.port}, metrics.host = {metrics.host}: {err.strerror}; "
            "free it or set another"
        ) from err
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _find_culprit(room: Room, messages: list[Message]) -> str:
    """Name the event that fails; the state is given up already, so each may be tried again."""
    known = room.find_culprit(messages)
    if known is not None:
        return _name(known)
    first, last = messages[0], messages[-1]
    for message in messages:
        room.state.positions[message.partition() or 0] = message.offset() or 0
        try:
            room.apply([message])
        except Exception:
            return _name(message)
    return f"one event from {_name(first)} to {_name(last)}"


def _name(message: Message) -> str:
    return f"{message.topic()}[{message.partition()}]@{message.offset()}"
