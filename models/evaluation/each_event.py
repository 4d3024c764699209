"""Losses of the model and of the two baselines event by event, for curves and slices."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kaboost.models.evaluation.baselines import (
    OWN,
    PREDICTORS,
    ProgressiveValidation,
    compare_classes,
    compare_numbers,
    judge_first,
    keep_first,
)
from kaboost.models.evaluation.outcome import Outcome
from kaboost.models.features.label_outliers import FIRST_LABELS
from kaboost.models.kernels.jit import kernel
from kaboost.models.types import WEIGHT_LIMIT, Mat, Vec


class EachEvent(NamedTuple):
    """Losses and errors of B events by predictor; 0 where the weight is 0."""

    losses: Mat  # (B, 3)
    errors: Mat  # (B, 3)


def record_each(seen: ProgressiveValidation, outcome: Outcome, y: Vec, w: Vec) -> EachEvent:
    """Record events as `baselines.record` does, but for reliability; return what each one adds.

    The first 20 numbers of a regression may be judged again later, by all of them: what is returned
    of them is the first judgement.

    Parameters
    ----------
    seen
        Updated in place.
    outcome, y, w
        As for `baselines.record`.

    Examples
    --------
    >>> from kaboost.models.evaluation.baselines import progressive_validation
    >>> from kaboost.models.features.labels import labels
    >>> y = np.array([2.0, 4.0])
    >>> perfect = Outcome(y[:, None], y, np.zeros(2), np.zeros(2), None)
    >>> record_each(progressive_validation(labels("regression")), perfect, y, np.ones(2)).errors
    array([[0., 2., 2.],
           [0., 2., 2.]])
    """
    w = np.minimum(w, WEIGHT_LIMIT)
    each = EachEvent(*np.zeros((2, len(y), len(PREDICTORS))))
    if not seen.of_numbers:
        _each_class(seen, outcome.losses, outcome.errors, y, w, each)
        return each
    first = keep_first(seen, outcome.losses, outcome.errors, y, w)
    for part in (slice(0, first), slice(first, len(y))):
        columns = (outcome.losses[part], outcome.errors[part], y[part], w[part])
        of_part = EachEvent(each.losses[part], each.errors[part])
        _each_number(seen, *columns, OWN, of_part)
        if part.start < first and seen.events[()] == FIRST_LABELS:
            judge_first(seen)
    return each


@kernel
def _each_class(
    seen: ProgressiveValidation, losses: Vec, errors: Vec, y: Vec, w: Vec, each: EachEvent
) -> None:
    for k in range(y.shape[0]):
        if w[k] > 0.0:
            _begin(seen, each, k)
            one = slice(k, k + 1)
            compare_classes(seen, losses[one], errors[one], y[one], w[one])
            _end(seen, each, k, w[k])


@kernel
def _each_number(
    seen: ProgressiveValidation,
    losses: Vec,
    errors: Vec,
    y: Vec,
    w: Vec,
    expected: Mat,
    each: EachEvent,
) -> None:
    for k in range(y.shape[0]):
        if w[k] > 0.0:
            _begin(seen, each, k)
            one = slice(k, k + 1)
            compare_numbers(seen, losses[one], errors[one], y[one], w[one], expected)
            _end(seen, each, k, w[k])


@kernel
def _begin(seen: ProgressiveValidation, each: EachEvent, k: int) -> None:
    for p in range(each.losses.shape[1]):
        each.losses[k, p] = seen.loss_sum[p]
        each.errors[k, p] = seen.error_sum[p]


@kernel
def _end(seen: ProgressiveValidation, each: EachEvent, k: int, w: float) -> None:
    for p in range(each.losses.shape[1]):
        each.losses[k, p] = (seen.loss_sum[p] - each.losses[k, p]) / w
        each.errors[k, p] = (seen.error_sum[p] - each.errors[k, p]) / w
