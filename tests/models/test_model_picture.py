"""A model as a figure, for notebooks."""

import sys

import numpy as np
import pytest

from kaboost import Model
from kaboost.models.types import ModelError
from tests.specs import LINEAR

KINDS = {"x": "number", "country": "category"}


def learned(spec: object = LINEAR, task: str = "binary", labels: object = None) -> Model:
    """Return a model of 60 events."""
    model = Model(task, spec, KINDS, labels)  # type: ignore[arg-type]
    rows = [{"x": k % 7, "country": "PT" if k % 2 else "DE"} for k in range(60)]
    model.learn_many(rows, [k % (3 if task == "multiclass" else 2) for k in range(60)])
    return model


def test_a_linear_model_shows_prefixes_and_edges() -> None:
    """The lines are its progress: every prefix, the served loss, an edge for each learner."""
    model = learned()

    left, right = model.plot().axes

    np.testing.assert_array_equal(model.progress.prefix_losses, left.lines[0].get_ydata())
    assert model.progress.mean_loss == left.lines[-1].get_ydata()[0]
    assert "Edge of each weak learner" == right.get_title()
    assert len(model.progress.edges) == len(right.patches)


def test_trees_show_importance() -> None:
    """A line for each structure, and the features that matter."""
    bank = {"kind": "reboosted_trees", "structures": [{}, {"window": 1000}]}
    model = learned({"bank": bank})

    left, right = model.plot().axes

    assert 2 + 1 == len(left.lines)  # that of what is served as well
    assert "Importance" == right.get_title()
    assert {"x"} <= {label.get_text() for label in right.get_yticklabels()}


def test_classes_are_one_picture() -> None:
    """Losses of several classes are their sums."""
    spec = {**LINEAR, "multiclass": "one_vs_rest"}

    assert 2 == len(learned(spec, "multiclass", [0, 1, 2]).plot().axes)


def test_nothing_learned_is_refused() -> None:
    """There is no loss to draw."""
    with pytest.raises(ModelError, match="none was learned"):
        Model("binary", LINEAR, KINDS).plot()


def test_without_matplotlib_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """The remedy is in the message."""
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)

    with pytest.raises(ModelError, match=r"pip install '\.\[lab\]'"):
        learned().plot()
