"""Progressive validation: losses of the model and of two baselines on the same events, and the
reliability of the model's probabilities.
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
DECAY = 0.999  # per event: a memory of about a thousand events, as in `progress`
VALUE_LIMIT = 1e150  # of a number to predict: its square stays finite


class ProgressiveValidation(NamedTuple):
    """Progressive loss and error of model, prior and last label; sums are weighted by importance.

    `counts`, `transitions`, `last` and `mean` are the state of the baselines. C is 0 for
    regression, which alone uses `mean`.
    """

    loss_sum: Vec  # (3,) of log-losses in nats, or half squared differences
    error_sum: Vec  # (3,) of wrong classes, or absolute differences
    loss_recent: Vec  # (3,) decayed by DECAY, like the next two
    error_recent: Vec  # (3,)
    recent_weight: Vec  # ()
    weight_sum: Vec  # ()
    counts: Vec  # (C,) weight of the labels so far
    transitions: Mat  # (C, C) weight of label k right after label j, at [j, k]
    last: Vec  # () the last class index, at first -1, or the last number, at first 0
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
    """Return the progressive validation of a task with these labels before any event."""
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
    """Record events in stream order; events of weight 0 are skipped.

    Parameters
    ----------
    seen
        Updated in place.
    outcome
        What `Model.learn` returned for these events.
    y
        Class indices, or the numbers of a regression, (B,).
    w
        Importances, (B,).

    References
    ----------
    Laplace's rule of succession: the prior predicts label k with (n_k + 1) / (n + C), the last
    label j with (n_jk + 1) / (n_j + C), both from the labels before the event.

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


def correct(seen: ProgressiveValidation, before: Outcome, after: Outcome, w: float) -> None:
    """Replace the loss of one event, whose label turned out to be another.

    Its importance is w. The baselines and the decayed figures stay: they follow the labels as they
    came.
    """
    seen.loss_sum[0] += w * (_limited(after.losses[0]) - _limited(before.losses[0]))
    seen.error_sum[0] += w * (_limited(after.errors[0]) - _limited(before.errors[0]))


def _limited(loss: float) -> float:
    return min(float(loss), LOSS_LIMIT) if loss == loss else LOSS_LIMIT


def copied(seen: ProgressiveValidation) -> ProgressiveValidation:
    """Return a copy."""
    inner = Reliability(*map(np.copy, seen.reliability))
    arrays = {name: array.copy() for name, array in seen._asdict().items() if name != "reliability"}
    return ProgressiveValidation(**arrays, reliability=inner)


@kernel
def _compare_classes(seen: ProgressiveValidation, losses: Vec, errors: Vec, y: Vec, w: Vec) -> None:
    for k in range(y.shape[0]):
        if w[k] > 0.0:
            label, last = int(y[k]), int(seen.last[()])
            decay(seen, w[k])
            record_loss(seen, 0, losses[k], errors[k], w[k])
            _record_counts(seen, 1, seen.counts, label, w[k])
            # Before any label all classes are equally likely: all counts are 0.
            _record_counts(
                seen, 2, seen.transitions[last] if last >= 0 else seen.counts, label, w[k]
            )
            seen.counts[label] += w[k]
            if last >= 0:
                seen.transitions[last, label] += w[k]
            seen.last[()] = y[k]


@kernel
def _compare_numbers(seen: ProgressiveValidation, losses: Vec, errors: Vec, y: Vec, w: Vec) -> None:
    for k in range(y.shape[0]):
        if w[k] > 0.0:
            value = min(max(y[k], -VALUE_LIMIT), VALUE_LIMIT)
            decay(seen, w[k])
            record_loss(seen, 0, losses[k], errors[k], w[k])
            record_difference(seen, 1, value - seen.mean[()], w[k])
            record_difference(seen, 2, value - seen.last[()], w[k])
            seen.mean[()] += w[k] / seen.weight_sum[()] * (value - seen.mean[()])
            seen.last[()] = value


@kernel
def decay(seen: ProgressiveValidation, w: float) -> None:
    """Count an event of importance w, and let the windows forget."""
    seen.weight_sum[()] += w
    seen.recent_weight[()] = DECAY * seen.recent_weight[()] + w
    for p in range(seen.loss_sum.shape[0]):
        seen.loss_recent[p] *= DECAY
        seen.error_recent[p] *= DECAY


@kernel
def record_loss(seen: ProgressiveValidation, p: int, loss: float, error: float, w: float) -> None:
    """Add loss and error of predictor p."""
    loss = loss if loss < LOSS_LIMIT else LOSS_LIMIT  # nan as well: the model has diverged
    error = error if error < LOSS_LIMIT else LOSS_LIMIT
    seen.loss_sum[p] += w * loss
    seen.error_sum[p] += w * error
    seen.loss_recent[p] += w * loss
    seen.error_recent[p] += w * error


@kernel
def _record_counts(seen: ProgressiveValidation, p: int, counts: Vec, label: int, w: float) -> None:
    total = 0.0
    most = 0
    for c in range(counts.shape[0]):
        total += counts[c]
        most = c if counts[c] > counts[most] else most
    loss = -math.log((counts[label] + 1.0) / (total + counts.shape[0]))
    record_loss(seen, p, loss, 0.0 if most == label else 1.0, w)


@kernel
def record_difference(seen: ProgressiveValidation, p: int, difference: float, w: float) -> None:
    """Add the loss and the error of predictor p that was off by a difference."""
    record_loss(seen, p, 0.5 * difference * difference, abs(difference), w)


def _ratio(sums: Vec, weight: Vec) -> Vec:
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.divide(sums, weight), dtype=np.float64)
