"""The trainer: one state, moved by batches of records, published and checkpointed."""

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import islice
from operator import methodcaller
from pathlib import Path
from typing import Any

from confluent_kafka import Message

from kaboost.models.evaluation.baselines import with_classes
from kaboost.models.evaluation.history import new_history
from kaboost.models.features.labels import Label, Labels
from kaboost.service.errors import EventError, NotWritten
from kaboost.service.events.decoder import DUPLICATE, Decoded, Decoder, Faults
from kaboost.service.events.new_names import NAMES_REMEDY, TRIAL_REMEDY, Known, NewNames, hours
from kaboost.service.events.privacy import make_privacy
from kaboost.service.kafka.ends import Ends
from kaboost.service.kafka.identity import Identity, RecordMark
from kaboost.service.kafka.stored_record import StoredRecord
from kaboost.service.learner.annotations import CHECKPOINT, Annotations
from kaboost.service.learner.candidate_set import CandidateSet
from kaboost.service.learner.feature_log import log_corrected, log_identifiers
from kaboost.service.learner.guard import Fallback
from kaboost.service.learner.history import first_time, record_decoded
from kaboost.service.learner.lineage import Lineage
from kaboost.service.learner.new_features import NewFeatures
from kaboost.service.learner.numbering import resume
from kaboost.service.learner.parts import Parts
from kaboost.service.learner.recent import RecentEvents
from kaboost.service.learner.recorder import Recorder
from kaboost.service.learner.records import events_of, headers_of, unread_of
from kaboost.service.learner.replays import Replays
from kaboost.service.learner.schedule import WriteSchedule, now_text
from kaboost.service.storage.candidate_state import is_of
from kaboost.service.storage.checkpoints import Written
from kaboost.service.storage.late_figures import LabelFit, LateFigures
from kaboost.service.storage.replayed import ReplayedOrigins
from kaboost.service.storage.snapshots import Numbering
from kaboost.service.storage.state import State

log = logging.getLogger(__name__)

Rejected = tuple[Message | StoredRecord, EventError]
Marks = dict[int, RecordMark]  # by partition, of the last record that was read


_VALUE = methodcaller("value")  # called for every record


class Trainer:
    """Own one state and write its files; one thread calls."""

    _snapshot_lost = False  # it is not in the folder any more
    _kept = 0  # events that wait for their label, since the start
    is_isolating = False  # whether an event that learning failed at is looked for
    is_expiring = False  # whether learning has failed at one of them
    _names_logged = -1  # hour
    log_fields: Mapping[str, Any] = {}  # in the lines about the model, where there are several
    _ignored = 0  # values of unknown features in the batch that is being read

    def __init__(
        self,
        parts: Parts,
        state: State,
        *,
        restored: bool,
        lineage: Lineage = Lineage(),  # noqa: B008 # immutable
    ) -> None:
        settings = parts.settings
        self.marks: tuple[Marks, Marks] = (dict(lineage.marks), {})  # of events, of labels
        window = settings.events.duplicates.window
        replayed = state.replayed or ReplayedOrigins()
        influence = state.influence.limited_to(settings.events.max_influence_per_key)
        self.state = state._replace(
            ids=state.ids.resized(window), replayed=replayed, influence=influence,
            history=state.history or new_history(),
        )  # fmt: skip
        self.annotations = Annotations(lineage.annotations, state.model.booster, parts.metrics)
        self.recent = RecentEvents()
        self.candidates = CandidateSet(state.champion)  # startup adds those that learn
        self._replays = Replays(replayed, {settings.kafka.topic, settings.labels.topic})
        self._is_new = self.state.ids.is_new if window else None
        self.skipped: list[Message] = []  # of the last batch: they teach nothing, and are no faults
        self.batch_events = settings.kafka.batch_events  # records in one call of `learn` at most
        self._settings = settings
        self._identity = lineage.identity
        self._numbering = lineage.numbering  # of the last version
        self._recorder = Recorder(parts.metrics)
        self._stores = parts.stores
        self._decoder = parts.make_decoder(state.model, settings)
        self.privacy = make_privacy(settings)
        limits = settings.features.max_new_per_event, settings.new_names_per_hour
        self._names = NewNames(*limits, lineage.new_names)
        self._new_features, self._may_evict = NewFeatures(), True
        self._decoder.limit_names(self._names)
        self._kinds_logged = state.model.encoder.kinds
        self._run, self.changes = parts.stores.checkpoints.run, lineage.changes
        self._leader_epoch = parts.stores.checkpoints.leader_epoch
        self._has_checkpoint = restored and not self.changes and not self._leads
        self._published = -1  # events learned by the newest snapshot of this run
        self._snapshots, self._checkpoints = (
            WriteSchedule(s.every_events, s.every_seconds)
            for s in (settings.snapshots, settings.checkpoints)
        )
        self._learning: tuple[Sequence[Message], Decoded] | None = None  # records being learned
        self._oldest: float | None = None  # time of the first learned event that no snapshot holds
        self.show()
        self._resume()

    def show(self) -> None:
        """Set the metrics of the model to those of this one."""
        self._recorder.start(self._settings.name, self._kinds(), self.state, self._names)

    @property
    def events_learned(self) -> int:
        """How many events the model has learned, over all restarts."""
        return self.state.events_learned

    @property
    def events_kept(self) -> int:
        """How many events were learned, or have begun to wait for their label."""
        return self.events_learned + self._kept

    @property
    def new_names(self) -> Mapping[str, Any]:
        """How many new names of features came, and those on trial."""
        return self._names.state()

    @property
    def numbering(self) -> Numbering:
        """That of the last snapshot."""
        return self._numbering

    @property
    def _leads(self) -> bool:
        """Whether it was elected: it writes a checkpoint at once, from which versions go on."""
        return bool(self._stores.checkpoints.leader)

    @property
    def unpublished(self) -> bool:
        """Whether no snapshot of this run has learned as much; one may have, after a restore.

        A leader's versions go on above those of its first checkpoint: without it none is published.
        """
        may_publish = self._has_checkpoint or not self._leads
        return may_publish and self.events_learned > self._published

    @property
    def publish_due(self) -> bool:
        """Whether a snapshot should be published now."""
        return (self.unpublished or self._snapshot_lost) and self._snapshots.due

    def find_lost_snapshot(self) -> bool:
        """Notice that the newest snapshot was removed: it is published again, as a new version."""
        store, before = self._stores.snapshots, self._snapshot_lost
        self._snapshot_lost = store.last_version() < self._numbering.version
        if self._snapshot_lost and not before:
            self._snapshots.retry()
            fields = {"folder": store.location, "version": self._numbering.version}
            log.warning("the newest snapshot was removed, it is published again", extra=fields)
        return self._snapshot_lost

    @property
    def unsaved(self) -> bool:
        """Whether no checkpoint holds the current offsets."""
        return self.has_learned or not self._has_checkpoint

    @property
    def has_learned(self) -> bool:
        """Whether records were read that no checkpoint holds."""
        return self._checkpoints.events > 0

    @property
    def checkpoint_due(self) -> bool:
        """Whether a checkpoint should be written now."""
        return self._checkpoints.due

    @property
    def decoder_class(self) -> type[Decoder]:
        """The class that decodes the records, for the headers of dead letters."""
        return type(self._decoder)

    def reached(self, topic: int, partition: int) -> float:
        """Return the latest event time of a partition of the events (0) or of the labels (1)."""
        return 0.0

    @property
    def has_due(self) -> bool:
        """Whether there may be something to do without a new record."""
        return False

    @property
    def late_figures(self) -> LateFigures | None:
        """What became of labels that come later; None where labels are in the events."""
        return None

    @property
    def label_fit(self) -> LabelFit | None:
        """Whether labels that come later fit; None where labels are in the events."""
        return None

    def note_ends(self, ends: Ends) -> None:
        """Note which partitions are read to their ends."""

    def note_topics(self, events: Identity, labels: Identity) -> None:
        """Note the ids of the topics, for the next checkpoint."""
        self._identity = events

    def close(self) -> None:
        """Release what the trainer holds open."""

    def prepare(self, messages: Sequence[Message]) -> None:
        """Fetch what decoding some records takes; raise RegistryAway if it is not there now."""
        self._decoder.prepare(list(map(_VALUE, messages)))
        self.candidates.prepare(messages)

    def warm(self) -> None:
        """Compile the kernels before the first event waits for them."""
        self._learn(self._decoder.decode([]))
        self.state.model.warm_growth()
        self.candidates.warm()

    def learn(self, messages: Sequence[Message]) -> list[Rejected]:
        """Learn the events among some records in their order; return the others.

        The offsets pass all of them: no checkpoint may be written before the rejected ones are in
        the dead-letter topic.
        """
        before, self._ignored, self.skipped = self.events_learned, 0, []
        rejected: list[Rejected] = []
        added: dict[str, str] = {}
        unread = unread_of(messages, self.state.offsets, self.marks[0])
        for part in self._replays.parts(unread):
            rejected += self._learn_part(part, added)
        self._end_replays(rejected)
        self._note_inferred(added)
        self._snapshots.events += len(messages)
        self._checkpoints.events += len(messages)
        self._note_names_on_trial()
        errors = [error for _, error in rejected]
        self.annotations.follow(self.state.model.booster)
        self._recorder.batch(len(messages), self.events_learned - before, self._ignored, errors)
        self._recorder.validation(self.state)
        return rejected

    def _learn_part(self, unread: Sequence[Message], added: dict[str, str]) -> list[Rejected]:
        """Learn unread records, in pieces that end at new features and classes."""
        rejected: list[Rejected] = []
        while unread:
            decoded = self._decode(unread)
            rejected += [(unread[index], error) for index, error in decoded.faults]
            self._ignored += decoded.ignored
            self._note_skipped(unread, decoded.skipped)
            self._recorder.repairs(decoded.repairs)
            if decoded.meta:
                decoded = self._limit_influence(unread, decoded)
                self._learning = unread, decoded
                self._learn(decoded)
                self._track_oldest(unread, decoded)
                self._learning = None  # else it would live on beside the next batch
            self._note_replayed(unread, decoded.consumed, decoded.faults)
            self._follow_kinds()
            if decoded.new_features:
                added |= self._add_features(decoded.new_features, unread[decoded.consumed])
            if decoded.new_class is not None:
                self._add_class(decoded.new_class)
            unread = unread[decoded.consumed :]
        return rejected

    def publish(self, *, cold: bool = False, instead: Fallback | None = None) -> int:
        """Publish a snapshot of the current state, or of the model that is served instead; `cold`
        marks a model without any event.
        """
        header, above = {**self._header(), "cold_start": cold}, self._numbering.version
        header, state = header | self.candidates.header(), self.state
        if instead is not None:
            header, state = header | instead.header(), instead.state(state)
        try:
            with self._recorder.publishing():
                version = self._stores.snapshots.publish(header, state, above)
        except NotWritten:
            self._snapshots.retry()
            raise
        self._note_published(version)
        return version

    def write_checkpoint(self) -> Written:
        """Write state and offsets as one file; only when every dead letter is confirmed."""
        with self._writing_checkpoint():
            whole = self.candidates.stored(self.state)
            written = self._stores.checkpoints.write(self._header(), whole)
        self._note_checkpoint(written)
        return written

    @property
    def next_offsets(self) -> dict[tuple[str, int], int]:
        """The next offset of every partition that is read, by topic and partition."""
        topic = self._settings.kafka.topic
        return {(topic, partition): offset for partition, offset in self.state.offsets.items()}

    def pass_over(self, message: Message, error: EventError, *, again: bool) -> bool:
        """Move past a record that learning fails at; return false where it was passed. `again` is
        one that was counted before the state was restored.
        """
        if not self._move_past(message):
            return False
        self._snapshots.events += 1
        self._checkpoints.events += 1
        self._replays.forget([(message, error)])
        if not again:
            self._recorder.batch(1, 0, 0, [error])
        return True

    def plain(self, message: Message) -> object:
        """Return a record as plain values, or raise an EventError."""
        return self._decoder.plain(message.value(), headers_of([message], 0))

    def _move_past(self, message: Message) -> bool:
        return bool(unread_of([message], self.state.offsets, self.marks[0]))

    def rewind(self, message: Message) -> None:
        """Go back to a record to find where learning fails; the state is given up."""
        self.state.offsets[message.partition() or 0] = message.offset() or 0
        self._is_new = None  # the ids of the batch are known by now

    def find_culprit(self, messages: Sequence[Message]) -> Message | None:
        """Return the record that learning failed at, where that is known without another try."""
        return None

    def _limit_influence(self, messages: Sequence[Message], decoded: Decoded) -> Decoded:
        """Return events whose keys have no more than their share of the weight."""
        influence = self.state.influence
        if influence.limit is None:
            return decoded
        events = islice(events_of(messages, decoded), len(decoded.meta))
        w = influence.weigh([message.key() for message in events], decoded.w)
        self._recorder.limited(int((w < decoded.w).sum()))
        return decoded._replace(w=w)

    def _learn(self, decoded: Decoded) -> None:
        learned, begin = self.events_learned, time.perf_counter()
        outcome = self.state.model.learn(decoded.table, decoded.y, decoded.w)
        records = self._learning[0] if self._learning else ()
        record_decoded(self.state, learned, outcome, decoded, records)
        self.recent.note(self.state.model, decoded, outcome)
        if decoded.meta:
            self._recorder.learning(len(decoded.meta), time.perf_counter() - begin)
        self.candidates.learn(records, decoded, outcome, learned)

    def _note_replayed(self, unread: Sequence[Message], consumed: int, faults: Faults) -> None:
        """Note the replayed ones among decoded records."""
        self._replays.note(unread[:consumed], {index for index, _ in faults})

    def _end_replays(self, rejected: Sequence[Rejected]) -> None:
        """Count records that were replayed again; what was rejected may be."""
        self._replays.forget(rejected)
        self._recorder.skipped([DUPLICATE] * self._replays.take_repeated())

    def _decode(self, unread: Sequence[Message]) -> Decoded:
        """Decode records, up to one with new features, or of an hour that allows them again."""
        if self._names.is_closed:
            found = hours(message.timestamp()[1] for message in unread)
            self._names.begin(found[0], self._known)
            later = (k for k, hour in enumerate(found) if hour > self._names.hour)
            unread = unread[: next(later, len(unread))]
        values, headers = list(map(_VALUE, unread)), partial(headers_of, unread)
        return self._decoder.decode(values, headers, self._is_new)

    @property
    def _known(self) -> Known:
        schema = self.state.model.encoder.schema
        return Known(len(schema.kinds), len(schema.open))

    def _note_skipped(
        self, messages: Sequence[Message], skipped: Sequence[tuple[int, str]]
    ) -> None:
        """Count records that are valid and teach nothing."""
        self._recorder.skipped(reason for _, reason in skipped)
        self.skipped += [messages[index] for index, _ in skipped]

    def _note_inferred(self, kinds: Mapping[str, str]) -> None:
        """Log the features that a batch has added."""
        if kinds:
            log.info("features inferred", extra={"kinds": kinds})
            self._recorder.memory(self.state)

    def _note_names_on_trial(self) -> None:
        """Show how many names are on trial, and log it once an hour of the records' time."""
        names = self._names
        self._recorder.names_on_trial(len(names.candidates))
        if names.candidates and names.hour > self._names_logged:
            self._names_logged = names.hour
            examples = list(names.candidates)[:3]
            fields = {"names": examples, "waiting": len(names.candidates), "remedy": NAMES_REMEDY}
            what = "new names of features are on trial"
            if self._settings.new_names_per_hour:
                log.warning(f"{what}, they are too many", extra=fields)
            else:
                log.warning(what, extra={**fields, "remedy": TRIAL_REMEDY})

    def _follow_kinds(self) -> None:
        """Decode by the kinds of the model, and log those that were corrected."""
        model = self.state.model
        schema = model.encoder.schema
        log_corrected(self._kinds_logged, schema.kinds)
        self._kinds_logged = schema.kinds
        self._decoder.follow(schema)
        log_identifiers(model.identifiers)
        model.identifiers = ()

    def _add_features(self, kinds: dict[str, str], record: Message) -> dict[str, str]:
        """Add new features of a record; return those that are allowed and fit into memory."""
        (hour,) = hours([record.timestamp()[1]])
        kinds = self._names.admit(kinds, hour, self._known)
        parts = self.state.model, self._decoder, self._names
        added, evicted = self._new_features.add(parts, kinds, may_evict=self._may_evict)
        if evicted:
            self._kinds_logged = self.state.model.encoder.kinds
            self._recorder.evicted(evicted)
        return added

    def _add_class(self, label: Label) -> None:
        """Add a new class to the model and to what is recorded, if memory suffices."""
        model = self.state.model
        count = len(model.classes_) + 1
        if model.affords_classes(count):
            model.add_class(label)
            validation = with_classes(self.state.validation, count)
            self.state = self.state._replace(validation=validation)
            self._follow_labels(model.labels)
            number = self.events_learned + 1
            fields = {
                "label": self.privacy.shown("label", label),
                "event_number": number,
                "classes": count,
                **self.log_fields,
            }
            log.info("a new class is learned", extra=fields)
            self._recorder.memory(self.state)
            return
        self._follow_labels(model.labels._replace(max_classes=count - 1))
        fields = {
            "label": self.privacy.shown("label", label),
            "classes": count - 1,
            "max_memory": model.spec["bank"]["max_memory"],
            "remedy": "begin a new model with more model.bank.max_memory, and --cold-start",
            **self.log_fields,
        }
        log.warning("no memory for more classes, their events are rejected", extra=fields)

    def _follow_labels(self, labels: Labels) -> None:
        """Decode by these labels."""
        self._decoder.follow_labels(labels)

    def _track_oldest(self, messages: Sequence[Message], decoded: Decoded) -> None:
        """Note the time of the first learned event that waits for a snapshot."""
        if self._oldest is None:
            self._oldest = first_time(messages, decoded)

    def _note_published(self, version: int) -> None:
        self._published = self.events_learned
        self._numbering = self._numbering._replace(version=version)
        self._snapshot_lost = False
        self._snapshots.restart()
        self._recorder.published(version, self._oldest)
        self._oldest = None

    @contextmanager
    def _writing_checkpoint(self) -> Iterator[None]:
        try:
            with self._recorder.saving():
                yield
        except NotWritten:
            self._checkpoints.retry()
            raise

    def _note_checkpoint(self, written: Written) -> None:
        self._has_checkpoint = True
        self.annotations.add(CHECKPOINT, self.events_learned, Path(written.name).name)
        self._checkpoints.restart()
        self._recorder.saved(written)

    def _kinds(self) -> tuple[str, str, str]:
        spec = self.state.model.spec
        return spec["rule"]["kind"], spec["bank"]["kind"], spec["loss"]["kind"]

    def _resume(self) -> None:
        """Show the newest files in the metrics, and publish nothing older than they are."""
        snapshot = self._stores.snapshots.newest()
        # The checkpoint of another champion may be missing; changes bring new features to requests.
        ours = snapshot and is_of(snapshot.header, self._run, self.state.champion)
        if snapshot and ours and not self.changes:
            self._published = snapshot.header["events_learned"]
        is_behind = self._stores.snapshots.last_version() < self._numbering.version
        if is_behind or self._leads:  # readers wait for a snapshot of this leader epoch
            self._published = -1
        store = self._stores.snapshots
        self._numbering = resume(self._numbering, store, snapshot, is_led=self._leads)
        self._recorder.resume(snapshot, self._stores.checkpoints.newest())

    def _header(self) -> dict[str, Any]:
        return {
            "name": self._settings.name,
            "topic": self._settings.kafka.topic,
            **self._identity._asdict(),
            **self._numbering._asdict(),
            "new_names": self.new_names,
            "annotations": self.annotations.state(),
            **({"leader_epoch": self._leader_epoch} if self._leader_epoch else {}),
            "last_records": {str(p): mark for p, mark in self.marks[0].items()},
            "run": self._run,
            "created": now_text(),
            "events_learned": self.events_learned,
            "offsets": {str(p): offset for p, offset in self.state.offsets.items()},
        }
