"""The encoder does what docs/encoding.md says, in any batching, compiled or not."""

import doctest
import re
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kaboost import ModelError
from kaboost.models.features import onehot as encoding
from kaboost.models.features.categories import CACHE_SIZE, CACHED_LENGTH, UNSEEN
from kaboost.models.features.onehot import CODES, CYCLES, HASHED_CODES, VALUE_CODES, Encoder, Table
from kaboost.models.features.rows import tabulate
from kaboost.models.features.texts import BUCKETS
from kaboost.models.state import tree
from tests.boosters import digest
from tests.models import streams
from tests.models.naive_encoding import NaiveEncoder

DOCS = Path(__file__).parents[2] / "docs" / "encoding.md"
SCHEMA = {
    "n": "number",
    "t": "text",
    "c": "category",
    "d": "datetime",
    "b": "boolean",
    "m": "number",
}


def written(moment):
    """Write a moment with its offset, in whole minutes as RFC 3339 has them."""
    text = moment.isoformat()
    return text if re.fullmatch(r".{19}(\.\d+)?([+-]\d\d:\d\d)?", text) else text[:19]


numbers = st.none() | st.floats(-1e308, 1e308) | st.sampled_from([1e308, -1e308, 1e-300, 0.0, 1.0])
events = st.fixed_dictionaries(
    {},
    optional={
        "n": numbers,
        "m": numbers,
        "b": st.none() | st.booleans(),
        "c": st.none() | st.text(max_size=2) | st.integers(0, 40).map(str),
        "d": st.none() | st.datetimes(timezones=st.none() | st.timezones()).map(written),
        "t": st.none() | st.text(max_size=9) | st.just("to be, or not to be " * 150),
    },
)
streams_of_events = st.lists(st.tuples(events, st.sampled_from([0.0, 1.0, 2.5])), max_size=60)
seeded = settings(derandomize=True, deadline=None, max_examples=150)


def arrays_of(encoder):
    """Return the arrays as they lie in a file."""
    return tree.to_arrays(encoder.state, "encoder")


def restored(schema, arrays):
    """Return the encoder of these arrays."""
    return Encoder(schema, tree.from_arrays(Encoder(schema).state, arrays, "encoder"))


def categories(*values):
    """Return events of one category."""
    return Table(np.empty((len(values), 0)), np.empty((len(values), 0)), [list(values)])


def seen_codes(encoder, *values, w=None):
    """Return the codes under which events of one category are learned."""
    X = encoder.learn_many(categories(*values), np.ones(len(values)) if w is None else w)
    return [int(row.argmax()) if row.any() else UNSEEN for row in X]


@seeded
@given(streams_of_events)
def test_encoder_equals_its_naive_twin(stream):
    """Every vector is the one that the obvious program makes, to the last bit."""
    rows, w = [row for row, _ in stream], np.array([weight for _, weight in stream])
    twin, encoder = NaiveEncoder(SCHEMA), Encoder(SCHEMA)
    expected = [twin.learn(row, weight) for row, weight in stream]
    learned = encoder.learn_many(tabulate(SCHEMA, rows), w)
    later = encoder.encode_many(tabulate(SCHEMA, rows))

    assert expected == learned.tolist()
    assert [twin.encode(row) for row in rows] == later.tolist()
    assert np.isfinite(learned).all()


@seeded
@given(streams_of_events, st.sets(st.integers(0, 60)))
def test_any_batching_gives_the_same_bytes(stream, cuts):
    """Where the stream is cut into batches leaves no trace."""
    rows, w = [row for row, _ in stream], np.array([weight for _, weight in stream])
    whole, cut = Encoder(SCHEMA), Encoder(SCHEMA)
    expected = whole.learn_many(tabulate(SCHEMA, rows), w)
    edges = [0, *sorted(cut for cut in cuts if cut < len(rows)), len(rows)]
    parts = [
        cut.learn_many(tabulate(SCHEMA, rows[begin:end]), w[begin:end])
        for begin, end in pairwise(edges)
    ]

    assert expected.tobytes() == np.vstack(parts).tobytes()
    assert digest(arrays_of(whole)) == digest(arrays_of(cut))


def test_plain_python_gives_the_same_bytes():
    """With numba's compiler off not a bit differs."""
    assert streams.encoder() == streams.digest_of_other_mode("encoder")


def test_memo_is_only_a_memo(monkeypatch):
    """Forgetting every remembered string at once changes no byte."""
    expected = streams.encoder()
    monkeypatch.setattr(encoding, "CACHE_SIZE", 2)

    assert expected == streams.encoder()


def test_first_sight_is_unseen_and_the_second_is_not():
    """An event is encoded with what was known before it, as it would have been served."""
    encoder = Encoder({"c": "category"})
    first, second, missing, other = seen_codes(encoder, "PT", "PT", None, "FR")

    assert first == UNSEEN
    assert 1 + HASHED_CODES == second
    assert missing == 0
    assert other == UNSEEN
    assert [2 + HASHED_CODES] == seen_codes(encoder, "FR")


def test_values_beyond_the_first_23_share_codes_by_hash():
    """The columns of a category never grow; a value without a code always falls on the same one."""
    encoder = Encoder({"c": "category"})
    values = [f"v{i}" for i in range(100)]
    seen_codes(encoder, *values)
    codes = seen_codes(encoder, *values)

    assert list(range(1 + HASHED_CODES, CODES)) == codes[:VALUE_CODES]
    assert set(range(1, 1 + HASHED_CODES)) == set(codes[VALUE_CODES:])
    assert (
        codes
        == Encoder({"c": "category"}, encoder.state)
        .encode_many(categories(*values))
        .argmax(axis=1)
        .tolist()
    )


def test_weight_0_moves_nothing():
    """An event of weight 0 is encoded, and the state keeps its bytes."""
    encoder = Encoder(streams.SCHEMA)
    encoder.learn_many(tabulate(streams.SCHEMA, streams.rows(10)), np.ones(10))
    before = digest(arrays_of(encoder))
    new = tabulate(streams.SCHEMA, streams.rows(50, seed=3))
    X = encoder.learn_many(new, np.zeros(50))

    assert before == digest(arrays_of(encoder))
    assert encoder.encode_many(new).tobytes() == X.tobytes()


def test_missing_numbers_do_not_count():
    """A missing number is encoded as its mean and leaves the statistics of the others alone."""
    encoder = Encoder({"n": "number"})
    values = np.array([[1.0], [np.nan], [3.0], [np.nan], [4.0]])
    X = encoder.learn_many(Table(values, np.empty((5, 0)), []), np.ones(5))

    assert [0.0, 0.0, 0.0, 0.0, 2.0] == X[:, 0].tolist()
    assert encoder.state.seen.tolist() == [3.0]


def test_extreme_numbers_stay_finite():
    """Neither 1e308 after a tiny spread nor a constant 1e308 ever gives inf or nan."""
    encoder = Encoder({"n": "number"})
    values = np.array([[0.0], [5e-324], [1e-6], [1e308], [-1e308], [1e308], [np.nan]])
    X = encoder.learn_many(Table(values, np.empty((7, 0)), []), np.ones(7))

    assert np.isfinite(X).all()
    assert abs(X).max() == 1e6
    assert all(np.isfinite(array).all() for array in encoder.state)


def test_reading_changes_nothing_and_needs_no_writable_array():
    """`encode_many` serves on a snapshot's read-only arrays; learning on them is refused."""
    encoder = Encoder(streams.SCHEMA)
    table = tabulate(streams.SCHEMA, streams.rows(100))
    encoder.learn_many(table, np.ones(100))
    arrays = {name: array.copy() for name, array in arrays_of(encoder).items()}
    for array in arrays.values():
        array.flags.writeable = False
    reader = restored(streams.SCHEMA, arrays)

    assert encoder.encode_many(table).tobytes() == reader.encode_many(table).tobytes()
    assert digest(arrays_of(encoder)) == digest(arrays)
    assert reader.state.mean is arrays["encoder.mean"]
    with pytest.raises(Exception, match=r"readonly|read-only"):
        reader.learn_many(table, np.ones(100))


def test_memory_is_bounded():
    """A million different strings, or a few very long ones, are not all remembered."""
    encoder = Encoder({"c": "category"})
    seen_codes(encoder, *(f"v{i}" for i in range(VALUE_CODES)))
    size = sum(array.nbytes for array in encoder.state)
    encoder.encode_many(categories(*(f"w{i}" for i in range(2 * CACHE_SIZE + 10))))
    encoder.encode_many(categories(*(f"{i}" * CACHED_LENGTH * 9 for i in range(1, 9))))
    memo = encoder._values[0]._cache

    assert len(memo) <= CACHE_SIZE
    assert max(len(value or "") for value in memo) <= CACHED_LENGTH
    assert size == sum(array.nbytes for array in encoder.state)


def test_columns_name_every_place():
    """The names are as many as the vector is long: numbers, booleans, 32 for each category, six
    for each datetime, 64 for each text.
    """
    encoder = Encoder(SCHEMA)

    assert encoder.columns[:3] == ("n", "m", "b")
    assert encoder.columns[3:5] == ("c=missing", "c=other1")
    assert encoder.columns[2 + CODES] == f"c=seen{VALUE_CODES}"
    assert encoder.columns[3 + CODES] == "d sine of hour"
    assert encoder.columns[-1] == f"t words{BUCKETS}"
    assert (
        encoder.width
        == 3 + CODES + CYCLES + BUCKETS
        == encoder.encode_many(tabulate(SCHEMA, [{}])).shape[1]
    )


@pytest.mark.parametrize(
    ("schema", "message"),
    [({}, "empty"), ({"age": "numbre"}, "features.age: .*'number'"), ({"age": 3}, "features.age")],
)
def test_impossible_schema_is_refused(schema, message):
    """The sentence names the feature, the kind and the nearest known one."""
    with pytest.raises(ModelError, match=message):
        Encoder(schema)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda arrays: arrays.pop("encoder.mean"), "'encoder.mean' is missing"),
        (
            lambda arrays: arrays.update({"encoder.mean": np.zeros(9)}),
            r"'encoder.mean' is float64 \(9,\)",
        ),
        (lambda arrays: arrays.update({"encoder.m2": np.zeros(2, np.float32)}), "float32"),
        (lambda arrays: arrays.update({"encoder.m2": np.zeros(4)[::2]}), "contiguous"),
    ],
)
def test_foreign_arrays_are_refused(change, message):
    """Arrays that are not those of the schema never become an encoder."""
    arrays = arrays_of(Encoder(SCHEMA))
    change(arrays)
    with pytest.raises(ModelError, match=message):
        restored(SCHEMA, arrays)


def test_documentation_runs():
    """The page's example gives what it shows, and its figures are the code's."""
    page = DOCS.read_text()

    assert doctest.testfile(str(DOCS), module_relative=False).failed == 0
    assert doctest.testmod(encoding).failed == 0
    for words in (
        f"{CODES} columns",
        f"first {VALUE_CODES} distinct",
        f"modulo {HASHED_CODES}",
        "1e150",
    ):
        assert words in page
