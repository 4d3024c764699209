"""While the model is much worse than a baseline, answers come from the last good one, flagged."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from kaboost.models.evaluation.baselines import progressive_validation
from kaboost.models.features.labels import labels
from kaboost.service.config.guard import Guard
from kaboost.service.config.settings import Settings
from kaboost.service.errors import ConfigError
from kaboost.service.learner.guard import LossGuard
from kaboost.service.storage.snapshots import FolderSnapshotStore, Snapshot
from tests.kafka.broker import Reachable
from tests.service import serving
from tests.service.learning import Rows, events, gauge, learning, rows, settings_for, until
from tests.service.steering import audited, command, newest_checkpoint

Make = Callable[..., Settings]
Send = Callable[..., None]
GUARD = {"margin": 0.05, "events": 200}
FIRST = 1_000  # events that are learned well


def contradictory(count: int) -> Rows:
    """Draw events whose labels turn over every ten: the model is worse than no model."""
    drawn = rows(count, seed=2)
    return [(x, y if k // 10 % 2 else 1 - y) for k, (x, y) in enumerate(drawn)]


def newest(settings: Settings) -> Snapshot:
    """Read the newest snapshot."""
    found = FolderSnapshotStore(settings.snapshots.directory).newest()
    assert found is not None
    return found


def feed(settings: Settings, send: Send, stream: Rows, step: int = 100) -> None:
    """Send events in parts, each once the one before is learned."""
    count = int(gauge(settings, "kaboost_events_learned_total") or 0)
    for first in range(0, len(stream), step):
        part, version = stream[first : first + step], newest(settings).version
        count += len(part)
        send(settings.kafka.topic, events(part))
        until(partial(is_learned, settings, count, version))


def is_learned(settings: Settings, count: int, version: int) -> bool:
    """Whether so many events are learned, and a snapshot after a version is published."""
    done = gauge(settings, "kaboost_events_learned_total") == count
    return done and newest(settings).version > version


def test_answers_fall_back_until_the_model_recovers(
    topic: str, make_settings: Make, send: Send
) -> None:
    """The model of before the trouble is served under rising versions, over a restart as well;
    learning goes on, and the model that has recovered is served again.
    """
    settings = make_settings(topic, guard=GUARD, snapshots={"every_seconds": 0.02})
    with learning(settings) as running:
        until(lambda: FolderSnapshotStore(settings.snapshots.directory).last_version())
        feed(settings, send, rows(FIRST))
        feed(settings, send, contradictory(800))
        good = newest(settings)
        assert 1.0 == gauge(settings, "kaboost_serving_fallback")
        # The loss is worse from 400 contradictory events on: 200 before it was good still.
        assert 400 <= good.header["events_learned"] <= FIRST + 300
        assert good.header["fallback"] < good.version
        reason = FolderSnapshotStore(settings.snapshots.directory).read_condition
        assert "worse than that of" in until(lambda: reason().fallback)
        assert 0 == running.stop()
    with learning(settings) as running:
        until(lambda: newest(settings).version > good.version)
        until(lambda: gauge_or_none(settings, "kaboost_serving_fallback") == 1.0)
        again = newest(settings)
        assert good.header["events_learned"] == again.header["events_learned"]
        for name, array in good.model.serving_arrays().items():
            np.testing.assert_array_equal(array, again.model.serving_arrays()[name], err_msg=name)
        feed(settings, send, rows(900, seed=3))
        assert 0.0 == gauge(settings, "kaboost_serving_fallback")
        assert 0 == running.stop()

    last = newest(settings)
    assert FIRST + 800 + 900 == last.header["events_learned"]
    assert "fallback" not in last.header
    assert last.version > again.version
    assert ["fall back", "recover"] == [entry["command"] for entry in audited(settings)]


def gauge_or_none(settings: Settings, name: str) -> float | None:
    """Read a metric of a learner that may be starting."""
    try:
        return gauge(settings, name)
    except OSError:
        return None


def test_every_answer_is_flagged(topic: str, broker: Reachable, tmp_path: Path) -> None:
    """Predictions, `GET /model` and readiness."""
    kafka = {"bootstrap_servers": broker.bootstrap, "topic": topic, "group_id": topic}
    wanted = serving.settings(tmp_path, kafka=kafka)
    model = serving.taught(wanted)
    serving.publish(wanted, model)
    with serving.running("api", wanted) as program:
        program.ready()
        assert program.predict()["model"]["fallback"] is False
        store = FolderSnapshotStore(wanted.snapshots.directory)
        serving.publish(wanted, model, fallback=1)
        store.write_condition(store.read_condition()._replace(fallback="answers are of version 1"))
        until(lambda: program.predict()["model"]["fallback"] is True)
        described = program.client.get("/model").json()
        assert described["fallback"] is True
        until(lambda: "answers are of version 1" in program.ready()["reason"])


class Store:
    """Remember which versions were offered and promoted."""

    def __init__(self, good: Snapshot | None = None) -> None:
        self.done: list[str] = []
        self.good = good

    def offer(self, version: int) -> None:
        """Note a candidate."""
        self.done.append(f"offer {version}")

    def promote(self) -> None:
        """Note a good one."""
        self.done.append("promote")

    def drop_candidate(self) -> None:
        """Note that it is forgotten."""
        self.done.append("drop")

    def load(self) -> Snapshot | None:
        """Return the good one."""
        return self.good


def seen(model: float, prior: float = 1.0, last: float = 2.0) -> Any:
    """Make a validation with these recent losses."""
    made = progressive_validation(labels("binary"))
    made.loss_recent[:], made.recent_weight[()] = (model, prior, last), 1.0
    return made


@pytest.fixture
def steps() -> tuple[LossGuard, Store]:
    """A guard of 20 % and 100 events over a store that has nothing good."""
    store: Any = Store()
    return LossGuard(Guard(margin=0.2, events=100), store, None, "run-0001"), store


@pytest.mark.parametrize("run", ["run-0001", "run-0002"])
def test_a_model_of_another_run_is_never_served(run: str) -> None:
    """Before a cold start, for example: neither the last good one nor a fallback."""
    good: Any = SimpleNamespace(header={"run": run, "fallback": 3}, version=7)
    store: Any = Store(good)
    guard = LossGuard(Guard(margin=0.2, events=100), store, good, "run-0001")
    assert (run == "run-0001") == (guard.fallback is not None)
    guard = LossGuard(Guard(margin=0.2, events=100), store, None, "run-0001")
    guard.observe(seen(9.0), 0)
    guard.observe(seen(9.0), 100)

    assert (run == "run-0001") == (guard.fallback is not None)


def test_only_what_has_proved_good_is_kept(steps: tuple[LossGuard, Store]) -> None:
    """A candidate is good when the loss has been for `events` after it; trouble drops it."""
    guard, store = steps
    guard.published(1, 0)  # nothing is known yet
    for events_, version in ((10, 2), (60, 3), (110, 4), (120, 5)):
        guard.observe(seen(1.1), events_)
        guard.published(version, events_)
    guard.observe(seen(1.3), 130)
    guard.published(6, 130)

    assert ["drop", "offer 2", "promote", "offer 5", "drop"] == store.done
    for events_ in (150, 230, 1_000):
        assert not guard.observe(seen(1.3), events_)  # there is nothing to fall back to
    assert guard.fallback is None


@pytest.mark.parametrize("bad", [(1.21, 1.0, 2.0), (1.21, 2.0, 1.0), (9.0, float("nan"), 1.0)])
def test_the_time_counts(steps: tuple[LossGuard, Store], bad: tuple[float, ...]) -> None:
    """So many events in a row, worse than the better baseline by more than the margin."""
    guard, store = steps
    header: dict[str, Any] = {
        "created": "",
        "events_learned": 5,
        "offsets": {},
        "cold_start": False,
    }
    header["run"] = "run-0001"
    store.good = Snapshot(7, None, header, seen(1.0))  # type: ignore[arg-type] # not predicted
    observed = [(0, bad), (99, bad), (100, (1.19, 1.0, 2.0)), (101, bad), (200, bad), (201, bad)]

    assert [False] * 5 + [True] == [guard.observe(seen(*loss), at) for at, loss in observed]
    assert guard.fallback is not None
    assert {"events_learned": 5, "fallback": 7}.items() <= guard.fallback.header().items()
    good = [(210, (1.19, 1.0, 2.0)), (309, (1.0, 1.0, 1.0)), (310, (1.0, 1.0, 1.0))]
    assert [False, False, True] == [guard.observe(seen(*loss), at) for at, loss in good]
    assert guard.fallback is None


def test_a_rollback_ends_it(topic: str, make_settings: Make, send: Send) -> None:
    """Who replaces the model wants it served."""
    rarely = {"every_seconds": 3600, "every_events": 1_000_000}
    often = {"every_seconds": 0.02}
    settings = make_settings(topic, guard=GUARD, snapshots=often, checkpoints=rarely)
    with learning(settings) as running:
        until(lambda: FolderSnapshotStore(settings.snapshots.directory).last_version())
        feed(settings, send, rows(FIRST))
        command(settings, "checkpoint")
        number = newest_checkpoint(settings)
        feed(settings, send, contradictory(800))
        assert "fallback" in newest(settings).header
        result = command(settings, "rollback", version=number, positions="stay")
        assert 0 == running.stop()

    assert "done" == result.state, result.message
    assert FIRST == newest(settings).header["events_learned"]
    assert "fallback" not in newest(settings).header


def test_river_has_no_guard(tmp_path: Path) -> None:
    """It has no snapshots."""
    river = {"river": "linear_model.LogisticRegression"}
    features = {"schema": {"x": "number"}}
    with pytest.raises(ConfigError, match="no snapshots to fall back to"):
        settings_for("127.0.0.1:1", tmp_path, "t", model=river, guard=GUARD, features=features)
