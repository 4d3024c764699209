"""Progressive validation: losses of the model and of two baselines on the same events, and the
reliability of the model's probabilities.

No single number spoils a sum for good: a label counts as at most `OUTLIER_SPREADS` mean absolute
deviations away from the mean label, as in what is learned (`label_outliers`), and the model's error
as at most so many more. The first `FIRST_LABELS` labels are judged together.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from kaboost.models.evaluation.outcome import Outcome
from kaboost.models.evaluation.reliability import Reliability, record_many, reliability
from kaboost.models.features.label_outliers import (
    FIRST_LABELS,
    OUTLIER_SPREADS,
    replace_outliers,
)
from kaboost.models.features.labels import Labels
from kaboost.models.kernels.jit import inlined, kernel
from kaboost.models.types import LOSS_LIMIT, WEIGHT_LIMIT, Mat, Vec

PREDICTORS = ("model", "prior", "last_label")
DECAY = 0.999  # per event: a memory of about a thousand events, as in `progress`
VALUE_LIMIT = 1e150  # of a number to predict: its square stays finite
SPREAD_GROWTH = 1.5  # factor on the spread with every outlier, so that a shift is followed
SPREAD_RATE = 1e-3  # lowest rate of the spread, an event
OWN = np.empty((0, 2))  # stands for what the baselines predict now
VALUE, WEIGHT, LOSS, ERROR = range(4)  # columns of `ProgressiveValidation.first`


class ProgressiveValidation(NamedTuple):
    """Progressive loss and error of model, prior and last label; sums are weighted by importance.

    `counts`, `transitions`, `last` and `mean` are the state of the baselines. C is 0 for
    regression, which alone uses what follows `last`, and before the first class that is learned.
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
    mean: Vec  # () running mean of the bounded numbers
    spread: Vec  # () their running mean absolute distance from `mean`
    events: Vec  # () of positive weight
    first: Mat  # (20, 4) of the first: number, weight, the model's loss and error; then 0
    reliability: Reliability  # of the model's probabilities, where there are two classes

    @property
    def of_numbers(self) -> bool:
        """Whether the task is a regression."""
        return self.first.size > 0

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
    C, of_classes = len(labels.classes), labels.kind != "regression"
    return ProgressiveValidation(
        loss_sum=np.zeros(len(PREDICTORS)),
        error_sum=np.zeros(len(PREDICTORS)),
        loss_recent=np.zeros(len(PREDICTORS)),
        error_recent=np.zeros(len(PREDICTORS)),
        recent_weight=np.zeros(()),
        weight_sum=np.zeros(()),
        counts=np.zeros(C),
        transitions=np.zeros((C, C)),
        last=np.array(-1.0 if of_classes else 0.0),
        mean=np.zeros(()),
        spread=np.zeros(()),
        events=np.zeros(()),
        first=np.zeros((0 if of_classes else FIRST_LABELS, 4)),
        reliability=reliability(),
    )


def with_classes(seen: ProgressiveValidation, C: int) -> ProgressiveValidation:
    """Return the progressive validation of C classes, no fewer than before."""
    more = C - len(seen.counts)
    transitions = np.pad(seen.transitions, ((0, more), (0, more)))
    return seen._replace(counts=np.pad(seen.counts, (0, more)), transitions=transitions)


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
    if not seen.of_numbers:
        compare_classes(seen, outcome.losses, outcome.errors, y, w)
        return
    record_numbers(seen, outcome, OWN, y, w)


def record_numbers(
    seen: ProgressiveValidation, outcome: Outcome, expected: Mat, y: Vec, w: Vec
) -> None:
    """Record numbers to predict; with what the baselines predicted, (B, 2), or OWN for now."""
    first = keep_first(seen, outcome.losses, outcome.errors, y, w)
    for part in (slice(0, first), slice(first, len(y))):
        losses, errors = outcome.losses[part], outcome.errors[part]
        compare_numbers(seen, losses, errors, y[part], w[part], expected[part])
        if part.start < first and seen.events[()] == FIRST_LABELS:
            judge_first(seen)


def correct(seen: ProgressiveValidation, before: Outcome, after: Outcome, w: float) -> None:
    """Replace the loss of one event, whose label turned out to be another.

    Its importance is w. The baselines and the decayed figures stay: they follow the labels as they
    came.
    """
    most = 2.0 * _limit_of(seen) if seen.of_numbers else LOSS_LIMIT
    most_loss = min(0.5 * most * most, LOSS_LIMIT)
    # Plain functions: kernels would compile at the first correction. Of nan, fmin is the limit.
    more_loss = np.fmin(after.losses[0], most_loss) - np.fmin(before.losses[0], most_loss)
    more_error = np.fmin(after.errors[0], most) - np.fmin(before.errors[0], most)
    seen.loss_sum[0] += w * more_loss
    seen.error_sum[0] += w * more_error


def keep_first(seen: ProgressiveValidation, losses: Vec, errors: Vec, y: Vec, w: Vec) -> int:
    """Keep those of events (B,) that are among the first; return the number up to the last."""
    known = int(seen.events)
    places = np.flatnonzero(w > 0.0)[: max(FIRST_LABELS - known, 0)]
    limited = (np.fmin(values, LOSS_LIMIT) for values in (losses, errors))  # nan as well
    columns = (np.clip(y, -VALUE_LIMIT, VALUE_LIMIT), w, *limited)
    for column, values in enumerate(columns):
        seen.first[known : known + len(places), column] = values[places]
    return int(places[-1]) + 1 if len(places) else 0


def judge_first(seen: ProgressiveValidation) -> None:
    """Set the spread by the first numbers; with an outlier among them, all are counted again."""
    y = seen.first[:, VALUE].copy()
    replaced = replace_outliers(y)
    spread = float(abs(y - y.mean()).mean())
    if replaced:
        weights, losses, errors = (
            np.ascontiguousarray(seen.first[:, column]) for column in (WEIGHT, LOSS, ERROR)
        )
        most = abs(y - y.mean()) + OUTLIER_SPREADS * spread
        losses, errors = np.fmin(losses, 0.5 * most * most), np.fmin(errors, most)
        for sums in (*seen[:6], seen.last, seen.mean, seen.events):
            sums[...] = 0.0
        compare_numbers(seen, losses, errors, y, weights, OWN)
    seen.spread[...] = spread


@inlined
def _bounded(value: float, most: float) -> float:
    """Return a value >= 0, at most `most`; nan, of a model that has diverged, counts as that."""
    return float(value) if value < most else most


def _limit_of(seen: ProgressiveValidation) -> float:
    """Return how far from the mean a number may be, inf before the first ones are known."""
    mean, spread = float(seen.mean[()]), float(seen.spread[()])
    spread = spread if spread > 0.0 else max(abs(mean), 1.0)
    return OUTLIER_SPREADS * spread if seen.events[()] >= FIRST_LABELS else math.inf


_limit = inlined(_limit_of)


def copied(seen: ProgressiveValidation) -> ProgressiveValidation:
    """Return a copy."""
    inner = Reliability(*map(np.copy, seen.reliability))
    arrays = {name: array.copy() for name, array in seen._asdict().items() if name != "reliability"}
    return ProgressiveValidation(**arrays, reliability=inner)


@kernel
def compare_classes(seen: ProgressiveValidation, losses: Vec, errors: Vec, y: Vec, w: Vec) -> None:
    """Record classes (B,) and the model's losses and errors of them."""
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
def compare_numbers(
    seen: ProgressiveValidation, losses: Vec, errors: Vec, y: Vec, w: Vec, expected: Mat
) -> None:
    """Record numbers (B,) and the model's losses and errors of them; `expected` as above."""
    for k in range(y.shape[0]):
        if w[k] > 0.0:
            value = _follow_number(seen, min(max(y[k], -VALUE_LIMIT), VALUE_LIMIT))
            off = value - float(seen.mean[()])
            most = abs(off) + _limit(seen)
            decay(seen, w[k])
            loss, error = _bounded(losses[k], 0.5 * most * most), _bounded(errors[k], most)
            record_loss(seen, 0, loss, error, w[k])
            if expected.shape[0]:
                for p in range(2):  # an outlier may have been the last number then
                    _record_difference(
                        seen, p + 1, _bounded(abs(value - expected[k, p]), most), w[k]
                    )
            else:
                _record_difference(seen, 1, off, w[k])
                _record_difference(seen, 2, value - float(seen.last[()]), w[k])
            seen.mean[()] += w[k] / seen.weight_sum[()] * off
            seen.last[()] = value
            seen.events[()] += 1.0


@kernel
def _follow_number(seen: ProgressiveValidation, value: float) -> float:
    """Return a number to predict within its limits, and update the spread."""
    mean, n, limit = float(seen.mean[()]), float(seen.events[()]), _limit(seen)
    off = value - mean
    if abs(off) > limit:
        seen.spread[()] = SPREAD_GROWTH * limit / OUTLIER_SPREADS
        return mean + limit if off > 0.0 else mean - limit
    rate = max(1.0 / (n + 1.0), SPREAD_RATE)
    seen.spread[()] += rate * (abs(off) - seen.spread[()])
    return value


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
def _record_difference(seen: ProgressiveValidation, p: int, difference: float, w: float) -> None:
    record_loss(seen, p, 0.5 * difference * difference, abs(difference), w)


def _ratio(sums: Vec, weight: Vec) -> Vec:
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.divide(sums, weight), dtype=np.float64)
