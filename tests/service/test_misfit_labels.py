"""Labels that fit no features say nothing: none of the features becomes a negative meanwhile."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Message
from prometheus_client import CollectorRegistry

from kaboost.service.config.settings import Settings
from kaboost.service.kafka.ends import Ends
from kaboost.service.learner.late_trainer import LateTrainer
from kaboost.service.learner.parts import make_parts
from kaboost.service.learner.progress import Progress
from kaboost.service.learner.trainer import Rejected
from kaboost.service.metrics import learner_metrics
from kaboost.service.storage.checkpoints import FolderCheckpointStore
from kaboost.service.storage.late_figures import LateFigures
from kaboost.service.storage.snapshots import Condition
from tests.service.learning import rows, settings_for, until
from tests.service.serving import PATIENCE, Program, publish, taught
from tests.service.test_failing import report
from tests.service.test_late_corrections import DECLARED, message, trainer

SECTIONS: dict[str, Any] = {
    **DECLARED,
    "labels": {"wait": "100s", "early": "1s", "expired": {"label": 0}, "weight": None},
}
EVENTS = Ends(frozenset({0}), frozenset(), 0, 0, any_read=False)


def features(first: int, after: int) -> list[Message]:
    """Events a second apart."""
    drawn = rows(after, 5)
    return [message("events", k, {"id": k, **drawn[k][0]}) for k in range(first, after)]


def learn(made: LateTrainer, messages: Sequence[Message]) -> list[Rejected]:
    """Learn records, then what has expired by the latest features; all labels so far are read."""
    rejected = made.learn(messages)
    made.note_ends(EVENTS)
    return rejected + made.learn([])


def wrong(count: int, fault: str) -> list[Message]:
    """Labels with an unknown class, or with ids of something else."""
    values: list[dict[str, Any]] = [
        {"id": k, "label": "chargeback"} if fault == "class" else {"id": f"other-{k}", "label": 1}
        for k in range(count)
    ]
    return [message("labels", n, value) for n, value in enumerate(values)]


@pytest.mark.parametrize("fault", ["class", "id"])
def test_features_wait_while_no_label_fits(tmp_path: Path, fault: str) -> None:
    """From ten labels on, whatever is wrong; the first that fits lets features expire again."""
    with trainer(tmp_path, **SECTIONS) as made:
        learn(made, features(0, 50))
        assert 10 == len(learn(made, [*wrong(10, fault), *features(50, 55)]))
        learn(made, features(55, 300))
        assert (0, 300) == (made.events_learned, made.late_figures.waiting)

        learn(made, [message("labels", 10, {"id": 290, "label": 1})])
        learn(made, features(300, 310))

    assert 209 == made.late_figures.expired == made.events_learned


def test_nine_wrong_labels_are_an_exception(tmp_path: Path) -> None:
    """They become dead letters, and features expire."""
    with trainer(tmp_path, **SECTIONS) as made:
        learn(made, features(0, 50))
        learn(made, [*wrong(9, "class"), *features(50, 300)])

    assert 199 == made.events_learned


@pytest.mark.parametrize("cut", [0, 15, 30])
def test_labels_count_in_their_order(tmp_path: Path, cut: int) -> None:
    """However they are cut into batches: what comes after the last that fits is counted."""
    values = [{"id": 3, "label": "odd"}] * 20 + [{"id": 3, "label": 1}] + [{"id": 4}] * 9
    labels = [message("labels", n, value) for n, value in enumerate(values)]
    with trainer(tmp_path, **SECTIONS) as made:
        learn(made, features(0, 50))
        made.learn(labels[:cut])
        made.learn(labels[cut:])

    assert (9, 1) == (made.label_fit.misfits, made.label_fit.fitted)
    assert not made.label_fit.is_failing


def test_memory_stays_bounded(tmp_path: Path) -> None:
    """Beyond `labels.max_waiting` the oldest are dropped; a label of one of them is unmatched."""
    labels = {**SECTIONS["labels"], "max_waiting": 40}
    with trainer(tmp_path, **{**SECTIONS, "labels": labels}) as made:
        learn(made, [*features(0, 20), *wrong(10, "class")])
        learn(made, features(20, 100))
        assert (0, 40, 60) == (
            made.events_learned,
            made.late_figures.waiting,
            made.late_figures.expired,
        )
        ((_, error),) = learn(made, [message("labels", 10, {"id": 5, "label": 1})])

    assert "label_unmatched" == error.code


def test_it_is_remembered(tmp_path: Path) -> None:
    """After a restart features still wait, and the learner reports why."""
    with trainer(tmp_path, **SECTIONS) as made:
        learn(made, [*features(0, 50), *wrong(10, "class")])
        made.write_checkpoint()
    settings = settings_for(
        "127.0.0.1:9", tmp_path, "events", events={"id": "id"},
        **{**SECTIONS, "labels": {"topic": "labels", **SECTIONS["labels"]}},
    )  # fmt: skip
    metrics = learner_metrics(CollectorRegistry())
    checkpoint, _ = FolderCheckpointStore(settings.checkpoints.directory).restore()
    assert checkpoint is not None
    again = LateTrainer(make_parts(settings, metrics), checkpoint.state, restored=True)
    learn(again, features(50, 300))
    progress = Progress(settings, metrics)
    progress.note_labels(again.label_fit)
    again.close()

    assert (0, 300) == (again.events_learned, again.late_figures.waiting)
    problem = progress.condition.problem
    assert "none of the last 10 labels has found its features; 10 could not be read" in problem
    assert "'chargeback' is not one of 0, 1" in problem
    assert "no features expire until one label fits" in problem


@pytest.mark.parametrize(("joined", "status"), [(0, 503), (5, 200)])
def test_readiness_shows_it(
    serve: Callable[..., tuple[Settings, Program]], joined: int, status: int
) -> None:
    """A model that has learned from labels is served; one of expired features alone is not good."""
    wanted, program = serve()
    publish(wanted, taught(wanted))
    program.ready()
    figures = {"waiting": 1, "early": 0, "held": 0, "joined": joined, "expired": 9, "unmatched": 10}
    late = LateFigures(**figures, corrected=0, mean_delay=0.0, recent_delay=0.0)
    report(wanted, Condition(problem="no label fits", misfit_labels=10, late_labels=late))
    answer = until(
        lambda: (
            found if (found := program.probe(status)) and "no label fits" in str(found) else None
        ),
        PATIENCE,
    )

    assert "no label fits" in str(answer)
    assert program.predict()["model"]["stale"]


def test_skipped_records_are_named(tmp_path: Path) -> None:
    """Deletes and tombstones of either topic: the share of rejected records leaves them out."""
    tombstones = [
        Message(topic=topic, partition=0, offset=0, value=None, timestamp=(1, 0), headers=[])  # type: ignore[call-arg]
        for topic in ("events", "labels")
    ]
    mapped = {"id": "id", "envelope": "debezium"}
    with trainer(tmp_path, **{**SECTIONS, "events": mapped}) as made:
        assert [] == made.learn(tombstones)
        assert tombstones == made.skipped
        made.learn([])
        assert [] == made.skipped
