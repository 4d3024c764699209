"""A River model in the service: what the settings take, how it replays, what it keeps, how it
answers on.
"""

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from confluent_kafka import Producer

from kaboost.models.adapters.from_river import RiverModel
from kaboost.service.config import settings as config
from kaboost.service.config.settings import Settings
from kaboost.service.errors import ConfigError, Damaged, Refused
from kaboost.service.river.progress import NAME, RiverProgress
from kaboost.service.river.shared_model import FairLock, SharedModel
from kaboost.service.river.startup import ReplayFromTopic
from tests.kafka.broker import Broker
from tests.kafka.client import Letter, create_topic, encode, produce
from tests.ports import free_port
from tests.service.learning import (
    Running,
    committed,
    events,
    gauge,
    learning,
    rows,
    until,
)
from tests.service.serving import running, settings

TREE = {"river": "tree.HoeffdingTreeClassifier"}
Make = Callable[..., Settings]
Send = Callable[..., None]
Letters = Callable[..., list[Letter]]


def replayed(shared: SharedModel) -> RiverModel | None:
    """Return the model once it is served."""
    return shared.snapshot.model if shared.snapshot else None  # type: ignore[return-value]


def startup(shared: SharedModel) -> dict[str, Any]:
    """Return the option of a learner that shares its model."""
    return {"startup": partial(ReplayFromTopic, shared=shared)}


def learn_all(settings: Settings, count: int, **options: Any) -> SharedModel:
    """Learn until so many events are learned, then stop; return what was shared."""
    shared = SharedModel()

    def learned() -> bool:
        return bool(shared.snapshot and SharedModel.current(shared.snapshot)[1] >= count)

    with learning(settings, **startup(shared), **options) as process:
        until(lambda: not process.alive or learned())
        assert 0 == process.stop()
    return shared


# What the settings take.


def load(folder: Path, **sections: Any) -> Settings:
    """Load a file of one feature and a River model."""
    tree = {"task": {"kind": "binary"}, "features": {"schema": {"x": "number"}}, **sections}
    path = folder / "kaboost.yaml"
    path.write_text(yaml.safe_dump(tree))
    return config.load(path)


def test_settings_show_it_spelled_out(tmp_path: Path) -> None:
    """`config show` names what is set and what is added to it."""
    found = load(tmp_path, model={"river": "linear_model.LogisticRegression", "scale": True})
    shown = config.values(found)

    assert found.is_live
    assert "linear_model.LogisticRegression" == shown[("model", "river")]
    assert ["preprocessing.StandardScaler"] == [s["river"] for s in shown[("model", "steps")]]


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ({"river": "forest.ARFClasifier"}, "did you mean forest.ARFClassifier?"),
        ({**TREE, "params": {"grace": 3}}, "model.params.grace"),
        ({"river": "linear_model.LogisticRegression"}, "one_hot: true"),
        ({**TREE, "rule": "sgb"}, "model.rule: unknown key next to river"),
    ],
)
def test_settings_refuse_what_cannot_be(tmp_path: Path, model: dict[str, Any], words: str) -> None:
    """Name, parameter and what the schema brings are judged before anything starts."""
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, model=model, features={"schema": {"x": "number", "c": "category"}})

    assert words in str(caught.value)
    assert str(tmp_path) in str(caught.value)


@pytest.mark.parametrize(
    ("command", "more", "words"),
    [
        ("api", {}, "kaboost api does not support it"),
        ("learner", {}, "kaboost learner does not support it"),
        ("serve", {"api": {"workers": 2}}, "api.workers = 2"),
    ],
)
def test_half_a_service_is_refused(
    tmp_path: Path, command: str, more: dict[str, Any], words: str
) -> None:
    """One process learns and answers; whatever else is asked for is a wrong configuration."""
    settings(tmp_path, model=TREE, **more)
    done = subprocess.run(
        [sys.executable, "-m", "kaboost.service.cli", command, "--config", "kaboost.yaml"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert 2 == done.returncode
    assert words in done.stderr


# What both threads share.


def test_a_request_waits_for_one_event_only() -> None:
    """However fast the learning comes round again, who waits is next: a plain lock would let the
    same thread have it hundreds of times.
    """
    lock, order = FairLock(), []

    def ask() -> None:
        with lock:
            order.append("request")

    for _ in range(10):
        with lock:
            order.append("event")
            thread = threading.Thread(target=ask)
            thread.start()
            time.sleep(0.02)  # it stands in the queue by now
        with lock:
            order.append("event")
        thread.join()

    assert ["event", "request", "event"] * 10 == order


# How it replays.


def test_it_replays_from_the_beginning(
    make_settings: Make, topic: str, send: Send, dead_letters: Letters
) -> None:
    """A second start learns all again, to the same answers and a higher version; what was a dead
    letter is counted, not written again, until a cold start asks for it.
    """
    found = make_settings(topic, model=TREE)
    some = rows(200)
    send(topic, [b"{", *events(some), b"null"])
    first = learn_all(found, 200)
    second = learn_all(found, 200)
    letters = len(dead_letters(topic, 3, 3.0))
    third = learn_all(found, 200, cold_start=True)
    assert first.snapshot
    assert second.snapshot
    assert third.snapshot
    features = [x for x, _ in some]
    one, two = replayed(first), replayed(second)
    assert one
    assert two

    assert (200, 200, 2) == (one.events, two.events, letters)
    np.testing.assert_array_equal(
        one.predict_proba_many(features), two.predict_proba_many(features)
    )
    assert first.snapshot.version < second.snapshot.version < third.snapshot.version
    assert 202 == committed(found)
    assert 4 == len(dead_letters(topic, 5, 3.0))
    assert not list(found.snapshots.directory.glob("snapshot-*"))


def test_start_from_latest_replays_nothing(make_settings: Make, topic: str, send: Send) -> None:
    """`kafka.start_from` is heeded at every start: nothing is on disk that would overrule it."""
    found = make_settings(topic, model=TREE, kafka={"start_from": "latest"})
    send(topic, events(rows(20)))
    shared = SharedModel()
    with learning(found, **startup(shared)) as process:
        until(lambda: shared.snapshot)
        send(topic, events(rows(5)))
        until(lambda: shared.snapshot and shared.snapshot.header["events_learned"] == 5)
        assert 0 == process.stop()


def test_not_shown_before_the_end(make_settings: Make, topic: str, send: Send) -> None:
    """Until all that stood on the topic is learned there is no model, but a figure of progress."""
    slow = {"river": "ensemble.BaggingClassifier", "params": {"model": TREE, "n_models": 40}}
    found = make_settings(topic, model=slow)
    send(topic, events(rows(2_000)))
    shared, sentences, shown = SharedModel(), set(), []
    with learning(found, **startup(shared)) as process:
        while shared.snapshot is None and process.alive:
            sentences.add(shared.progress)
            shown.append(shared.snapshot)
        assert shared.snapshot
        learned = shared.snapshot.header["events_learned"]
        assert 0 == process.stop()

    assert 2_000 == learned
    assert any("replayed 1" in words and "of 2000 records" in words for words in sentences)


def test_holes_at_the_end_are_not_waited_for(
    make_settings: Make, topic: str, broker: Any, send: Send
) -> None:
    """The marker that ends a transaction has an offset and is no record: it never comes."""
    writer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": topic})
    writer.init_transactions(30)
    writer.begin_transaction()
    for value in events(rows(10)):
        writer.produce(topic, value)
    writer.commit_transaction(30)
    shared = learn_all(make_settings(topic, model=TREE), 10)

    assert shared.snapshot
    assert {"0": 10} == shared.snapshot.header["offsets"]


def test_weights_it_cannot_take_are_counted(
    make_settings: Make, topic: str, send: Send, caplog: pytest.LogCaptureFixture
) -> None:
    """Each is learned once; the first is said aloud, all are counted, the losses are weighted."""
    spec = {"river": "naive_bayes.GaussianNB", "one_hot": True}
    found = make_settings(topic, model=spec)
    send(topic, [encode(x, y, weight=2.0) for x, y in rows(30)])
    shared = SharedModel()
    with learning(found, **startup(shared)):
        until(lambda: shared.snapshot and shared.snapshot.header["events_learned"] == 30)
        until(lambda: gauge(found, "kaboost_weights_ignored_total") == 30)
    assert shared.snapshot

    assert 60 == shared.snapshot.validation.weight_sum
    assert 1 == sum("weights other than 1" in record.message for record in caplog.records)


# What it keeps.


def test_progress_comes_back(tmp_path: Path) -> None:
    """Offsets and versions are read as written; of another topic the versions alone."""
    progress = RiverProgress("events", {0: 7, 1: 9}, 1_000)
    progress.write(tmp_path)

    assert progress == RiverProgress.read(tmp_path, "events")
    assert RiverProgress("others", {}, 1_000) == RiverProgress.read(tmp_path, "others")
    assert RiverProgress("events", {}, 0) == RiverProgress.read(tmp_path / "elsewhere", "events")
    (tmp_path / NAME).write_bytes(b"broken")
    with pytest.raises(Damaged):
        RiverProgress.read(tmp_path, "events")


def test_topic_made_anew_writes_its_dead_letters(
    make_settings: Make, topic: str, send: Send, dead_letters: Letters
) -> None:
    """Offsets noted beyond the end of the topic are those of another one."""
    found = make_settings(topic, model=TREE)
    RiverProgress(topic, {0: 100}, 0).write(found.checkpoints.directory)
    send(topic, [b"{", *events(rows(3))])
    learn_all(found, 3)

    assert 1 == len(dead_letters(topic, 1))


def test_two_learners_are_refused(make_settings: Make, topic: str, send: Send) -> None:
    """The folder of the progress has one writer."""
    found = make_settings(topic, model=TREE)
    waits = {"lock_timeout": 0.1}
    other = make_settings(topic, model=TREE, metrics={"port": free_port()}, checkpoints=waits)
    shared = SharedModel()
    with learning(found, **startup(shared)):
        until(lambda: shared.snapshot)
        with pytest.raises(Refused):
            Running(other, **startup(SharedModel())).wait()


# How it answers on.

UNIT = {**TREE, "steps": [{"river": "preprocessing.Normalizer"}]}  # divides by the norm of x


def test_internal_error_leaves_a_model_that_answers(
    tmp_path: Path, topic: str, send: Send, broker: Any
) -> None:
    """An event that the library fails at ends the learning, not the answers: they are stale, and
    the probe names the event.
    """
    kafka = {"bootstrap_servers": broker.bootstrap, "topic": topic, "group_id": topic}
    schema = {"schema": {"x": "number"}}
    wanted = settings(tmp_path, kafka=kafka, model=UNIT, features=schema)
    with running("serve", wanted) as program:
        program.ready()
        send(topic, [encode({"x": 1.0 + n % 3}, n % 2) for n in range(30)])
        until(lambda: program.predict({"x": 2.0})["model"]["events_learned"] == 30)
        send(topic, [encode({"x": 0.0}, 1), encode({"x": 1.0}, 1)])
        until(lambda: program.predict({"x": 2.0})["model"]["stale"])
        reason = until(lambda: program.ready()["reason"])  # a moment after the first stale answer

        assert "internal error at" in reason
        assert f"{topic}[0]@30" in reason
        assert "stopped" == until(lambda: _stopped(program.ready()))
        assert 0 == program.end(signal.SIGTERM)


def _stopped(body: dict[str, Any]) -> str | None:
    state = body["learner"]["state"]
    return state if state == "stopped" else None


def test_lost_broker_costs_no_answer(tmp_path: Path, own_broker: Broker) -> None:
    """While no broker answers the model does, and says that it is stale; afterwards a second one
    is rebuilt beside it and goes on.
    """
    topic = create_topic(own_broker.bootstrap)
    kafka = {"bootstrap_servers": own_broker.bootstrap, "topic": topic, "group_id": topic}
    kafka |= {"broker_timeout": 3.0, "topic_timeout": 60.0}
    wanted = settings(tmp_path, kafka=kafka, model=TREE, features={"schema": {"x": "number"}})
    values = [encode({"x": float(n % 7)}, n % 2) for n in range(60)]
    with running("serve", wanted) as program:
        program.ready()
        produce(own_broker.bootstrap, topic, values[:50])
        until(lambda: program.predict({"x": 2.0})["model"]["events_learned"] == 50)
        pid = program.child("learner").pid
        until(lambda: program.metric("kaboost_checkpoint_size_bytes"))
        own_broker.stop()
        lost = until(lambda: _stale(program.predict({"x": 2.0})))
        own_broker.start()
        produce(own_broker.bootstrap, topic, values[50:])
        found = until(lambda: _learned(program.predict({"x": 2.0}), 60))

        assert (50, 60) == (lost["events_learned"], found["events_learned"])
        assert lost["version"] < found["version"]
        assert not found["stale"]
        assert pid == program.child("learner").pid


def _stale(served: dict[str, Any]) -> dict[str, Any] | None:
    return served["model"] if served["model"]["stale"] else None


def _learned(served: dict[str, Any], events: int) -> dict[str, Any] | None:
    return served["model"] if served["model"]["events_learned"] == events else None
