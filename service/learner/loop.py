"""The learner's loop: records pass from the consumer to the trainer, faults to the dead letters."""

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from functools import partial
from pathlib import Path
from typing import NoReturn, TypeVar

from confluent_kafka import Message

from kaboost.service.errors import KaboostError, NotWritten, Refused, RegistryAway
from kaboost.service.kafka import topics
from kaboost.service.kafka.dead_letters import UNCONFIRMED, DeadLetters
from kaboost.service.kafka.fetch_watch import Problem
from kaboost.service.learner.guard import LossGuard, make_guard
from kaboost.service.learner.inputs import Inputs
from kaboost.service.learner.isolation import Isolation
from kaboost.service.learner.live import LiveReport
from kaboost.service.learner.parts import Parts
from kaboost.service.learner.progress import Progress
from kaboost.service.learner.records import place_of
from kaboost.service.learner.replacement import Make, Replacement
from kaboost.service.learner.rollback import describe
from kaboost.service.learner.startup import Startup
from kaboost.service.learner.steering import Action, Details, Steering
from kaboost.service.learner.trainer import Rejected, Trainer
from kaboost.service.storage import commands
from kaboost.service.storage.checkpoints import Written
from kaboost.service.storage.commands import Command
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
        self._checkpoints = parts.stores.checkpoints
        self._inputs = inputs
        self._letters = letters
        self._stop = stop
        self._worker = ThreadPoolExecutor(1, "work")  # for what may take longer than a heartbeat
        self._writing = self._awaits_registry = ""  # a kind of file; why there is no schema
        self._paused = self._held = False  # held: nothing is read
        self._is_whole = True  # the state and the dead letters hold all records up to the offsets
        self._progress = Progress(parts.settings, parts.metrics)
        self._live = LiveReport(parts.settings, parts.metrics)
        self._last_heartbeat = 0.0
        self._condition: Condition | None = None  # that was published last
        self._rejected: Counter[str] = Counter()  # dead letters of each code, since the start
        self._failing: set[str] = set()  # kinds of files that could not be written last time
        self._isolation = Isolation()
        self.startup: Startup
        self._guard: LossGuard | None = None
        self.gaps_accepted = 0
        self._replacement = Replacement(self)
        actions: dict[str, Action] = {commands.CHECKPOINT: self._save_now}
        actions |= self._replacement.actions
        self._steering = Steering(parts.settings.checkpoints.folder, actions)

    def begin(self, startup: Startup) -> bool:
        """Find state and offsets; return false if asked to stop before the topic exists."""
        self.startup = startup
        self._steering.begin()
        self._beat_during(startup.prepare)
        if not self._inputs.wait(self._heartbeat):
            return False
        if self._settings.kafka.create_dlq:
            topics.create_dead_letter_topic(self._settings.kafka)
        self.trainer = self._beat_during(lambda: startup.open(self._inputs))
        self._begin_guard()
        self._assign(self.trainer)
        for change in self.trainer.changes:
            log.warning("the model takes a change over", extra={"change": change})
            self._steering.note("change", "configuration", change, {})
        if self.trainer.unsaved or self.gaps_accepted:
            self._save()  # at once: a start from `latest` must not be resolved a second time
        if self.trainer.unpublished:
            self._attempt("snapshot", self._publish)
        self._warm()
        learned = self.trainer.events_learned
        self.trainer.annotations.add_restart(learned)
        fields = {"offsets": dict(self.trainer.state.offsets), "events_learned": learned}
        log.info(startup.ready_message, extra=fields)
        self._progress.start(learned)
        self._progress.note_labels(self.trainer.label_fit)
        return True

    def learn(self) -> None:
        """Read and learn until asked to stop."""
        while self._heartbeat():
            self._letters.poll()
            # Before more is read: its dead letters would put the checkpoint off again, for ever.
            if self.trainer.checkpoint_due and not self._letters.outstanding:
                self._attempt("checkpoint", self._save)
            self._steering.poll()
            self._pause_or_resume()
            if self.trainer.checkpoint_due and self._letters.outstanding and not self._paused:
                self._letters.poll(CONFIRM_SECONDS)
                continue
            # While paused, the consumer returns nothing but still serves the broker.
            trainer = self.trainer
            messages = self._inputs.poll(self._batch_limit(), trainer.reached)
            if not self._prepare(messages):
                break
            if ends := self._inputs.check_ends():
                trainer.note_ends(ends)
            self._is_whole = False
            for message, error in self._train(messages):
                self._letters.send(message, error, self.trainer.decoder_class)
            self._is_whole = True
            if self._settings.promotion.automatic and not self._isolation.active:
                self._replacement.promote_winner(self._steering)
            self._progress.report(self.trainer.state)
            self._attempt("live figures", partial(self._live.publish, self.trainer, self._progress))
            if self._guard_says_change() or self.trainer.publish_due:
                self._attempt("snapshot", self._publish)
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

    def _begin_guard(self) -> None:
        """Watch the losses, if the settings say so; an earlier learner may have fallen back."""
        self._guard = make_guard(self._settings, self._snapshots, self._checkpoints.run)
        falls = self._guard is not None and self._guard.fallback is not None
        self._metrics.serving_fallback.set(falls)

    def _guard_says_change(self) -> bool:
        """Return whether the guard has fallen back or recovered: that is published at once."""
        guard, trainer = self._guard, self.trainer
        if guard is None or not guard.observe(trainer.state.validation, trainer.events_learned):
            return False
        falls = guard.fallback is not None
        self._metrics.serving_fallback.set(falls)
        fields = {"reason": guard.reason, "events_learned": trainer.events_learned}
        if falls:
            log.error("answers fall back to the last good model", extra=fields)
        else:
            log.warning("answers are of the current model again", extra=fields)
        trainer.annotations.add_fallback(falls, trainer.events_learned, guard.reason)
        self._steering.note("fall back" if falls else "recover", "guard", guard.reason, {})
        return True

    def _assign(self, trainer: Trainer) -> None:
        """Read on from the offsets of a trainer; gaps are refused, or accepted and recorded."""
        for gap in self._inputs.assign(trainer.state, trainer.marks):
            self.gaps_accepted += 1
            self._metrics.gaps_accepted.labels(gap.kind).inc()
            self._metrics.records_lost.inc(gap.records_lost)
            details = {**gap._asdict(), "records_lost": gap.records_lost}
            log.warning("gap accepted, the model is kept", extra=details)
            self._steering.note("accept gap", "kafka.on_gap: accept", gap.reason, details)

    def _save_now(self, _: Command) -> Details:
        """Write a checkpoint because somebody asks for one."""
        self._require_letters()
        written = self._save()
        message = f"{Path(written.name).name} is written"
        return {"message": message, "path": written.name, **describe(self.trainer)}

    def replace(self, make: Make, kind: str, text: str) -> tuple[int, str]:
        """Go on with another trainer. Return the number of the checkpoint of the one before, and
        what is missing of the new one's.

        1. The state before is written as a checkpoint, which is kept: a replacement can be undone.
        2. The consumer reads from the positions of the new trainer.
        3. The model is published as the next version, then written as the newest checkpoint. If it
           cannot be published, nothing changes.
        """
        self._require_letters()
        before = self.trainer
        trainer = self._beat_during(lambda: make(before, self._inputs))
        self._save()
        kept = self._checkpoints.keep_newest()
        self._assign(trainer)
        try:
            self._write("snapshot", lambda: trainer.publish(cold=not trainer.events_learned))
        except NotWritten:
            self._assign(before)
            before.show()  # the new one had set the metrics
            before.candidates.show()
            raise
        self.trainer = trainer
        if self._guard is not None:
            self._guard.reset()
            self._metrics.serving_fallback.set(0)
        self._progress.start(trainer.events_learned)
        trainer.annotations.add(kind, trainer.events_learned, text)
        self._attempt("checkpoint", self._save)
        return kept, "; its own checkpoint is not written yet" * ("checkpoint" in self._failing)

    def _require_letters(self) -> None:
        """Refuse a checkpoint that would pass an unconfirmed dead letter."""
        if not self._confirm_letters():
            raise Refused(UNCONFIRMED)

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

    def _save(self) -> Written:
        """Write a checkpoint.

        1. State and next offsets become one durable file.
        2. The group's offsets are committed, for lag tools only.
        """
        self.trainer.note_topics(*self._inputs.identities)
        written = self._write("checkpoint", self.trainer.write_checkpoint)
        self._inputs.commit(self.trainer.state)
        log.debug("checkpoint written", extra={"path": written.name})
        return written

    def _publish(self) -> None:
        trainer, guard = self.trainer, self._guard
        cold, instead = trainer.events_learned == 0, guard.fallback if guard else None
        version = self._write("snapshot", lambda: trainer.publish(cold=cold, instead=instead))
        if guard is not None:
            guard.published(version, trainer.events_learned)

    def _attempt(self, kind: str, write: Callable[[], object]) -> None:
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
        """Let the trainer learn; an exception there is a bug, whose event is set aside."""
        rejected: list[Rejected] = []
        skipped: list[Message] = []
        work = messages or (self.trainer.has_due and not self._held)
        handled = self._isolation.handled(messages)
        for part, culprit in self._isolation.parts(messages) if work else ():
            before = self.trainer.events_kept
            self.trainer.is_isolating = self._isolation.active
            try:
                rejected += self.trainer.learn(part)
            except KaboostError:
                raise  # such as a full disk: the last checkpoint has what was learned before
            except Exception as err:
                self._isolate([] if self.trainer.is_expiring else part, err)
                break  # the rest is read again; what was rejected before it is not
            skipped += self.trainer.skipped
            self._isolation.note_success(part, self.trainer.events_kept - before)
            if culprit is not None:
                error = self._isolation.error_of(culprit)
                if self.trainer.pass_over(culprit, error, again=id(culprit) in handled):
                    rejected.append((culprit, error))
                self._isolation.note_success([culprit], 0)
        else:
            if self._isolation.active:
                self._isolation.end(self.trainer.next_offsets)
        rejected = [each for each in rejected if id(each[0]) not in handled]
        if not self._isolation.active:  # else some were noted before, and some are not learned
            self._progress.note(messages, rejected, skipped)
        self._progress.note_labels(self.trainer.label_fit)
        self._log_rejected(rejected)
        self._live.note_rejected(rejected)
        return rejected

    def _log_rejected(self, rejected: list[Rejected]) -> None:
        """Log the first dead letter of each code, and then ever fewer."""
        for message, error in rejected:
            self._rejected[error.code] += 1
            count = self._rejected[error.code]
            if count in LOGGED_COUNTS:
                fields = {"code": error.code, "at": place_of(message), "reason": error.message}
                which = f"number {count:,}" if count > 1 else "the first"
                log.warning(f"dead letter, {which} of its code", extra=fields)

    def _isolate(self, messages: Sequence[Message], error: Exception) -> None:
        """Restore the last checkpoint after an exception, to learn again in smaller batches.

        The state has half a batch in it. Stop where that cannot help: without records, without a
        checkpoint, or where several events in a row make learning fail.
        """
        if not messages:
            self._stop_at("features without a label", error)
        offsets = self.trainer.next_offsets
        self.trainer.close()  # what it has open, the next one opens
        restored = self._beat_during(lambda: self.startup.reopen(self._inputs))
        if restored is None:
            self._stop_at(self._locate(messages), error)
        self.trainer = restored
        self._inputs.reassign(restored.state, restored.marks)
        self._isolation.note_failure(messages, offsets, error, partial(self._conceal, messages))
        self._is_whole = True
        if self._isolation.must_stop:
            places = ", ".join(map(str, self._isolation.in_a_row))
            self._stop_at(f"{places}, one after the other", error)

    def _conceal(self, messages: Sequence[Message], text: str) -> str:
        return self.trainer.privacy.text(text, lambda: self.trainer.plain(messages[0]))

    def _stop_at(self, where: str, error: Exception) -> NoReturn:
        """Stop and name the event."""
        log.error("internal error", extra={"at": where}, exc_info=error)
        detail = type(error).__name__ if self._settings.privacy.fields else repr(error)
        raise KaboostError(
            f"internal error at {where}: {detail}; {self.startup.after_failure}, please report "
            "the event"
        ) from error

    def _batch_limit(self) -> int:
        """Return how many records to read; where learning has failed, few, and after a checkpoint,
        so that each further try begins there.
        """
        usual, isolation = self.trainer.batch_events, self._isolation
        if not isolation.active:
            return usual
        offsets = self.trainer.next_offsets
        is_first = isolation.is_before_suspects(offsets)
        if is_first and self.trainer.has_learned and self._confirm_letters():
            self._attempt("checkpoint", self._save)
        return isolation.batch_limit(offsets, usual)

    def _locate(self, messages: Sequence[Message]) -> str:
        """Name the event that learning fails at; the state is given up, so each is tried again."""
        culprit = self.trainer.find_culprit(messages)
        if culprit is not None:
            return place_of(culprit)
        for message in messages:
            self.trainer.rewind(message)
            try:
                self.trainer.learn([message])
            except Exception:
                return place_of(message)
        return f"one event from {place_of(messages[0])} to {place_of(messages[-1])}"

    def _pause_or_resume(self) -> None:
        """Read nothing while learning is paused by command, or dead letters or checkpoints cannot
        be written: late, but not lost.

        Nor while many bytes of dead letters are on their way, which is no fault and no pause. Both
        end only when all dead letters are confirmed.
        """
        waiting = self._letters.outstanding
        stuck = self._letters.stuck or (self._paused and waiting > 0)
        paused = stuck or "checkpoint" in self._failing
        by_command = self._steering.paused
        held = by_command or paused or self._letters.full or (self._held and waiting > 0)
        if paused and not self._paused:
            log.error("learning paused", extra={"dead_letters": waiting})
        elif self._paused and not paused:
            log.info("learning goes on")
        if held and not self._held:
            self._inputs.pause()
        elif self._held and not held:
            self._inputs.resume()
        self._paused, self._held = paused, held
        self._metrics.paused.set(paused or by_command)

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
        condition = self._progress.condition._replace(
            late_labels=self.trainer.late_figures if hasattr(self, "trainer") else None,
            paused=self._steering.description,
            fallback=self._guard.reason if self._guard else "",
            leader=self._checkpoints.leader,
            leader_epoch=self._checkpoints.leader_epoch,
        )
        if condition != self._condition:
            self._snapshots.write_condition(condition)
            self._condition = condition
