"""Reliability: how often what was given a probability came about, in bins of the probability."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kaboost.models.kernels.jit import kernel
from kaboost.models.types import WEIGHT_LIMIT, Vec

BINS = 15
DECAY = 0.9999  # an event: a memory of about ten thousand events, enough for every bin


class Reliability(NamedTuple):
    """Probabilities said before each event was learned, against what then happened; decayed sums
    weighted by importance.
    """

    weight: Vec  # (15,) of the events whose probability fell into [b/15, (b+1)/15)
    said: Vec  # (15,) their probabilities
    happened: Vec  # (15,) of the positive ones among them

    @property
    def error(self) -> float:
        """Expected calibration error: the mean |said - happened| over the bins; nan before any
        event (Naeini, Cooper, Hauskrecht 2015).
        """
        total = float(self.weight.sum())
        return float(abs(self.said - self.happened).sum()) / total if total > 0.0 else np.nan


def reliability() -> Reliability:
    """Return a reliability that has seen no event."""
    return Reliability(np.zeros(BINS), np.zeros(BINS), np.zeros(BINS))


@kernel
def check_many(seen: Reliability, p: Vec, y: Vec, w: Vec) -> None:
    """Record events in stream order: probabilities p (B,), labels y (B,) of 0 and 1, importances w
    (B,), of which 0 leaves an event out. What is no probability is left out as well.
    """
    for k in range(p.shape[0]):
        if w[k] > 0.0 and 0.0 <= p[k] <= 1.0:
            for b in range(BINS):
                seen.weight[b] *= DECAY
                seen.said[b] *= DECAY
                seen.happened[b] *= DECAY
            weight = min(w[k], WEIGHT_LIMIT)
            b = min(int(p[k] * BINS), BINS - 1)
            seen.weight[b] += weight
            seen.said[b] += weight * p[k]
            seen.happened[b] += weight * y[k]
