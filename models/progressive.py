"""Progressive validation: the running loss, the loss of every prefix and every weak learner's edge,
in the learning pass.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from models.types import LOSS_LIMIT, Ints, Mat, Vec
from models.verbs import kernel

DECAY = 0.999  # of the recent figures: a memory of about a thousand events (specification, 9.1)


class Progress(NamedTuple):
    """What the booster has seen and how well it did before learning each event; sums are weighted
    by importance.
    """

    events: Ints  # () events of positive weight
    skipped: Ints  # () learner updates left out: a value was not finite
    clipped: Ints  # () targets clipped to +-1e6
    capped: Ints  # () losses cut to 1e12
    weight_sum: Vec  # ()
    loss_sum: Vec  # () of the served score
    prefix_loss_sum: Vec  # (N+1,)
    target_square: Vec  # (N,) sum of |target|^2
    error_square: Vec  # (N,) sum of |target - h|^2
    recent_weight: Vec  # () decayed by .999 an event, like all that follows
    recent_loss: Vec  # ()
    recent_prefix_loss: Vec  # (N+1,)
    recent_target_square: Vec  # (N,)
    recent_error_square: Vec  # (N,)

    @property
    def mean_loss(self) -> float:
        """The progressive loss: mean loss of the predictions served before learning; nan before any
        event.
        """
        return float(self.loss_sum / self.weight_sum) if self.weight_sum > 0.0 else float("nan")

    @property
    def prefix_losses(self) -> Vec:
        """Mean progressive loss of every prefix, (N+1,)."""
        return _ratio(self.prefix_loss_sum, self.weight_sum)

    @property
    def edges(self) -> Vec:
        """Edge of every weak learner, 1 - sum |target - h|^2 / sum |target|^2, (N,); specification,
        9.1.
        """
        return 1.0 - _ratio(self.error_square, self.target_square)

    @property
    def recent_edges(self) -> Vec:
        """The same over about the last thousand events, (N,)."""
        return 1.0 - _ratio(self.recent_error_square, self.recent_target_square)

    @property
    def recent_prefix_losses(self) -> Vec:
        """Mean loss of every prefix over about the last thousand events, (N+1,)."""
        return _ratio(self.recent_prefix_loss, self.recent_weight)


def progress(N: int) -> Progress:
    """Return the progress of N weak learners that have seen nothing."""
    return Progress(
        events=np.zeros((), np.int64),
        skipped=np.zeros((), np.int64),
        clipped=np.zeros((), np.int64),
        capped=np.zeros((), np.int64),
        weight_sum=np.zeros(()),
        loss_sum=np.zeros(()),
        prefix_loss_sum=np.zeros(N + 1),
        target_square=np.zeros(N),
        error_square=np.zeros(N),
        recent_weight=np.zeros(()),
        recent_loss=np.zeros(()),
        recent_prefix_loss=np.zeros(N + 1),
        recent_target_square=np.zeros(N),
        recent_error_square=np.zeros(N),
    )


@kernel
def observe(seen: Progress, served: float, L: Vec, w: float) -> None:
    """Record the loss of the served score and of every prefix L (N+1,) for an event of weight w >
    0.
    """
    seen.events[()] += 1
    seen.weight_sum[()] += w
    seen.recent_weight[()] = DECAY * seen.recent_weight[()] + w
    for i in range(L.shape[0]):
        if not L[i] < LOSS_LIMIT:  # nan as well
            L[i] = LOSS_LIMIT
            seen.capped[()] += 1
    kept = served if served < LOSS_LIMIT else LOSS_LIMIT
    seen.loss_sum[()] += w * kept
    seen.recent_loss[()] = DECAY * seen.recent_loss[()] + w * kept
    for i in range(L.shape[0]):
        seen.prefix_loss_sum[i] += w * L[i]
        seen.recent_prefix_loss[i] = DECAY * seen.recent_prefix_loss[i] + w * L[i]


@kernel
def measure(seen: Progress, h: Mat, T: Mat, w: float) -> None:
    """Record how much of its target T (m, N) each learner's h (m, N) explained, for an event of
    weight w > 0.
    """
    m, N = h.shape
    for i in range(N):
        seen.recent_target_square[i] *= DECAY
        seen.recent_error_square[i] *= DECAY
    for c in range(m):
        for i in range(N):
            target = w * T[c, i] * T[c, i]
            miss = (T[c, i] - h[c, i]) * (T[c, i] - h[c, i])
            error = w * (miss if miss < LOSS_LIMIT else LOSS_LIMIT)
            seen.target_square[i] += target
            seen.error_square[i] += error
            seen.recent_target_square[i] += target
            seen.recent_error_square[i] += error


def _ratio(sums: Vec, total: Vec) -> Vec:
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.divide(sums, total), dtype=np.float64)
