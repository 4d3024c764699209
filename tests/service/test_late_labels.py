"""Labels that come later, on a real broker: joined, expired, corrected, and once through kills."""

import json
import random
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from kaboost.models.model import Model
from kaboost.service.config.settings import Settings
from kaboost.service.errors import BrokerError, Exit, Refused
from kaboost.service.kafka import consumer, topics
from kaboost.service.learner import stalls
from kaboost.service.storage.checkpoints import FolderCheckpointStore
from kaboost.service.storage.late_figures import LateFigures
from kaboost.service.storage.snapshots import FolderSnapshotStore
from kaboost.service.storage.state import State
from tests.kafka.broker import Reachable
from tests.kafka.client import Letter, recreate
from tests.service.learning import gauge, learning, rows, saved, until
from tests.specs import LINEAR

Make = Callable[..., Settings]
Send = Callable[..., None]
T0 = 1_760_000_000.0  # of the first event, seconds since 1970
DAY = 86_400.0


def feature_record(k: int, features: dict[str, Any], time: float) -> bytes:
    at = datetime.fromtimestamp(time, UTC).isoformat()
    return json.dumps({"order": k, "at": at, **features}).encode()


def label_record(k: int | str, label: Any, time: float) -> bytes:
    return json.dumps({"order": k, "result": label, "at": int(time * 1000)}).encode()


@pytest.fixture
def late(make_topic: Callable[..., str], make_settings: Make) -> Callable[..., Settings]:
    """Make settings of two fresh topics: `late(partitions=1, wait="10d", ...)`."""

    def make(partitions: int = 1, **labels: Any) -> Settings:
        section = {"topic": make_topic(partitions=partitions), "id": "order", "label": "result"}
        return make_settings(
            make_topic(partitions=partitions),
            events={"id": "order", "timestamp": "at"},
            labels={**section, "timestamp": "at", **labels},
        )

    return make


def newest(settings: Settings) -> State:
    checkpoint, _ = FolderCheckpointStore(settings.checkpoints.directory).restore()
    assert checkpoint is not None
    return checkpoint.state


def consumed(settings: Settings) -> float | None:
    """Return how many records the learner has consumed; None before it serves its metrics."""
    try:
        return gauge(settings, "kaboost_events_consumed_total")
    except OSError:
        return None


def figures(settings: Settings) -> LateFigures | None:
    """Return the figures of late labels that the newest checkpoint has."""
    checkpoint, _ = FolderCheckpointStore(settings.checkpoints.directory).restore()
    if checkpoint is None or checkpoint.state.late is None:
        return None
    labels = checkpoint.header["labels"]
    return LateFigures(
        labels["waiting"], labels["early"], labels["held"], *checkpoint.state.late.counts
    )


def reported(settings: Settings) -> LateFigures | None:
    """Return the figures that the learner reports to the API."""
    return FolderSnapshotStore(settings.snapshots.directory).read_condition().late_labels


def consume(settings: Settings, records: int, expired: int = 0) -> dict[str, float]:
    """Learn until so many records are consumed, so many features have expired and the figures for
    the API say so, too; return the counters of late labels.
    """
    names = ["joined", "expired", "corrected"]
    with learning(settings) as running:
        until(lambda: not running.alive or consumed(settings) == records)
        until(lambda: (gauge(settings, "kaboost_labels_expired_total") or 0.0) >= expired)
        counters = {name: gauge(settings, f"kaboost_labels_{name}_total") or 0.0 for name in names}
        until(lambda: reported(settings) == figures(settings))
        assert 0 == running.stop()
    checkpoint, _ = FolderCheckpointStore(settings.checkpoints.directory).restore()
    assert checkpoint is not None
    return {**counters, **checkpoint.header["labels"]}


def test_labels_are_joined_by_id(late: Callable[..., Settings], send: Send) -> None:
    """The model is that of features captured in their order and learned in the order of labels."""
    settings = late()
    stream = rows(300)
    times = [T0 + 60.0 * k for k in range(300)]
    order = random.Random(1).sample(range(300), 300)
    send(settings.kafka.topic, [feature_record(k, stream[k][0], times[k]) for k in range(300)])
    labels = [label_record(k, stream[k][1], T0 + DAY + n) for n, k in enumerate(order)]
    assert settings.labels.topic
    send(settings.labels.topic, labels)

    counters = consume(settings, 600)

    assert (300, 0, 0) == (counters["joined"], counters["waiting"], counters["early"])
    state = newest(settings)
    assert state.late is not None
    assert ({0: 300}, {0: 300}) == (state.offsets, state.late.offsets)
    twin = Model("binary", LINEAR, settings.features.columns)
    twin.learn_many([stream[k][0] for k in order], [stream[k][1] for k in order])
    assert int(twin.booster.progress.events) == state.events_learned
    delays = [T0 + DAY + n - times[k] for n, k in enumerate(order)]
    assert sum(delays) / 300 == pytest.approx(state.late.counts.mean_delay)


def test_a_label_may_come_first(late: Callable[..., Settings], send: Send) -> None:
    """It waits for its features, and is joined when they come."""
    settings = late()
    assert settings.labels.topic
    send(settings.labels.topic, [label_record(k, k % 2, T0) for k in range(10)])
    counters = consume(settings, 10)
    assert 10 == counters["early"]
    send(settings.kafka.topic, [feature_record(k, rows(10)[k][0], T0) for k in range(10)])

    counters = consume(settings, 10)

    assert (10, 0, 0) == (counters["joined"], counters["waiting"], counters["early"])


def test_features_expire_by_event_time(late: Callable[..., Settings], send: Send) -> None:
    """No clock counts: an hour after the last of them in event time, the old ones are negatives."""
    settings = late(wait="1h", expired={"label": 0})
    x = rows(3)
    times = [T0, T0 + 3600.0, T0 + 3600.5]
    send(settings.kafka.topic, [feature_record(k, x[k][0], times[k]) for k in range(2)])
    assert (0, 2) == (consume(settings, 2)["expired"], 2)  # at exactly `wait` it still waits
    send(settings.kafka.topic, [feature_record(2, x[2][0], times[2])])

    counters = consume(settings, 1, expired=1)

    assert (1, 2) == (counters["expired"], counters["waiting"])
    assert 1 == newest(settings).events_learned
    assert settings.labels.topic
    send(settings.labels.topic, [label_record(0, 1, T0 + 4000.0)])
    assert 1 == consume(settings, 1)["corrected"]
    assert figures(settings) == LateFigures(2, 0, 0, 0, 1, 0, 1, 0.0, 0.0)  # over the restarts


def test_a_label_without_features_is_a_dead_letter(
    late: Callable[..., Settings], send: Send, dead_letters: Callable[..., list[Letter]]
) -> None:
    """After `early` of event time it is rejected with its bytes and a remedy."""
    settings = late(early="1m")
    assert settings.labels.topic
    unmatched = label_record("nobody", 1, T0)
    send(settings.labels.topic, [unmatched])
    send(settings.kafka.topic, [feature_record(1, rows(1)[0][0], T0 + 61.0)])

    with learning(settings) as running:
        until(lambda: consumed(settings) == 2)
        until(lambda: gauge(settings, "kaboost_labels_unmatched_total") == 1)
        assert 0 == running.stop()

    (letter,) = dead_letters(settings.kafka.topic, 1)
    assert ("label_unmatched", unmatched) == (letter.code, letter.value)
    assert (settings.labels.topic, 0, 0) == letter.origin
    assert figures(settings) == LateFigures(1, 0, 0, 0, 0, 1, 0, 0.0, 0.0)
    assert "labels.early" in letter.texts["__connect.errors.exception.message"]


def test_labels_of_another_id_are_a_problem(late: Callable[..., Settings], send: Send) -> None:
    """Where not one of them finds its features, the learner reports it."""
    settings = late(early="1m")
    assert settings.labels.topic
    send(settings.labels.topic, [label_record(f"other {k}", 1, T0) for k in range(12)])
    send(settings.kafka.topic, [feature_record(1, rows(1)[0][0], T0 + 61.0)])
    store = FolderSnapshotStore(settings.snapshots.directory)

    with learning(settings):
        problem = until(lambda: store.read_condition().problem)

    assert "none of the last 12 labels has found its features" in problem


def test_a_second_label_corrects_the_first(late: Callable[..., Settings], send: Send) -> None:
    """The same label again is a duplicate; another one replaces the loss and is learned."""
    settings = late()
    assert settings.labels.topic
    send(settings.kafka.topic, [feature_record(k, rows(4)[k][0], T0) for k in range(4)])
    labels = [label_record(0, label, T0 + k) for k, label in enumerate([1, 1, 0, 0, 1])]
    send(settings.labels.topic, labels[:1])
    consume(settings, 5)
    send(settings.labels.topic, labels[1:])  # read as one batch: the last one counts

    counters = consume(settings, 4)

    assert 2 == counters["corrected"]
    state = newest(settings)
    assert 1.0 == float(state.validation.weight_sum)
    assert float(state.validation.error_sum[0]) in (0.0, 1.0)


def test_every_pair_is_learned_once_over_kills(
    late: Callable[..., Settings], send: Send, tmp_path: Path
) -> None:
    """Five times kill -9, four partitions, labels on other partitions than their features, some
    early, some twice: state, offsets and waiting features continue from one moment.
    """
    settings = late(partitions=4, early="1d")
    n, draw = 1200, random.Random(7)
    stream = rows(n)
    features = [feature_record(k, stream[k][0], T0 + k) for k in range(n)]
    labels = [label_record(k, stream[k][1], T0 + k + 600) for k in draw.sample(range(n), n - 100)]
    labels += draw.sample(labels, 50)
    command = [sys.executable, "-m", "kaboost.service.cli", "learner", "--config"]
    kills = 0
    for part in range(6):
        for partition in range(4):
            chunk = slice(part * 50, (part + 1) * 50)
            send(settings.kafka.topic, features[partition::4][chunk], partition=partition)
            assert settings.labels.topic
            send(settings.labels.topic, labels[partition::4][chunk], partition=3 - partition)
        with subprocess.Popen([*command, str(tmp_path / "kaboost.json")]) as process:
            if part < 5:
                wait_for_progress(settings, process)
                process.kill()
                kills += 1
            else:
                until(lambda: sum(saved(settings).values()) == n)
                until(lambda: newest(settings).events_learned == n - 100)
                process.terminate()
    state = newest(settings)

    assert 5 == kills
    assert state.late is not None
    assert len(labels) == sum(state.late.offsets.values())
    assert n - 100 == state.events_learned == int(state.validation.weight_sum)
    checkpoint, _ = FolderCheckpointStore(settings.checkpoints.directory).restore()
    assert checkpoint is not None
    assert {"waiting": 100, "early": 0, "held": 0} == checkpoint.header["labels"]
    counts = state.late.counts
    assert (n - 100, 0, 0, 0) == (counts.joined, counts.expired, counts.unmatched, counts.corrected)


@pytest.mark.parametrize("recreated", ["labels", "events"])
def test_a_recreated_topic_is_refused(
    late: Callable[..., Settings], send: Send, broker: Reachable, recreated: str
) -> None:
    """Trap: it has grown past the old offset. The events may be predictions, written by the API."""
    settings = late()
    assert settings.labels.topic
    topics = {"events": settings.kafka.topic, "labels": settings.labels.topic}
    values = {
        "events": [feature_record(k, rows(6)[k][0], T0) for k in range(6)],
        "labels": [label_record(k, 1, T0) for k in range(6)],
    }
    for name, topic in topics.items():
        send(topic, values[name][:4])
    consume(settings, 8)
    recreate(broker.bootstrap, topics[recreated])
    send(topics[recreated], values[recreated])

    with learning(settings) as running, pytest.raises(Refused, match="deleted and created") as err:
        running.wait()

    assert Exit.REFUSED == err.value.exit_code
    assert f"topic {topics[recreated]} " in str(err.value)
    state = newest(settings)
    assert state.late is not None
    assert ({0: 4}, {0: 4}) == (state.offsets, state.late.offsets)


def test_labels_recreated_under_a_running_learner_are_refused(
    late: Callable[..., Settings], send: Send, broker: Reachable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A learner that runs compares the id of both topics."""
    monkeypatch.setattr(consumer, "REFRESH_SECONDS", 0.2)
    settings = late()
    topic = settings.labels.topic
    assert topic
    send(topic, [label_record(1, 1, T0)])
    with learning(settings) as running:
        until(lambda: consumed(settings) == 1)
        recreate(broker.bootstrap, topic)

        with pytest.raises(Refused, match=f"topic {topic} was deleted and created again"):
            running.wait()


def test_an_id_that_came_late_is_kept(
    late: Callable[..., Settings], send: Send, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Trap: a broker that was slow at the start left checkpoints without the ids for good."""
    known, asked = topics.describe_id, list[str]()

    def slow(admin: Any, topic: str, *_: Any) -> str | None:
        asked.append(topic)
        return known(admin, topic) if asked.count(topic) > 1 else None

    monkeypatch.setattr(topics, "describe_id", slow)
    monkeypatch.setattr(consumer, "REFRESH_SECONDS", 0.1)
    settings = late()
    with learning(settings) as running:
        until(lambda: len(asked) >= 4 and min(map(asked.count, set(asked))) >= 2)
        send(settings.kafka.topic, [feature_record(0, rows(1)[0][0], T0)])
        until(lambda: saved(settings) == {0: 1})
        assert 0 == running.stop()

    checkpoint, _ = FolderCheckpointStore(settings.checkpoints.directory).restore()
    assert checkpoint is not None
    assert checkpoint.state.late is not None
    ids = [checkpoint.header["topic_id"], checkpoint.state.late.topic_id]
    assert None not in ids
    assert 2 == len(set(ids))


def test_another_topic_of_labels_is_refused(
    late: Callable[..., Settings], make_topic: Callable[..., str], send: Send, make_settings: Make
) -> None:
    """The offsets of the state would mean other labels, or be beyond its end."""
    settings = late()
    send(settings.kafka.topic, [feature_record(0, rows(1)[0][0], T0)])
    consume(settings, 1)
    labels = settings.labels.model_dump(mode="json") | {"topic": make_topic()}
    other = make_settings(
        settings.kafka.topic, events={"id": "order", "timestamp": "at"}, labels=labels
    )

    with learning(other) as running, pytest.raises(Refused, match="has read labels from") as err:
        running.wait()

    assert Exit.REFUSED == err.value.exit_code


def wait_for_progress(settings: Settings, process: "subprocess.Popen[bytes]") -> None:
    """Wait until a checkpoint has passed more events, or the process has ended."""
    before = sum(saved(settings).values())
    until(lambda: sum(saved(settings).values()) > before or process.poll() is not None)


def test_a_missing_topic_of_labels_is_named(
    late: Callable[..., Settings], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Trap: the topic of events was blamed, which is there."""
    monkeypatch.setattr(stalls, "AFTER_SECONDS", 0.1)
    whole = late(topic="nowhere.labels")
    kafka = whole.kafka.model_copy(update={"topic_timeout": 3.0})
    settings = whole.model_copy(update={"kafka": kafka})
    store = FolderSnapshotStore(settings.snapshots.directory)
    with learning(settings) as running:
        stalled = until(lambda: store.read_condition().stalled)
        with pytest.raises(BrokerError) as err:
            running.wait()

    assert "or no topic nowhere.labels (labels.topic)" in stalled
    assert "topic nowhere.labels is not there after 3 s" in str(err.value)
    assert "create it, or correct labels.topic" in str(err.value)
