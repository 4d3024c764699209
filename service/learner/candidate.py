"""A candidate: a trainer of its own that learns the champion's events, and compares the losses."""

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np
from confluent_kafka import Message
from prometheus_client import CollectorRegistry

from kaboost.models.evaluation.baselines import record, with_classes
from kaboost.models.evaluation.history import new_history, record_in_parts
from kaboost.models.evaluation.outcome import Outcome, part
from kaboost.models.evaluation.paired import AFTER, add, judge, paired_losses, parts
from kaboost.service.config.candidates import Promotion
from kaboost.service.events.decoder import Decoded, Faults
from kaboost.service.learner.candidate_set import Batch
from kaboost.service.learner.lineage import Lineage
from kaboost.service.learner.parts import Parts
from kaboost.service.learner.recorder import Recorder
from kaboost.service.learner.records import event_seconds, events_of
from kaboost.service.learner.trainer import Trainer
from kaboost.service.metrics import learner_metrics
from kaboost.service.storage.candidate_state import CandidateState
from kaboost.service.storage.state import State


class CandidateTrainer(Trainer):
    """Own the state of one candidate; it writes no files and shows no metrics.

    Where the schema is fixed, it learns what the champion has decoded. Otherwise it decodes the
    same records by its own schema, so that its features, kinds and classes are those of a learner
    with its settings.
    """

    def __init__(self, parts: Parts, candidate: CandidateState, promotion: Promotion) -> None:
        whole = State(candidate.model, candidate.validation, {}, history=candidate.history)
        own = parts._replace(metrics=learner_metrics(CollectorRegistry()))
        names = Lineage(new_names=candidate.new_names)
        super().__init__(own, whole, restored=True, lineage=names)
        self.name = candidate.name
        self.log_fields = {"candidate": candidate.name}
        self._promotion = promotion
        self._champion = candidate.champion
        self._comparison = candidate.comparison
        if self._comparison.counts[AFTER] != promotion.after:
            self._comparison = paired_losses(promotion.after)
        self._recorder = _Quiet(own.metrics)
        self._is_new = None  # the champion's events are new
        schema = candidate.model.encoder.schema
        self._decodes = schema.auto or candidate.model.labels.is_open
        self._batch: Batch | None = None
        self._places: dict[int, int] = {}  # of records among the events of the batch
        self._matched = np.empty(0, np.int64)  # places of the events that are learned now

    @property
    def candidate_state(self) -> CandidateState:
        """The state for the checkpoint."""
        state, names = self.state, self._names.state()
        history = state.history or new_history()
        seen, champion = state.validation, self._champion
        return CandidateState(
            self.name, state.model, seen, champion, self._comparison, history, names
        )

    def prepare(self, messages: Sequence[Message]) -> None:
        """Fetch what decoding some records takes; raise RegistryAway if it is not there now."""
        if self._decodes:
            super().prepare(messages)

    def learn_next(self, batch: Batch) -> None:
        """Learn the same events, and compare the losses."""
        self._batch = batch
        if self._decodes:
            count = len(batch.decoded.meta)
            records = list(islice(events_of(batch.records, batch.decoded), count))
            self._places = {id(record): k for k, record in enumerate(records)}
            self._learn_part(records, {})
        else:
            self._matched = np.arange(len(batch.decoded.meta))
            self._learning = batch.records, batch.decoded
            self._learn(batch.decoded)
            self._learning = None
        self._batch = None

    def _limit_influence(self, messages: Sequence[Message], decoded: Decoded) -> Decoded:
        """Return the events with the weights that the champion has given them."""
        assert self._batch is not None
        found = islice(events_of(messages, decoded), len(decoded.meta))
        self._matched = np.array([self._places[id(record)] for record in found], np.int64)
        return decoded._replace(w=self._batch.decoded.w[self._matched])

    def _learn(self, decoded: Decoded) -> None:
        learned = self.state.events_learned
        outcome = self.state.model.learn(decoded.table, decoded.y, decoded.w)
        if self._batch is None:
            return  # kernels are compiled
        champion = self._batch.outcome
        if len(self._matched) < len(champion.losses):
            champion = Outcome(
                *(None if values is None else values[self._matched] for values in champion)  # type: ignore[arg-type] # only the last may be None
            )
        self._compare(decoded, outcome, champion, learned)

    def _compare(self, decoded: Decoded, outcome: Outcome, champion: Outcome, learned: int) -> None:
        """Record the losses of events that were learned after `learned` others."""
        assert self._batch is not None
        self._grow_champion(champion)
        y = self._batch.decoded.y[self._matched]
        skipped = self._promotion.after - min(learned, self._batch.learned)
        for span, events in parts(self._comparison, decoded.w, max(0, skipped)):
            before = self._sums
            self._record(decoded, outcome, span, learned)
            record(self._champion, part(champion, span), y[span], decoded.w[span])
            learned += int((decoded.w[span] > 0.0).sum())
            first, second = (now - then for now, then in zip(self._sums, before, strict=True))
            if events and add(self._comparison, events, (first, second)):
                judge(self._comparison, self._promotion.margin, self._promotion.confidence)

    @property
    def _sums(self) -> tuple[float, float]:
        both = self._champion, self.state.validation
        first, second = (float(seen.loss_sum[0]) for seen in both)
        return first, second

    def _record(self, decoded: Decoded, outcome: Outcome, span: slice, learned: int) -> None:
        y, w, seen = decoded.y[span], decoded.w[span], self.state.validation
        within, records = part(outcome, span), self._learning[0] if self._learning else ()

        def record_part(inner: slice) -> None:
            record(seen, part(within, inner), y[inner], w[inner])

        def time_of(index: int) -> float:
            place = span.start + index
            message = next(islice(events_of(records, decoded), place, None))
            return event_seconds(message, decoded.meta[place])

        assert self.state.history is not None
        record_in_parts(self.state.history, seen, learned, w, record_part, time_of)

    def _grow_champion(self, champion: Outcome) -> None:
        """Make room for classes that the champion has learned since."""
        shape: tuple[int, ...] = champion.predictions.shape
        if len(shape) > 1 and shape[1] > len(self._champion.counts):
            self._champion = with_classes(self._champion, shape[1])

    def _resume(self) -> None:
        """Do nothing: the files are the champion's."""

    def _note_replayed(self, unread: Sequence[Message], consumed: int, faults: Faults) -> None:
        """Do nothing: the champion leaves repeated events out."""

    def _follow_kinds(self) -> None:
        """Decode by the kinds of the model; the champion logs its own."""
        self._decoder.follow(self.state.model.encoder.schema)
        self.state.model.identifiers = ()

    def _note_inferred(self, kinds: Mapping[str, str]) -> None:
        """Do nothing: the champion logs its features."""


class _Quiet(Recorder):
    """A recorder that repeats none of the champion's log lines."""

    def repairs(self, repairs: Mapping[tuple[str, str], Any]) -> None:
        """Do nothing."""
