"""Learn captured events with their labels, and record the losses of their predictions."""

from collections.abc import Sequence

import numpy as np

from kaboost.models.evaluation.baselines import correct
from kaboost.models.evaluation.history import record_in_parts
from kaboost.models.evaluation.late_baselines import capture_baselines, record_captured
from kaboost.models.evaluation.outcome import Outcome, part
from kaboost.models.features.onehot import Table
from kaboost.service.learner.captured_rows import CapturedGroup, unpack
from kaboost.service.learner.pairs import Learned, Pair
from kaboost.service.learner.recent import RecentEvents
from kaboost.service.storage.state import State
from kaboost.service.storage.waiting import Entry


def learn_nothing(state: State, none: Table) -> None:
    """Compile what learning of captured events needs, by an empty batch."""
    empty, seen = np.empty(0), state.validation
    outcome = state.model.learn_captured(state.model.capture(none), empty, empty)
    record_captured(seen, outcome, np.empty((0, len(capture_baselines(seen)))), empty, empty)


def learn_pairs(state: State, pairs: Sequence[Pair], recent: RecentEvents) -> None:
    """Learn features with the labels that they waited for; note the last ones."""
    y, w = np.array([pair.label for pair in pairs]), np.array([pair.weight for pair in pairs])
    for group in unpack([pair.entry.row for pair in pairs]):
        labels, weights = y[group.places], w[group.places]
        learned = state.events_learned
        outcome = state.model.learn_captured(group.captured, labels, weights)
        of_group = [pairs[place] for place in group.places]
        _record(state, learned, outcome, group, of_group)
        recent.note_pairs(state.model, [p.entry.id for p in of_group], labels, outcome)


def _record(
    state: State, learned: int, outcome: Outcome, group: CapturedGroup, pairs: Sequence[Pair]
) -> None:
    """Record the losses of events that were learned after `learned` others."""
    y, w = np.array([pair.label for pair in pairs]), np.array([pair.weight for pair in pairs])

    def record(span: slice) -> None:
        within = part(outcome, span)
        record_captured(state.validation, within, group.baselines[span], y[span], w[span])

    if state.history is None:
        return record(slice(0, len(pairs)))
    times = [pair.entry.time + pair.delay for pair in pairs]
    record_in_parts(state.history, state.validation, learned, w, record, times.__getitem__)


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
