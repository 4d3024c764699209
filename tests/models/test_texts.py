"""Texts: which words there are, where they fall, and what a long one costs."""

import doctest
import re
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kaboost import ModelError
from kaboost.models.features import texts
from kaboost.models.features.categories import CACHE_SIZE, CACHED_LENGTH, hash64
from kaboost.models.features.columns import Columns
from kaboost.models.features.onehot import Encoder
from kaboost.models.features.rows import tabulate
from kaboost.models.features.texts import BUCKETS, COUNT_LIMIT, Buckets

SCHEMA = {"note": "text"}


def counts(*values):
    """Return the counts (B, 64) of some texts."""
    return Columns(SCHEMA).encode_many(tabulate(SCHEMA, [{"note": each} for each in values]))


def only(*words):
    """Return the row in which just these words are counted."""
    row = np.zeros(BUCKETS)
    for word, count in Counter(words).items():
        row[hash64(word) % BUCKETS] += count
    return row


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", []),
        (" .,;!\n\t", []),
        ("to be, or not to be", ["to", "be", "or", "not", "to", "be"]),
        ("Größe GRÖSSE grösse", ["grösse", "grösse", "grösse"]),
        ("ΣΊΣΥΦΟΣ", ["σίσυφοσ"]),
        ("été—ЗИМА 東京 room_2", ["été", "зима", "東京", "room_2"]),
        ("a\ud800b \U0001f600", ["a", "b"]),
        ("x" * 5_000, ["x" * 5_000]),
    ],
)
def test_words_are_runs_of_letters_and_digits(text, words):
    """In any script and whichever case; what stands between them says nothing."""
    np.testing.assert_array_equal([only(*words)], counts(text))


@given(st.lists(st.none() | st.text(max_size=40), max_size=12))
def test_counts_are_those_of_a_dictionary(values):
    """A batch of texts is counted as each alone; a missing one is NaN everywhere."""
    expected = [
        np.full(BUCKETS, np.nan) if text is None else only(*re.findall(r"\w+", text.casefold()))
        for text in values
    ]

    found = counts(*values)
    np.testing.assert_array_equal(np.reshape(expected, (-1, BUCKETS)), found)
    for text, row in zip(values, found, strict=True):
        np.testing.assert_array_equal([row], counts(text))


def test_buckets_are_fixed():
    """The hash is part of every model that was ever saved: it never changes."""
    assert {"flat": 36, "house": 62, "ss": 19} == {
        word: Buckets()[word] for word in ("flat", "house", "ss")
    }


def test_linear_models_get_logarithms():
    """Counts are drawn together and bounded; a missing text is like an empty one."""
    encoder = Encoder(SCHEMA | {"a": "number"})
    rows = [{"note": "b " * 3 + "c"}, {"note": None}, {"note": ""}, {"note": "d " * 9_999}]
    X = encoder.encode_many(tabulate(encoder.kinds, rows))
    expected = np.log1p(np.minimum([only(*"bbbc"), only(), only(), 9_999 * only("d")], COUNT_LIMIT))

    np.testing.assert_array_equal(np.hstack([np.zeros((4, 1)), expected]), X)
    assert ("a", "note words1") == encoder.columns[:2]
    assert f"note words{BUCKETS}" == encoder.columns[-1]
    assert 1 + BUCKETS == encoder.width


@pytest.mark.parametrize("kind", [Columns, Encoder])
def test_every_text_has_its_own_columns(kind):
    """Two texts, whatever stands between them, are counted one beside the other."""
    encoder = kind({"note": "text", "when": "datetime", "title": "text", "a": "number"})
    row = {"note": "one two", "title": "three", "when": "2026-11-20", "a": 1.0}
    (both,) = encoder.encode_many(tabulate(encoder.kinds, [row]))
    at = encoder.columns.index("note words1")

    assert at + BUCKETS == encoder.columns.index("title words1")
    np.testing.assert_array_equal(only("one", "two") > 0, both[at : at + BUCKETS] > 0)
    np.testing.assert_array_equal(only("three") > 0, both[at + BUCKETS :] > 0)


def test_a_long_text_costs_its_length(monkeypatch):
    """Over a megabyte of ever new words each is hashed once; of long words none is remembered."""
    seen = Counter()
    monkeypatch.setattr(texts, "hash64", lambda word: seen.update([word]) or hash64(word))
    encoder = Columns(SCHEMA)
    words = [f"word{k}" for k in range(150_000)]
    X = encoder.encode_many(tabulate(SCHEMA, [{"note": " ".join(words)}]))

    assert Counter(words) == seen
    assert len(words) == X.sum()
    assert len(encoder.buckets) <= CACHE_SIZE
    encoder.encode_many(tabulate(SCHEMA, [{"note": f"{i}" * 1_000_000} for i in range(9)]))
    assert max(map(len, encoder.buckets)) <= CACHED_LENGTH


def test_memo_is_only_a_memo(monkeypatch):
    """Forgetting every word at once changes no count."""
    text = " ".join(f"w{k % 50}" for k in range(500))
    expected = counts(text)
    monkeypatch.setattr(texts, "CACHE_SIZE", 3)

    np.testing.assert_array_equal(expected, counts(text))


def test_anything_else_is_refused_by_name():
    """As for a category: a text, or None."""
    with pytest.raises(ModelError, match=r"features\.note: 3 is not a text"):
        counts(3)


def test_examples_run():
    """The examples in the docstrings give what they show."""
    assert doctest.testmod(texts).failed == 0
