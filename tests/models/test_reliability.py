"""Reliability bins against a plain loop, and what leaves no trace in them."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kaboost.models.evaluation.reliability import BINS, DECAY, record_many, reliability

EVENTS = st.lists(
    st.tuples(
        st.floats(0.0, 1.0) | st.sampled_from([0.0, 1.0, 1 / 15, 14 / 15, np.nan, 1.5]),
        st.sampled_from([0.0, 1.0]),
        st.sampled_from([0.0, 1.0, 2.5]),
    ),
    max_size=40,
)


@given(EVENTS, st.integers(1, 40))
def test_is_its_twin_however_it_is_cut(events, size):
    """Every bin is the decayed mean of its events; nan, 1.5 and weight 0 are left out."""
    seen = reliability()
    for first in range(0, len(events), size):
        record_many(seen, *np.array(events[first : first + size]).T)
    bins = [[] for _ in range(BINS)]
    kept = [(p, y, w) for p, y, w in events if w > 0 and 0 <= p <= 1]
    for age, (p, y, w) in enumerate(reversed(kept)):
        bins[min(int(p * BINS), BINS - 1)].append((DECAY**age * w, p, y))
    for b, found in enumerate(bins):
        weights = [f for f, _, _ in found]
        expected = [
            sum(weights),
            sum(f * p for f, p, _ in found),
            sum(f * y for f, _, y in found),
        ]
        np.testing.assert_allclose([array[b] for array in seen], expected, rtol=1e-12)


def test_error_of_the_sure_and_wrong():
    """Always .9 where half is positive is an error of .4; before any event there is none."""
    seen = reliability()
    assert np.isnan(seen.error)
    record_many(seen, np.full(4000, 0.9), np.arange(4000) % 2.0, np.ones(4000))

    np.testing.assert_allclose(seen.error, 0.4, atol=1e-3)
