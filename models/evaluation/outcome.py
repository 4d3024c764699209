"""Outcome: predictions and losses of a batch before it was learned, computed once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from kaboost.models.types import Mat, Vec


class Outcome(NamedTuple):
    """Predictions for B events, made before each event was learned, and their losses.

    Losses are comparable across models: half the squared difference for numbers, log-loss in nats
    for classes. An error is the absolute difference, or 1 where the predicted class is wrong.
    """

    scores: Mat  # (B, m)
    predictions: Mat  # (B,) numbers, or (B, C) probabilities
    losses: Vec  # (B,)
    errors: Vec  # (B,)
    probabilities: Vec | None  # (B,) of the positive of two classes; None for other tasks


def part(outcome: Outcome, span: slice) -> Outcome:
    """Return the outcome of some of its events."""
    if span == slice(0, len(outcome.losses)):
        return outcome
    return Outcome(*(None if values is None else values[span] for values in outcome))  # type: ignore[arg-type] # only the last may be None


def join(outcomes: Sequence[Outcome]) -> Outcome:
    """Return the outcome of one or more batches, one after the other."""
    parts = list(zip(*outcomes, strict=True))
    scores, predictions, losses, errors = map(np.concatenate, parts[:4])
    known = parts[4][0] is not None
    return Outcome(scores, predictions, losses, errors, np.concatenate(parts[4]) if known else None)
