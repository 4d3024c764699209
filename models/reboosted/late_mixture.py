"""The mixture that is served while labels come late: every score at several temperatures.

A learner that adapts fast is right while labels come at once and overconfident when they lag. Each
score that `predict_rows` kept, and the usual served one, is an expert at each of eight
temperatures, which draw it towards the log-odds of the late labels so far. An expert's weight is
the exponential of minus its decayed log-loss times a low rate, measured on predictions as they were
made, so what is served is as sure as it was right. At first the usual served score counts as much
as all others. Rows captured before anything was learned count for the log-odds only: at every
temperature they say the same.

Exponential weights: Vovk, Aggregating Strategies, 1990; a low rate with delays: Joulani, György,
Szepesvári, Online Learning under Delayed Feedback, 2013. Temperatures: Guo, Pleiss, Sun,
Weinberger, On Calibration of Modern Neural Networks, 2017.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from kaboost.models.kernels.jit import kernel
from kaboost.models.kernels.numeric import log1pexp, sigmoid
from kaboost.models.reboosted.label_scale import relative_weight
from kaboost.models.reboosted.stacking import MAX_LOG_ODDS
from kaboost.models.types import Mat, Vec

INVERSE_TEMPERATURES = np.array([1.0, 0.8, 0.6, 0.45, 0.3, 0.2, 0.1, 0.03])
DECAY = 0.9995  # of the log-losses, an event
RATE = 0.12  # of the exponential weights: low, as the losses of a delay come all at once
FIRST_EVENTS = 50  # learned before a row was captured, from which on its scores are judged
MAX_LOSS = 14.0  # nats: one surprise does not decide
MIN_PROBABILITY = 1e-12  # a served probability is at least this far from 0 and 1


class LateMixture(NamedTuple):
    """State of the mixture over S + 1 scores and eight temperatures."""

    losses: Mat  # (S + 1, 8) decayed log-losses; the last row is that of the usual served score
    labels: Vec  # (2,) decayed importance of their events, of all and of those with label 1
    events: Vec  # () labels that came late, so far; at 0 the mixture is not served
    mean_weight: Vec  # () running mean importance of their events


def late_mixture(scores: int) -> LateMixture:
    """Return the mixture of so many scores before any late label."""
    shape = (scores + 1, len(INVERSE_TEMPERATURES))
    return LateMixture(np.zeros(shape), np.zeros(2), np.zeros(()), np.zeros(()))


@kernel
def learn_late(late: LateMixture, captured: Mat, first: int, y: Vec, w: Vec) -> None:
    """Update the losses by the scores of events (B, from column `first` on), with labels y (B,) in
    {-1, 1} and importances w (B,).
    """
    for k in range(y.shape[0]):
        if w[k] > 0.0:
            weight = relative_weight(late.mean_weight, w[k], float(late.events[()]))
            late.events[()] += 1.0
            late.labels[0] = DECAY * late.labels[0] + weight
            late.labels[1] = DECAY * late.labels[1] + (weight if y[k] > 0.0 else 0.0)
            if captured[k, captured.shape[1] - 1] < FIRST_EVENTS:
                continue  # no score had learned anything then
            base = _base(late)
            for i in range(late.losses.shape[0]):
                z = _clip(float(captured[k, first + i]))
                for t in range(late.losses.shape[1]):
                    loss = log1pexp(-y[k] * (base + INVERSE_TEMPERATURES[t] * (z - base)))
                    late.losses[i, t] = DECAY * late.losses[i, t] + weight * min(loss, MAX_LOSS)


@kernel
def score_late(late: LateMixture, captured: Mat, first: int, weights: Mat, scores: Mat) -> None:
    """Fill scores (B, 1) with the log-odds of the mixture; weights (S + 1, 8) is scratch."""
    least, total = math.inf, 0.0
    last = int(late.losses.shape[0]) - 1
    served = float(last)  # it counts as much as all others at first
    for i in range(late.losses.shape[0]):
        for t in range(late.losses.shape[1]):
            least = min(least, late.losses[i, t])
    for i in range(late.losses.shape[0]):
        for t in range(late.losses.shape[1]):
            weights[i, t] = math.exp(RATE * (least - late.losses[i, t]))
            weights[i, t] *= served if i == last else 1.0
            total += weights[i, t]
    base = _base(late)
    for k in range(scores.shape[0]):
        p = 0.0
        for i in range(late.losses.shape[0]):
            z = _clip(float(captured[k, first + i]))
            for t in range(late.losses.shape[1]):
                p += weights[i, t] * sigmoid(base + INVERSE_TEMPERATURES[t] * (z - base))
        p = min(max(p / total, MIN_PROBABILITY), 1.0 - MIN_PROBABILITY)
        scores[k, 0] = math.log(p / (1.0 - p))


@kernel
def _base(late: LateMixture) -> float:
    """Return the log-odds of label 1 among the late labels, and half a label more of each."""
    return math.log((late.labels[1] + 0.5) / (late.labels[0] - late.labels[1] + 0.5))


@kernel
def _clip(z: float) -> float:
    return min(max(z, -MAX_LOG_ODDS), MAX_LOG_ODDS)
