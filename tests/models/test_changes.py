"""A model takes another budget, memory and more features over, and loses nothing it has learned."""

from typing import Any

import numpy as np
import pytest

from kaboost.models.changes import change_bank, declare_features
from kaboost.models.model import Model
from kaboost.models.types import ModelError

SCHEMA = {"x": "number", "colour": "category"}
DRAW = np.random.default_rng(3)
ROWS = [
    {"x": float(x), "colour": colour, "y": float(y)}
    for x, y, colour in zip(
        DRAW.normal(size=130), DRAW.normal(size=130), DRAW.choice(list("abc"), 130), strict=True
    )
]
LABELS = [int(row["x"] + row["y"] > 0.0) for row in ROWS]
KNOWN = [{name: row[name] for name in SCHEMA} for row in ROWS]


def taught(task: str = "binary", **bank: Any) -> Model:
    """Make a default model that has learned 100 events."""
    spec: dict[str, Any] = {"bank": {"kind": "reboosted_trees", "max_memory": 16, **bank}}
    if task == "multiclass":
        spec |= {"multiclass": "one_vs_rest", "loss": "logistic"}
    model = Model(task, spec, SCHEMA, ["a", "b", "c"] if task == "multiclass" else None)
    labels = ["abc"[label + (k % 7 == 0)] for k, label in enumerate(LABELS)]
    model.learn_many(KNOWN[:100], labels[:100] if task == "multiclass" else LABELS[:100])
    return model


def answers(model: Model) -> Any:
    """Predict the last rows."""
    return model.predict_proba_many(KNOWN[100:])


def restored(model: Model) -> Model:
    """Write and read a model: its arrays must be those of its specification."""
    arrays = {name: array.copy() for name, array in model.to_arrays().items()}
    return Model.from_arrays(model.describe(), arrays)


@pytest.mark.parametrize(
    ("task", "change"),
    [
        ("binary", {"budget": 1000.0, "max_memory": 14.0}),
        ("binary", {"max_memory": 24.0}),
        ("binary", {"effort": 2.0, "max_memory": 32.0}),
        ("multiclass", {"max_memory": 24.0}),
    ],
)
def test_bank_is_changed_in_place(task: str, change: dict[str, float]) -> None:
    """Predictions stay; it is a model of the new specification, which goes on learning."""
    model = taught(task)
    before = answers(model)
    change_bank(model, change)

    np.testing.assert_array_equal(before, answers(model))
    assert change.items() <= model.spec["bank"].items()
    again = restored(model)
    labels = ["a"] * 30 if task == "multiclass" else LABELS[100:]
    for one in (model, again):
        one.learn_many(KNOWN[100:], labels)
    np.testing.assert_array_equal(answers(model), answers(again))
    assert 130 == again.booster.progress.events


def test_budget_counts() -> None:
    """It is the learner's, not only that of the description."""
    model = taught()
    change_bank(model, {"budget": 123_456.0})

    assert 123_456.0 == model.booster.trees.params.budget_ns[()]  # type: ignore[union-attr]
    declare_features(model, {f"n{k}": "number" for k in range(40)})
    assert 123_456.0 == model.booster.trees.params.budget_ns[()]  # type: ignore[union-attr]


def test_effort_counts() -> None:
    """Work and sizes are those of a new model of that effort."""
    model, fresh = taught(max_memory=64), Model("binary", spec_of(10.0), SCHEMA)
    change_bank(model, {"effort": 10.0})

    one, other = model.booster.trees, fresh.booster.trees  # type: ignore[union-attr]
    for name, value in other.params._asdict().items():
        np.testing.assert_array_equal(value, getattr(one.params, name), err_msg=name)
    shapes = [[trees.nodes.shape for trees in each.structures] for each in (one, other)]
    assert shapes[0] == shapes[1]


def spec_of(effort: float) -> dict[str, Any]:
    """Return the specification of an effort."""
    return {"bank": {"kind": "reboosted_trees", "max_memory": 64, "effort": effort}}


def test_a_declared_feature_is_learned_from_now_on() -> None:
    """So far it was missing: predictions stay; then it counts."""
    model = taught()
    before = answers(model)
    declare_features(model, {"y": "number"})

    np.testing.assert_array_equal(before, answers(model))
    assert {**SCHEMA, "y": "number"} == model.kinds
    again = restored(model)
    for one in (model, again):
        one.learn_many(ROWS[:20], LABELS[:20])
    np.testing.assert_array_equal(answers(model), answers(again))
    model.learn_many(ROWS, LABELS)
    low, high = ({"x": 0.0, "colour": "a", "y": y} for y in (-2.0, 2.0))
    assert model.predict_proba_one(low)[1] + 0.1 < model.predict_proba_one(high)[1]


def test_what_cannot_be_is_refused() -> None:
    """Too little memory, and a bank of fixed width: nothing has changed then."""
    model = taught()
    before, spec = answers(model), model.spec
    with pytest.raises(ModelError, match="max_memory"):
        change_bank(model, {"max_memory": 1.0})

    np.testing.assert_array_equal(before, answers(model))
    assert spec == model.spec
    linear = Model("binary", {"bank": "linear"}, {"x": "number"})
    with pytest.raises(ModelError, match="linear cannot take features"):
        declare_features(linear, {"y": "number"})
