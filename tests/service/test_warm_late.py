"""What the trainer of late labels warms up is all that it needs: nothing compiles later."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numba.core import event

from kaboost import Model
from kaboost.models.evaluation.baselines import progressive_validation
from kaboost.models.evaluation.late_baselines import capture_baselines, record_captured
from kaboost.models.features.rows import tabulate
from kaboost.service.learner.captured_rows import pack, unpack


@pytest.mark.parametrize("task", ["binary", "regression"])
@pytest.mark.parametrize("sizes", [(1, 1, 3), (128, 1, 40)])
def test_stored_rows_compile_nothing(task: str, sizes: tuple[int, ...]) -> None:
    """Batches of one row and of many, as they come from the store, use the kernels of `warm`."""
    model = Model(task, features={"a": "number", "c": "category"})
    validation = progressive_validation(model.labels)
    nothing: list[dict[str, Any]] = []
    outcome = model.learn_captured(
        model.capture(tabulate(model.encoder.layout, nothing)), np.empty(0), np.empty(0)
    )
    record_captured(
        validation,
        outcome,
        np.empty((0, len(capture_baselines(validation)))),
        np.empty(0),
        np.empty(0),
    )
    compiled = []

    class Listener(event.Listener):
        def on_start(self, seen: Any) -> None:
            compiled.append(seen.data["dispatcher"])

        def on_end(self, seen: Any) -> None:
            pass

    with event.install_listener("numba:compile", Listener()):
        for n in sizes:
            rows = [{"a": float(k), "c": str(k % 3)} for k in range(n)]
            captured = model.capture(tabulate(model.encoder.layout, rows))
            for group in unpack(pack(captured, capture_baselines(validation))):
                y = np.array([float(k % 2) for k in group.places])
                outcome = model.learn_captured(group.captured, y, np.ones(len(y)))
                record_captured(validation, outcome, group.baselines, y, np.ones(len(y)))

        model.capture(tabulate(model.encoder.layout, [{"a": 1.0}, {}]))  # unknown values

    assert [] == [str(each) for each in compiled]


def test_snapshots_compile_nothing_at_an_unknown_value() -> None:
    """An empty batch warms what serves, whose arrays are read-only."""
    model = Model(features={"a": "number", "c": "category"})
    drawn = np.random.default_rng(0).normal(size=300)
    model.learn_many([{"a": float(v), "c": "ab"[int(v > 0)]} for v in drawn], [0, 1] * 150)
    arrays = {name: array.copy() for name, array in model.serving_arrays().items()}
    for array in arrays.values():
        array.flags.writeable = False
    served = Model.from_arrays(model.describe(), arrays)
    served.predict(tabulate(served.encoder.layout, []))
    compiled: list[Any] = []

    class Listener(event.Listener):
        def on_start(self, seen: Any) -> None:
            compiled.append(seen.data["dispatcher"])

        def on_end(self, seen: Any) -> None:
            pass

    with event.install_listener("numba:compile", Listener()):
        for row in ({"a": 1.0}, {}, {"a": 1.0, "c": "new"}):
            served.predict(tabulate(served.encoder.layout, [row]))

    assert [] == [str(each) for each in compiled]
