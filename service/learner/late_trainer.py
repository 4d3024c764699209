"""The trainer of late labels: features wait on disk, and are learned with their label."""

import math
from collections.abc import Sequence
from functools import partial
from operator import itemgetter, methodcaller
from time import perf_counter

from confluent_kafka import Message

from kaboost.models.evaluation.late_baselines import capture_baselines
from kaboost.models.features.labels import Label, Labels
from kaboost.models.table_model import Captured
from kaboost.service.errors import EventError
from kaboost.service.events.decoder import DUPLICATE, NO_ID, Decoded
from kaboost.service.events.label_records import DecodedLabels, LabelRecord, make_label_decoder
from kaboost.service.events.served_scores import ServedScores
from kaboost.service.kafka import stored_record
from kaboost.service.kafka.ends import Ends
from kaboost.service.kafka.identity import Identity, RecordMark
from kaboost.service.learner.captured_learning import learn_nothing
from kaboost.service.learner.captured_rows import pack
from kaboost.service.learner.due_pairs import Correction, DuePairs, holds_joined
from kaboost.service.learner.expiry_pace import ExpiryPace
from kaboost.service.learner.late_recorder import LateRecorder, no_features, too_late
from kaboost.service.learner.lineage import Lineage
from kaboost.service.learner.pairs import Learned, Pair, mark, oldest, oldest_first
from kaboost.service.learner.parts import Parts
from kaboost.service.learner.records import (
    event_seconds,
    events_of,
    headers_of,
    record_seconds,
    split,
    unread_of,
)
from kaboost.service.learner.trainer import Rejected, Trainer
from kaboost.service.learner.watermark import Topic, Watermark
from kaboost.service.storage.checkpoints import Written
from kaboost.service.storage.late_figures import LabelFit, LateFigures
from kaboost.service.storage.state import State
from kaboost.service.storage.waiting import (
    EXPIRED,
    HELD,
    JOINED,
    WAITING,
    EarlyLabel,
    Entry,
    NewEntry,
    WaitingStore,
)

_VALUE, _PLACE = methodcaller("value"), itemgetter(0)


class LateTrainer(Trainer):
    """Own one state whose features wait for their labels; one thread calls."""

    def __init__(
        self,
        parts: Parts,
        state: State,
        *,
        restored: bool,
        lineage: Lineage = Lineage(),  # noqa: B008 # immutable
    ) -> None:
        assert state.late is not None
        super().__init__(parts, state, restored=restored, lineage=lineage)
        self.marks[1].update({p: RecordMark(*m) for p, m in state.late.last_records.items()})
        settings = parts.settings
        self._labels = settings.labels
        self._late = LateRecorder(parts.metrics, state.late.counts, state.late.fit)
        self._due = DuePairs()
        self._label_decoder = make_label_decoder(settings, state.model.labels)
        self._keep = settings.checkpoints.keep
        is_log = settings.kafka.topic == settings.predictions.topic
        self._served = ServedScores() if is_log else None
        self._has_times: dict[Topic, bool] = {
            "features": settings.events.timestamp is not None,
            "labels": self._labels.timestamp is not None,
        }
        late = state.late
        self._watermark = Watermark(late.features_time, late.labels_time, late.time)
        self._store = WaitingStore(self._labels.directory / self._run, self._labels.max_memory)
        self._store.begin(late.generation)
        expired = self._labels.expired
        self._expired_label = None if expired == "drop" else self._code_of(expired["label"])
        is_paced = self._expired_label is not None
        self._pace = ExpiryPace(self._labels.wait, late.expired_ratio, is_paced=is_paced)
        self._late.store(self._store)
        self._may_evict = False  # features wait, captured with the columns of then

    def reached(self, topic: int, partition: int) -> float:
        """Return the latest event time of a partition of the features (0) or of the labels (1)."""
        return self._watermark.reached("labels" if topic else "features", partition)

    def _code_of(self, label: Label) -> float:
        """Return the code of a label of the settings, which begins a class if it is unknown."""
        new = self.state.model.labels.new_class(label)
        if new is not None:
            self._add_class(new)
        return self.state.model.labels.encode(label)

    def _follow_labels(self, labels: Labels) -> None:
        """Decode by these labels; those of events come in other records."""
        super()._follow_labels(labels)
        self._label_decoder.follow_labels(labels)

    def note_ends(self, ends: Ends) -> None:
        """Note which partitions are read to their ends."""
        self._watermark.read(ends)

    def note_topics(self, events: Identity, labels: Identity) -> None:
        """Note the ids of both topics."""
        super().note_topics(events, labels)
        assert self.state.late is not None
        self.state = self.state._replace(late=self.state.late._replace(topic_id=labels.topic_id))

    def close(self) -> None:
        """Close the store; what no checkpoint holds is read again from Kafka."""
        self._store.close()

    def warm(self) -> None:
        """Compile the kernels before the first event waits for them."""
        decoded = self._decoder.decode([])
        learn_nothing(self.state, decoded.table)
        self.state.model.warm_growth()

    def prepare(self, messages: Sequence[Message]) -> None:
        """Fetch what decoding some records takes; raise RegistryAway if it is not there now."""
        events, labels = split(messages, str(self._labels.topic))
        self._decoder.prepare(list(map(_VALUE, events)))
        self._label_decoder.prepare(list(map(_VALUE, labels)))

    def learn(self, messages: Sequence[Message]) -> list[Rejected]:
        """Let features wait, learn those whose label is there, and those that expired.

        Returns the records that are no events and no labels, and labels without features.
        """
        before = self.events_learned
        events, labels = split(messages, str(self._labels.topic))
        self._ignored, self.skipped = 0, []
        rejected = self._read_features(events)
        rejected += self._read_labels(labels)
        if self.is_isolating:
            self._learn_due()  # of the batch alone, so that it is not blamed for what expires
        self.is_expiring = self.is_isolating
        rejected += self._expire()
        self._learn_due()
        self.is_expiring = False
        self._end_replays(rejected)
        self._snapshots.events += len(messages)
        self._checkpoints.events += len(messages)
        self._note_names_on_trial()
        errors = [error for _, error in rejected]
        self.annotations.follow(self.state.model.booster)
        self._recorder.batch(len(messages), self.events_learned - before, self._ignored, errors)
        self._recorder.validation(self.state)
        self._late.store(self._store)
        return rejected

    def write_checkpoint(self) -> Written:
        """Make the store durable as a new generation, then write the file that names it."""
        late = self.state.late
        assert late is not None
        generation, times = late.generation + 1, self._watermark
        kept = (*late.kept, generation)[-self._keep - 1 :]
        with self._writing_checkpoint():
            self._stores.checkpoints.confirm()  # the store of waiting features has no lock
            self._store.commit(generation, keep_from=kept[0])
            late = late._replace(
                generation=generation,
                kept=kept,
                features_time=times.features,
                labels_time=times.labels,
                time=times.time,
                counts=self._late.counts,
                fit=self._late.fit,
                last_records=dict(self.marks[1]),
                expired_ratio=self._pace.ratio,
            )
            self.state = self.state._replace(late=late)
            written = self._stores.checkpoints.write(self._header(), self.state)
        self._note_checkpoint(written)
        return written

    @property
    def next_offsets(self) -> dict[tuple[str, int], int]:
        """The next offset of every partition of both topics."""
        topic, late = str(self._labels.topic), self.state.late
        assert late is not None
        return {**super().next_offsets, **{(topic, p): o for p, o in late.offsets.items()}}

    def plain(self, message: Message) -> object:
        """Return a record of either topic as plain values, or raise an EventError."""
        if message.topic() != self._labels.topic:
            return super().plain(message)
        return self._label_decoder.plain(message.value(), headers_of([message], 0))

    def _move_past(self, message: Message) -> bool:
        if message.topic() != self._labels.topic:
            return super()._move_past(message)
        assert self.state.late is not None
        return bool(unread_of([message], self.state.late.offsets, self.marks[1]))

    def _read_features(self, messages: Sequence[Message]) -> list[Rejected]:
        """Capture the features of some records; they wait from now on."""
        rejected: list[Rejected] = []
        unread = unread_of(messages, self.state.offsets, self.marks[0])
        for part in self._replays.parts(unread):
            rejected += self._read_features_of(part)
        return rejected

    def _read_features_of(self, unread: Sequence[Message]) -> list[Rejected]:
        rejected: list[Rejected] = []
        added: dict[str, str] = {}
        while unread:
            decoded = self._decode(unread)
            rejected += [(unread[index], error) for index, error in decoded.faults]
            self._ignored += decoded.ignored
            self._note_skipped(unread, decoded.skipped)
            self._recorder.repairs(decoded.repairs)
            if decoded.meta:
                read = unread[: decoded.consumed]  # up to a record with new features
                rejected += self._wait(list(events_of(read, decoded)), decoded)
            self._note_replayed(unread, decoded.consumed, decoded.faults)
            self._follow_kinds()
            if decoded.new_features:
                self._learn_due()
                added |= self._add_features(decoded.new_features, unread[decoded.consumed])
            unread = unread[decoded.consumed :]
        self._note_inferred(added)
        return rejected

    def _wait(self, messages: Sequence[Message], decoded: Decoded) -> list[Rejected]:
        """Store captured features; learn those whose label came before them."""
        model = self.state.model
        may_grow = len(model.classes_) < model.labels.max_classes
        self.recent.note_features(model, decoded)
        baselines = capture_baselines(self.state.validation, may_grow=may_grow)
        parts = model.parts(decoded.table, decoded.w)  # kinds may be corrected between two
        rows = [
            row
            for part, span in parts
            for row in pack(self._with_served(model.capture(part), messages[span]), baselines)
        ]
        entries: list[NewEntry] = []
        rejected: list[Rejected] = []
        columns = zip(messages, decoded.meta, rows, decoded.w.tolist(), strict=True)
        for message, meta, row, weight in columns:
            stated = None if meta.timestamp is None else event_seconds(message, meta)
            time = self._time("features", message, stated)
            if meta.id is None:
                rejected.append((message, EventError("schema", f"id: {NO_ID}")))
            else:
                entries.append(NewEntry(str(meta.id), time, weight, row))
        known = self._store.add(entries)
        self._kept += len(entries) - len(known)
        self._recorder.skipped([DUPLICATE] * len(known))
        early = self._store.pop_early([entry.id for entry in entries])
        if early:
            self._join_early(early)
        return rejected

    def _time(self, topic: Topic, message: Message, stated: float | None) -> float:
        """Return the time of a record, which moves the watermark unless it is missing.

        Where records have times of their own, that of the record may be years later.
        """
        partition, written = message.partition() or 0, record_seconds(message)
        if stated is None and self._has_times[topic]:
            self._late.untimed(topic, message)
            return self._watermark.latest(topic, partition, written)
        time = written if stated is None else stated
        self._watermark.see(topic, partition, time, written)
        return time

    def _with_served(self, captured: Captured, messages: Sequence[Message]) -> Captured:
        """Return captured events with the scores of the answers, where the topic is theirs."""
        if self._served is None:
            return captured
        values, epoch = list(map(_VALUE, messages)), self._numbering.epoch
        return captured._replace(
            scores=self._served.replace(values, captured.scores, self._run, epoch)
        )

    def _join_early(self, early: dict[str, list[EarlyLabel]]) -> None:
        """Join labels that came before their features."""
        labels = [label for of_id in early.values() for label in of_id]
        records = [LabelRecord(k, e.id, e.label, e.time, e.weight) for k, e in enumerate(labels)]
        times = [label.time for label in labels]
        self._join(records, times)
        self._late.fits([None] * len(records))

    def _read_labels(self, messages: Sequence[Message]) -> list[Rejected]:
        """Join the labels of some records with the features that wait for them."""
        assert self.state.late is not None
        unread = unread_of(messages, self.state.late.offsets, self.marks[1])
        rejected: list[Rejected] = []
        for part in self._replays.parts(unread):
            rejected += self._read_labels_of(part)
        return rejected

    def _read_labels_of(self, unread: Sequence[Message]) -> list[Rejected]:
        rejected: list[Rejected] = []
        while unread:
            values, headers = list(map(_VALUE, unread)), partial(headers_of, unread)
            decoded = self._label_decoder.decode(values, headers)
            rejected += self._learn_labels(unread, decoded)
            self._note_replayed(unread, decoded.consumed, decoded.faults)
            if decoded.new_class is not None:
                self._learn_due()
                self._add_class(decoded.new_class)
            unread = unread[decoded.consumed :]
        return rejected

    def _learn_labels(self, unread: Sequence[Message], decoded: DecodedLabels) -> list[Rejected]:
        """Join decoded labels; keep those that came before their features."""
        self._note_skipped(unread, decoded.skipped)
        times = []
        for label in decoded.labels:
            times.append(self._time("labels", unread[label.place], label.time))
        early, unmatched = self._join(decoded.labels, times)
        self._store.add_early(
            [
                EarlyLabel(
                    label.id, time, label.label, label.weight,
                    stored_record.store(unread[label.place]),
                )
                for label, time in early
            ]
        )  # fmt: skip
        faults = list(decoded.faults)
        shown = self.privacy.shown
        faults += [(each.place, too_late(shown("id", each.id))) for each in unmatched]
        wait = {label.place for label, _ in early}
        fits: dict[int, EventError | None] = {
            label.place: None for label in decoded.labels if label.place not in wait
        }
        self._late.fits(error for _, error in sorted((fits | dict(faults)).items(), key=_PLACE))
        return [(unread[index], error) for index, error in faults]

    def _join(
        self, labels: Sequence[LabelRecord], times: Sequence[float]
    ) -> tuple[list[tuple[LabelRecord, float]], list[LabelRecord]]:
        """Note the labels whose features wait; return those whose features are not there, with
        their times, and those whose features expired without a label.
        """
        pairs: list[Pair] = []
        known: dict[str, Learned] = {}  # the last label of an id of this batch
        early, unmatched, repeated = [], [], 0
        found = self._store.find([label.id for label in labels])
        for label, time, entry in zip(labels, times, found, strict=True):
            if entry is None:
                early.append((label, time))
            elif entry.state == EXPIRED and math.isnan(entry.label):
                unmatched.append(label)
            elif entry.state == WAITING and label.id not in known:
                weight = entry.weight if label.weight is None else label.weight
                held = HELD if self._holds(label.label, pairs) else JOINED
                known[label.id] = Learned(label.label, weight, held)
                pairs.append(Pair(entry, label.label, weight, time - entry.time, held))
            else:
                before = known.get(label.id) or Learned(
                    entry.label, entry.label_weight, entry.state
                )
                if before.label == label.label:
                    repeated += 1
                else:
                    self._note_joined(pairs)  # in the order of labels, wherever a batch is cut
                    known[label.id] = self._correct(entry, before, label)
        self._note_joined(pairs)
        self._recorder.skipped([DUPLICATE] * repeated)
        self._late.unmatched(len(unmatched))
        return early, unmatched

    def _holds(self, label: float, pairs: Sequence[Pair]) -> bool:
        """Return whether a label is learned only when its features would have expired."""
        if self._expired_label in (None, label):
            return False
        learned = self.events_learned + len(self._due) + sum(p.state != HELD for p in pairs)
        return holds_joined(self._late.counts, learned, len(pairs))

    def _note_joined(self, pairs: list[Pair]) -> None:
        """Note features with the labels that they waited for, and empty the list."""
        mark(self._store, pairs)
        for pair in pairs:
            if pair.state != HELD:
                self._due.join(pair)
        self._late.joined([pair.delay for pair in pairs])
        pairs.clear()

    def _learn_due(self) -> None:
        """Learn what was joined, corrected and expired since the last call."""
        if count := len(self._due):
            begin = perf_counter()
            oldest = self._due.learn(self.state, self.recent)
            self._oldest = oldest if self._oldest is None else self._oldest
            self._recorder.learning(count, perf_counter() - begin)

    def _correct(self, entry: Entry, before: Learned, label: LabelRecord) -> Learned:
        """Note another label of an event to be learned; one that is held is replaced."""
        weight = before.weight if label.weight is None else label.weight
        learned, state = Learned(label.label, weight, HELD), HELD
        if before.state != HELD:
            self._due.join(Correction(entry, before, label.label, weight))
            learned, state = Learned(label.label, before.weight or weight), JOINED
        self._store.mark([entry.number], state, [learned.label], [learned.weight])
        self._late.corrected()
        return learned

    def _expire(self) -> list[Rejected]:
        """Give up features that waited too long, and labels that came too early."""
        now, labels = self._watermark.time, self._labels
        if now == -math.inf:
            return []
        rejected = self._reject_early(now - labels.early)  # first: it may be that no label fits
        if not self._awaits_fit:
            before, joined = now - labels.wait, (len(self._due), self._late.counts.joined)
            for old, held in self._pace.due(self._store, before, self.batch_events, *joined):
                self._give_up(old, held)
        excess = min(self._store.waiting + self._store.held - labels.max_waiting, self.batch_events)
        if excess > 0:
            self._give_up(*oldest(self._store, excess))
        self._store.forget(now - 2.0 * labels.wait)
        return rejected

    @property
    def _awaits_fit(self) -> bool:
        """Whether features go on waiting: no label fits, so that none of them says anything."""
        return self._expired_label is not None and self._late.fit.is_failing

    def _reject_early(self, before: float) -> list[Rejected]:
        """Give up labels that came too early."""
        unmatched = self._store.pop_early_before(before, self.batch_events)
        self._late.unmatched(len(unmatched))
        self._checkpoints.events += len(unmatched)
        shown, restore = self.privacy.shown, stored_record.restore
        rejected = [(restore(e.record), no_features(shown("id", e.id))) for e in unmatched]
        self._late.fits(error for _, error in rejected)
        return [*rejected]

    def _give_up(self, entries: Sequence[Entry], held: Sequence[Entry] = ()) -> None:
        """Note features without a label to be learned as `labels.expired` says, or drop them; note
        held ones to be learned with their label.
        """
        self._late.expired(len(entries))
        events = len(entries) + len(held)
        self._snapshots.events += events  # they may expire without a new record
        self._checkpoints.events += events
        label, pairs = self._expired_label, []
        if label is None or self._awaits_fit:
            numbers = [entry.number for entry in entries]
            self._store.mark(numbers, EXPIRED, [math.nan] * len(numbers))
        else:
            pairs = [Pair(each, label, each.weight, state=EXPIRED) for each in entries]
        pairs += [Pair(each, each.label, each.label_weight) for each in held]
        pairs.sort(key=lambda pair: oldest_first(pair.entry))
        mark(self._store, pairs)
        self._due.expire(pairs)

    @property
    def label_fit(self) -> LabelFit:
        """Whether labels fit."""
        return self._late.fit

    @property
    def late_figures(self) -> LateFigures:
        """What waits, and what became of labels."""
        return self._late.figures(self._store)

    @property
    def has_due(self) -> bool:
        """Whether there may be something to expire without a new record."""
        return self._store.waiting > 0 or self._store.early > 0 or self._store.held > 0

    def _header(self) -> dict[str, object]:
        store = self._store
        labels = {"waiting": store.waiting, "early": store.early, "held": store.held}
        return {**super()._header(), "labels": labels}
