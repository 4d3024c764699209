"""Progressive loss of the served score and of every prefix, and the edge of every weak learner."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from kaboost.models.kernels.jit import inlined, kernel
from kaboost.models.kernels.numeric import chosen
from kaboost.models.kernels.simd import Lane, NewLane, Number, over_learners, where
from kaboost.models.types import LINEAR, LOSS_LIMIT, SQUARE, Ints, Mat, Vec


class Progress(NamedTuple):
    """Sums over events, weighted by importance, of scores made before each event was learned."""

    events: Ints  # () events of positive weight
    skipped: Ints  # () updates of a learner left out because a value was not finite
    clipped: Ints  # () targets clipped to +-1e6
    capped: Ints  # () losses cut to 1e12
    weight_sum: Vec  # ()
    loss_sum: Vec  # () loss of the score made while learning
    averaged_loss_sum: (
        Vec  # () loss of the averaged score, which averaged banks serve; 0 for others
    )
    prefix_loss_sum: Vec  # (N+1,)
    edge_total: Vec  # (N,) size of each learner's task: see `measure`
    edge_missed: Vec  # (N,) part of it that the learner missed

    @property
    def mean_loss(self) -> float:
        """The progressive loss: mean loss of scores made before learning; nan before any event."""
        return float(self.loss_sum / self.weight_sum) if self.weight_sum > 0.0 else float("nan")

    @property
    def prefix_losses(self) -> Vec:
        """Mean progressive loss of every prefix, (N+1,)."""
        return _ratio(self.prefix_loss_sum, self.weight_sum)

    @property
    def edges(self) -> Vec:
        """Edge of every weak learner, (N,); specification, 9.1.

        1 - sum |target - h|^2 / sum |target|^2 where learners fit targets, the correlation with the
        negative gradient where they get gradients, 1/2 - the weighted error where they classify.
        """
        return 1.0 - _ratio(self.edge_missed, self.edge_total)


def progress(N: int) -> Progress:
    """Return the progress of N weak learners before any event."""
    return Progress(
        events=np.zeros((), np.int64),
        skipped=np.zeros((), np.int64),
        clipped=np.zeros((), np.int64),
        capped=np.zeros((), np.int64),
        weight_sum=np.zeros(()),
        loss_sum=np.zeros(()),
        averaged_loss_sum=np.zeros(()),
        prefix_loss_sum=np.zeros(N + 1),
        edge_total=np.zeros(N),
        edge_missed=np.zeros(N),
    )


@inlined
def observe(seen: Progress, served: float, L: Vec, w: float) -> None:
    """Add the losses of the served score and of every prefix, L (N+1,), for an event of weight
    w > 0; L is capped.
    """
    seen.events[()] += 1
    seen.weight_sum[()] += w
    for i in range(L.shape[0]):
        if not L[i] < LOSS_LIMIT:  # nan as well
            L[i] = LOSS_LIMIT
            seen.capped[()] += 1
    kept = served if served < LOSS_LIMIT else LOSS_LIMIT
    seen.loss_sum[()] += w * kept
    record(seen.prefix_loss_sum, L, w)


@over_learners
def record(total: NewLane, L: Lane, w: Number) -> NewLane:
    """Add the losses L (N+1,) of all prefixes, times w, to their sums."""
    return total + w * L


@inlined
def measure(seen: Progress, h: Mat, T: Mat, W: Vec, mode: int, bound: float, w: float) -> None:
    """Record the size of each learner's task, and what its prediction h (m, N) missed of it, for an
    event of weight w > 0.

    SQUARE: w |target|^2, of which it missed w |target - h|^2. LINEAR, with |h| <= bound: w bound
    |gradient|, and w (bound |gradient| + <gradient, h>). LOGISTIC: the learner's weight W (N,), and
    half of it, or 3/2 where the class is wrong.
    """
    if mode == SQUARE:
        for c in range(h.shape[0]):
            fit(seen.edge_total, seen.edge_missed, h[c], T[c], w)
    elif mode == LINEAR:
        _measure_gradient(seen, h, T, bound, w)
    else:
        _measure_votes(seen, h, T, W)


@over_learners
def fit(total: NewLane, missed: NewLane, h: Lane, T: Lane, w: Number) -> tuple[NewLane, NewLane]:
    """Add the squared targets T of one output, and the squared errors of h, to their sums."""
    gap = (T - h) * (T - h)
    error = w * where(gap < LOSS_LIMIT, gap, LOSS_LIMIT)
    return total + w * T * T, missed + error


@kernel
def _measure_gradient(seen: Progress, h: Mat, T: Mat, bound: float, w: float) -> None:
    m, N = h.shape
    for i in range(N):
        square = 0.0
        product = 0.0
        for c in range(m):
            square += T[c, i] * T[c, i]
            product += T[c, i] * h[c, i]
        total = w * bound * math.sqrt(square)
        seen.edge_total[i] += total
        seen.edge_missed[i] += total + w * product


@kernel
def _measure_votes(seen: Progress, h: Mat, T: Mat, W: Vec) -> None:
    for i in range(h.shape[1]):
        missed = W[i] * (1.5 if chosen(h, i) != chosen(T, i) else 0.5)
        seen.edge_total[i] += W[i]
        seen.edge_missed[i] += missed


def _ratio(sums: Vec, total: Vec) -> Vec:
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.divide(sums, total), dtype=np.float64)
