"""Linear learners: their slow twin, what they do not depend on, and what cannot hurt them."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kaboost.models.reboosted.linear import (
    base_scores,
    linear_filters,
    mean_energy,
    state_bytes,
    with_features,
)
from kaboost.models.reboosted.linear_inputs import blank_row, fill_inputs
from kaboost.models.reboosted.linear_learners import (
    attribute,
    init_new_categories,
    learn_columns,
    learn_line,
    scores,
)
from tests.models.number_streams import numbers_and_codes

CATEGORICAL = 3  # the categorical column


def made(d=4, named=(CATEGORICAL,)):
    filters = linear_filters(d)
    filters.categorical[list(named)] = 1.0
    return filters


def see(filters, x):
    """The inputs of a row; what must not be read is nan."""
    here = np.r_[0, ~np.isnan(x), 0]
    runs = np.flatnonzero(np.diff(here))
    d = len(x)
    row = blank_row(d)
    for scratch in (row.distances, row.input_values, row.contributions):
        scratch[:] = np.nan
    row.values[:] = x
    row.runs[:] = np.r_[runs, np.full(d + 4 - len(runs), d)]
    fill_inputs(filters, row)
    return row


def teach(filters, x, y, noise=1.0):
    """Both learners' scores of an event, which is then learned with the squared loss."""
    row = see(filters, x)
    predicted = scores(filters, row)
    init_new_categories(filters, row)
    assert scores(filters, row) == pytest.approx(predicted)
    for i, one in enumerate(predicted):
        learn_line(filters, i, row, y - one, noise)
    learn_columns(filters, row)
    return predicted


class Slow:
    """One learner, input by input and by name."""

    def __init__(self, d, start, drift):
        self.w, self.P, self.start, self.drift = {}, {}, start, drift
        self.values, self.gap = [[] for _ in range(d)], [False] * d
        self.usual = {}  # of every column of names

    def look(self, x, names):
        """The inputs of a row that are not 0."""
        found = {"constant": 1.0}
        for j, value in enumerate(x):
            if math.isnan(value):
                continue
            if self.gap[j]:
                found[j, "there"] = 1.0
            if j in names:
                if 0 <= value <= 62:
                    found[j, value] = 1.0
                continue
            all_ = [*self.values[j], value]
            if len(all_) > 1 and np.var(all_) > 0.0:
                distance = (value - np.mean(all_)) / np.std(all_)
                found[j, "distance"] = min(max(distance, -10.0), 10.0)
        return found

    def learn(self, x, y, names):
        z = self.look(x, names)
        usual = {j: self.usual.get(j, 0.0) for j in names}
        for name in z:
            named = isinstance(name, tuple) and not isinstance(name[1], str)
            self.w.setdefault(name, usual[name[0]] if named else 0.0)
            self.P.setdefault(name, 10.0 if name == "constant" else self.start)
        # what is missing, or has no weight, counts for a usual name of its column
        predicted = sum(self.w[name] * z[name] for name in z)
        predicted += sum(usual[j] for j in names if (j, x[j]) not in z)
        total = 1.0 + sum(self.P[name] * z[name] ** 2 for name in z)
        for name in z:
            gain = self.P[name] * z[name] / total
            self.w[name] += gain * (y - predicted)
            self.P[name] -= gain * self.P[name] * z[name]
            self.P[name] += self.drift if self.P[name] < self.start else 0.0
        for j in names:
            rate = max(1.0 / (len(self.values[j]) + 1.0), 1e-3)
            self.usual[j] = usual[j] + rate * (self.w.get((j, x[j]), usual[j]) - usual[j])
        for j, value in enumerate(x):
            if math.isnan(value):
                self.gap[j] = True
            else:
                self.values[j].append(value)
        return predicted


def test_twin():
    """Both learners' scores are those of their slow twins."""
    X, y = numbers_and_codes()
    filters = made()
    twins = [Slow(4, 1.0, 1e-6), Slow(4, 10.0, 3e-4)]
    slow = [
        [twin.learn(x, label, {CATEGORICAL}) for twin in twins]
        for x, label in zip(X, y, strict=True)
    ]
    fast = [teach(filters, x, label) for x, label in zip(X, y, strict=True)]

    np.testing.assert_allclose(fast, slow, rtol=1e-7, atol=1e-7)
    assert abs(np.array(fast)[300:] - y[300:, None]).mean() < 0.5


def test_units_do_not_matter():
    """Columns in other units and from another zero get the same answers."""
    X, y = numbers_and_codes()
    one, other = made(), made()
    factor, offset = np.array([1e6, 1e-6, -30.0, 1.0]), np.array([5.0, -7e-6, 1e3, 0.0])
    predicted = [teach(one, x, label) for x, label in zip(X, y, strict=True)]
    again = [teach(other, x * factor + offset, label) for x, label in zip(X, y, strict=True)]

    np.testing.assert_allclose(again, predicted, rtol=1e-4, atol=1e-4)


def test_parts_add_up():
    """What columns add, and the constant, is what is said; what is missing adds nothing."""
    X, y = numbers_and_codes()
    filters = made()
    for x, label in zip(X, y, strict=True):
        teach(filters, x, label)
    for x in X[:50]:
        row = see(filters, x)
        for i, predicted in enumerate(scores(filters, row)):
            attribute(filters, i, row)
            assert (np.isnan(row.contributions) == np.isnan(x)).all()
            parts = np.nansum(row.contributions)
            assert predicted == pytest.approx(parts + base_scores(filters)[i], rel=1e-9)


def test_wider_learners_say_the_same():
    """New columns, missing so far, change nothing; present they are a presence to learn from."""
    X, y = numbers_and_codes()
    filters = made()
    for x, label in zip(X, y, strict=True):
        teach(filters, x, label)
    wide = with_features(filters, 6)
    for x in X[:50]:
        row = np.r_[x, np.nan, np.nan]
        assert scores(wide, see(wide, row)) == pytest.approx(scores(filters, see(filters, x)))

    late = see(wide, np.r_[X[1], 3.0, np.nan])
    assert late.input_places[: late.input_counts[0]].tolist() == [
        0,
        6,
        1,
        2,
        9,
        13 + 3 * 64 + int(X[1, 3]) + 1,
        10,
        12,
    ]
    sums = wide.events.nbytes + wide.scale.nbytes + wide.mean_weights.nbytes
    assert state_bytes(6) == sum(array.nbytes for array in wide) - sums


def test_mean_energy():
    """It is the running mean square of contributions, also of columns that are seldom present, and
    after sums were rescaled.
    """
    X, y = numbers_and_codes(3000)
    X[:, 2] = np.where(np.arange(3000) % 50 == 0, X[:, 2], np.nan)
    filters, slow = made(), np.zeros((2, 4))
    filters.scale[()] = 3e99
    for t, (x, label) in enumerate(zip(X, y, strict=True)):
        row = see(filters, x)
        predicted = scores(filters, row)
        init_new_categories(filters, row)
        for i, one in enumerate(predicted):
            learn_line(filters, i, row, label - one, 1.0)
            attribute(filters, i, row)
            slow[i] += max(1.0 / (t + 1.0), 1e-3) * (
                np.nan_to_num(row.contributions) ** 2 - slow[i]
            )
        learn_columns(filters, row)

    assert filters.scale < 10.0
    np.testing.assert_allclose(mean_energy(filters), slow, rtol=1e-6)


@settings(max_examples=100)
@given(
    rows=st.lists(
        st.lists(
            st.one_of(st.just(math.nan), st.floats(-3e38, 3e38), st.sampled_from([0.0, 1.0])),
            min_size=4,
            max_size=4,
        ),
        min_size=1,
        max_size=30,
    ),
    label=st.floats(-1e6, 1e6),
)
def test_whatever_comes_is_finite(rows, label):
    """No row leaves anything that is no number, or a variance below 0."""
    filters = made()
    for row in rows:
        predicted = teach(filters, np.array(row), label)
        assert all(map(math.isfinite, predicted))
    for array in filters:
        assert np.isfinite(array).all()
    assert (filters.variances >= 0.0).all()


def test_what_was_zero_for_long_has_a_size_after_all():
    """A count that stays 0 for its first hundred events is learned as one that does not."""
    r = np.random.default_rng(2)
    x = np.where(r.random(6000) < 0.5, r.exponential(size=6000), 0.0)
    x[:150] = 0.0
    filters = made(1, ())
    off = [teach(filters, np.array([one]), 3.0 * one)[1] - 3.0 * one for one in x]

    assert abs(np.array(off))[4000:].mean() < 0.1


def test_an_outlier_is_forgotten():
    """A value a thousand million deviations off does not blind a column for what follows."""
    r = np.random.default_rng(1)
    filters = made(1, ())
    for x in r.normal(size=500):
        teach(filters, np.array([x]), 3.0 * x)
    teach(filters, np.array([1e9]), 0.0)
    off = [abs(teach(filters, np.array([x]), 3.0 * x)[1] - 3.0 * x) for x in r.normal(size=2000)]

    assert np.mean(off[1000:]) < 0.3
