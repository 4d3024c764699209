"""Online stacking: one score out of any set of scores, from how well each has lately done.

Three layers. An exponentially weighted average (EWA) over the scores; three Kalman filters that
learn a weight for each score and for a constant, each with another belief in how fast weights
drift; and a mixture of these four by their decayed losses. It knows nothing of what makes the
scores: they may be candidate models on one stream.

Two forms. In the logistic one scores are log-odds and the mixture is taken on probabilities; in the
value form it is taken on the scores themselves. The loss enters by slope and curvature: the filters
see the label that Newton's step points at.

Vovk, A game of prediction with expert advice, 1998; Kalman, A new approach to linear filtering and
prediction problems, 1960; specification of reboosted trees, 2.3a-c.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from kaboost.models.kernels.jit import kernel
from kaboost.models.kernels.numeric import exp_negative, sigmoid
from kaboost.models.kernels.simd import (
    Dense,
    Lane,
    NewLane,
    NewRow,
    Number,
    Row,
    Sum,
    over_learners,
)
from kaboost.models.types import Mat, Mat3, Vec
from kaboost.models.verbs import learning_only, newton_curvature, value_gradient_hessian

VARIANCE_DRIFTS = (1e-6, 1e-5, 1e-7)  # of the weights' variance an event, one for each filter
INITIAL_VARIANCE, MAX_VARIANCE = (
    0.01,
    0.1,
)  # variance of a weight at the start; drift adds up to this
SCORE_DECAY, MIXTURE_DECAY = 0.99, 0.998  # of the losses behind the average and the mixture
TEMPERATURE = 0.5  # of a unit of loss, in the logarithm of a weight
MAX_LOG_ODDS = 12.0  # log-odds beyond this count as this
PADDING = 8  # weights are padded to a multiple of this, so that loops over them fill vector lanes
MIN_PROBABILITY = 1e-12  # no mixture leaves a probability closer to 0 or 1


class Stack(NamedTuple):
    """State over n scores; S filters of R = n + 1 rounded up to a multiple of 8 weights."""

    weights: Mat  # (S, R) of the scores, then of the constant, then zeros
    covariance: Mat3  # (S, R, R) covariance of the weights; symmetric to the bit
    score_losses: Vec  # (R,) decayed loss of every score
    mixture_losses: Vec  # (S + 1,) of every filter, then of the average


@learning_only.register
def _(stack: Stack) -> tuple[str, ...]:
    return ("covariance",)


def stack(n: int) -> Stack:
    """Return the stacking of n scores that has seen nothing: their mean.

    Examples
    --------
    >>> stack(20).weights.shape
    (3, 24)
    """
    R, S = -(-(n + 1) // PADDING) * PADDING, len(VARIANCE_DRIFTS)
    weights, spread = np.zeros((S, R)), np.zeros((S, R, R))
    weights[:, :n] = 1.0 / n
    for i in range(n + 1):
        spread[:, i, i] = INITIAL_VARIANCE
    return Stack(weights, spread, np.zeros(R), np.zeros(S + 1))


@kernel
def exponential_weights(losses: Vec, n: int, share: Vec) -> None:
    """Fill share (n,) with the weights e^(-loss / 2) of decayed losses, summing to 1."""
    least = losses[0]
    for i in range(1, n):
        least = min(least, losses[i])
    for i in range(n):
        share[i] = exp_negative(-TEMPERATURE * (losses[i] - least))
    total = 0.0
    for i in range(n):
        total += share[i]
    for i in range(n):
        share[i] /= total


@kernel
def filter_inputs(f: Vec, n: int, centre: float, constant: float, x: Vec) -> None:
    """Fill x (R,) with what the filters see of scores f (n,): their distance from `centre`, then a
    constant, then zeros.
    """
    for i in range(n):
        x[i] = f[i] - centre
    x[n] = constant
    for i in range(n + 1, x.shape[0]):
        x[i] = 0.0


@kernel
def expert_scores(s: Stack, x: Vec, n: int, centre: float, desk: Any) -> None:
    """Fill desk.expert_scores (S + 1,) with what every filter, and last the average, makes of x (R,)."""
    S = s.weights.shape[0]
    for j in range(S):
        total = 0.0
        for i in range(n + 1):
            total += s.weights[j, i] * x[i]
        desk.expert_scores[j] = total + centre
    exponential_weights(s.score_losses, n, desk.weights)
    total = 0.0
    for i in range(n):
        total += desk.weights[i] * x[i]
    desk.expert_scores[S] = total + centre


@kernel
def mixture(s: Stack, desk: Any, logistic: bool) -> float:
    """Return the score that desk.expert_scores (S + 1,) comes to: of the mean probability, or the mean."""
    count = desk.expert_scores.shape[0]
    exponential_weights(s.mixture_losses, count, desk.weights)
    total = 0.0
    for j in range(count):
        z = float(desk.expert_scores[j])
        total += desk.weights[j] * (sigmoid(z) if logistic else z)
    if not logistic:
        return total
    p = min(max(total, MIN_PROBABILITY), 1.0 - MIN_PROBABILITY)
    return math.log(p / (1.0 - p))


@kernel
def decay_losses(losses: Vec, decay: float, loss: Vec, n: int) -> None:
    """Add the losses (n,) of this event to decayed ones."""
    for i in range(n):
        losses[i] = decay * losses[i] + loss[i]


@kernel
def learn_filters(s: Stack, loss: Any, y: float, how: Any, desk: Any) -> None:
    """Let every filter learn label y; `how` is the importance w, the residuals' variance `noise`
    and their typical size `unit`.
    """
    w, noise, unit = how
    for j in range(s.weights.shape[0]):
        z = float(desk.expert_scores[j])
        _, slope, _ = value_gradient_hessian(loss, z, y)
        h = newton_curvature(loss, z, y, unit)
        _kalman_step(
            s.weights[j], s.covariance[j], desk, (-slope / h, noise / (h * w), VARIANCE_DRIFTS[j])
        )


@kernel
def inflate_covariance(s: Stack) -> None:
    """Add to every weight's variance what it had at the start: what they were learned from has
    changed.
    """
    for j in range(s.covariance.shape[0]):
        for i in range(s.covariance.shape[1]):
            s.covariance[j, i, i] += (
                INITIAL_VARIANCE if s.covariance[j, i, i] < MAX_VARIANCE else 0.0
            )


@kernel
def _kalman_step(weights: Vec, spread: Mat, desk: Any, seen: Any) -> None:
    """One step of a Kalman filter whose label is off by `error`, with variance `noise`."""
    error, noise, drift = seen
    x, G, R = desk.filter_inputs, desk.kalman_gain, desk.filter_inputs.shape[0]
    _covariance_times(spread, x, G)
    total = noise
    for i in range(R):
        total += x[i] * G[i]
    part = 1.0 / total
    _move_weights(weights, G, error * part)
    _shrink_covariance(spread, G, G, part)
    for i in range(R):
        spread[i, i] += drift if spread[i, i] < MAX_VARIANCE else 0.0


@over_learners
def _covariance_times(total: Sum, spread: Row, x: Dense) -> Sum:
    """Fill G (R,) with spread (R, R) times x (R,), row by row: it is symmetric."""
    return total + spread * x


@over_learners
def _move_weights(weights: NewLane, G: Lane, step: Number) -> NewLane:
    return weights + G * step


# (a b) part is the same number for (i, j) and (j, i): the matrix stays symmetric to the bit.
@over_learners
def _shrink_covariance(spread: NewRow, a: Dense, b: Lane, part: Number) -> NewRow:
    return spread - (a * b) * part
