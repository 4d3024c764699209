"""The order in which one batch's pairs are learned."""

from hypothesis import given
from hypothesis import strategies as st

from kaboost.service.learner.due_pairs import Correction, DuePairs
from kaboost.service.learner.pairs import Learned, Pair
from kaboost.service.storage.waiting import Entry


def entry(number: int) -> Entry:
    return Entry(number, str(number), float(number), 1.0, b"", 0, 0.0, 1.0)


def learned_order(due: DuePairs) -> list[int]:
    """Return the numbers of all entries in the order in which they are learned."""
    order: list[int] = []
    for run in due._runs():
        order += (
            [run.entry.number] if isinstance(run, Correction) else [p.entry.number for p in run]
        )
    return order


@given(joined=st.integers(0, 60), expired=st.integers(0, 60))
def test_expired_pairs_are_spread_over_joined_ones(joined: int, expired: int) -> None:
    """Every stretch has the share of expired ones that the whole has, and no order is changed."""
    due = DuePairs()
    for k in range(joined):
        due.join(Pair(entry(k), 1.0, 1.0))
    due.expire([Pair(entry(1000 + k), 0.0, 1.0) for k in range(expired)])

    order = learned_order(due)

    assert [number for number in order if number < 1000] == list(range(joined))
    assert [number - 1000 for number in order if number >= 1000] == list(range(expired))
    for count in range(len(order)):
        among_first = sum(number >= 1000 for number in order[:count])
        assert abs(among_first - count * expired / len(order)) <= 1.0
    assert len(due) == 0


def test_a_correction_stays_between_its_neighbours() -> None:
    """It is learned after the labels before it, and before those after it."""
    due = DuePairs()
    due.join(Pair(entry(0), 1.0, 1.0))
    due.join(Correction(entry(1), Learned(0.0, 1.0), 1.0, 1.0))
    due.join(Pair(entry(2), 1.0, 1.0))
    due.expire([Pair(entry(1000), 0.0, 1.0), Pair(entry(1001), 0.0, 1.0)])

    assert [number for number in learned_order(due) if number < 1000] == [0, 1, 2]
