"""Baselines of labels that come later: their predictions are captured with the event's."""

from __future__ import annotations

import math

import numpy as np

from kaboost.models.evaluation.baselines import (
    ProgressiveValidation,
    decay,
    record_loss,
    record_numbers,
)
from kaboost.models.evaluation.outcome import Outcome
from kaboost.models.evaluation.reliability import record_many
from kaboost.models.kernels.jit import kernel
from kaboost.models.types import WEIGHT_LIMIT, Mat, Vec


def capture_baselines(seen: ProgressiveValidation, *, may_grow: bool = False) -> Vec:
    """Return what the baselines predict now, for `record_captured`.

    For C classes (2 C + 1,): the probabilities of the prior, those of the last label, and the class
    of the last label, -1 before any. Where classes may come, C is one more: the last one stands for
    each of them. For numbers (2,): the mean, and the last one.
    """
    if seen.of_numbers:
        return np.array([seen.mean[()], seen.last[()]])
    last, to_come = int(seen.last[()]), np.zeros(int(may_grow))
    after_last = seen.transitions[last] if last >= 0 else seen.counts
    counts, after_last = (np.append(each, to_come) for each in (seen.counts, after_last))
    return np.concatenate([_laplace(counts), _laplace(after_last), [float(last)]])


def record_captured(
    seen: ProgressiveValidation, outcome: Outcome, expected: Mat, y: Vec, w: Vec
) -> None:
    """Record events in the order of their labels; events of weight 0 are skipped.

    Baselines that knew the labels which came after the event would be better than any prediction
    that could have been made.

    Parameters
    ----------
    seen
        Updated in place.
    outcome
        What `Model.learn_captured` returned for these events.
    expected
        What `capture_baselines` returned when they were captured, (B, 2 C + 1) or (B, 2).
    y, w
        As for `record`.

    Examples
    --------
    >>> from kaboost.models.evaluation.baselines import progressive_validation
    >>> from kaboost.models.features.labels import labels
    >>> seen = progressive_validation(labels("regression"))
    >>> expected = np.tile(capture_baselines(seen), (2, 1))  # both came before the first label
    >>> y = np.array([2.0, 4.0])
    >>> perfect = Outcome(y[:, None], y, np.zeros(2), np.zeros(2), None)
    >>> record_captured(seen, perfect, expected, y, np.ones(2))
    >>> seen.mean_error.tolist()
    [0.0, 3.0, 3.0]
    """
    w = np.minimum(w, WEIGHT_LIMIT)
    if outcome.probabilities is not None:
        record_many(seen.reliability, outcome.probabilities, y, w)
    if seen.of_numbers:
        record_numbers(seen, outcome, np.ascontiguousarray(expected), y, w)
        return
    expected = _of_classes(expected, len(seen.counts))
    _compare_classes(seen, outcome.losses, outcome.errors, expected, y, w)


def _of_classes(expected: Mat, C: int) -> Mat:
    """Return captured predictions (B, 2 C + 1) for the classes of now, from those of then."""
    before = expected.shape[1] // 2
    places = np.minimum(np.arange(C), before - 1)
    columns = np.concatenate([places, before + places, [2 * before]])
    return np.ascontiguousarray(expected[:, columns])


@kernel
def _compare_classes(
    seen: ProgressiveValidation, losses: Vec, errors: Vec, expected: Mat, y: Vec, w: Vec
) -> None:
    C = seen.counts.shape[0]
    for k in range(y.shape[0]):
        if w[k] > 0.0:
            label, last = int(y[k]), int(expected[k, 2 * C])
            decay(seen, w[k])
            record_loss(seen, 0, losses[k], errors[k], w[k])
            for p in range(2):
                first = p * C
                most = 0
                for c in range(C):
                    most = c if expected[k, first + c] > expected[k, first + most] else most
                error = 0.0 if most == label else 1.0
                record_loss(seen, p + 1, -math.log(expected[k, first + label]), error, w[k])
            seen.counts[label] += w[k]
            if last >= 0:
                seen.transitions[last, label] += w[k]
            seen.last[()] = y[k]


def _laplace(counts: Vec) -> Vec:
    """Return the probabilities of classes by Laplace's rule of succession."""
    probabilities: Vec = (counts + 1.0) / (counts.sum() + len(counts))
    return probabilities
