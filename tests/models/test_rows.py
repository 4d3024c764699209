"""Rows of people become the table the encoder reads, or a sentence on what is wrong."""

import doctest
from datetime import datetime
from decimal import Decimal

import numpy as np
import pytest

from kaboost import ModelError
from kaboost.models.features import rows as module
from kaboost.models.features.labels import encode_many, labels
from kaboost.models.features.new_features import find_new_features
from kaboost.models.features.rows import tabulate
from kaboost.models.features.schema import layout

SCHEMA = {"c": "category", "n": "number", "b": "boolean", "m": "number"}


class Frame:
    """The part of a pandas DataFrame that is asked for here."""

    def __init__(self, **columns):
        self.columns = list(columns)
        self._columns = columns

    def __len__(self):
        return len(next(iter(self._columns.values())))

    def __getitem__(self, name):
        return Column(self._columns[name])


class Column(list):
    """The part of a pandas Series that is asked for here."""

    def to_list(self):
        return list(self)

    def isna(self):
        return Column(value is None or value != value for value in self)


def test_columns_are_grouped_by_kind_in_the_order_of_the_schema():
    """Numbers, booleans and categories; absent and None are missing; NumPy scalars are values."""
    table = tabulate(
        SCHEMA,
        [
            {"m": 1, "n": np.float32(0.5), "c": "x", "b": True},
            {"n": None, "b": np.bool_(False), "c": np.str_("y")},
            {"m": np.int64(-2), "n": -1e308},
        ],
    )

    np.testing.assert_array_equal([[0.5, 1.0], [np.nan, np.nan], [-1e308, -2.0]], table.numbers)
    np.testing.assert_array_equal([[1.0], [0.0], [np.nan]], table.booleans)
    assert [["x", "y", None]] == table.categories
    assert table.numbers.flags.c_contiguous


def test_frame_is_read_like_dicts():
    """In a DataFrame NaN is missing, and so is a column that is not there."""
    frame = Frame(n=[1.0, float("nan")], c=["x", float("nan")], b=[None, True])
    table = tabulate(SCHEMA, frame)
    same = tabulate(SCHEMA, [{"n": 1.0, "c": "x"}, {"b": True}])

    np.testing.assert_array_equal(same.numbers, table.numbers)
    np.testing.assert_array_equal(same.booleans, table.booleans)
    assert same.categories == table.categories


def test_a_kind_that_was_inferred_is_said_to_be():
    """The first value may have been the wrong one to go by."""
    with pytest.raises(ModelError, match=r"features.zip: '1-2' is not a number.*was inferred"):
        tabulate(layout({"zip": "number"}, ["zip"]), [{"zip": "1-2"}])
    with pytest.raises(ModelError, match=r"features.zip: '1-2' is not a number.* missing$"):
        tabulate(layout({"zip": "number"}), [{"zip": "1-2"}])


def test_a_column_that_stands_twice_is_refused():
    """Nobody can tell which of the two is meant."""
    frame = Frame(n=[1.0], m=[2.0])
    frame.columns = ["n", "m", "n"]
    with pytest.raises(ModelError, match="rows: column 'n' occurs twice; rename or drop one"):
        tabulate(SCHEMA, frame)


@pytest.mark.parametrize("rows", [3, np.array(3), "ab", (x for x in ())])
def test_what_are_no_rows_is_refused(rows):
    """The sentence says what belongs there."""
    with pytest.raises(ModelError, match=r"rows: a \w+ is not a list of dicts; pass a list"):
        tabulate(SCHEMA, rows)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"": 1}, "features: the name '' cannot be a feature's: it must not be empty"),
        ({"*": 1}, r"features: the name '\*' cannot be a feature's: .* '\*' stands for others"),
        ({"a" * 201: 1}, "features: the name .* cannot be a feature's: at most 200 characters"),
        ({"q": datetime(2026, 1, 1)}, "features.q: .* is a date or time.*declare it: .*datetime"),
        ({"q": [1]}, r"features.q: \[1\] has no kind; pass a number"),
    ],
)
def test_what_cannot_join_is_refused(row, message):
    """The sentence names the feature, the value and the remedy."""
    with pytest.raises(ModelError, match=message):
        find_new_features({"age": "number"}, [row], [1.0])


def test_a_date_that_becomes_a_category_is_warned_of():
    """The remedy names the feature; other texts are left alone."""
    remedy = r'^features\.when: .* features={"when": "datetime",'
    with pytest.warns(UserWarning, match=remedy) as told:
        found = find_new_features({}, [{"when": "2026-11-20", "zip": "1000"}], [1.0])

    assert found == [(0, {"when": "category", "zip": "category"})]
    assert len(told) == 1


def test_no_rows_make_an_empty_table():
    """Shapes say how many features there are even when there is no event."""
    table = tabulate(SCHEMA, [])

    assert table.numbers.shape == (0, 2)
    assert table.booleans.shape == (0, 1)
    assert table.categories == [[]]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"nn": 1.0}, "features.nn: unknown feature; did you mean 'n'"),
        ({"other": 1.0}, "features.other: unknown feature; known are c, n, b, m"),
        ({"n": "1"}, "features.n: '1' is not a number"),
        ({"n": True}, "features.n: True is not a number"),
        ({"n": [1]}, r"features.n: \[1\] is not a number"),
        ({"n": float("nan")}, "features.n: nan is not finite"),
        ({"n": float("inf")}, "features.n: inf is not finite"),
        ({"n": -1.1e308}, "features.n: -1.1e.308 is not finite"),
        ({"n": 10**400}, r"features.n: 10{59}\.\.\. is not finite"),
        ({"n": 10**5000}, "features.n: an integer of thousands of digits is not finite"),
        ({"b": 1}, "features.b: 1 is not true or false"),
        ({"b": "true"}, "features.b: 'true' is not true or false"),
        ({"c": 3.5}, "features.c: 3.5 is not a name"),
        ([1.0], r"rows\[0\]: \[1.0\] is not a dict"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(row, message):
    """The sentence names the feature, the value and the remedy."""
    with pytest.raises(ModelError, match=message):
        tabulate(SCHEMA, [row])


def test_examples_run():
    """The examples in the docstrings give what they show."""
    assert doctest.testmod(module).failed == 0


def test_decimals_are_numbers():
    """As databases have them, also among the labels."""
    table = tabulate(SCHEMA, [{"n": Decimal("1.5"), "c": Decimal(7)}, {"n": None, "c": 7.0}])

    assert [1.5] == table.numbers[:1, 0].tolist()
    assert 1 == len(set(table.categories[0]))
    assert [(0, {"d": "number"})] == find_new_features({}, [{"d": Decimal(1)}], [1.0])
    assert [2.5] == encode_many(labels("regression"), [Decimal("2.5")]).tolist()
    assert [1.0, 0.0] == encode_many(labels("binary"), [Decimal(1), Decimal(0)]).tolist()


@pytest.mark.parametrize("text", ["1e999", "NaN", "sNaN", "-Infinity"])
def test_decimals_that_are_not_finite(text):
    """They are refused as such floats are."""
    with pytest.raises(ModelError, match=r"features\.n: .* is not finite"):
        tabulate(SCHEMA, [{"n": Decimal(text)}])
