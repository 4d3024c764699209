"""Dates and times: which texts are one, and what the clock on the spot showed."""

import doctest
import math
from datetime import UTC, date, datetime, timedelta, timezone
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kaboost import ModelError
from kaboost.models.features import datetimes as times
from kaboost.models.features.columns import Columns
from kaboost.models.features.datetimes import clock_fields_many, is_datetime, wall_seconds
from kaboost.models.features.onehot import Encoder
from kaboost.models.features.rows import tabulate
from kaboost.models.state.tree import to_arrays
from tests.models.test_rows import Frame

SCHEMA = {"when": "datetime"}
offsets = st.none() | st.integers(-1439, 1439).map(lambda m: timezone(timedelta(minutes=m)))
moments = st.datetimes(timezones=offsets)
NOON = datetime(2026, 11, 20, 12, 30, 15)


def seconds(*values):
    """Return the wall clocks of the values of one datetime."""
    return tabulate(SCHEMA, [{"when": value} for value in values]).times[:, 0].tolist()


@given(moments, st.sampled_from("Tt "), st.sampled_from(["seconds", "microseconds"]))
@example(datetime(1, 1, 1), "T", "seconds")
@example(datetime(9999, 12, 31, 23, 59, 59, 999_999, UTC), "T", "microseconds")
@example(datetime(1900, 2, 28, 23, 59, 59), "T", "seconds")
@example(datetime(2000, 2, 29), "T", "seconds")
def test_the_clock_as_written_counts(moment, between, precision):
    """Hour, weekday and month are those of Python's own calendar, whatever the offset."""
    text = moment.isoformat(between, precision)
    wall = moment.replace(tzinfo=None, microsecond=0)
    hour = wall.hour + wall.minute / 60 + wall.second / 3600
    (shown,) = clock_fields_many(wall_seconds([[text]], 1)).tolist()

    assert is_datetime(text)
    assert [(wall - datetime(1970, 1, 1)).total_seconds()] == seconds(text) == seconds(moment)
    assert [pytest.approx(hour, abs=1e-12), wall.weekday(), wall.month] == shown


@given(st.text() | st.from_regex(times.PATTERN) | st.from_regex(r"\A[0-9]{4}-[0-3]{2}-[0-9]{2}\Z"))
@example("2100-02-29")
@example("2026-04-31T10:00:00")
@example("2016-12-31T23:59:60Z")
def test_what_is_accepted_is_read(text):
    """No text is taken for a moment that Python's calendar does not know."""
    if is_datetime(text):
        head, leap = text[:19].upper(), text[16:19] == ":60"
        moment = datetime.fromisoformat(head[:16] + ":59" if leap else head)
        assert [(moment - datetime(1970, 1, 1)).total_seconds() + leap] == seconds(text)
    elif len(text) == 10 and text.isascii():
        with pytest.raises(ValueError, match=r"\w"):
            date.fromisoformat(text)


@pytest.mark.parametrize(
    "text", ["2016-12-31T23:59:60Z", "2016-12-31t23:59:60.75", "2017-01-01 05:44:60+05:45"]
)
def test_a_leap_second_is_the_one_after_it(text):
    """At any offset that there is."""
    after = {"2016": "2017-01-01T00:00:00", "2017": "2017-01-01T05:45:00"}[text[:4]]

    assert is_datetime(text)
    assert seconds(after) == seconds(text)


def test_every_day_of_the_calendar_and_no_other():
    """All days of a leap year, a common one and the two kinds of centuries."""
    for year in (1, 4, 1900, 2000, 2024, 2026, 9996):
        for month in range(14):
            for day in range(33):
                try:
                    date(year, month, day)
                except ValueError:
                    known = False
                else:
                    known = True
                assert known is is_datetime(f"{year:04}-{month:02}-{day:02}")


def test_every_day_shows_its_weekday_and_month():
    """Over a whole cycle of the calendar, and one before 1970: as NumPy counts them."""
    days = np.arange("1600", "2401", dtype="datetime64[D]")
    shown = clock_fields_many(days.astype("datetime64[s]").astype(np.float64)[:, None])

    np.testing.assert_array_equal(days.astype("datetime64[M]").astype(int) % 12 + 1, shown[:, 2])
    np.testing.assert_array_equal((days.astype(int) + 3) % 7, shown[:, 1])
    assert not shown[:, 0].any()


@pytest.mark.parametrize(
    "text",
    [
        "", "NaT", "now", "today", "10:00:00", "2026-11", "2026-W47-5", "2026-324",
        "0000-01-01", "12026-01-01", "2026-11-20T", "2026-11-20T10",
        "2026-11-20T24:00:00", "2026-11-20T10:60:00", "2026-11-20T10:00:60", "2026-11-20Z",
        "2026-11-20T10:00:00.", "2026-11-20T10:00:00,5",
        "2026-11-20T10:00:00+24:00", "2026-11-20T10:00:00 Z", " 2026-11-20", "2026-11-20\n",
        "2026-11-20T10:00:00Z\n", "٢٠٢٦-11-20", "2026-11-20_10:00:00", True,
        np.datetime64("NaT"), NOON.time(), timedelta(1),
    ],
)  # fmt: skip
def test_anything_else_is_refused_by_name(text):
    """The sentence names the feature, the value and the remedy."""
    with pytest.raises(ModelError, match=r"features\.when: .* is not a date and time; pass a date"):
        seconds(text)


@pytest.mark.parametrize(
    "value",
    [
        NOON, "2026-11-20T12:30:15-09:00", NOON.replace(tzinfo=timezone(timedelta(hours=3))),
        np.datetime64("2026-11-20T12:30:15"), np.datetime64("2026-11-20T12:30:15.25", "ns"),
        np.str_("2026-11-20 12:30:15.999999999"), NOON.replace(microsecond=5),
        NOON.replace(tzinfo=timezone(timedelta(seconds=4567))),
    ],
)  # fmt: skip
def test_notebooks_pass_what_they_have(value):
    """Texts, Python's own types and NumPy's say the same; fractions of a second say nothing."""
    assert [(NOON - datetime(1970, 1, 1)).total_seconds()] == seconds(value)
    midnight = (datetime(2026, 11, 20) - datetime(1970, 1, 1)).total_seconds()
    assert [midnight] * 3 == seconds("2026-11-20", NOON.date(), np.datetime64("2026-11-20"))


def test_frames_hold_them_as_well():
    """A frame's column is read like dicts; what is missing there is NaN here."""
    table = tabulate(SCHEMA, Frame(when=[NOON, None, math.nan]))

    np.testing.assert_array_equal(seconds(NOON, None, None), table.times[:, 0])
    assert math.isnan(table.times[1, 0])
    assert (0, 1) == tabulate(SCHEMA, []).times.shape
    assert (2, 0) == tabulate({"a": "number"}, [{}, {}]).times.shape


def test_columns_for_trees():
    """Hour with its fraction, weekday from Monday on, month; NaN where missing."""
    encoder = Columns({"when": "datetime", "a": "number"})
    X = encoder.encode_many(tabulate(encoder.kinds, [{"when": "2026-11-23T06:45:00Z"}, {"a": 1}]))

    assert ("a", "when hour", "when weekday", "when month") == encoder.columns
    np.testing.assert_array_equal([[np.nan, 6.75, 0.0, 11.0], [1.0] + [np.nan] * 3], X)


def test_cycles_close():
    """For all other banks midnight follows 23:59:59, Monday Sunday, January December."""
    encoder = Encoder(SCHEMA)
    ends = [("2026-11-22T23:59:59", "2026-11-23"), ("2026-12-31T12:00:00", "2027-01-01T12:00:00")]
    for before, after in ends:
        rows = [{"when": before}, {"when": after}, {}]
        first, second, missing = encoder.encode_many(tabulate(SCHEMA, rows))
        assert abs(first - second).max() < 0.9
        assert abs(first[:2] - second[:2]).max() < 1e-3
        np.testing.assert_array_equal([0.0] * 6, missing)
    assert "when sine of hour" == encoder.columns[0]
    assert 6 == encoder.width


def test_nothing_is_learned_of_them():
    """The state has no arrays of datetimes: it is that of a schema without."""
    one, other = Encoder(SCHEMA | {"a": "number"}), Encoder({"a": "number"})
    shapes = [
        {name: array.shape for name, array in to_arrays(each.state).items()}
        for each in (one, other)
    ]

    assert shapes[0] == shapes[1]


def test_hours_grow_through_the_day():
    """No rounding lets a later second show an earlier hour."""
    day = clock_fields_many(np.arange(-86_400.0, 86_400.0)[:, None])
    hours = day[:86_400, 0].tolist()

    assert all(a < b for a, b in pairwise(hours))
    assert (0.0, 2.0, 12.0) == tuple(day[0])
    assert hours == day[86_400:, 0].tolist()


@pytest.mark.parametrize(
    "value", [20261120, 20261120.0, "20261120", "20261120.0", np.int64(19700101)]
)
def test_a_date_without_hyphens_is_refused_with_a_remedy(value):
    """It would be some day of 1970, as seconds."""
    with pytest.raises(ModelError, match=r"features\.when: .* without hyphens; write it as '2026-"):
        tabulate({"when": "datetime"}, [{"when": value}])


@pytest.mark.parametrize(
    "value", [20261320, 20260100, "20261132", 18991231, 22000101, 202611200, -20261120]
)
def test_other_numbers_are_seconds(value):
    """Of eight digits as well, where they are no date."""
    assert [[float(value)]] == tabulate({"when": "datetime"}, [{"when": value}]).times.tolist()


def test_examples_run():
    """The examples in the docstrings give what they show."""
    assert doctest.testmod(times).failed == 0
