"""Baselines: how well the prior and the last label would have predicted the same events, and how
reliable the model's own probabilities were.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from kaboost.models.evaluation.outcome import Outcome
from kaboost.models.evaluation.reliability import Reliability, record_many, reliability
from kaboost.models.features.labels import Labels
from kaboost.models.kernels.jit import kernel
from kaboost.models.types import LOSS_LIMIT, WEIGHT_LIMIT, Mat, Vec

PREDICTORS = ("model", "prior", "last_label")
DECAY = 0.999  # of the windows: a memory of about a thousand events, as in `progress`
VALUE_LIMIT = 1e150  # of a number to predict: its square stays finite


class ProgressiveValidation(NamedTuple):
    """Progressive loss and error of model, prior and last label; sums are weighted by importance.

    The four before the last are what the two baselines know: C is 0 for regression, which alone
    uses `mean`.
    """

    loss_sum: Vec  # (3,) log-loss in nats, or half the squared difference
    error_sum: Vec  # (3,) the likeliest class is wrong, or the absolute difference
    loss_recent: Vec  # (3,) decayed by .999 an event, like the next two
    error_recent: Vec  # (3,)
    recent_weight: Vec  # ()
    weight_sum: Vec  # ()
    counts: Vec  # (C,) weight of the labels so far
    transitions: Mat  # (C, C) weight of label k right after label j, at [j, k]
    last: Vec  # () class index, -1 before any; the number, 0 before any
    mean: Vec  # ()
    reliability: Reliability  # of the model's probabilities, where there are two classes

    @property
    def mean_loss(self) -> Vec:
        """Progressive loss of every predictor, (3,); nan before any event."""
        return _ratio(self.loss_sum, self.weight_sum)

    @property
    def mean_error(self) -> Vec:
        """Progressive error of every predictor, (3,); nan before any event."""
        return _ratio(self.error_sum, self.weight_sum)

    @property
    def window_loss(self) -> Vec:
        """Loss over about the last thousand events, (3,); nan before any event."""
        return _ratio(self.loss_recent, self.recent_weight)

    @property
    def window_error(self) -> Vec:
        """Error over about the last thousand events, (3,); nan before any event."""
        return _ratio(self.error_recent, self.recent_weight)


def progressive_validation(labels: Labels) -> ProgressiveValidation:
    """Return baselines that have seen no event of a task with these labels."""
    C = len(labels.classes)
    return ProgressiveValidation(
        loss_sum=np.zeros(len(PREDICTORS)),
        error_sum=np.zeros(len(PREDICTORS)),
        loss_recent=np.zeros(len(PREDICTORS)),
        error_recent=np.zeros(len(PREDICTORS)),
        recent_weight=np.zeros(()),
        weight_sum=np.zeros(()),
        counts=np.zeros(C),
        transitions=np.zeros((C, C)),
        last=np.array(-1.0 if C else 0.0),
        mean=np.zeros(()),
        reliability=reliability(),
    )


def record(seen: ProgressiveValidation, outcome: Outcome, y: Vec, w: Vec) -> None:
    """Record events in stream order; an event of weight 0 is left out.

    Parameters
    ----------
    seen
        Moves in place.
    outcome
        What `Model.learn` returned for these events.
    y
        Class indices, or the numbers of a regression, (B,).
    w
        Importances, (B,).

    References
    ----------
    Laplace's rule of succession: the prior says (n_k + 1) / (n + C) for label k, the last label j
    says (n_jk + 1) / (n_j + C), both of the labels before the event.

    Examples
    --------
    >>> from kaboost.models.features.labels import labels
    >>> seen = progressive_validation(labels("regression"))
    >>> y = np.array([2.0, 4.0])
    >>> perfect = Outcome(y[:, None], y, np.zeros(2), np.zeros(2), None)
    >>> record(seen, perfect, y, np.ones(2))
    >>> seen.mean_error.tolist()
    [0.0, 2.0, 2.0]
    """
    w = np.minimum(w, WEIGHT_LIMIT)
    if outcome.probabilities is not None:
        record_many(seen.reliability, outcome.probabilities, y, w)
    compare = _compare_classes if seen.counts.size else _compare_numbers
    compare(seen, outcome.losses, outcome.errors, y, w)


def copied(seen: ProgressiveValidation) -> ProgressiveValidation:
    """Return the same figures in arrays of their own."""
    inner = Reliability(*map(np.copy, seen.reliability))
    own = {name: array.copy() for name, array in seen._asdict().items() if name != "reliability"}
    return ProgressiveValidation(**own, reliability=inner)


@kernel
def _compare_classes(seen: ProgressiveValidation, losses: Vec, errors: Vec, y: Vec, w: Vec) -> None:
    for k in range(y.shape[0]):
        if w[k] > 0.0:
            label, last = int(y[k]), int(seen.last[()])
            _fade(seen, w[k])
            _record(seen, 0, losses[k], errors[k], w[k])
            _judge(seen, 1, seen.counts, label, w[k])
            # Before any label every class is as likely: counts are then still 0 everywhere.
            _judge(seen, 2, seen.transitions[last] if last >= 0 else seen.counts, label, w[k])
            seen.counts[label] += w[k]
            if last >= 0:
                seen.transitions[last, label] += w[k]
            seen.last[()] = y[k]


@kernel
def _compare_numbers(seen: ProgressiveValidation, losses: Vec, errors: Vec, y: Vec, w: Vec) -> None:
    for k in range(y.shape[0]):
        if w[k] > 0.0:
            value = min(max(y[k], -VALUE_LIMIT), VALUE_LIMIT)
            _fade(seen, w[k])
            _record(seen, 0, losses[k], errors[k], w[k])
            _measure(seen, 1, value - seen.mean[()], w[k])
            _measure(seen, 2, value - seen.last[()], w[k])
            seen.mean[()] += w[k] / seen.weight_sum[()] * (value - seen.mean[()])
            seen.last[()] = value


@kernel
def _fade(seen: ProgressiveValidation, w: float) -> None:
    seen.weight_sum[()] += w
    seen.recent_weight[()] = DECAY * seen.recent_weight[()] + w
    for p in range(seen.loss_sum.shape[0]):
        seen.loss_recent[p] *= DECAY
        seen.error_recent[p] *= DECAY


@kernel
def _record(seen: ProgressiveValidation, p: int, loss: float, error: float, w: float) -> None:
    loss = loss if loss < LOSS_LIMIT else LOSS_LIMIT  # nan as well: a model that ran away has lost
    error = error if error < LOSS_LIMIT else LOSS_LIMIT
    seen.loss_sum[p] += w * loss
    seen.error_sum[p] += w * error
    seen.loss_recent[p] += w * loss
    seen.error_recent[p] += w * error


@kernel
def _judge(seen: ProgressiveValidation, p: int, counts: Vec, label: int, w: float) -> None:
    total = 0.0
    likeliest = 0
    for c in range(counts.shape[0]):
        total += counts[c]
        likeliest = c if counts[c] > counts[likeliest] else likeliest
    loss = -math.log((counts[label] + 1.0) / (total + counts.shape[0]))
    _record(seen, p, loss, 0.0 if likeliest == label else 1.0, w)


@kernel
def _measure(seen: ProgressiveValidation, p: int, difference: float, w: float) -> None:
    _record(seen, p, 0.5 * difference * difference, abs(difference), w)


def _ratio(sums: Vec, weight: Vec) -> Vec:
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.divide(sums, weight), dtype=np.float64)
