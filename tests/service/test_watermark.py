"""The watermark: no clock moves it, unread records hold it back, and it never goes back."""

import math

import pytest

from kaboost.service.kafka.ends import Ends
from kaboost.service.learner.watermark import NOWHERE, Watermark


def ends(
    asked: int, confirmed: int, *, events: tuple[int, ...] = (), labels: tuple[int, ...] = ()
) -> Ends:
    """Name the partitions with unread records; at least one of the others is read to its end."""
    return Ends(frozenset(events), frozenset(labels), asked, confirmed, any_read=True)


def confirmed(watermark: Watermark, question: int, **unread: tuple[int, ...]) -> float:
    """Ask whether the ends are ends, get a yes, and return the time."""
    watermark.read(ends(question, question - 1, **unread))
    watermark.read(ends(question, question, **unread))
    return watermark.time


def test_it_is_the_latest_time_that_was_known_at_the_question() -> None:
    """What is seen after the broker was asked counts from the next question on."""
    watermark = Watermark()
    watermark.see("features", 0, 100.0, 100.0)
    watermark.read(ends(1, 0))
    assert NOWHERE == watermark.time

    watermark.see("labels", 0, 150.0, 150.0)
    watermark.read(ends(1, 1))
    assert 100.0 == watermark.time
    assert 150.0 == confirmed(watermark, 2)


@pytest.mark.parametrize("topic", ["features", "labels"])
def test_unread_records_hold_it_at_the_time_of_their_partition(topic: str) -> None:
    """Of either topic; the others may be far ahead."""
    watermark = Watermark()
    other = "labels" if topic == "features" else "features"
    for partition, time in enumerate([100.0, 40.0, 60.0]):
        watermark.see(topic, partition, time, 1e9)  # type: ignore[arg-type] # one of both
    watermark.see(other, 0, 500.0, 1e9)  # type: ignore[arg-type]
    key = "events" if topic == "features" else "labels"

    assert 40.0 == confirmed(watermark, 1, **{key: (1, 2)})
    assert 60.0 == confirmed(watermark, 2, **{key: (2,)})
    assert 500.0 == confirmed(watermark, 3)


def test_a_partition_of_which_nothing_was_read_holds_it() -> None:
    """Its records may be of any time."""
    watermark = Watermark()
    watermark.see("features", 0, 100.0, 100.0)

    assert NOWHERE == confirmed(watermark, 1, labels=(7,))


def test_without_a_yes_of_the_broker_it_stays() -> None:
    """Ends that the client reports may be old, and the broker may be silent."""
    watermark = Watermark()
    watermark.see("features", 0, 100.0, 100.0)
    confirmed(watermark, 1)
    watermark.see("features", 0, 900.0, 900.0)
    for question in range(2, 9):
        watermark.read(ends(question, 1))

    assert 100.0 == watermark.time


def test_a_time_after_the_record_counts_as_the_record() -> None:
    """A wrong year expires nothing."""
    watermark = Watermark()
    watermark.see("features", 0, 1e12, 100.0)
    watermark.see("labels", 0, -5.0, 100.0)

    assert 100.0 == confirmed(watermark, 1)
    assert -5.0 == watermark.reached("labels", 0)


def test_it_never_goes_back() -> None:
    """Not with late records, not after a restart, and not where new partitions come."""
    watermark = Watermark(features=80.0, labels=90.0, time=85.0)
    assert 85.0 == confirmed(watermark, 1, events=(0,))

    watermark.see("features", 0, 70.0, 70.0)
    watermark.see("features", 0, 10.0, 10.0)

    assert 70.0 == watermark.reached("features", 0)
    assert 90.0 == confirmed(watermark, 2)
    assert 90.0 == confirmed(watermark, 3, events=(0, 4), labels=(1,))
    assert (80.0, 90.0) == (watermark.features, watermark.labels)
    assert math.isfinite(watermark.time)
