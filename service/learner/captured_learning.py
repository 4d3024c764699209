"""Learn captured events with their labels, and record the losses of their predictions."""

from collections.abc import Sequence

import numpy as np

from kaboost.models.evaluation.baselines import correct
from kaboost.models.evaluation.late_baselines import capture_baselines, record_captured
from kaboost.models.features.onehot import Table
from kaboost.service.learner.captured_rows import unpack
from kaboost.service.learner.pairs import Learned, Pair
from kaboost.service.storage.state import State
from kaboost.service.storage.waiting import Entry


def learn_nothing(state: State, none: Table) -> None:
    """Compile what learning of captured events needs, by an empty batch."""
    empty, seen = np.empty(0), state.validation
    outcome = state.model.learn_captured(state.model.capture(none), empty, empty)
    record_captured(seen, outcome, np.empty((0, len(capture_baselines(seen)))), empty, empty)


def learn_pairs(state: State, pairs: Sequence[Pair]) -> None:
    """Learn features with the labels that they waited for."""
    y, w = np.array([pair.label for pair in pairs]), np.array([pair.weight for pair in pairs])
    for group in unpack([pair.entry.row for pair in pairs]):
        labels, weights = y[group.places], w[group.places]
        outcome = state.model.learn_captured(group.captured, labels, weights)
        record_captured(state.validation, outcome, group.baselines, labels, weights)


def learn_correction(
    state: State, entry: Entry, before: Learned, label: float, weight: float
) -> None:
    """Learn another label of an event, and replace the loss of the one before.

    The loss counts as before; what is learned counts what the label says. An event that did not
    count, with importance 0, is recorded now.
    """
    (group,) = unpack([entry.row])
    y, w = np.array([label]), np.array([weight])
    wrong = state.model.captured_outcome(group.captured, np.array([before.label]))
    right = state.model.learn_captured(group.captured, y, w)
    if before.weight > 0.0:
        correct(state.validation, wrong, right, before.weight)
    else:
        record_captured(state.validation, right, group.baselines, y, w)
