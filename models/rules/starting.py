"""y0, where partial sums start: a number, or a statistic of the labels before the event
(specification, 2.1).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from kaboost.models.kernels.jit import kernel
from kaboost.models.types import Param
from kaboost.models.verbs import init_score, update_init

Y0 = Param("y0", "running", "start: 'running' or a number", -1e6, 1e6, choices=("running",))
Y0_FREEZE = Param(
    "y0_freeze", 1000, "events after which a running y0 stands still", 0, 2**53, integer=True
)


def starting(params: Mapping[str, Any], m: int) -> dict[str, Any]:
    """Return what a rule with a y0 keeps: freeze, y0 (m,), seen (), total (), counts (m,)."""
    running = params["y0"] == "running"
    return {
        "freeze": params["y0_freeze"] if running else 0,
        "y0": np.full(m, 0.0 if running else params["y0"], np.float64),
        "seen": np.zeros(()),
        "total": np.zeros(()),
        "counts": np.zeros(m),
    }


@kernel
def follow(rule: Any, loss: Any, y: Any, w: float) -> None:
    """Move the running y0 of `rule` by a label y of importance w."""
    rule.seen[()] += 1.0
    rule.total[()] += w
    update_init(loss, y, w, rule.total[()], rule.counts)
    init_score(loss, rule.total[()], rule.counts, rule.y0)
