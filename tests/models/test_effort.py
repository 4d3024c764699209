"""The effort of the default model: work and sizes that grow with it, changed in mid-stream."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from kaboost.models.booster import add_features
from kaboost.models.features.onehot import Table
from kaboost.models.model import Model
from kaboost.models.reboosted.config import STRUCTURES
from kaboost.models.reboosted.effort import HIGH, LOW, structures_of
from kaboost.models.types import ModelError
from tests.boosters import array_bytes

NAMES = dict.fromkeys("abcd", "number")
DRAWN = np.random.default_rng(0).normal(size=(4_000, 4))
LABELS = ((DRAWN[:, 0] * DRAWN[:, 1] + np.sin(2.0 * DRAWN[:, 2])) > 0.0).astype(float)


def model(effort: float) -> Model:
    """Return a model of an effort before any event."""
    return Model("binary", {"bank": {"kind": "reboosted_trees", "effort": effort}}, NAMES)


def learn(made: Model, first: int, last: int) -> float:
    """Learn events, and return their mean loss."""
    table = Table(DRAWN[first:last].copy(), np.empty((last - first, 0)), [])
    return float(made.learn(table, LABELS[first:last], np.ones(last - first)).losses.mean())


def changed(made: Model, effort: float) -> None:
    """Change the effort of a model that has learned."""
    spec = {**made.spec, "bank": {**made.spec["bank"], "effort": effort}}
    made.booster, made.spec = add_features(made.booster, spec, len(NAMES)), spec


def test_effort_one_is_the_table_of_structures() -> None:
    """So the default model stays what it was, bit for bit; below, only the work is less."""
    assert structures_of(1.0) == structures_of(LOW) == STRUCTURES


def test_sizes_grow_with_effort() -> None:
    """Trees are more and slower, up to the last level."""
    efforts = [1.0, 1.5, 2.0, 4.0, 10.0, 15.0, 20.0]
    for structure in range(2):
        found = [structures_of(effort)[structure] for effort in efforts]
        for smaller, larger in pairwise(found):
            assert smaller.trees <= larger.trees
            assert smaller.leaves <= larger.leaves
            assert smaller.eta >= larger.eta
    assert structures_of(20.0) == structures_of(HIGH)


@pytest.mark.parametrize("effort", [0.0, 101.0, "much", None])
def test_an_effort_out_of_range_is_refused(effort: object) -> None:
    """With the range."""
    with pytest.raises(ModelError, match=r"effort: .* is not a number from 0.1 to 100"):
        Model("binary", {"bank": {"kind": "reboosted_trees", "effort": effort}}, NAMES)


@pytest.mark.parametrize(("before", "after"), [(1.0, 2.0), (2.0, 1.0), (20.0, 1.0)])
def test_an_effort_changes_in_mid_stream(before: float, after: float) -> None:
    """What was learned stays: the loss goes on from where it was, far below a new model's."""
    made = model(before)
    first = learn(made, 0, 500)
    learn(made, 500, 2_000)
    last = learn(made, 2_000, 3_000)
    changed(made, after)

    assert learn(made, 3_000, 4_000) < last + 0.05 < first - 0.1
    counts = [one.trees for one in structures_of(after)]
    assert counts == [len(trees.nodes) for trees in made.booster.trees.structures]
    sums = made.booster.progress.prefix_loss_sum
    assert counts == (np.isfinite(sums).sum(axis=1) - 1).tolist()
    assert (sums[np.isfinite(sums)] > 0.0).all()


def test_a_saved_model_goes_on_at_any_effort(tmp_path: Path) -> None:
    """Bit for bit, also after a change."""
    made = model(10.0)
    learn(made, 0, 1_000)
    changed(made, 3.0)
    learn(made, 1_000, 1_500)
    made.save(tmp_path / "model")
    again = Model.load(tmp_path / "model")

    for one in (made, again):
        learn(one, 1_500, 2_500)

    assert array_bytes(made.to_arrays()) == array_bytes(again.to_arrays())
