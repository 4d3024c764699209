"""`task.labels: auto` in the service: classes are learned as they come, over kills and batches."""

import json
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kaboost.models.model import Model
from kaboost.service.config.settings import Settings
from kaboost.service.errors import ConfigError, Incompatible
from kaboost.service.events.decoders import make_decoder
from kaboost.service.http.ingest import _check
from kaboost.service.onboarding.decoding import try_events
from kaboost.service.onboarding.topic_sample import RawRecord
from kaboost.service.storage.checkpoints import FolderCheckpointStore
from kaboost.service.storage.snapshots import FolderSnapshotStore
from kaboost.service.storage.state import State
from tests.kafka.broker import Reachable
from tests.kafka.client import encode, read_letters
from tests.service.learning import (
    SCHEMA,
    learn_all,
    learning,
    rows,
    saved,
    settings_for,
    until,
)
from tests.service.serving import Program
from tests.service.test_late_labels import DAY, T0, consume, feature_record, label_record
from tests.specs import LINEAR

Make = Callable[..., Settings]
Send = Callable[..., None]
SPEC = {**LINEAR, "loss": "logistic", "multiclass": "one_vs_rest"}
TASK = {"kind": "multiclass", "labels": "auto", "max_classes": 4}
CLASSES = ["ship", "truck", "car", "bus"]  # in order of first sight


def rows_of_new_classes(count: int) -> list[tuple[dict[str, Any], str]]:
    """Draw events whose labels come up one by one; every 20th has a mistyped one from 150 on."""
    made = []
    for k, (features, _) in enumerate(rows(count)):
        known = min(len(CLASSES), 1 + k // 40)
        label = CLASSES[int((np.tanh(features["x"]) + 1) / 2 * known)] if k else CLASSES[0]
        made.append((features, "trcuk" if k >= 160 and k % 20 == 0 else label))
    return made


def newest(settings: Settings) -> State:
    checkpoint, _ = FolderCheckpointStore(settings.checkpoints.directory).restore()
    assert checkpoint is not None
    return checkpoint.state


def expect_equal(ours: State, theirs: State) -> None:
    """Compare two states bit for bit, also what is recorded of the losses."""
    assert ours.model.describe() == theirs.model.describe()
    a, b = ours.to_arrays(), theirs.to_arrays()
    assert a.keys() == b.keys()
    for name in a:
        np.testing.assert_array_equal(a[name], b[name], err_msg=name)


def other_settings(settings: Settings, broker: Reachable, folder: Path, **more: Any) -> Settings:
    """Make settings of a second learner of the same topics, with files of its own."""
    folder.mkdir()
    sections = {
        name: getattr(settings, name).model_dump(mode="json", exclude_unset=True)
        for name in ("events", "labels")
        if name in settings.model_fields_set
    }
    for section in sections.values():
        section.pop("directory", None)
    kafka = {"group_id": f"{settings.kafka.group_id}-2", **more}
    return settings_for(
        broker.bootstrap, folder, settings.kafka.topic, task=TASK, model=SPEC, kafka=kafka,
        **sections,
    )  # fmt: skip


def test_classes_survive_kills(
    topic: str, make_settings: Make, send: Send, broker: Reachable, tmp_path: Path
) -> None:
    """After three times kill -9 classes, their order, every array and all figures are those of a
    learner in other batches; a class too many is a dead letter with its remedy.
    """
    settings = make_settings(topic, task=TASK, model=SPEC, kafka={"batch_events": 90})
    events = [encode(features, label) for features, label in rows_of_new_classes(240)]
    mistyped = [k for k, (_, label) in enumerate(rows_of_new_classes(240)) if label == "trcuk"]
    command = [sys.executable, "-m", "kaboost.service.cli", "learner", "--config"]
    log = tmp_path / "learner.log"
    for part in range(4):
        send(topic, events[60 * part : 60 * (part + 1)])
        with (
            log.open("ab") as lines,
            subprocess.Popen([*command, str(tmp_path / "kaboost.json")], stderr=lines) as process,
        ):
            until(lambda end=60 * (part + 1): saved(settings) == {0: end} or process.poll())
            process.kill() if part < 3 else process.terminate()
    second = other_settings(settings, broker, tmp_path / "second", batch_events=7)
    learn_all(second, 240 - len(mistyped))

    assert list(newest(settings).model.classes_) == CLASSES
    expect_equal(newest(settings), newest(second))
    letters = read_letters(broker.bootstrap, settings.kafka.topic, len(mistyped))
    assert {letter.code for letter in letters} == {"label"}
    assert {letter.origin[2] for letter in letters} == {*mistyped}
    assert "task.max_classes" in letters[0].texts["__connect.errors.exception.message"]
    found = [json.loads(line) for line in log.read_text().splitlines() if "a new class" in line]
    assert [(line["label"], line["classes"]) for line in found][:4] == [
        (label, k + 1) for k, label in enumerate(CLASSES)
    ]
    firsts = [
        [label for _, label in rows_of_new_classes(240)].index(label) + 1 for label in CLASSES
    ]
    assert [line["event_number"] for line in found][:4] == firsts


def test_the_model_is_that_of_the_library(topic: str, make_settings: Make, send: Send) -> None:
    """The same events in-process give the same bytes, and snapshots list the classes."""
    settings = make_settings(topic, task={**TASK, "max_classes": 9}, model=SPEC)
    events = rows_of_new_classes(200)
    send(topic, [encode(features, label) for features, label in events])
    learn_all(settings, 200)
    twin = Model("multiclass", SPEC, SCHEMA, labels="auto", max_classes=9)
    twin.learn_many([features for features, _ in events], [label for _, label in events])

    ours, theirs = newest(settings).model.to_arrays(), twin.to_arrays()
    assert ours.keys() == theirs.keys()
    for name in theirs:
        np.testing.assert_array_equal(ours[name], theirs[name], err_msg=name)
    snapshot = FolderSnapshotStore(settings.snapshots.directory).newest()
    assert snapshot is not None
    assert (*CLASSES, "trcuk") == snapshot.model.classes_
    rest = [features for features, _ in events[:9]]
    np.testing.assert_array_equal(
        snapshot.model.predict_proba_many(rest), twin.predict_proba_many(rest)
    )
    fresh = newest(settings).validation
    assert 5 == len(fresh.counts)
    assert 200.0 == fresh.counts.sum()
    assert (5, 5) == fresh.transitions.shape
    assert 199.0 == fresh.transitions.sum()


def test_events_of_weight_0_and_of_one_class(
    topic: str, make_settings: Make, send: Send, broker: Reachable
) -> None:
    """The first begin no class, also before there is one; of one class all is predicted."""
    settings = make_settings(topic, task=TASK, model=SPEC)
    events = rows(12)
    weights = [0.0, 0.0, *[1.0] * 9, 0.0]
    names = ["a", "b", *["only"] * 9, "c"]
    columns = zip(events, names, weights, strict=True)
    send(topic, [encode(features, y, weight=w) for (features, _), y, w in columns])
    learn_all(settings, 9)

    state = newest(settings)
    assert ("only",) == state.model.classes_
    assert {0: 12} == state.offsets
    assert [0.0, 0.0, 0.0] == state.validation.mean_loss.tolist()


def test_another_bound_is_refused(topic: str, make_settings: Make, send: Send) -> None:
    """A checkpoint of another bound, or of declared labels, names the difference."""
    settings = make_settings(topic, task=TASK, model=SPEC)
    send(topic, [encode(features, label) for features, label in rows_of_new_classes(50)])
    learn_all(settings, 50)

    for task, named in (
        ({**TASK, "max_classes": 9}, "max_classes is 4 there, 9"),
        ({"kind": "multiclass", "labels": CLASSES}, "max_classes is 4 there, None"),
    ):
        other = make_settings(topic, task=task, model=SPEC)
        with learning(other) as running, pytest.raises(Incompatible, match=named):
            running.wait()


@pytest.fixture
def late(make_topic: Callable[..., str], make_settings: Make) -> Callable[..., Settings]:
    """Make settings of two fresh topics with classes to learn."""

    def make(task: Any = TASK, kafka: Any = None, **more: Any) -> Settings:
        section = {"topic": make_topic(), "id": "order", "label": "result", "timestamp": "at"}
        return make_settings(
            make_topic(),
            task=task,
            model=SPEC,
            kafka=kafka or {},
            events={"id": "order", "timestamp": "at"},
            labels={**section, "wait": "10d", "early": "1d", **more},
        )

    return make


def test_late_labels_begin_classes(
    late: Callable[..., Settings], send: Send, broker: Reachable, tmp_path: Path
) -> None:
    """With labels on another topic classes begin in the order of the labels, whatever
    the batches and whether a label is read before its features.
    """
    settings = late(kafka={"batch_events": 500})
    events, draw = rows_of_new_classes(160), random.Random(3)
    order = [0, *draw.sample(range(1, 160), 159)]
    records = [label_record(k, events[k][1], T0 + DAY + n) for n, k in enumerate(order)]
    records += [label_record(order[5], "bus", T0 + DAY + 200), label_record(999, "plane", T0 + DAY)]
    assert settings.labels.topic
    send(settings.kafka.topic, [feature_record(k, events[k][0], T0 + k) for k in range(160)])
    send(settings.labels.topic, records)
    counters = consume(settings, 322)
    second = other_settings(settings, broker, tmp_path / "second", batch_events=11)
    consume(second, 322)

    assert 160 == counters["joined"]
    classes = tuple(dict.fromkeys(events[k][1] for k in order))
    assert classes == newest(settings).model.classes_
    for one in (settings, second):
        counts = newest(one).validation.counts
        assert [[label for _, label in events].count(name) for name in classes] == counts.tolist()
    assert newest(settings).model.describe() == newest(second).model.describe()
    letters = read_letters(broker.bootstrap, settings.kafka.topic, 1)
    assert "task.max_classes" in letters[0].texts["__connect.errors.exception.message"]


def test_the_label_of_expired_features_is_a_class(
    late: Callable[..., Settings], send: Send
) -> None:
    """It is known from the settings: class 0, over restarts."""
    settings = late(wait="1d", expired={"label": "none"})
    assert settings.labels.topic
    events = rows_of_new_classes(20)
    send(settings.kafka.topic, [feature_record(k, events[k][0], T0 + k) for k in range(10)])
    send(settings.labels.topic, [label_record(k, events[k][1], T0 + 100 + k) for k in range(5)])
    consume(settings, 15)
    send(settings.kafka.topic, [feature_record(99, events[9][0], T0 + 3 * DAY)])
    send(settings.labels.topic, [label_record(98, "ship", T0 + 3 * DAY)])
    consume(settings, 2, expired=5)

    state = newest(settings)
    assert ("none", "ship") == state.model.classes_
    assert [5.0, 5.0] == state.validation.counts.tolist()


def test_the_api_before_and_after_the_first_class(
    serve: Callable[..., tuple[Settings, Program]],
) -> None:
    """Null before the first class, and each new class from the snapshot on that has it."""
    settings, program = serve(task=TASK, model=SPEC)
    kinds = settings.features.columns
    model = Model("multiclass", SPEC, kinds, labels="auto", max_classes=4)
    publish_state(settings, model)
    program.ready()

    before = program.predict({"age": 1})
    assert (None, None, {}, None) == tuple(
        before[name] for name in ("prediction", "probability", "probabilities", "score")
    )
    assert before["model"]["cold_start"]
    assert [] == program.client.get("/model").json()["labels"]
    assert 200 == program.client.get("/openapi.json").status_code
    for count, label in enumerate(["yes", "no", "perhaps"], 1):
        model.learn_one({"age": count}, label)
        version = publish_state(settings, model)
        until(lambda v=version: program.predict({"age": 1})["model"]["version"] == v)
        answer = program.predict({"age": 1})
        assert ["yes", "no", "perhaps"][:count] == list(answer["probabilities"])
        assert 1.0 == pytest.approx(sum(answer["probabilities"].values()))
        report = program.client.get("/model").json()
        assert ["yes", "no", "perhaps"][:count] == report["labels"]
    example = program.client.get("/openapi.json").text
    assert "perhaps" in example


def publish_state(settings: Settings, model: Model) -> int:
    """Publish a snapshot of a model, as the learner does."""
    events = int(model.booster.progress.events)
    store = FolderSnapshotStore(settings.snapshots.directory)
    store.heartbeat()
    header = {
        "name": settings.name,
        "created": "2026-11-20T10:00:00Z",
        "events_learned": events,
        "cold_start": events == 0,
        "offsets": {"0": events},
    }
    return store.publish(header, State.initial(model, {0: events}))


def test_posted_records_may_bring_classes(make_settings: Make) -> None:
    """`POST /events` accepts what the learner would, and refuses a class too many."""
    settings = make_settings("topic", task={**TASK, "max_classes": 2}, model=SPEC)
    known = settings.task.known_labels
    values = [encode({"x": 1.0}, label) for label in ("a", "b", "a", "c", 7)]

    faults, ids = _check(make_decoder(SCHEMA, known, settings), values, known)

    assert [3, 4] == [index for index, _ in faults]
    assert "task.max_classes" in faults[0][1].message
    assert "whole number" in faults[1][1].message
    assert [None] * 5 == ids


@pytest.mark.parametrize(
    ("seen", "classes"),
    [
        (["3", "x", "4"], ("3", "x", "4")),
        ([3, "4", "3", 5.0], (3, 4, 5)),
        ([True, "no", "yes", False], (True, False)),
    ],
)
def test_coerced_labels(make_settings: Make, seen: list[Any], classes: tuple[Any, ...]) -> None:
    """With `events.coerce` a text is the number or boolean that the first label was."""
    settings = make_settings(
        "topic", task=TASK, model=SPEC, events={"coerce": True, "label": "y", "features": "*"}
    )
    raws = [RawRecord(json.dumps({"x": 1.0, "y": label}).encode(), ()) for label in seen]

    trial = try_events(settings, raws)

    assert [] == trial.faults
    assert {str(label) for label in classes} == set(trial.labels)
    assert len(seen) == sum(trial.labels.values())


@pytest.mark.parametrize(
    ("sections", "message"),
    [
        ({"task": {"kind": "binary", "labels": "auto"}}, "list both"),
        ({"task": {"kind": "regression", "labels": "auto"}}, "leave them out"),
        ({"task": {**TASK, "max_classes": 1}}, "task.max_classes"),
        ({"task": {**TASK, "max_classes": 1001}}, "task.max_classes"),
        ({"task": TASK, "model": {"bank": "linear", "loss": "softmax"}}, "one_vs_rest"),
        ({"task": TASK, "model": {"river": "naive_bayes.GaussianNB"}}, "not for River models"),
    ],
)
def test_settings_that_are_refused(
    make_settings: Make, sections: dict[str, Any], message: str
) -> None:
    """The message names the remedy."""
    with pytest.raises(ConfigError, match=message):
        make_settings("topic", **sections)


def test_the_environment_may_say_auto(make_settings: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """A word, where a list would be JSON."""
    monkeypatch.setenv("KABOOST_TASK__LABELS", "auto")
    settings = make_settings("topic", task={"kind": "multiclass"}, model=SPEC)

    assert settings.task.known_labels.is_open
