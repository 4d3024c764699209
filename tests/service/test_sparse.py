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
from kaboost.service.events.decoder import Decoder
from kaboost.service.events.diagnosis import LIMIT

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


def told(one: Decoder, values: list[bytes | None]) -> tuple[Mat, Vec, list[tuple[int, str]]]:
    """Decode values, and say how they were read."""
    events, faults = one.decode_many(values)
    table, y, _ = one.tabulate(events)
    return table.numbers, y, [(index, str(error)) for index, error in faults]


def emptied(schema: Kinds = NUMBERS, unknown: Unknown = "refuse") -> Decoder:
    """Return a decoder that has seen empty events."""
    one = Decoder(schema, LABELS, unknown)
    told(one, [EMPTY] * 4)
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
    fresh = Decoder(NUMBERS, LABELS, unknown)
    (a, ya, first), (b, yb, second) = told(fresh, values), told(emptied(unknown=unknown), values)
    assert a.tobytes() == b.tobytes()
    assert ya.tobytes() == yb.tobytes()
    assert first == second


def test_features_are_dicts_while_most_are_missing() -> None:
    """And structs before, after, and where the schema has but few."""
    one, few = emptied(), written([("n3", 1.5), ("n7", -2)])
    events, _ = one.decode_many([few])
    assert {"n3": 1.5, "n7": -2.0} == events[0].features
    full = written([(name, 1.0) for name in NAMES])
    told(one, [full] * 4)
    events, _ = one.decode_many([few])
    assert not isinstance(events[0].features, dict)

    told(one, [EMPTY] * 3)  # of so few, dicts save nothing
    assert not isinstance(one.decode_many([few])[0][0].features, dict)

    narrow = emptied(dict.fromkeys(NAMES[:99], "number"))
    assert not isinstance(narrow.decode_many([few])[0][0].features, dict)
    mixed = emptied({**NUMBERS, "c": "category"})
    assert not isinstance(mixed.decode_many([few])[0][0].features, dict)


def test_a_feature_joins_among_dicts() -> None:
    """A number does, and a category too, with which they are dicts no longer."""
    one = emptied(parse_schema({**NUMBERS, "*": "auto"}))
    late, word = written([("n3", 1.0), ("late", 7.5)]), written([("n3", 1.0), ("word", "x")])
    assert one.decode_many([late])[0] == []
    one.join(one.joining)
    told(one, [EMPTY] * 4)
    events, _ = one.decode_many([late, late])
    assert {"n3": 1.0, "late": 7.5} == events[0].features
    numbers = one.tabulate(events)[0].numbers
    told(one, [EMPTY] * 4)
    assert [1.0, 7.5, 1.0, 7.5] == numbers[~np.isnan(numbers)].tolist()
    assert one.decode_many([word])[0] == []
    one.join(one.joining)
    table = one.tabulate(one.decode_many([word, late])[0])[0]
    assert [("x", None)] == list(table.categories)


def test_labels_and_weights_of_dicts() -> None:
    """What is beside the features does not change."""
    one = emptied()
    values: list[bytes | None] = [
        b'{"features": {"n1": 2}, "label": false, "weight": 3, "id": "a"}',
        b'{"features": {}, "label": true, "timestamp": "2026-11-22T10:00:00Z"}',
        b'{"features": {"n1": 2}, "label": 2}',
    ]
    events, faults = one.decode_many(values)
    table, y, w = one.tabulate(events)
    assert ([0.0, 1.0], [3.0, 1.0]) == (y.tolist(), w.tolist())
    assert [(2, "label")] == [(index, error.code) for index, error in faults]
    assert 2.0 == table.numbers[0, 1]
    assert 239 == np.count_nonzero(np.isnan(table.numbers))
