"""Replay recorded events through the learner's own trainer: one pass, as fast as it can."""

import logging
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np
from confluent_kafka import Message
from prometheus_client import CollectorRegistry

from kaboost.models.model import Model
from kaboost.models.types import ModelError, Vec
from kaboost.service.config.settings import Settings, load
from kaboost.service.config.stores import Checkpoints, Snapshots
from kaboost.service.errors import ConfigError
from kaboost.service.events.decoder import Decoded
from kaboost.service.kafka.identity import Identity
from kaboost.service.lab.file_source import FileSource
from kaboost.service.lab.interrupts import Interrupts
from kaboost.service.lab.other_models import make_other_models
from kaboost.service.lab.planning import SAMPLE_RECORDS, ConfigOptions, Planned, plan
from kaboost.service.lab.recording import Recording
from kaboost.service.lab.records import Batch, FileRecords, Records
from kaboost.service.lab.result import Result
from kaboost.service.lab.saving import check_folder, save
from kaboost.service.lab.slow_features import slow_features
from kaboost.service.lab.summary import Origin, figures
from kaboost.service.lab.topic_source import SCHEME, TopicAddress, TopicRecords
from kaboost.service.learner.lineage import Lineage
from kaboost.service.learner.parts import Parts, decoder_of
from kaboost.service.learner.records import event_seconds, events_of
from kaboost.service.learner.trainer import Trainer
from kaboost.service.metrics import learner_metrics
from kaboost.service.storage.state import State
from kaboost.service.storage.stores import Stores, make_stores

Report = Callable[[int, float | None], None]  # events so far, and which part was read


class Request(NamedTuple):
    """What is replayed, and what is measured."""

    source: str  # a file, - for standard input, or kafka://TOPIC
    options: ConfigOptions = ConfigOptions()
    against: Sequence[str] = ()
    slices: Sequence[str] = ()
    limit: int | None = None  # records
    delimiter: str | None = None
    save: Path | None = None  # a folder for a service that continues
    keep_losses: bool = False  # of the model, of every event


class ReplayTrainer(Trainer):
    """The learner's trainer, which also passes the times of events on."""

    recording: Recording

    def _learn(self, decoded: Decoded) -> None:
        if self._learning is not None:
            messages, _ = self._learning
            events = zip(events_of(messages, decoded), decoded.meta, strict=False)
            at = [event_seconds(message, meta) for message, meta in events]
            times = np.array(at, np.float64)
            times[times <= 0.0] = np.nan  # of rows without a time
            self.recording.event_times = times
        super()._learn(decoded)


def no_report(events: int, fraction: float | None) -> None:
    """Report nothing."""


def replay(request: Request, report: Report = no_report) -> Result:
    """Learn all records, each predicted before it is learned, and return what was measured.

    An interruption ends it early: the result is partial, and says so.

    Raises
    ------
    ConfigError
        If the input cannot be read, or a setting is wrong.
    BrokerError
        If the broker does not answer.
    """
    begin = time.perf_counter()
    if request.save is not None:
        check_folder(request.save)
    with ExitStack() as stack:
        notes = stack.enter_context(_warnings())
        records, planned = _open(request)
        stack.enter_context(closing(records))
        folder = request.save or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        run = _Run(request, records, planned.settings, folder, report)
        run.learn_all()
        if not run.trainer.events_learned:
            raise ConfigError(_nothing_learned(records.name, run.rejected, run.examples))
        if request.save is not None:
            _save(run, planned, request.save)
        origin = Origin(
            records.name,
            run.records,
            run.rejected,
            run.examples,
            run.skipped,
            time.perf_counter() - begin,
            run.learn_seconds,
            run.partial,
            [*planned.warnings, *records.notes, *notes],
            planned.text,
            slow_features(run.trainer.state.model, planned.settings, run.last),
        )
    model = run.trainer.state.model
    model.observer = None
    return Result(figures(model, run.recording, origin), model, run.each_loss)


class _Run:
    """One pass over records."""

    def __init__(
        self,
        request: Request,
        records: Records,
        settings: Settings,
        folder: Path,
        report: Report,
    ) -> None:
        self.records_, self._report, self._limit = records, report, request.limit
        self._batch = settings.kafka.batch_events
        self.records = 0
        self.rejected: Counter[str] = Counter()
        self.skipped: Counter[str] = Counter()
        self.examples: dict[str, str] = {}
        self.partial = False
        self.learn_seconds = 0.0
        self.last: Sequence[Message] = ()
        checkpoints = Checkpoints(directory=folder / "checkpoints")
        self.stores = make_stores(checkpoints, Snapshots(directory=folder / "snapshots"))
        self.trainer = _make_trainer(settings, records, self.stores)
        model = self.trainer.state.model
        others = make_other_models(request.against, model.task)
        self.recording = Recording(model, others, request.slices)
        self.recording.each_loss = [] if request.keep_losses else None
        self.trainer.recording = self.recording
        self.trainer.warm()
        model.observer = self.recording.observe
        self._checked = not request.slices

    def learn_all(self) -> None:
        """Learn all records; an interruption ends it after the batch that is being learned."""
        with Interrupts() as interrupts:
            try:
                for batch in self.records_.batches(self._batch):
                    with interrupts.held():
                        self._learn(self._limited(batch))
                    if interrupts.asked:
                        raise KeyboardInterrupt
                    if self._limit is not None and self.records >= self._limit:
                        break
            except KeyboardInterrupt:
                self.partial = True
        self._report(self.trainer.events_learned, self.records_.fraction)

    @property
    def each_loss(self) -> Vec | None:
        """The model's loss of every event (B,), if it was kept."""
        each = self.recording.each_loss
        return None if each is None else np.concatenate(each or [np.empty(0)])

    def _limited(self, batch: Batch) -> Batch:
        if self._limit is None:
            return batch
        return batch._replace(messages=batch.messages[: self._limit - self.records])

    def _learn(self, batch: Batch) -> None:
        for reason, message in batch.rejected:
            self._reject(reason, message)
        self.records += len(batch.messages) + len(batch.rejected)
        if not batch.messages:
            return
        self.last = batch.messages
        before, start = sum(self.recording.other_model_seconds.values()), time.perf_counter()
        self.trainer.prepare(batch.messages)
        for _, error in self.trainer.learn(batch.messages):
            self._reject(error.code, str(error))
        apart = sum(self.recording.other_model_seconds.values()) - before
        self.learn_seconds += time.perf_counter() - start - apart
        if self.trainer.skipped:
            self.skipped["duplicates and tombstones"] += len(self.trainer.skipped)
        if not self._checked:
            self.recording.check_slices()
            self._checked = True
        self._report(self.trainer.events_learned, self.records_.fraction)

    def _reject(self, reason: str, message: str) -> None:
        self.rejected[reason] += 1
        self.examples.setdefault(reason, message)


def _open(request: Request) -> tuple[Records, Planned]:
    """Open the input, and decide how its records are read."""
    if not request.source.startswith(SCHEME):
        overrides = request.options.overrides
        topic = str(overrides.get("kafka.topic", "kaboost.events.v1"))
        records: Records = FileRecords(FileSource(request.source, request.delimiter), topic)
        return records, _planned(records, request.options, is_topic=False)
    address = TopicAddress.parse(request.source)
    options = request.options
    options = options._replace(overrides={**options.overrides, **address.flags()})
    overrides = dict(options.overrides)
    if options.config is None:  # the rest of the settings comes from the records
        overrides = {k: v for k, v in overrides.items() if k.partition(".")[0] == "kafka"}
        overrides["task.kind"] = "binary"
    kafka = load(options.config, overrides).kafka
    records = TopicRecords(kafka)
    return records, _planned(records, options, is_topic=True)


def _planned(records: Records, options: ConfigOptions, *, is_topic: bool) -> Planned:
    with ExitStack() as stack:
        stack.callback(records.close)
        sample = records.sample(SAMPLE_RECORDS)
        planned = plan(options, records.name, sample, is_topic=is_topic)
        stack.pop_all()
    return planned


def _make_trainer(settings: Settings, records: Records, stores: Stores) -> ReplayTrainer:
    """Return the trainer of a new model; its files are in a folder of their own."""
    task = settings.task
    try:
        model = Model(
            task.kind, settings.model, settings.features.columns, task.labels, task.max_classes
        )
    except ModelError as err:
        raise ConfigError(str(err)) from err
    parts = Parts(settings, learner_metrics(CollectorRegistry()), stores, decoder_of)
    lineage = Lineage(identity=getattr(records, "identity", Identity()))
    state = State.initial(model, dict(records.offsets))
    return ReplayTrainer(parts, state, restored=False, lineage=lineage)


def _save(run: _Run, planned: Planned, folder: Path) -> None:
    """Write checkpoint, snapshot and configuration, for `kaboost serve`.

    Rows of a file have no place in a topic: a service that goes on begins where `kafka.start_from`
    says.
    """
    is_topic = isinstance(run.records_, TopicRecords)
    save(run.trainer, run.stores, planned, folder, keeps_offsets=is_topic)


def _nothing_learned(name: str, rejected: Counter[str], examples: dict[str, str]) -> str:
    if not rejected:
        return f"{name}: no event was learned; name an input with rows that have a label"
    (reason, count), *_ = rejected.most_common(1)
    return (
        f"{name}: no event was learned, {sum(rejected.values()):,} were rejected; most of them "
        f"({count:,}, {reason}) like this one: {examples[reason]}"
    )


class _Collect(logging.Handler):
    """Keep warnings as sentences."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.notes: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        about = [str(getattr(record, key)) for key in ("feature", "remedy") if hasattr(record, key)]
        note = ": ".join([record.getMessage(), *about])
        if note not in self.notes:
            self.notes.append(note)


@contextmanager
def _warnings() -> Iterator[list[str]]:
    """Collect the warnings of the learner for the report, instead of its log."""
    logger, handler = logging.getLogger("kaboost"), _Collect()
    propagate, logger.propagate = logger.propagate, False
    logger.addHandler(handler)
    try:
        yield handler.notes
    finally:
        logger.removeHandler(handler)
        logger.propagate = propagate
