"""Candidates learn what the champion learns, bit for bit, and none of them can stop it."""

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kaboost.models.model import Model
from kaboost.service.config.candidates import merge
from kaboost.service.errors import Refused
from tests.kafka.client import encode
from tests.service.candidates import CANDIDATES, QUICK, Service, arrays_of, expect_same, learn
from tests.service.learning import SCHEMA, events, rows
from tests.specs import LINEAR

EVENTS = events(rows(900))


def service(folder: Path, **sections: Any) -> Service:
    """Return a learner with the candidates of these tests."""
    return Service(folder, **{"candidates": CANDIDATES, "promotion": QUICK, **sections})


def expect_model(model: Model, spec: dict[str, Any], count: int, first: int = 0) -> None:
    """Compare a model with one that has learned some of the events alone, bit for bit."""
    twin, drawn = Model("binary", spec, SCHEMA), rows(900)[first : first + count]
    twin.learn_many([features for features, _ in drawn], [label for _, label in drawn])
    expect_same(model.to_arrays(), twin.to_arrays())


def test_each_learns_as_if_it_were_alone(tmp_path: Path) -> None:
    """The champion as well; the losses are those of its own progressive validation."""
    alone = Service(tmp_path / "alone").start()
    trainer = service(tmp_path / "both").start()
    for each in (alone, trainer):
        learn(each, EVENTS)
    state = trainer.candidates.stored(trainer.state)

    assert ["wide", "adagrad"] == [candidate.name for candidate in state.candidates]
    expect_model(state.model, LINEAR, 900)
    for candidate in state.candidates:
        expect_model(candidate.model, merge(LINEAR, CANDIDATES[candidate.name], "binary"), 900)
        assert state.validation.loss_sum[0] == candidate.champion.loss_sum[0]
        assert state.history is not None
        np.testing.assert_array_equal(state.history.when, candidate.history.when)
    ours = {n: a for n, a in arrays_of(trainer).items() if not n.startswith("candidates.")}
    expect_same(ours, arrays_of(alone))


def outliers() -> list[bytes]:
    """Make events of a regression, some of whose labels are far away."""
    drawn = enumerate(rows(700))
    return [encode(x, 3.0 * x["x"] + y + 1e6 * (k % 100 == 50)) for k, (x, y) in drawn]


@pytest.mark.parametrize("task", ["binary", "regression"])
def test_batches_change_nothing(tmp_path: Path, task: str) -> None:
    """Models, losses, points of the history and verdicts depend on the events alone."""
    found = []
    stream = EVENTS if task == "binary" else outliers()
    for step in (7, 300):
        trainer = service(tmp_path / str(step), task={"kind": task}).start()
        learn(trainer, stream, step)
        found.append(trainer)

    expect_same(*map(arrays_of, found))
    assert found[0].candidates.report() == found[1].candidates.report()
    assert all(each["improvement"] is not None for each in found[0].candidates.report())


def test_a_restart_goes_on_with_all_of_them(tmp_path: Path) -> None:
    """As if there had been none: also in the middle of a block of a comparison."""
    whole = service(tmp_path / "whole").start()
    learn(whole, EVENTS)
    restarted = service(tmp_path / "restarted")
    first = restarted.start()
    learn(first, EVENTS[:333])
    first.write_checkpoint()
    learn(first, EVENTS[333:500])  # lost with the process
    second = restarted.start()
    assert not second.changes
    learn(second, EVENTS[333:])

    expect_same(arrays_of(second), arrays_of(whole))
    assert second.candidates.report() == whole.candidates.report()
    assert 500 < whole.candidates.report()[0]["compared_events"]


def growing(task: str) -> tuple[dict[str, Any], list[bytes]]:
    """Return settings with an open schema, and events whose features or classes become more."""
    kind = "multiclass" if task == "open classes" else "binary"
    labels: dict[str, Any] = {"labels": "auto"} if task == "open classes" else {}
    shape = {"multiclass": "one_vs_rest"} if task == "open classes" else {}
    sections: dict[str, Any] = {
        "task": {"kind": kind, **labels},
        "features": {"schema": {"*": "auto"}},
        "model": {"bank": {"kind": "reboosted_trees", "budget": 100, "max_memory": 96}, **shape},
        "candidates": {"small": {"bank": {"max_memory": 64}}},
        "promotion": {"after": 100},
    }
    stream = []
    for k in range(200):
        more = (k > 80) * (k % 2) if task == "open classes" else 0
        features = {"x": k % 7, f"f{k // 40}": k % 3, "c": f"v{k % 5}"}
        stream.append(encode(features, int(k % 7 > 3) + more))
    return sections, stream


@pytest.mark.parametrize("task", ["auto", "open classes"])
def test_schemas_that_grow_are_followed(
    tmp_path: Path, task: str, caplog: pytest.LogCaptureFixture
) -> None:
    """New features and classes come to a candidate that began later in its own order."""
    sections, stream = growing(task)
    kind = sections["task"]["kind"]
    alone = Service(tmp_path / "alone", **{**sections, "candidates": {}}).start()
    both = Service(tmp_path / "both", **sections)
    trainer = both.start(candidates={})
    for each in (alone, trainer):
        learn(each, stream[:60], 30)
    trainer.write_checkpoint()
    trainer = both.start()
    learn(alone, stream[60:], 30)
    with caplog.at_level(logging.INFO):
        learn(trainer, stream[60:], 30)
    lines = [
        r for r in caplog.records if r.message in ("features inferred", "a new class is learned")
    ]
    assert any(line.message == "features inferred" for line in lines)
    of_candidates = [getattr(r, "candidate", "") for r in lines if "class" in r.message]
    assert (["small"] * 3 + [""]) * (task == "open classes") == sorted(of_candidates, reverse=True)
    small_spec = merge(sections["model"], sections["candidates"]["small"], kind)
    alone_later = {**sections, "candidates": {}, "model": small_spec}
    later = Service(tmp_path / "later", **alone_later).start()
    learn(later, stream[60:], 30)

    state = trainer.candidates.stored(trainer.state)
    expect_same(state.model.to_arrays(), alone.state.model.to_arrays())
    (small,) = state.candidates
    assert 140 == small.events_learned
    expect_same(small.model.to_arrays(), later.state.model.to_arrays())
    assert small.model.kinds.keys() == later.state.model.kinds.keys() != state.model.kinds.keys()

    after = both.promote("small", trainer)
    assert later.new_names == after.new_names != trainer.new_names
    (demoted,) = after.candidates.stored(after.state).candidates
    assert trainer.new_names == demoted.new_names
    more = [encode({"x": k % 7, "g": k % 3}, int(k % 7 > 3)) for k in range(30)]
    for each in (after, later, alone):
        learn(each, more, 30)
    (demoted,) = after.candidates.stored(after.state).candidates
    expect_same(after.state.model.to_arrays(), later.state.model.to_arrays())
    expect_same(demoted.model.to_arrays(), alone.state.model.to_arrays())


def test_one_that_raises_learns_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The champion and the others go on; it is shown, and begins again with the next start."""
    one = service(tmp_path)
    trainer = one.start()
    learn(trainer, EVENTS[:300])
    learn_one = Model.learn

    def broken(model: Model, table: Any, y: Any, w: Any) -> Any:
        if model.spec["bank"].get("n") == 40:
            raise ZeroDivisionError(f"a value {table.numbers[0, 0]}")
        return learn_one(model, table, y, w)

    monkeypatch.setattr(Model, "learn", broken)
    with caplog.at_level(logging.ERROR):
        learn(trainer, EVENTS[300:600])
    monkeypatch.undo()
    learn(trainer, EVENTS[600:])

    expect_model(trainer.state.model, LINEAR, 900)
    report = {each["name"]: each for each in trainer.candidates.report()}
    assert ("failed", "ZeroDivisionError, see the log") == tuple(
        report["wide"][key] for key in ("state", "reason")
    )
    assert 900 == report["adagrad"]["events_learned"]
    assert 1.0 == one.figure("kaboost_candidate_failures_total", "wide")
    assert one.figure("kaboost_candidate_loss_window", "wide") is None
    assert (
        one.figure("kaboost_candidate_loss_window", "adagrad") == report["adagrad"]["recent_loss"]
    )
    assert ["a candidate has failed, it learns no more"] == [r.message for r in caplog.records]
    with pytest.raises(Refused, match="wide has failed: ZeroDivisionError"):
        trainer.candidates.require("wide")
    trainer.write_checkpoint()
    again = one.start()
    assert ("candidates.wide is new, and cold",) == tuple(again.changes)
    assert [0, 900] == [each["events_learned"] for each in again.candidates.report()]


def test_nothing_of_candidates_is_stored_without_any(tmp_path: Path) -> None:
    """A checkpoint is what it was; so are those of before there were candidates."""
    alone = Service(tmp_path)
    trainer = alone.start()
    learn(trainer, EVENTS[:100])
    trainer.write_checkpoint()
    trainer.publish()

    checkpoint = alone.startup._parts.stores.checkpoints.restore(None)[0]  # type: ignore[arg-type]
    assert checkpoint is not None
    assert not {"candidates", "champion"} & checkpoint.header.keys()
    assert not [name for name in arrays_of(trainer) if "candidate" in name]
    assert not trainer.candidates


def test_a_promotion_swaps_two_models(tmp_path: Path) -> None:
    """Each goes on as if nothing had happened; back again as well, and after a restart."""
    one = service(tmp_path)
    before = one.start()
    learn(before, EVENTS[:300])
    before.publish()
    after = one.promote("wide", before)
    assert after.publish() == 2
    recent = after.state.validation.window_loss[0]
    assert [recent] * 2 == [each["champion_recent_loss"] for each in after.candidates.report()]
    assert recent != before.state.validation.window_loss[0]
    learn(after, EVENTS[300:600])
    after.write_checkpoint()
    restored = one.start()
    assert not restored.changes
    learn(restored, EVENTS[600:])

    state = restored.candidates.stored(restored.state)
    assert "wide" == state.champion
    assert ["model", "adagrad"] == [candidate.name for candidate in state.candidates]
    expect_model(state.model, merge(LINEAR, CANDIDATES["wide"], "binary"), 900)
    expect_model(state.candidates[0].model, LINEAR, 900)
    snapshot = one.startup._parts.stores.snapshots.newest()
    assert snapshot is not None
    assert ("wide", 40) == (snapshot.header["champion"], snapshot.model.spec["bank"]["n"])
    assert {0: 900} == state.offsets

    back = one.promote("model", restored)
    assert "model" == back.candidates.champion
    expect_model(back.state.model, LINEAR, 900)


def test_the_metrics_name_one_model_after_a_promotion(tmp_path: Path) -> None:
    """Of another bank; a model that has learned nothing can be promoted, too."""
    one = service(tmp_path, candidates={"stumps": {"bank": "stumps"}})
    after = one.promote("stumps", one.start())
    after.publish(cold=True)

    infos = [family for family in one.registry.collect() if family.name == "kaboost_model_info"]
    assert ["stumps"] == [sample.labels["bank"] for sample in infos[0].samples]
    assert one.figure("kaboost_candidate_loss_window", "stumps") is None
    assert one.figure("kaboost_candidate_loss_window", "model") is not None


def test_what_cannot_be_promoted_is_refused(tmp_path: Path) -> None:
    """With the names that can."""
    trainer = service(tmp_path).start()
    for name, words in [
        ("model", "model is the champion already; candidates: wide, adagrad"),
        ("deep", "'deep' is no candidate; candidates: wide, adagrad"),
        (3, "3 is no candidate"),
    ]:
        with pytest.raises(Refused, match=words):
            trainer.candidates.require(name)
    assert "wide" == trainer.candidates.require("wide")


def test_a_promoted_later_one_takes_the_marks_to_its_events(tmp_path: Path) -> None:
    """It has learned 200 events fewer: marks of the same records are 200 events earlier."""
    one = service(tmp_path)
    before = one.start(candidates={})
    learn(before, EVENTS[:200])
    before.annotations.add("drift", 150)
    before.write_checkpoint()
    later = one.start()
    learn(later, EVENTS[200:500])
    later.annotations.add("drift", 450)
    after = one.promote("wide", later)

    assert 300 == after.events_learned
    expect_model(after.state.model, merge(LINEAR, CANDIDATES["wide"], "binary"), 300, 200)
    marks = [(kind, event) for kind, event, *_ in after.annotations.state()]
    assert [("drift", 250)] == marks
    assert {0: 500} == after.state.offsets
