"""Progressive loss of every prefix of trees of classes, and the edge of every tree, sampled."""

from __future__ import annotations

import math
from typing import Any

from numpy.typing import NDArray

from kaboost.models.evaluation.progress import Progress
from kaboost.models.kernels.jit import kernel
from kaboost.models.reboosted.classes.scores import TINY, ClassScratch, softmax
from kaboost.models.reboosted.prefix_metrics import MIN_HESSIAN
from kaboost.models.reboosted.state import Rows, Trees
from kaboost.models.types import LOSS_LIMIT, Mat, Vec

METRICS_EVERY = 16  # events between two samples


@kernel
def observe_structures(
    eta: Vec, structures: tuple[Trees, ...], base: Mat, leaves: NDArray[Any],
    event: tuple[int, float, int], seen: Progress, b: ClassScratch,
) -> None:  # fmt: skip
    """Record the loss of every prefix and every tree's edge at every `METRICS_EVERY`th event, with
    the weight of so many; `event` is its number, its importance and its class.

    A tree fits -gradient / hessian of every class by weighted least squares: its edge is the share
    of that square which it explains.
    """
    t, w, label = event
    if t % METRICS_EVERY != METRICS_EVERY - 1:
        return
    for k in range(base.shape[0]):
        for c in range(base.shape[1]):
            b.totals[c] = base[k, c]
        _observe_prefixes(
            structures[k].rows, leaves[k], (label, w * METRICS_EVERY, 1.0 / eta[k]), b,
            seen.prefix_loss_sum[k], seen.edge_total[k], seen.edge_missed[k],
        )  # fmt: skip


@kernel
def _observe_prefixes(
    rows: Rows, leaf: NDArray[Any], event: tuple[int, float, float], b: ClassScratch,
    losses: Vec, total: Vec, missed: Vec,
) -> None:  # fmt: skip
    label, w, inverse = event
    C, N, p = b.squares.shape[0], rows.shape[0], b.squares
    F = b.totals[:C]
    softmax(F, p)
    for i in range(N):
        losses[i] += w * min(-math.log(max(p[label], TINY)), LOSS_LIMIT)
        row, whole, left = rows[i, leaf[i] & 0xFFFF], 0.0, 0.0
        for c in range(C):
            g = p[c] - (1.0 if c == label else 0.0)
            h = max(p[c] * (1.0 - p[c]), MIN_HESSIAN)
            rest = g + h * inverse * float(row[c])
            whole += g * g / h
            left += rest * rest / h
            F[c] += float(row[c])
        total[i] += w * whole
        missed[i] += w * left
        softmax(F, p)
    losses[N] += w * min(-math.log(max(p[label], TINY)), LOSS_LIMIT)
