"""Online stacking: one score out of any set of scores, by how well each did lately.

Three layers: an exponentially weighted average (EWA) of the scores; three Kalman filters that learn
a weight for each score and for a constant, each with another drift of the weights; and a mixture of
these four experts by their decayed losses. It knows nothing of the origin of the scores: they may
be candidate models on one stream.

Two forms. In the logistic one scores are log-odds and the mixture is taken of probabilities; in the
value form it is taken of the scores. The loss enters by gradient and curvature: the filters see the
label that Newton's step points at.

Vovk, A game of prediction with expert advice, 1998; Kalman, A new approach to linear filtering and
prediction problems, 1960; specification of reboosted trees, 2.3a-c, which has the constants.
"""

from __future__ import annotations

import math
from typing import NamedTuple

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
from kaboost.models.types import Loss, Mat, Mat3, Vec
from kaboost.models.verbs import learning_only, newton_curvature, value_gradient_hessian

VARIANCE_DRIFTS = (1e-6, 1e-5, 1e-7)  # added to a weight's variance an event, for each filter
INITIAL_VARIANCE, MAX_VARIANCE = 0.01, 0.1  # of a weight at first; drift raises it up to this
SCORE_DECAY, MIXTURE_DECAY = 0.99, 0.998  # an event, of the losses behind average and mixture
TEMPERATURE = 0.5  # factor on a decayed loss in the logarithm of a weight
MAX_LOG_ODDS = 12.0  # larger log-odds count as this
MIN_PROBABILITY = 1e-12  # a mixture is at least this far from 0 and 1
PADDING = 8  # weights are padded to a multiple of this, so that loops over them fill vector lanes


class Stack(NamedTuple):
    """State over n scores; S filters of R = n + 1 rounded up to a multiple of 8 weights."""

    weights: Mat  # (S, R) of the scores, then of the constant, then zeros
    covariance: Mat3  # (S, R, R) of the weights; symmetric to the bit
    score_losses: Vec  # (R,) decayed loss of every score
    mixture_losses: Vec  # (S + 1,) of every filter, then of the average


class Target(NamedTuple):
    """A label, and what the filters assume of its noise."""

    label: float
    weight: float  # importance of the event
    variance: float  # of residuals
    unit: float  # usual size of a residual


@learning_only.register
def _(stack: Stack) -> tuple[str, ...]:
    return ("covariance",)


def stack(n: int) -> Stack:
    """Return the stacking of n scores before any event: their mean.

    Examples
    --------
    >>> stack(20).weights.shape
    (3, 24)
    """
    R, S = -(-(n + 1) // PADDING) * PADDING, len(VARIANCE_DRIFTS)
    weights, covariance = np.zeros((S, R)), np.zeros((S, R, R))
    weights[:, :n] = 1.0 / n
    for i in range(n + 1):
        covariance[:, i, i] = INITIAL_VARIANCE
    return Stack(weights, covariance, np.zeros(R), np.zeros(S + 1))


@kernel
def exponential_weights(losses: Vec, n: int, weights: Vec) -> None:
    """Fill weights (n,) with e^(-loss / 2) of decayed losses, summing to 1."""
    least = losses[0]
    for i in range(1, n):
        least = min(least, losses[i])
    for i in range(n):
        weights[i] = exp_negative(-TEMPERATURE * (losses[i] - least))
    total = 0.0
    for i in range(n):
        total += weights[i]
    for i in range(n):
        weights[i] /= total


@kernel
def filter_inputs(scores: Vec, n: int, centre: float, constant: float, x: Vec) -> None:
    """Fill x (R,) with the filters' inputs: the distance of scores (n,) from `centre`, then
    `constant`, then zeros.
    """
    for i in range(n):
        x[i] = scores[i] - centre
    x[n] = constant
    for i in range(n + 1, x.shape[0]):
        x[i] = 0.0


@kernel
def expert_scores(s: Stack, x: Vec, n: int, centre: float, weights: Vec, z: Vec) -> None:
    """Fill z (S + 1,) with the scores of all filters, then of the average, for x (R,); weights (n,)
    is scratch.
    """
    S = s.weights.shape[0]
    for j in range(S):
        total = 0.0
        for i in range(n + 1):
            total += s.weights[j, i] * x[i]
        z[j] = total + centre
    exponential_weights(s.score_losses, n, weights)
    total = 0.0
    for i in range(n):
        total += weights[i] * x[i]
    z[S] = total + centre


@kernel
def mixture(s: Stack, z: Vec, weights: Vec, logistic: bool) -> float:
    """Return the mixture of the experts' scores z (S + 1,), of probabilities if logistic; weights
    (S + 1,) is scratch.
    """
    count = z.shape[0]
    exponential_weights(s.mixture_losses, count, weights)
    total = 0.0
    for j in range(count):
        score = float(z[j])
        total += weights[j] * (sigmoid(score) if logistic else score)
    if not logistic:
        return total
    p = min(max(total, MIN_PROBABILITY), 1.0 - MIN_PROBABILITY)
    return math.log(p / (1.0 - p))


@kernel
def decay_losses(decayed: Vec, decay: float, losses: Vec, n: int) -> None:
    """Add the losses (n,) of this event to decayed ones."""
    for i in range(n):
        decayed[i] = decay * decayed[i] + losses[i]


@kernel
def learn_filters(s: Stack, loss: Loss, target: Target, z: Vec, x: Vec, gain: Vec) -> None:
    """Let every filter learn a label; z (S + 1,) are the experts' scores of inputs x (R,), gain
    (R,) is scratch.
    """
    for j in range(s.weights.shape[0]):
        score = float(z[j])
        _, g, _ = value_gradient_hessian(loss, score, target.label)
        h = newton_curvature(loss, score, target.label, target.unit)
        noise = target.variance / (h * target.weight)
        _kalman_step(s, j, x, gain, -g / h, noise, VARIANCE_DRIFTS[j])


@kernel
def inflate_covariance(s: Stack) -> None:
    """Add the initial variance to every weight's variance: the scores have changed."""
    for j in range(s.covariance.shape[0]):
        for i in range(s.covariance.shape[1]):
            small = s.covariance[j, i, i] < MAX_VARIANCE
            s.covariance[j, i, i] += INITIAL_VARIANCE if small else 0.0


@kernel
def _kalman_step(
    s: Stack, j: int, x: Vec, gain: Vec, error: float, noise: float, drift: float
) -> None:
    """Take one step of filter j, whose score of x (R,) is off by `error`, of variance `noise`."""
    weights, covariance, R = s.weights[j], s.covariance[j], x.shape[0]
    _covariance_times(covariance, x, gain)
    total = noise
    for i in range(R):
        total += x[i] * gain[i]
    part = 1.0 / total
    _move_weights(weights, gain, error * part)
    _shrink_covariance(covariance, gain, gain, part)
    for i in range(R):
        covariance[i, i] += drift if covariance[i, i] < MAX_VARIANCE else 0.0


@over_learners
def _covariance_times(total: Sum, covariance: Row, x: Dense) -> Sum:
    """Fill gain (R,) with covariance (R, R) times x (R,), row by row: it is symmetric."""
    return total + covariance * x


@over_learners
def _move_weights(weights: NewLane, gain: Lane, step: Number) -> NewLane:
    return weights + gain * step


# (a b) part is the same number for (i, j) and (j, i): the matrix stays symmetric to the bit.
@over_learners
def _shrink_covariance(covariance: NewRow, a: Dense, b: Lane, part: Number) -> NewRow:
    return covariance - (a * b) * part
