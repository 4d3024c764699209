"""The initial score y0 of partial sums: a number, or a running statistic of the labels before the
event (specification, 2.1).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from kaboost.models.kernels.jit import kernel
from kaboost.models.types import Loss, Param, Vec
from kaboost.models.verbs import init_score, update_init

Y0 = Param("y0", "running", "start: 'running' or a number", -1e6, 1e6, choices=("running",))
Y0_FREEZE = Param(
    "y0_freeze", 1000, "events after which a running y0 is frozen", 0, 2**53, integer=True
)


def initial_score_state(params: Mapping[str, Any], m: int) -> dict[str, Any]:
    """Return the state of a rule with a y0: freeze, y0 (m,), seen (), total (), counts (m,)."""
    running = params["y0"] == "running"
    return {
        "freeze": params["y0_freeze"] if running else 0,
        "y0": np.full(m, 0.0 if running else params["y0"], np.float64),
        "seen": np.zeros(()),
        "total": np.zeros(()),
        "counts": np.zeros(m),
    }


@kernel
def update_initial_score(
    seen: Vec, total: Vec, counts: Vec, y0: Vec, loss: Loss, y: Vec, w: float
) -> None:
    """Update the running y0 (m,) and its statistic by a label y of weight w."""
    seen[()] += 1.0
    total[()] += w
    update_init(loss, y, w, total[()], counts)
    init_score(loss, total[()], counts, y0)
