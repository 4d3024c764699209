"""The learner's loop: records pass from the consumer to the trainer, faults to the dead letters."""

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from functools import partial
from typing import TypeVar

from confluent_kafka import Message

from kaboost.service.errors import KaboostError, NotWritten, RegistryAway
from kaboost.service.kafka import topics
from kaboost.service.kafka.dead_letters import DeadLetters
from kaboost.service.kafka.fetch_watch import Problem
from kaboost.service.kafka.stored_record import StoredRecord
from kaboost.service.learner.inputs import Inputs
from kaboost.service.learner.parts import Parts
from kaboost.service.learner.progress import Progress
from kaboost.service.learner.startup import Startup
from kaboost.service.learner.trainer import Rejected, Trainer
from kaboost.service.storage.snapshots import Condition

HEARTBEAT_SECONDS = 1.0
REGISTRY_SECONDS = 0.5  # between two requests to a schema registry that is away
CONFIRM_SECONDS = 0.05  # one wait for dead letters on their way, before a checkpoint
# A dead letter is logged when its count per code is one of these: the first, then ever fewer.
LOGGED_COUNTS = frozenset({1, *(10**power for power in range(2, 16))})

T = TypeVar("T")

log = logging.getLogger(__name__)


class LearnerLoop:
    """Call consumer, trainer and dead letters in turn."""

    trainer: Trainer

    def __init__(
        self,
        parts: Parts,
        inputs: Inputs,
        letters: DeadLetters,
        stop: threading.Event,
    ) -> None:
        self._settings = parts.settings
        self._metrics = parts.metrics
        self._snapshots = parts.stores.snapshots
        self._inputs = inputs
        self._letters = letters
        self._stop = stop
        self._worker = ThreadPoolExecutor(1, "work")  # for what may take longer than a heartbeat
        self._writing = ""  # the kind of file that is being written
        self._paused = False
        self._held = False  # nothing is read
        self._awaits_registry = ""  # why it gives no schema
        self._is_whole = True  # the state and the dead letters hold all records up to the offsets
        self._progress = Progress(parts.settings, parts.metrics)
        self._last_heartbeat = 0.0
        self._condition: Condition | None = None  # that was published last
        self._rejected: Counter[str] = Counter()  # dead letters of each code, since the start
        self._failing: set[str] = set()  # kinds of files that could not be written last time
        self._after_failure = ""

    def begin(self, startup: Startup) -> bool:
        """Find state and offsets; return false if asked to stop before the topic exists."""
        self._beat_during(startup.prepare)
        kafka = self._settings.kafka
        if not self._inputs.wait(self._heartbeat):
            return False
        if kafka.create_dlq:
            topics.create_dead_letter_topic(kafka)
        self._after_failure = startup.after_failure
        self.trainer = self._beat_during(lambda: startup.open(self._inputs))
        self._inputs.assign(self.trainer.state, self.trainer.marks)
        if self.trainer.unsaved:
            self._save()  # at once: a start from `latest` must not be resolved a second time
        if self.trainer.unpublished:
            self._attempt("snapshot", self._publish)
        self._warm()
        offsets = dict(self.trainer.state.offsets)
        fields = {"offsets": offsets, "events_learned": self.trainer.events_learned}
        log.info(startup.ready_message, extra=fields)
        self._progress.start(self.trainer.events_learned)
        self._progress.note_labels(self.trainer.label_fit)
        return True

    def learn(self) -> None:
        """Read and learn until asked to stop."""
        while self._heartbeat():
            self._letters.poll()
            self._pause_or_resume()
            if self.trainer.checkpoint_due and self._letters.outstanding and not self._paused:
                self._letters.poll(CONFIRM_SECONDS)
                continue
            # While paused, the consumer returns nothing but still serves the broker.
            trainer = self.trainer
            messages = self._inputs.poll(trainer.batch_events, trainer.reached)
            if not self._prepare(messages):
                break
            if ends := self._inputs.check_ends():
                trainer.note_ends(ends)
            self._is_whole = False
            for message, error in self._train(messages):
                self._letters.send(message, error, self.trainer.decoder_class)
            self._is_whole = True
            self._progress.report(self.trainer.state)
            if self.trainer.publish_due:
                self._attempt("snapshot", self._publish)
            if self.trainer.checkpoint_due and not self._letters.outstanding:
                self._attempt("checkpoint", self._save)
            self._inputs.refresh_partitions()

    def finish(self) -> None:
        """Write what was learned, unless that would pass an unconfirmed dead letter."""
        if self._confirm_letters() and self.trainer.unsaved:
            self._save()
        if self.trainer.unpublished:
            self._publish()
        log.info("learner stopped", extra={"events_learned": self.trainer.events_learned})

    def rescue(self, error: type[BaseException] | None, *_: object) -> None:
        """Write what was learned before an error ends the learner, such as a gap in the topic: its
        events may have been deleted.

        Without a new event there is nothing to save: offsets alone, which an error may be about,
        are no progress.
        """
        if error is None or not hasattr(self, "trainer") or not self._is_whole:
            return
        if self.trainer.has_learned and self._confirm_letters():
            self._attempt("checkpoint", self._save)
        if self.trainer.unpublished and self.trainer.events_learned:
            self._attempt("snapshot", self._publish)
        fields = {"events_learned": self.trainer.events_learned}
        log.info("learner ends, what it has learned is written", extra=fields)

    def _confirm_letters(self) -> bool:
        """Wait for the dead letters on their way; return false if that takes too long."""
        confirmed = self._letters.confirm(self._settings.kafka.dlq_timeout)
        if not confirmed:
            fields = {"waiting": self._letters.outstanding}
            log.warning("no last checkpoint: dead letters are not confirmed", extra=fields)
        return confirmed

    def close(self) -> None:
        """Release what the trainer holds open."""
        self._worker.shutdown()
        if hasattr(self, "trainer"):
            self.trainer.close()

    def _prepare(self, messages: list[Message]) -> bool:
        """Wait for what decoding takes; return false if asked to stop meanwhile."""
        prepare = partial(self.trainer.prepare, messages)
        while messages:
            try:
                # A registry that hangs must not look like a learner that does.
                self._beat_during(prepare) if self._awaits_registry else prepare()
            except RegistryAway as err:
                if not self._awaits_registry:
                    log.error("waiting for the schema registry", extra={"reason": str(err)})
                self._awaits_registry = self._awaits_registry or str(err)
                if not self._heartbeat():
                    return False
                self._stop.wait(REGISTRY_SECONDS)
            else:
                break
        if self._awaits_registry:
            self._awaits_registry = ""
            log.info("the schema registry answers again")
        return True

    def _warm(self) -> None:
        """Compile in a thread, with heartbeats and reports meanwhile."""
        with self._progress.compiling(self.trainer.state.model.spec):
            self._beat_during(self.trainer.warm)

    def _beat_during(self, work: Callable[[], T]) -> T:
        """Do some work in a thread and wait for it, with heartbeats and reports meanwhile."""
        result = self._worker.submit(work)
        while not wait([result], HEARTBEAT_SECONDS).done:
            self._progress.report_compiling()
            self._heartbeat()
        return result.result()

    def _write(self, kind: str, write: Callable[[], T]) -> T:
        """Write a file in a thread: a slow disk must not look like a learner that hangs."""
        self._writing = kind
        try:
            return self._beat_during(write)
        finally:
            self._writing = ""

    def _save(self) -> None:
        """Write a checkpoint.

        1. State and next offsets become one durable file.
        2. The group's offsets are committed, for lag tools only.
        """
        self.trainer.note_topics(*self._inputs.identities)
        written = self._write("checkpoint", self.trainer.write_checkpoint)
        self._inputs.commit(self.trainer.state)
        log.debug("checkpoint written", extra={"path": written.name})

    def _publish(self) -> None:
        cold = self.trainer.events_learned == 0
        self._write("snapshot", lambda: self.trainer.publish(cold=cold))

    def _attempt(self, kind: str, write: Callable[[], None]) -> None:
        """Write a file; after a failure the trainer decides when to try again."""
        try:
            write()
        except NotWritten as err:
            if kind not in self._failing:
                self._failing.add(kind)
                log.error(f"{kind} not written, it is tried again", extra={"reason": str(err)})
        else:
            if kind in self._failing:
                self._failing.remove(kind)
                log.info(f"{kind} written again")

    def _train(self, messages: list[Message]) -> list[Rejected]:
        """Let the trainer learn; an exception there is a bug: stop and name the event."""
        try:
            work = messages or (self.trainer.has_due and not self._held)
            rejected = self.trainer.learn(messages) if work else []
        except KaboostError:
            raise  # such as a full disk: the last checkpoint has what was learned before
        except Exception as err:
            where = self._locate(messages) if messages else "features without a label"
            log.exception("internal error", extra={"at": where})
            raise KaboostError(
                f"internal error at {where}: {err!r}; {self._after_failure}, please report the "
                "event"
            ) from err
        self._progress.note(messages, rejected, self.trainer.skipped)
        self._progress.note_labels(self.trainer.label_fit)
        for message, error in rejected:
            self._rejected[error.code] += 1
            count = self._rejected[error.code]
            if count in LOGGED_COUNTS:
                fields = {"code": error.code, "at": _name(message), "reason": error.message}
                which = f"number {count:,}" if count > 1 else "the first"
                log.warning(f"dead letter, {which} of its code", extra=fields)
        return rejected

    def _locate(self, messages: list[Message]) -> str:
        """Name the event that learning fails at; the state is given up, so each is tried again."""
        culprit = self.trainer.find_culprit(messages)
        if culprit is not None:
            return _name(culprit)
        for message in messages:
            self.trainer.rewind(message)
            try:
                self.trainer.learn([message])
            except Exception:
                return _name(message)
        return f"one event from {_name(messages[0])} to {_name(messages[-1])}"

    def _pause_or_resume(self) -> None:
        """Read nothing while dead letters or checkpoints cannot be written: late, but not lost.

        Nor while many bytes of dead letters are on their way, which is no fault and no pause. Both
        end only when all dead letters are confirmed.
        """
        waiting = self._letters.outstanding
        stuck = self._letters.stuck or (self._paused and waiting > 0)
        paused = stuck or "checkpoint" in self._failing
        held = paused or self._letters.full or (self._held and waiting > 0)
        if paused and not self._paused:
            log.error("learning paused", extra={"dead_letters": waiting})
        elif self._paused and not paused:
            log.info("learning goes on")
        if held and not self._held:
            self._inputs.pause()
        elif self._held and not held:
            self._inputs.resume()
        self._paused, self._held = paused, held
        self._metrics.paused.set(paused)

    def _heartbeat(self) -> bool:
        """Show every second that the learner is alive; return false when asked to stop."""
        now = time.monotonic()
        if now - self._last_heartbeat >= HEARTBEAT_SECONDS:
            self._last_heartbeat = now
            self._progress.stalls.note(*self._stall())
            self._attempt("heartbeat", self._snapshots.heartbeat)
            if hasattr(self, "trainer") and self.trainer.find_lost_snapshot():
                self._condition = None  # it is removed as well
            self._attempt("condition", self._publish_condition)
        return not self._stop.is_set()

    def _stall(self) -> Problem:
        """Return why nothing is read now, and for how long where that is known."""
        kafka = self._settings.kafka
        if self._paused:
            failing = "checkpoint" in self._failing
            return Problem(
                "checkpoints cannot be written" if failing else "dead letters are not confirmed"
            )
        if self._writing:
            return Problem(f"a {self._writing} is being written")
        if topic := self._inputs.awaited:
            return Problem(f"no answer from {kafka.bootstrap_servers}, or no topic {topic}")
        if self._awaits_registry:
            return Problem(self._awaits_registry)
        if self._inputs.silent:
            return Problem(f"no answer from the broker at {kafka.bootstrap_servers}")
        return self._inputs.problem

    def _publish_condition(self) -> None:
        """Publish what has changed of the learner's condition."""
        late = self.trainer.late_figures if hasattr(self, "trainer") else None
        condition = self._progress.condition._replace(late_labels=late)
        if condition != self._condition:
            self._snapshots.write_condition(condition)
            self._condition = condition


def _name(message: Message | StoredRecord) -> str:
    return f"{message.topic()}[{message.partition()}]@{message.offset()}"
