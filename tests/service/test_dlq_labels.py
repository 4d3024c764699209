"""Replayed labels that came before their features: joined once, whatever came after them."""

from collections.abc import Callable

from kaboost.service import dlq
from kaboost.service.config.settings import Settings
from tests.service.learning import gauge, learning, rows, until
from tests.service.test_late_labels import (
    DAY,
    T0,
    consumed,
    feature_record,
    label_record,
    late,
)

__all__ = ["late"]  # the fixture
ALL = dlq.LetterFilter()


def test_an_unmatched_label_is_replayed_once(
    late: Callable[..., Settings], send: Callable[..., None]
) -> None:
    """It finds its features at last; replayed after a correction it does not undo that."""
    settings = late(early="1h")
    events, labels = settings.kafka.topic, settings.labels.topic
    (one, _), (two, _) = rows(2)

    def count(name: str) -> float:
        return gauge(settings, f"kaboost_{name}_total") or 0.0

    def replay() -> dlq.Replayed:
        return dlq.replay(settings, dlq.read_letters(settings.kafka), ALL)

    with learning(settings) as running:
        send(labels, [label_record(1, 1, T0), label_record(2, 0, T0 + DAY)])
        send(events, [feature_record(2, two, T0 + DAY)])
        until(lambda: consumed(settings) == 3)
        until(lambda: count("labels_unmatched") == 1)
        send(events, [feature_record(1, one, T0)])
        until(lambda: consumed(settings) == 4)
        done = until(lambda: found if (found := replay()).replayed else None)
        until(lambda: count("labels_joined") == 2)
        send(labels, [label_record(1, 0, T0 + DAY)])
        until(lambda: count("labels_corrected") == 1)
        replay()
        until(lambda: consumed(settings) == 7 and count("duplicates") == 1)
        assert 0 == running.stop()

    assert {"label_unmatched": 1} == done.by_code
