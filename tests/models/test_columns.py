"""The encoder for trees: ordered target statistics, orders of first sight, numbers as they are."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kaboost.models.features import columns as own
from kaboost.models.features.categories import CACHE_SIZE
from kaboost.models.features.columns import MEMORY_EVENTS, PRIOR_WEIGHT, Columns
from kaboost.models.features.onehot import Table
from kaboost.models.features.rows import tabulate
from kaboost.models.state.tree import from_arrays, to_arrays
from kaboost.models.types import ModelError

SCHEMA = {"city": "category", "age": "number", "vip": "boolean", "job": "category"}
VALUES = st.sampled_from([None, "a", "b", "c", "d"])
EVENTS = st.lists(
    st.tuples(VALUES, VALUES, st.sampled_from([0.0, 1.0, 2.5]), st.floats(-5, 5)), max_size=30
)


def table(cities, jobs):
    B = len(cities)
    return Table(np.full((B, 1), 7.0), np.full((B, 1), math.nan), [list(cities), list(jobs)])


def test_kinds_stand_one_after_another():
    """Whatever the schema's order: what was there before datetimes and texts has not moved."""
    encoder = Columns({"note": "text", "when": "datetime", **SCHEMA})
    row = {"note": "to be", "when": "2026-11-20T10:30:00", "age": 3, "city": "Faro", "vip": True}
    X = encoder.encode_many(tabulate(encoder.kinds, [row, {}]))

    assert Columns(SCHEMA).columns == encoder.columns[:6]
    assert ("when hour", "when weekday", "when month") == encoder.columns[6:9]
    assert [f"note words{i + 1}" for i in range(64)] == list(encoder.columns[9:])
    np.testing.assert_array_equal([3.0, 1.0, 0.0, -1.0, np.nan, np.nan, 10.5, 4.0, 11.0], X[0, :9])
    assert 2.0 == X[0, 9:].sum()
    assert np.isnan(X[1]).all()


def test_pinned_kinds_stay_where_they_are():
    """With features that may join the schema's order is that of the columns."""
    pinned = Columns({"note": "text", "when": "datetime", "*": "auto"})
    X = pinned.extended({"a": "number"}).encode_many(
        tabulate({**pinned.kinds, "a": "number"}, [{"a": 5.0, "when": "2026-01-05"}])
    )

    assert ("note words1", "when hour") == (pinned.columns[0], pinned.columns[64])
    assert [0.0, 0.0, 1.0, 5.0] == X[0, 64:68].tolist()
    assert np.isnan(X[0, :64]).all()


def restored(schema, arrays):
    """Return the encoder of these arrays."""
    return Columns(schema, from_arrays(Columns(schema).state, arrays, "encoder"))


def size_of(encoder):
    return sum(array.nbytes for array in to_arrays(encoder.state, "encoder").values())


def twin(events):
    """What is said of every event, and of all of them after the last: plain dictionaries."""
    known = [{}, {}]
    label, total, encoded = 0.0, 0.0, []

    def show(i, value):
        if value is None:
            return [math.nan, math.nan]
        if value not in known[i]:
            return [label, -1.0]
        order, mean, weight = known[i][value]
        share = weight / (weight + PRIOR_WEIGHT)
        return [label + share * (mean - label), order]

    for *values, w, y in events:
        encoded.append([7.0, math.nan, *show(0, values[0]), *show(1, values[1])])
        if w == 0.0:
            continue
        for i, value in enumerate(values):
            if value is not None:
                order, mean, weight = known[i].get(value, (len(known[i]), 0.0, 0.0))
                after = min(weight + w, MEMORY_EVENTS)
                known[i][value] = order, mean + min(w / after, 1.0) * (y - mean), after
        total = min(total + w, MEMORY_EVENTS)
        label += min(w / total, 1.0) * (y - label)
    after = [[7.0, math.nan, *show(0, a), *show(1, b)] for a, b, *_ in events]
    return encoded, after


@given(EVENTS, st.integers(1, 30))
def test_is_its_twin_however_it_is_cut(events, size):
    """Every event is shown what those before it left, whatever the batches; then all is."""
    encoder, encoded = Columns(SCHEMA), []
    for first in range(0, len(events), size):
        cities, jobs, w, y = zip(*events[first : first + size], strict=True)
        encoded += encoder.learn_many(table(cities, jobs), np.array(w), np.array(y)).tolist()
    expected, after = twin(events)
    again = restored(SCHEMA, to_arrays(encoder.state, "encoder"))

    np.testing.assert_allclose(np.reshape(encoded, (-1, 6)), np.reshape(expected, (-1, 6)))
    for one in (encoder, again):
        shown = one.encode_many(table(*([e[i] for e in events] for i in range(2))))
        np.testing.assert_allclose(shown, np.reshape(after, (-1, 6)))


def test_names_and_order():
    """Numbers, booleans, then two columns a category."""
    encoder = Columns(SCHEMA)

    expected = ("age", "vip", "city mean label", "city order", "job mean label", "job order")
    assert expected == encoder.columns
    assert 6 == encoder.width


def test_a_full_table_is_shared(monkeypatch):
    """Beyond the last slot values share one by hash: memory stays, nothing is refused."""
    monkeypatch.setattr(own, "VALUE_SLOTS", 4)
    monkeypatch.setattr(Columns, "shared", range(4))
    encoder = Columns({"city": "category"})
    many = [f"v{i}" for i in range(40)]
    encoder.learn_many(
        Table(np.empty((40, 0)), np.empty((40, 0)), [many]), np.ones(40), np.ones(40)
    )
    X = encoder.encode_many(Table(np.empty((40, 0)), np.empty((40, 0)), [many]))

    assert (4, 1) == (encoder.state.known[0], len(encoder.state.keys))
    assert set(range(4)) == set(X[:, 1])


def test_million_values_take_no_more():
    """A million distinct values leave the arrays as large as they were, and look-ups bounded."""
    encoder = Columns({"city": "category"})
    before = size_of(encoder)
    for first in range(0, 1_000_000, 20_000):
        values = [f"v{i}" for i in range(first, first + 20_000)]
        t = Table(np.empty((20_000, 0)), np.empty((20_000, 0)), [values])
        encoder.learn_many(t, np.ones(20_000), np.ones(20_000))

    assert before == size_of(encoder) < 1_000_000
    assert len(encoder._values[0]._cache) <= CACHE_SIZE


@pytest.mark.parametrize("name", ["encoder.keys", "encoder.label"])
def test_other_arrays_are_refused(name):
    """Arrays that are missing or of another schema are named."""
    arrays = to_arrays(Columns(SCHEMA).state, "encoder")
    del arrays[name]
    with pytest.raises(ModelError, match=name):
        restored(SCHEMA, arrays)
    with pytest.raises(ModelError, match="keys"):
        restored({"city": "category"}, to_arrays(Columns(SCHEMA).state, "encoder"))


def test_largest_labels_stay_finite():
    """Labels of 1e308 and importances of 1e15 leave finite means."""
    encoder = Columns({"city": "category"})
    t = Table(np.empty((4, 0)), np.empty((4, 0)), [["a", "b", "a", "a"]])
    encoder.learn_many(t, np.array([1e15, 1.0, 1e-300, 1.0]), np.array([1e308, -1e308, 3.0, 1e308]))

    assert np.isfinite(encoder.encode_many(t)).all()
