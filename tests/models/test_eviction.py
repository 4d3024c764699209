"""Inferred features that no longer matter make way for new ones where memory is full."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from kaboost.models.eviction import evict_features, idle_features
from kaboost.models.model import Model
from tests.specs import LINEAR

BANK: dict[str, Any] = {"bank": {"kind": "reboosted_trees", "max_memory": 7}}


def event(draw: random.Random, **more: Any) -> dict[str, Any]:
    """Make an event whose label is whether x is positive."""
    return {"x": draw.gauss(0, 1), "colour": draw.choice("ab"), **more}


def learn(model: Model, rows: list[dict[str, Any]]) -> None:
    """Learn events; new names become features."""
    model.learn_many(rows, [int(row["x"] > 0) for row in rows])


def window(model: Model) -> int:
    """Return how many events the window holds."""
    return len(model.booster.trees.window.labels)


@pytest.fixture
def model() -> Model:
    """A model with features of which one event has a value, long ago, and others."""
    draw, made = random.Random(1), Model("binary", BANK, "auto")
    junk = [event(draw, **{f"junk{k}": float(k)}) for k in range(6)]
    learn(made, [*junk, event(draw, city="Faro"), event(draw, city="Lagos")])
    assert [] == idle_features(made, made.encoder.kinds)
    learn(made, [event(draw) for _ in range(window(made) + 8)])
    return made


def test_features_that_nobody_sees_any_more_are_idle(model: Model) -> None:
    """In order of first sight; those that events have, or trees split on, are not among them."""
    assert [*(f"junk{k}" for k in range(6)), "city"] == idle_features(model, model.encoder.kinds)


def test_new_features_take_their_places(model: Model) -> None:
    """Of the same number of columns; the model predicts as before, and learns from the new ones."""
    draw = random.Random(2)
    rows = [event(draw) for _ in range(20)]
    before, width = model.predict_many(rows), int(model.booster.shape[0])
    evicted = evict_features(
        model, {"new": "number", "town": "category", "flag": "boolean"}, model.encoder.kinds
    )

    assert {"new": "junk0", "town": "city", "flag": "junk1"} == evicted
    assert width == int(model.booster.shape[0])
    np.testing.assert_array_equal(before, model.predict_many(rows))
    kinds = model.encoder.kinds
    assert ("number", "category", "boolean") == (kinds["new"], kinds["town"], kinds["flag"])
    assert not {"junk0", "junk1", "city"} & kinds.keys()
    rows = [{"new": float(k % 2), "town": "Faro"} for k in range(2_000)]
    model.learn_many(rows, [k % 2 for k in range(2_000)])
    answers = np.asarray(model.predict_many([{"new": 0.0}, {"new": 1.0}]))
    assert len({*map(str, answers.tolist())}) == 2


def test_an_evicted_model_is_saved_whole(model: Model) -> None:
    """Saved and loaded it goes on as the one that was not."""
    evict_features(model, {"new": "number", "town": "category"}, model.encoder.kinds)
    loaded = Model.from_arrays(
        model.describe(), {name: np.array(a) for name, a in model.to_arrays().items()}
    )
    draw = random.Random(3)
    rows = [event(draw, new=draw.gauss(0, 1), town=draw.choice("pq")) for _ in range(200)]
    for one in (model, loaded):
        learn(one, rows)
    ours, theirs = model.to_arrays(), loaded.to_arrays()

    assert ours.keys() == theirs.keys()
    for name in ours:
        np.testing.assert_array_equal(ours[name], theirs[name], err_msg=name)


def test_an_evicted_column_is_as_a_new_one(model: Model) -> None:
    """No trace of the feature before is left in what was learned of the column."""
    learn(model, [event(random.Random(5))])
    place = model.encoder.places["junk2"]
    evict_features(model, dict.fromkeys(("a", "b", "c"), "number"), model.encoder.kinds)
    booster = model.booster

    assert place == model.encoder.places["c"]
    assert 0.0 == booster.linear.weights[:, place].max() == booster.linear.counts[place]
    assert 0 == booster.trees.bins.counts[place]
    assert np.isnan(booster.imputation.rows[:, place]).all()


def test_models_that_cannot_evict_do_nothing() -> None:
    """Declared features stay, and so do those of other banks."""
    declared = Model("binary", BANK, {"x": "number", "y": "number"})
    linear = Model("binary", LINEAR, {"x": "number"})
    declared.learn_many([{"x": 1.0}, {"x": 2.0}], [0, 1])
    for one in (declared, linear):
        assert {} == evict_features(one, {"z": "number"}, one.encoder.kinds)
