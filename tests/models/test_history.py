"""The history of the losses: the same points however a stream is cut, bounded, and restored."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from kaboost.models.evaluation.baselines import progressive_validation, record
from kaboost.models.evaluation.history import (
    CAPACITY,
    FIRST_STRIDE,
    History,
    new_history,
    record_in_parts,
)
from kaboost.models.evaluation.outcome import part
from kaboost.models.features.labels import labels
from tests.outcomes import outcome

TASK = labels("regression")


def learned(cuts: list[int], weights: np.ndarray) -> History:
    """Record events with losses of their own in batches that end at the cuts."""
    history, seen = new_history(), progressive_validation(TASK)
    y = np.sin(np.arange(len(weights)))
    found = outcome(0.5 * y * y, abs(y))
    count = 0
    for begin, end in zip([0, *cuts], [*cuts, len(y)], strict=True):
        batch = slice(begin, end)
        ours, values, w = part(found, batch), y[batch], weights[batch]

        def record_part(span: slice, ours=ours, values=values, w=w) -> None:  # type: ignore[no-untyped-def]
            record(seen, part(ours, span), values[span], w[span])

        record_in_parts(history, seen, count, w, record_part, lambda k, b=begin: float(b + k))  # type: ignore[misc]
        count += int((w > 0).sum())
    return history


@settings(max_examples=25, deadline=None)
@given(cuts=st.lists(st.integers(0, 400), max_size=5).map(sorted), seed=st.integers(0, 99))
def test_points_do_not_depend_on_batches(cuts: list[int], seed: int) -> None:
    """Any cut gives the same points bit for bit, at the numbers of events that count."""
    weights = (np.random.default_rng(seed).random(400) < 0.8).astype(float)
    whole, parts = learned([], weights), learned(cuts, weights)

    for name, array in whole.to_arrays().items():
        assert array.tobytes() == parts.to_arrays()[name].tobytes()
    expected = np.arange(FIRST_STRIDE, weights.sum() + 1, FIRST_STRIDE)
    assert expected.tolist() == whole.table()[:, 0].tolist()


def test_the_points_are_the_losses_at_that_moment() -> None:
    """Those that the progressive validation has after as many events."""
    weights = np.ones(100)
    history = learned([], weights)
    seen, y = progressive_validation(TASK), np.sin(np.arange(50))
    record(seen, outcome(0.5 * y * y, abs(y)), y, np.ones(50))

    point = history.table()[1]
    assert (50.0, 49.0) == tuple(point[:2])
    np.testing.assert_allclose(point[2:5], seen.mean_loss, rtol=1e-6)
    np.testing.assert_allclose(point[5:], seen.window_loss, rtol=1e-6)


def test_a_full_history_is_thinned_evenly() -> None:
    """Half of the points stay, and the distance doubles, as often as it takes."""
    history, seen = new_history(), progressive_validation(TASK)
    events = 3 * FIRST_STRIDE * CAPACITY
    step = FIRST_STRIDE * 128
    for begin in range(0, events, step):
        record_in_parts(history, seen, begin, np.ones(step), lambda _: None, float)

    table = history.table()
    assert 4 * FIRST_STRIDE == history.stride
    assert CAPACITY // 2 <= len(table) <= CAPACITY
    assert {4.0 * FIRST_STRIDE} == set(np.diff(table[:, 0]).tolist())
    assert events == table[-1, 0]
    assert (np.diff(table[:, 1]) >= 0).all()


def test_arrays_bring_it_back() -> None:
    """As it was; files of before have none."""
    history = learned([], np.ones(130))
    again = History.from_arrays(history.to_arrays())

    assert history.table().tobytes() == again.table().tobytes()
    assert (5, FIRST_STRIDE) == (again.size, again.stride)
    assert 0 == History.from_arrays({}).size
