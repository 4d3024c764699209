"""Losses event by event add up to the sums of progressive validation."""

import numpy as np
import pytest

from kaboost.models.evaluation.baselines import (
    ProgressiveValidation,
    progressive_validation,
    record,
)
from kaboost.models.evaluation.each_event import record_each
from kaboost.models.evaluation.outcome import Outcome
from kaboost.models.features.labels import labels

B = 90


def outcome_of(y: np.ndarray) -> Outcome:
    """Some losses of a model."""
    losses = np.linspace(0.1, 2.0, len(y))
    return Outcome(y[:, None], y, losses, losses / 2.0, None)


def seen_by(task: str) -> ProgressiveValidation:
    """An empty validation of a task."""
    classes = {"binary": [0, 1], "multiclass": ["a", "b", "c"]}.get(task)
    return progressive_validation(labels(task, classes))


@pytest.mark.parametrize("task", ["binary", "multiclass", "regression"])
def test_each_adds_up(task: str) -> None:
    """Weighted losses of single events are the sums, whatever the batches."""
    random = np.random.default_rng(3)
    y = random.normal(size=B) if task == "regression" else random.integers(0, 2, B).astype(float)
    w = random.integers(0, 3, B).astype(float)
    whole, apart = seen_by(task), seen_by(task)
    record(whole, outcome_of(y), y, w)
    outcome, losses, errors = outcome_of(y), np.zeros(3), np.zeros(3)
    for span in (slice(0, 7), slice(7, 40), slice(40, B)):
        part = Outcome(*(v if v is None else v[span] for v in outcome))
        each = record_each(apart, part, y[span], w[span])
        losses += w[span] @ each.losses
        errors += w[span] @ each.errors

    assert whole.loss_sum.tolist() == apart.loss_sum.tolist()
    assert whole.error_sum.tolist() == apart.error_sum.tolist()
    np.testing.assert_allclose(losses, whole.loss_sum)
    np.testing.assert_allclose(errors, whole.error_sum)


def test_weight_zero_records_nothing() -> None:
    """An event of weight 0 has no loss."""
    each = record_each(seen_by("binary"), outcome_of(np.ones(1)), np.ones(1), np.zeros(1))

    assert not each.losses.any()
