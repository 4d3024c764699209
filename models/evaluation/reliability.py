"""Reliability: predicted probabilities against observed frequencies, in bins of the probability."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kaboost.models.kernels.jit import kernel
from kaboost.models.types import WEIGHT_LIMIT, Vec

BINS = 15
DECAY = 0.9999  # per event: a memory of about ten thousand events, enough for 15 bins


class Reliability(NamedTuple):
    """The reliability diagram: decayed sums over events by bin of the predicted probability,
    weighted by importance.
    """

    weight: Vec  # (15,) of the events whose probability fell into [b/15, (b+1)/15)
    predicted: Vec  # (15,) sum of their probabilities
    observed: Vec  # (15,) weight of the positive events among them

    @property
    def error(self) -> float:
        """Expected calibration error: mean |predicted - observed| by weight of the bins; nan before
        any event (Naeini, Cooper, Hauskrecht 2015).
        """
        total = float(self.weight.sum())
        return float(abs(self.predicted - self.observed).sum()) / total if total > 0.0 else np.nan


def reliability() -> Reliability:
    """Return the reliability before any event."""
    return Reliability(np.zeros(BINS), np.zeros(BINS), np.zeros(BINS))


@kernel
def record_many(seen: Reliability, p: Vec, y: Vec, w: Vec) -> None:
    """Record events in stream order: probabilities p (B,), labels y (B,) of 0 and 1, importances w
    (B,). Events of weight 0 and probabilities outside [0, 1] are skipped.
    """
    for k in range(p.shape[0]):
        if w[k] > 0.0 and 0.0 <= p[k] <= 1.0:
            for b in range(BINS):
                seen.weight[b] *= DECAY
                seen.predicted[b] *= DECAY
                seen.observed[b] *= DECAY
            weight = min(w[k], WEIGHT_LIMIT)
            b = min(int(p[k] * BINS), BINS - 1)
            seen.weight[b] += weight
            seen.predicted[b] += weight * p[k]
            seen.observed[b] += weight * y[k]
