"""Events of wide schemas that are mostly empty are decoded as dicts, to the same arrays."""

import json
from collections.abc import Mapping
from typing import Literal

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kaboost.models.features.labels import Labels
from kaboost.models.features.schema import Schema, parse_schema
from kaboost.models.types import Mat, Vec
from kaboost.service.events.diagnosis import LIMIT
from kaboost.service.events.json import JsonDecoder

NAMES = [f"n{j}" for j in range(120)]
NUMBERS = dict.fromkeys(NAMES, "number")
LABELS = Labels("binary", (False, True))
EMPTY = b'{"features": {}, "label": true}'

Kinds = Mapping[str, str] | Schema
Unknown = Literal["refuse", "ignore"]

numbers = st.floats(-LIMIT, LIMIT) | st.integers(-(10**20), 10**20) | st.none()
strange = st.sampled_from([True, "x", [], {}, 10**400, "1.5"])
cells = st.tuples(st.sampled_from([*NAMES[:9], NAMES[-1]]), numbers)
odd = st.tuples(st.sampled_from([*NAMES[:9], "unknown", ""]), numbers | strange)


def written(pairs: list[tuple[str, object]]) -> bytes:
    """Write an event, repeated keys as well."""
    features = ", ".join(f"{json.dumps(name)}: {json.dumps(value)}" for name, value in pairs)
    return f'{{"features": {{{features}}}, "label": true}}'.encode()


def decode(
    decoder: JsonDecoder, values: list[bytes | None]
) -> tuple[Mat, Vec, list[tuple[int, str]]]:
    """Return numbers, labels and faults."""
    decoded = decoder.decode(values)
    faults = [(index, str(error)) for index, error in decoded.faults]
    return decoded.table.numbers, decoded.y, faults


def is_sparse(decoder: JsonDecoder, value: bytes) -> bool:
    """Return whether the features of an event are decoded as a dict."""
    (event,) = decoder.decode([value]).meta
    return isinstance(event.features, dict)  # type: ignore[attr-defined]


def emptied(schema: Kinds = NUMBERS, unknown: Unknown = "refuse") -> JsonDecoder:
    """Return a decoder that has seen empty events."""
    one = JsonDecoder(schema, LABELS, unknown)
    decode(one, [EMPTY] * 4)
    return one


@given(
    rows=st.lists(st.lists(cells, max_size=6) | st.lists(odd, max_size=6), min_size=1, max_size=9),
    unknown=st.sampled_from(["refuse", "ignore"]),
)
def test_dicts_and_structs_say_the_same(
    rows: list[list[tuple[str, object]]], unknown: Unknown
) -> None:
    """Nulls, integers, repeated keys, unknown features and values of wrong types among them."""
    values: list[bytes | None] = list(map(written, rows))
    fresh = JsonDecoder(NUMBERS, LABELS, unknown)
    (a, ya, first), (b, yb, second) = (
        decode(decoder, values) for decoder in (fresh, emptied(unknown=unknown))
    )
    assert a.tobytes() == b.tobytes()
    assert ya.tobytes() == yb.tobytes()
    assert first == second


def test_features_are_dicts_while_most_are_missing() -> None:
    """And structs before, after, and where the schema has but few."""
    one, few = emptied(), written([("n3", 1.5), ("n7", -2)])
    decoded = one.decode([few])
    assert {"n3": 1.5, "n7": -2.0} == decoded.meta[0].features  # type: ignore[attr-defined]
    assert [1.5, -2.0] == decoded.table.numbers[0, [3, 7]].tolist()
    decode(one, [EMPTY] * 4)
    full = written([(name, 1.0) for name in NAMES])
    decode(one, [full] * 4)
    assert not is_sparse(one, few)

    decode(one, [EMPTY] * 3)  # of so few, dicts save nothing
    assert not is_sparse(one, few)

    narrow = emptied(dict.fromkeys(NAMES[:99], "number"))
    assert not is_sparse(narrow, few)
    mixed = emptied({**NUMBERS, "c": "category"})
    assert not is_sparse(mixed, few)


def test_a_feature_joins_among_dicts() -> None:
    """A number does, and a category too, with which they are dicts no longer."""
    one = emptied(parse_schema({**NUMBERS, "*": "auto"}))
    late, word = written([("n3", 1.0), ("late", 7.5)]), written([("n3", 1.0), ("word", "x")])
    decoded = one.decode([late])
    assert ([], {"late": "number"}) == (decoded.meta, decoded.new_features)
    one.add_features(decoded.new_features)
    decode(one, [EMPTY] * 4)
    assert is_sparse(one, late)
    decode(one, [EMPTY] * 4)
    numbers = one.decode([late, late]).table.numbers
    assert [1.0, 7.5, 1.0, 7.5] == numbers[~np.isnan(numbers)].tolist()
    decode(one, [EMPTY] * 4)
    decoded = one.decode([word])
    assert ([], {"word": "category"}) == (decoded.meta, decoded.new_features)
    one.add_features(decoded.new_features)
    assert [("x", None)] == list(one.decode([word, late]).table.categories)


def test_labels_and_weights_of_dicts() -> None:
    """What is beside the features does not change."""
    one = emptied()
    values: list[bytes | None] = [
        b'{"features": {"n1": 2}, "label": false, "weight": 3, "id": "a"}',
        b'{"features": {}, "label": true, "timestamp": "2026-11-22T10:00:00Z"}',
        b'{"features": {"n1": 2}, "label": 2}',
    ]
    table, y, w, _, faults, *_ = one.decode(values)
    assert ([0.0, 1.0], [3.0, 1.0]) == (y.tolist(), w.tolist())
    assert [(2, "label")] == [(index, error.code) for index, error in faults]
    assert 2.0 == table.numbers[0, 1]
    assert 239 == np.count_nonzero(np.isnan(table.numbers))
