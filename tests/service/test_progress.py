"""Progress of learning: lines at intervals, the share of rejected records, what compiles."""

import logging
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Message
from prometheus_client import CollectorRegistry

from kaboost.models.model import Model
from kaboost.service.errors import EventError
from kaboost.service.learner.progress import Progress, RecentRecords
from kaboost.service.metrics import LearnerMetrics, learner_metrics
from kaboost.service.storage.late_figures import LabelFit
from kaboost.service.storage.state import State
from tests.service.learning import SCHEMA, rows, settings_for
from tests.specs import LINEAR


class Clock:
    """A clock that a test sets."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    """A clock that stands."""
    return Clock()


@pytest.fixture
def metrics() -> LearnerMetrics:
    """The metrics of one learner."""
    return learner_metrics(CollectorRegistry())


@pytest.fixture
def progress(tmp_path: Path, metrics: LearnerMetrics, clock: Clock) -> Progress:
    """Reports with a line every 30 seconds."""
    return Progress(settings_for("127.0.0.1:9", tmp_path, "t"), metrics, clock)


def records(count: int, first: int = 0, topic: str = "t") -> list[Message]:
    return [Message(topic=topic, partition=0, offset=first + k, value=b"{}") for k in range(count)]


def refused(messages: list[Message], code: str = "label") -> list[tuple[Message, EventError]]:
    """Reject records, each for a value of its own."""
    return [(m, EventError(code, f"label: {m.offset()} is not one of 0, 1")) for m in messages]


def lines(caplog: pytest.LogCaptureFixture, event: str) -> list[dict[str, Any]]:
    return [vars(line) for line in caplog.records if line.message == event]


def test_the_ratio_is_of_the_last_thousand_records() -> None:
    """In batches of any size, by the order of the records."""
    recent = RecentRecords()
    batch = records(2_000)
    recent.note(batch, refused(batch[:1_500]))
    assert (1_000, 0.5) == (recent.records, recent.ratio)

    recent.note(more := records(250, 2_000), [])
    assert (1_000, 0.25) == (recent.records, recent.ratio)

    recent.note(records(100, 2_250), [])
    assert 0.15 == recent.ratio
    recent.note(more, refused(more))
    assert 0.25 == recent.ratio


def test_the_commonest_code_is_named_with_its_last_value() -> None:
    """Of several codes the one with most records."""
    recent = RecentRecords()
    batch = records(30)
    recent.note(batch, [*refused(batch[:10], "json"), *refused(batch[10:])])

    assert recent.describe() == (
        "30 of the last 30 records were rejected, most of them with code label, such as: label: 29 "
        "is not one of 0, 1"
    )
    assert {"code": "label", "at": "t[0]@29", "records": 30}.items() <= recent.fields().items()


def test_the_condition_names_a_problem_from_ten_records_on(
    progress: Progress, metrics: LearnerMetrics
) -> None:
    """Nine rejected records may be a slip; the metric counts them all the same."""
    batch = records(10)
    progress.note(batch[:9], refused(batch[:9]))
    assert "" == progress.condition.problem
    assert 1.0 == metrics.rejected_ratio._value.get()

    progress.note(batch[9:], refused(batch[9:]))
    assert "10 of the last 10 records" in progress.condition.problem

    progress.note(records(1, 10), [])
    assert ("", 11) == (progress.condition.problem, progress.condition.records)


def test_labels_count_by_themselves(tmp_path: Path, metrics: LearnerMetrics, clock: Clock) -> None:
    """All labels rejected are a problem, however many features are well."""
    settings = settings_for("127.0.0.1:9", tmp_path, "t", labels={"topic": "labels"})
    progress = Progress(settings, metrics, clock)
    features, labels = records(900), records(20, topic="labels")
    for k in range(20):
        progress.note([*features[45 * k : 45 * k + 45], labels[k]], refused(labels[k : k + 1]))

    condition = progress.condition
    assert "20 of the last 20 labels" in condition.problem
    assert (900, 20, 1.0) == (condition.records, condition.labels, condition.rejected_ratio)


def test_neither_topic_hides_the_other(
    tmp_path: Path, metrics: LearnerMetrics, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    """Trap: 126 labels were all there was of the worse topic, fewer than the status takes."""
    settings = settings_for("127.0.0.1:9", tmp_path, "t", labels={"topic": "labels"})
    progress = Progress(settings, metrics, clock)
    features, labels = records(4_000), records(126, topic="labels")
    progress.note(features + labels, refused(features, "schema") + refused(labels))
    progress.report(State.initial(Model("binary", LINEAR, SCHEMA), {0: 0}))

    condition = progress.condition
    assert "1,000 of the last 1,000 records" in condition.problem
    assert "126 of the last 126 labels" in condition.problem
    assert condition.is_failing(0.99)
    assert not condition._replace(events_rejected_ratio=0.5).is_failing(0.99)
    logged = lines(caplog, "nearly all records are rejected")
    assert ["schema", "label"] == [line["code"] for line in logged]


def test_skipped_records_are_not_good(progress: Progress) -> None:
    """Deletes among records that are all rejected do not make the service ready."""
    batch = records(1_100)
    deletes = batch[::11]
    faults = [message for message in batch if message not in deletes]
    progress.note(batch, refused(faults), deletes)

    assert (1_000, 1.0) == (progress.condition.records, progress.condition.rejected_ratio)
    assert progress.condition.is_failing(1.0)


def test_an_unknown_lag_is_no_number(
    progress: Progress, metrics: LearnerMetrics, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    """Where the broker does not answer, the line of progress says so and goes on."""
    caplog.set_level(logging.INFO)
    metrics.lag_records.labels("t", "0").set(float("nan"))
    clock.now = 200.0
    progress.report(State.initial(Model("binary", LINEAR, SCHEMA), {0: 0}))
    assert [None] == [line["lag_records"] for line in lines(caplog, "progress")]


def test_a_problem_is_logged_once_a_minute(
    progress: Progress, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    """At once, and then every minute while it lasts."""
    batch = records(20)
    for second in range(125):
        clock.now = 100.0 + second
        progress.note(batch, refused(batch))
        progress.report(State.initial(Model("binary", LINEAR, SCHEMA), {0: 0}))
    logged = lines(caplog, "nearly all records are rejected")

    assert 3 == len(logged)
    assert ("label", 20, 20) == tuple(logged[0][key] for key in ("code", "rejected", "records"))
    assert "label: 19 is not one of 0, 1" == logged[0]["reason"]


def test_a_line_an_interval_has_the_figures(
    progress: Progress, metrics: LearnerMetrics, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    """Events, events a second, lag, losses of model and baselines, rejected records."""
    caplog.set_level(logging.INFO)
    model = Model("binary", LINEAR, SCHEMA)
    state = State.initial(model, {0: 0})
    progress.start(state.events_learned)
    metrics.lag_records.labels("t", "0").set(5)
    metrics.lag_records.labels("t", "1").set(2)
    features, labels = zip(*rows(60), strict=True)
    model.learn_many(features, labels)
    batch = records(3)
    progress.note(batch, refused(batch[:2]))
    for clock.now in (129.0, 130.0, 150.0, 160.0):
        progress.report(state)
    first, second = lines(caplog, "progress")

    assert (60, 2.0, 7, 2) == tuple(
        first[key] for key in ("events_learned", "events_per_second", "lag_records", "rejected")
    )
    assert {"model": None, "prior": None, "last_label": None} == first["loss"]
    assert (60, 0.0, 0) == tuple(
        second[key] for key in ("events_learned", "events_per_second", "rejected")
    )


def test_what_compiles_is_part_of_the_condition(
    progress: Progress, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    """A line every five seconds while it lasts, and one at the end; nothing where nothing does."""
    caplog.set_level(logging.INFO)
    with progress.compiling(LINEAR):
        progress.report_compiling()
        quiet = progress.condition.compiling
    assert ("", []) == (quiet, caplog.messages)

    with progress.compiling(LINEAR):
        assert progress._compilation
        progress._compilation.on_start(None)
        for _ in range(7):
            progress.report_compiling()
            clock.now += 1.0
        during = progress.condition.compiling
        progress._compilation.on_end(None)

    assert during.startswith("compiling, step 1 of ")
    assert "" == progress.condition.compiling
    assert ["compiling", "compiling", "compiled"] == [m.partition(",")[0] for m in caplog.messages]


def test_labels_that_fit_nothing_are_a_problem(
    progress: Progress, caplog: pytest.LogCaptureFixture
) -> None:
    """From ten in a row on, with what is wrong; the first that fits ends it."""
    caplog.set_level(logging.INFO)
    few = LabelFit().with_unmatched(7).with_rejected("odd").with_rejected("label: 'no'")
    progress.note_labels(few)
    assert "" == progress.condition.problem

    progress.note_labels(few.with_unmatched())
    state = State.initial(Model("binary", LINEAR, SCHEMA), {0: 0})
    progress.report(state)
    progress.report(state)

    problem = progress.condition.problem
    assert "none of the last 10 labels has found its features; 2 could not be read" in problem
    assert "such as: label: 'no'; 8 have no features: set labels.id" in problem
    assert progress.condition.is_failing(0.99)
    (line,) = lines(caplog, "no label has features")
    assert "labels.id" in line["reason"]
    progress.note_labels(few.with_unmatched().with_fitted(1))
    assert "" == progress.condition.problem
    assert not progress.condition.is_failing(0.99)


def test_labels_in_the_events_fit(progress: Progress) -> None:
    """Without a topic of labels there are none that could miss their features."""
    progress.note_labels(None)

    assert 0 == progress.condition.misfit_labels


@pytest.mark.parametrize(("share", "limit"), [(1, 10), (2, 20), (10, 100)])
def test_as_many_as_usual_are_no_fault(share: int, limit: int) -> None:
    """Where only one label in so many has features, as many times more make a fault."""
    fit = LabelFit()
    for _ in range(200):
        fit = fit.with_unmatched(share - 1).with_fitted(1)

    assert not fit.with_unmatched(limit - 1).is_failing
    assert fit.with_unmatched(limit).is_failing


def test_a_fault_is_not_usual() -> None:
    """After one that lasted long the next one is noticed as well."""
    fit = LabelFit().with_fitted(100).with_unmatched(50_000).with_fitted(1)

    assert fit.with_unmatched(11).is_failing
