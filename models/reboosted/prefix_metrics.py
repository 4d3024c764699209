"""Progressive loss of every prefix, and the edge of every tree, sampled every few events."""

from __future__ import annotations

from kaboost.models.evaluation.progress import Progress
from kaboost.models.kernels.jit import kernel
from kaboost.models.kernels.simd import Lane, NewLane, Number, over_learners
from kaboost.models.reboosted.scratch import LearnScratch
from kaboost.models.types import LOSS_LIMIT, Ints, Loss, Mat, Vec
from kaboost.models.verbs import value, value_gradient_hessian

METRICS_EVERY = 4  # events between two samples
MIN_HESSIAN = 1e-3  # of a loss, where an edge divides by it


# A kernel of its own: where a verb is put into a loop, numba takes writes after it for dead code.
@kernel
def observe_served(seen: Progress, loss: Loss, w: float, score: Vec, label: Vec) -> None:
    """Add the loss of the served score (1,) for an event of weight w > 0."""
    seen.events[()] += 1
    seen.weight_sum[()] += w
    seen.loss_sum[()] += w * min(value(loss, score, label), LOSS_LIMIT)


@kernel
def store_prefixes(prefix: Mat, t: int, F: Mat, cursor: Ints) -> None:
    """Store every structure's score of the trees before its cursor in `prefix` (K, R)."""
    s = t % prefix.shape[1]
    for k in range(prefix.shape[0]):
        prefix[k, s] = F[k, cursor[k]]


@kernel
def observe_structures(
    eta: Vec, loss: Loss, y: float, event: tuple[int, float], seen: Progress, a: LearnScratch
) -> None:
    """Record the loss of every prefix a.F (K, N+1) and every tree's edge at every `METRICS_EVERY`th
    event, with the weight of so many; `event` is its number and its importance.

    A tree fits -gradient / hessian by weighted least squares: its edge is the share of that square
    which it explains.
    """
    t, w = event
    if t % METRICS_EVERY != METRICS_EVERY - 1:
        return
    weight = w * METRICS_EVERY
    for k in range(a.tree_counts.shape[0]):
        N = int(a.tree_counts[k])
        _prefix_gradients(loss, y, N + 1, a.F[k], a)
        _add_losses(seen.prefix_loss_sum[k, : N + 1], a.prefix_losses[: N + 1], weight)
        _add_edges(
            seen.edge_total[k, :N], seen.edge_missed[k, :N], a.prefix_gradients[:N],
            a.prefix_hessians[:N], a.tree_outputs[:N], weight, 1.0 / eta[k],
        )  # fmt: skip


@kernel
def _prefix_gradients(loss: Loss, y: float, count: int, F: Vec, a: LearnScratch) -> None:
    outputs, losses = a.tree_outputs, a.prefix_losses
    gradients, hessians = a.prefix_gradients, a.prefix_hessians
    for i in range(count - 1):
        outputs[i] = F[i + 1] - F[i]
    for i in range(count):
        v, g, h = value_gradient_hessian(loss, float(F[i]), y)
        losses[i], gradients[i], hessians[i] = min(v, LOSS_LIMIT), g, max(h, MIN_HESSIAN)


@over_learners
def _add_losses(total: NewLane, losses: Lane, w: Number) -> NewLane:
    return total + w * losses


@over_learners
def _add_edges(
    total: NewLane, missed: NewLane, gradient: Lane, hessian: Lane, output: Lane,
    w: Number, inverse: Number,
) -> tuple[NewLane, NewLane]:  # fmt: skip
    weight = w / hessian
    left = gradient + hessian * (inverse * output)
    return total + gradient * gradient * weight, missed + left * left * weight
