"""A running learner with candidates: killed, promoted by command and by itself, and set back."""

import os
import signal
from collections.abc import Callable
from typing import Any

import pytest

from kaboost.models.model import Model
from kaboost.models.state.format import Arrays
from kaboost.service.config.candidates import merge
from kaboost.service.config.settings import Settings
from kaboost.service.learner import replacement
from kaboost.service.storage.checkpoints import FolderCheckpointStore
from kaboost.service.storage.snapshots import FolderSnapshotStore, Snapshot
from kaboost.service.storage.state import State
from tests.e2e.systems import start
from tests.service.candidates import CANDIDATES, QUICK, Service, arrays_of, expect_same, learn
from tests.service.learning import (
    SCHEMA,
    Rows,
    events,
    gauge,
    learned,
    learning,
    rows,
    saved,
    until,
)
from tests.service.steering import audited, command
from tests.specs import LINEAR

Make = Callable[..., Settings]
Send = Callable[..., None]
POISON = 77.5
RARELY = {"every_seconds": 3600, "every_events": 1_000_000, "keep": 10}
WEAK: dict[str, Any] = {
    "rule": "sgb",
    "bank": {"kind": "linear", "n": 1, "step": "nag", "lr": 1e-6},
}
BETTER: dict[str, Any] = {"better": {"bank": {"n": 20, "lr": 0.1}}}


def state_of(settings: Settings) -> State:
    """Read the newest checkpoint."""
    checkpoint, _ = FolderCheckpointStore(settings.checkpoints.directory).restore()
    assert checkpoint is not None
    return checkpoint.state


def newest(settings: Settings) -> Snapshot:
    """Read the newest snapshot."""
    found = FolderSnapshotStore(settings.snapshots.directory).newest()
    assert found is not None
    return found


def expect_model(model: Model, spec: dict[str, Any], stream: Rows) -> None:
    """Compare a model with one that has learned the same events alone, bit for bit."""
    twin = Model("binary", spec, SCHEMA)
    twin.learn_many([features for features, _ in stream], [label for _, label in stream])
    expect_same(model.to_arrays(), twin.to_arrays())


def without_times(arrays: Arrays) -> Arrays:
    """Return arrays without the times of records, which are those of Kafka."""
    return {n: a[:, :1] if n.endswith("history.when") else a for n, a in arrays.items()}


def test_a_killed_learner_comes_back_with_all_of_them(
    topic: str, make_settings: Make, send: Send, tmp_path: Any
) -> None:
    """Models, losses, comparisons and histories, bit for bit as if it had never been killed."""
    sections: dict[str, Any] = {"candidates": CANDIDATES, "promotion": QUICK}
    settings = make_settings(topic, checkpoints={"every_seconds": 0.05}, **sections)
    stream = events(rows(700))
    first = start(settings)
    send(topic, stream[:350])
    until(lambda: first.poll() is None and saved(settings).get(0, 0) > 0)
    send(topic, stream[350:])
    os.kill(first.pid, signal.SIGKILL)
    first.wait()
    second = start(settings)
    try:
        until(lambda: second.poll() is None and saved(settings) == {0: 700})
    finally:
        second.terminate()
        code = second.wait()
    whole = Service(tmp_path / "whole", **sections).start()
    learn(whole, stream)

    assert 0 == code
    theirs = state_of(settings).to_arrays()
    expect_same(*map(without_times, (theirs, arrays_of(whole))))
    assert 3 == sum(name.endswith("validation.loss_sum") for name in theirs)


def test_an_event_that_the_champion_fails_at_is_learned_by_none(
    topic: str, make_settings: Make, send: Send, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is set aside; the checkpoint that is restored meanwhile has the candidates, too."""
    learn_one = Model.learn

    def broken(model: Model, table: Any, y: Any, w: Any) -> Any:
        outcome = learn_one(model, table, y, w)
        if (table.numbers[:, 0] > POISON - 1).any():
            raise ZeroDivisionError
        return outcome

    monkeypatch.setattr(Model, "learn", broken)
    settings = make_settings(
        topic,
        kafka={"extra": {"fetch.wait.max.ms": 10}},
        candidates={"wide": CANDIDATES["wide"]},
        promotion=QUICK,
    )
    stream = rows(300)
    poisoned = [({**x, "x": POISON}, y) if k == 137 else (x, y) for k, (x, y) in enumerate(stream)]
    send(topic, events(poisoned))
    with learning(settings) as running:
        until(lambda: learned(settings) == 299)
        assert 0 == running.stop()
    monkeypatch.undo()
    good = stream[:137] + stream[138:]

    state = state_of(settings)
    expect_model(state.model, LINEAR, good)
    expect_model(state.candidates[0].model, merge(LINEAR, CANDIDATES["wide"], "binary"), good)


def test_a_promotion_is_served_audited_and_undone(
    topic: str, make_settings: Make, send: Send
) -> None:
    """The next version is the candidate's model, which learns on, as does the one of before; a
    rollback goes back to the state before.
    """
    settings = make_settings(topic, checkpoints=RARELY, candidates=CANDIDATES, promotion=QUICK)
    stream = rows(300)
    with learning(settings) as running:
        send(topic, events(stream[:200]))
        until(lambda: learned(settings) == 200)
        version = newest(settings).version
        result = command(settings, "promote", "it is wider", candidate="wide")
        assert "done" == result.state, result.message
        assert "wide is served now; kaboost promote model undoes it, " in result.message
        assert f"kaboost rollback {result.details['before']} goes back" in result.message
        served = newest(settings)
        assert (version + 1, "wide", 40) == (
            served.version, served.header["champion"], served.model.spec["bank"]["n"],
        )  # fmt: skip
        assert ["model", "adagrad"] == [each["name"] for each in served.header["candidates"]]
        send(topic, events(stream[200:]))
        until(lambda: learned(settings) == 300)
        assert 1.0 == gauge(settings, "kaboost_promotions_total")
        assert gauge(settings, 'kaboost_candidate_loss_window{candidate="model"}') is not None
        assert gauge(settings, 'kaboost_candidate_loss_window{candidate="wide"}') is None
        again = command(settings, "promote", candidate="wide")
        assert "refused" == again.state
        assert "wide is the champion already" in again.message
        assert 0 == running.stop()

    state = state_of(settings)
    expect_model(state.model, merge(LINEAR, CANDIDATES["wide"], "binary"), stream)
    expect_model(state.candidates[0].model, LINEAR, stream)
    entry = audited(settings)[0]
    assert ("promote", {"candidate": "wide"}, "it is wider", "done") == tuple(
        entry[key] for key in ("command", "arguments", "reason", "state")
    )
    assert ("wide", "model") == tuple(entry["details"][k] for k in ("champion", "champion_before"))

    with learning(settings) as running:
        until(lambda: running.alive and learned(settings) == 300)
        assert "wide" == newest(settings).header["champion"]
        undone = command(settings, "rollback", version=result.details["before"], positions="back")
        assert "done" == undone.state, undone.message
        until(lambda: learned(settings) == 300 and newest(settings).header["champion"] == "model")
        assert 0 == running.stop()
    state = state_of(settings)
    assert ("model", ["wide", "adagrad"]) == (state.champion, [c.name for c in state.candidates])
    expect_model(state.model, LINEAR, stream)
    expect_model(state.candidates[0].model, merge(LINEAR, CANDIDATES["wide"], "binary"), stream)


def test_a_promotion_that_cannot_be_published_leaves_the_metrics(
    topic: str, make_settings: Make, send: Send
) -> None:
    """They are those of the model that is served on, and of its candidates."""
    settings = make_settings(topic, checkpoints=RARELY, candidates=CANDIDATES, promotion=QUICK)
    folder = settings.snapshots.directory
    with learning(settings) as running:
        send(topic, events(rows(100)))
        until(lambda: learned(settings) == 100)
        (folder.parent / "moved").mkdir()
        folder.rename(folder.parent / "moved" / "snapshots")
        folder.write_text("")
        assert "done" != command(settings, "promote", candidate="wide").state
        assert gauge(settings, 'kaboost_candidate_loss_window{candidate="wide"}') is not None
        assert gauge(settings, 'kaboost_candidate_loss_window{candidate="model"}') is None
        folder.unlink()
        (folder.parent / "moved" / "snapshots").rename(folder)
        assert 0 == running.stop()


def test_a_better_candidate_is_promoted_by_itself(
    topic: str, make_settings: Make, send: Send, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once its loss is lower with confidence; a folder that refuses files delays it."""
    monkeypatch.setattr(replacement, "RETRY_SECONDS", 0.0)
    promotion = {"automatic": True, "after": 200, "margin": 0.05}
    settings = make_settings(topic, model=WEAK, candidates=BETTER, promotion=promotion)
    stream = rows(900)
    with learning(settings) as running:
        send(topic, events(stream[:390]))  # 200 are learned before, and then 190 are too few
        until(lambda: learned(settings) == 390)
        assert "model" == newest(settings).header["champion"]
        folder = settings.snapshots.directory
        folder.rename(folder.with_name("aside"))
        folder.touch()
        send(topic, events(stream[390:500]))
        until(lambda: gauge(settings, "kaboost_events_learned_total") == 500)
        assert 0.0 == gauge(settings, "kaboost_promotions_total")
        folder.unlink()
        folder.with_name("aside").rename(folder)
        until(lambda: newest(settings).header["champion"] == "better")
        send(topic, events(stream[500:]))
        until(lambda: learned(settings) == 900)
        assert 0 == running.stop()

    state = state_of(settings)
    assert ("better", ["model"]) == (state.champion, [each.name for each in state.candidates])
    expect_model(state.model, merge(WEAK, BETTER["better"], "binary"), stream)
    expect_model(state.candidates[0].model, WEAK, stream)
    (entry,) = [each for each in audited(settings) if each["command"] == "promote"]
    assert "promotion.automatic" == entry["by"]
    assert "its loss is lower by" in entry["reason"]
