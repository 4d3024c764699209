"""How a learner gets its first state: from the newest checkpoint, or from a new model."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from kaboost.models.types import ModelError
from kaboost.service.config.models import describe_models, make_model
from kaboost.service.errors import ConfigError, NotWritten, Refused
from kaboost.service.kafka.consumer import KafkaConsumer
from kaboost.service.kafka.identity import Identity
from kaboost.service.learner.candidates import promoted, start_candidates, with_new_candidates
from kaboost.service.learner.inputs import Inputs
from kaboost.service.learner.late_trainer import LateTrainer
from kaboost.service.learner.lineage import Lineage
from kaboost.service.learner.parts import Parts
from kaboost.service.learner.rollback import Positions, marks_of, rolled_back
from kaboost.service.learner.trainer import Trainer
from kaboost.service.storage.candidate_state import CANDIDATES, MODEL
from kaboost.service.storage.changes import ALIASES
from kaboost.service.storage.checkpoints import Checkpoint
from kaboost.service.storage.snapshots import Numbering
from kaboost.service.storage.state import LateState, State


class Startup(Protocol):
    """Prepare a trainer in two steps: without the broker, then with the topic."""

    ready_message: str  # logged when the trainer may learn
    after_failure: str  # what stays usable after an internal error

    def prepare(self) -> None:
        """Read what is stored, and refuse what can be refused without the broker."""

    def open(self, inputs: Inputs) -> Trainer:
        """Return the trainer, in the state that the topics continue."""

    def reopen(self, inputs: Inputs) -> Trainer | None:
        """Return a trainer in the state that was stored last, None where none is stored."""

    def roll_back(self, number: int, positions: Positions, now: Trainer, inputs: Inputs) -> Trainer:
        """Return a trainer in the state of a checkpoint, or refuse; `now` stays as it is."""

    def promote(self, name: str, now: Trainer, inputs: Inputs) -> Trainer:
        """Return a trainer with a candidate of `now` as its model, or refuse."""


StartupFactory = Callable[[Parts, bool], Startup]  # called with whether this is a cold start


class RestoreFromCheckpoint:
    """Restore the newest checkpoint; without any, start with the configured model."""

    ready_message = "learner ready"
    after_failure = "the checkpoint before it is untouched"

    def __init__(self, parts: Parts, cold_start: bool) -> None:
        self._parts = parts
        self._cold_start = cold_start
        self._checkpoint: Checkpoint | None = None
        self._expected: dict[str, Any] = {}  # of the header of a checkpoint

    def prepare(self) -> None:
        """Start the run of a cold start, or restore the newest checkpoint."""
        settings, store = self._parts.settings, self._parts.stores.checkpoints
        with _configuring():  # described only: the restored models are built once
            candidates = describe_models(settings)
        model = candidates.pop(MODEL)
        if self._cold_start:
            with require_cold_start(self._cold_start):
                store.start_run()
        aliases = settings.features.aliases
        self._expected = {MODEL: model, "topic": settings.kafka.topic, ALIASES: aliases}
        self._expected[CANDIDATES] = candidates
        self._checkpoint, fallbacks = store.restore(self._expected)
        self._parts.metrics.restore_fallbacks.inc(fallbacks)

    def open(self, inputs: Inputs) -> Trainer:
        """Return a trainer of the restored state, or of a new model."""
        consumer, partitions = inputs.events, inputs.partitions
        if self._checkpoint is None:
            consumer.check_identity(Identity())
            self._refuse_lost_state(consumer, partitions)
            state = self._new_state(consumer, partitions)
            return self._trainer(state, inputs, restored=False)
        state = self._checkpoint.state
        consumer.gaps.check_partitions(state.offsets, partitions)
        header = self._checkpoint.header
        consumer.check_identity(Identity(header.get("topic_id"), header.get("cluster_id")))
        # A model that learned the rows of a file has no offsets yet: docs/laboratory.md.
        offsets = dict.fromkeys(partitions, 0) | state.offsets
        offsets = offsets if state.offsets else consumer.start_offsets(partitions)
        # Without a checkpoint that has them, another start would look for the end once more.
        known = bool(state.offsets)
        return self._trainer(state._replace(offsets=offsets), inputs, restored=known)

    def reopen(self, inputs: Inputs) -> Trainer | None:
        """Return a trainer in the state of the newest checkpoint."""
        self._cold_start = False  # it has happened
        self.prepare()
        if self._checkpoint is None:
            return None
        state = self._checkpoint.state
        offsets = dict.fromkeys(inputs.partitions, 0) | state.offsets
        if state.late is not None:
            known = dict.fromkeys(inputs.label_partitions, 0) | state.late.offsets
            state = state._replace(late=state.late._replace(offsets=known))
        state = state._replace(offsets=offsets)
        lineage = self._lineage(inputs.events.identity, state)
        if state.late is not None:
            return LateTrainer(self._parts, state, restored=True, lineage=lineage)
        return self._with_candidates(state, lineage, restored=True)

    def roll_back(self, number: int, positions: Positions, now: Trainer, inputs: Inputs) -> Trainer:
        """Return a trainer in the state of a checkpoint of this run."""
        if inputs.labels is not None:
            raise Refused(
                "with labels.topic a rollback is not possible: the features that wait were encoded "
                "by the model of now; restore checkpoints and labels.directory from a backup"
            )
        checkpoint = self._parts.stores.checkpoints.load(number, self._expected)
        known = dict.fromkeys(inputs.partitions, 0) | now.state.offsets
        state, marks = rolled_back(checkpoint, positions, now.state._replace(offsets=known), now)
        names = checkpoint.header.get("new_names", {})
        lineage = Lineage(
            inputs.events.identity,
            marks,
            now.numbering,
            names,
            annotations=now.annotations.before(state.events_learned),
        )
        # As if nothing were stored: what it goes on with is written in any case.
        return self._with_candidates(state, lineage, restored=False)

    def promote(self, name: str, now: Trainer, inputs: Inputs) -> Trainer:
        """Return a trainer with a candidate of `now` as its model."""
        before = now.candidates.stored(now.state)
        state, winner = promoted(self._parts.settings, before, name)
        state = state._replace(candidates=(
            state.candidates[0]._replace(new_names=now.new_names), *state.candidates[1:]
        ))  # fmt: skip
        annotations = now.annotations.moved(state.events_learned - now.events_learned)
        lineage = Lineage(
            inputs.events.identity,
            now.marks[0],
            now.numbering,
            winner.new_names,
            annotations=annotations,
        )
        return self._with_candidates(state, lineage, restored=False)

    def _with_candidates(self, state: State, lineage: Lineage, *, restored: bool) -> Trainer:
        """Make the trainer of labels in the events, with its candidates; new ones are cold."""
        with _configuring():
            state, new = with_new_candidates(self._parts.settings, state)
        if restored:
            notes = [f"candidates.{name} is new, and cold" for name in new]
            lineage = lineage._replace(changes=(*lineage.changes, *notes))
        trainer = Trainer(self._parts, state, restored=restored, lineage=lineage)
        return start_candidates(self._parts, trainer)

    def _trainer(self, state: State, inputs: Inputs, *, restored: bool) -> Trainer:
        """Make the trainer; that of late labels where they have a topic."""
        lineage = self._lineage(inputs.events.identity, state)
        if inputs.labels is None:
            return self._with_candidates(state, lineage, restored=restored)
        state = state._replace(late=self._late_state(state.late, inputs.labels, inputs))
        return LateTrainer(self._parts, state, restored=restored, lineage=lineage)

    def _lineage(self, identity: Identity, state: State) -> Lineage:
        """Return what the checkpoint has besides the state; versions go on after a cold start."""
        header = self._checkpoint.header if self._checkpoint else {}
        marks = {p: mark for p, mark in marks_of(header).items() if p in state.offsets}
        numbered = header or self._parts.stores.checkpoints.newest_header()
        numbering = Numbering(numbered.get("epoch", 0), numbered.get("version", 0))
        changes = self._checkpoint.changes if self._checkpoint else ()
        names, annotations = header.get("new_names", {}), header.get("annotations", ())
        return Lineage(identity, marks, numbering, names, changes, annotations)

    def _late_state(
        self, restored: LateState | None, consumer: KafkaConsumer, inputs: Inputs
    ) -> LateState:
        """Return where the topic of labels continues, or begins; refuse another topic."""
        topic, partitions = str(self._parts.settings.labels.topic), inputs.label_partitions
        if restored is None:
            consumer.check_identity(Identity())
            late = LateState(consumer.start_offsets(partitions))
        else:
            if restored.topic != topic:
                raise Refused(
                    f"the state has read labels from {restored.topic}, labels.topic is {topic}: "
                    "restore the setting, or begin a new model with --cold-start"
                )
            consumer.gaps.check_partitions(restored.offsets, partitions)
            cluster = self._checkpoint.header.get("cluster_id") if self._checkpoint else None
            consumer.check_identity(Identity(restored.topic_id, cluster))
            offsets = dict.fromkeys(partitions, 0) | restored.offsets
            known = {p: mark for p, mark in restored.last_records.items() if p in offsets}
            late = restored._replace(offsets=offsets, last_records=known)
        return late._replace(topic=topic, topic_id=consumer.identity.topic_id)

    def _new_state(self, consumer: KafkaConsumer, partitions: list[int]) -> State:
        settings = self._parts.settings
        with _configuring():
            model = make_model(settings)
        return State.initial(model, consumer.start_offsets(partitions))

    def _refuse_lost_state(self, consumer: KafkaConsumer, partitions: list[int]) -> None:
        settings = self._parts.settings
        new_run = self._parts.stores.checkpoints.is_new_run()
        if not new_run and consumer.is_committed(partitions):
            raise Refused(
                f"group {settings.kafka.group_id} has committed offsets, but "
                f"{settings.checkpoints.directory} has no checkpoint: bring it back, begin a new "
                "model with --cold-start, or set another kafka.group_id for a second model"
            )


@contextmanager
def require_cold_start(cold_start: bool) -> Iterator[None]:
    """Refuse a cold start that cannot be recorded: the next attempt would not know of it."""
    try:
        yield
    except NotWritten as err:
        if cold_start:
            raise Refused(f"--cold-start could not begin, request it again: {err}") from err
        raise


@contextmanager
def _configuring() -> Iterator[None]:
    """Report a model that cannot be built as an error of the configuration."""
    try:
        yield
    except ModelError as err:
        raise ConfigError(str(err)) from err
