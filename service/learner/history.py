"""Record decoded events that were learned, and the points of the history that are due meanwhile."""

from collections.abc import Sequence
from itertools import islice

from confluent_kafka import Message

from kaboost.models.evaluation.baselines import record
from kaboost.models.evaluation.history import record_in_parts
from kaboost.models.evaluation.outcome import Outcome, part
from kaboost.service.events.decoder import Decoded
from kaboost.service.learner.records import event_seconds, events_of
from kaboost.service.storage.state import State


def record_decoded(
    state: State, learned: int, outcome: Outcome, decoded: Decoded, records: Sequence[Message]
) -> None:
    """Record B events in stream order.

    Parameters
    ----------
    state
        Its validation and history are updated.
    learned
        Events learned before these.
    outcome
        What the model predicted for them.
    decoded
        The events.
    records
        The records that they were decoded from, for their times.
    """
    y, w = decoded.y, decoded.w

    def record_part(span: slice) -> None:
        record(state.validation, part(outcome, span), y[span], w[span])

    def time_of(index: int) -> float:
        message = next(islice(events_of(records, decoded), index, None))
        return event_seconds(message, decoded.meta[index])

    if state.history is None:
        return record_part(slice(0, len(y)))
    record_in_parts(state.history, state.validation, learned, w, record_part, time_of)


def first_time(messages: Sequence[Message], decoded: Decoded) -> float | None:
    """Return the time of the first event that counts, None where none does."""
    learned = zip(events_of(messages, decoded), decoded.meta, decoded.w.tolist(), strict=False)
    times = (event_seconds(message, meta) for message, meta, weight in learned if weight)
    return next(times, None)
