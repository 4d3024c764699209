"""Records as they are: paths, the meaning of values, and both ways of decoding give the same."""

import json
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kaboost.models.features.labels import labels
from kaboost.service.config.records import Events
from kaboost.service.errors import EventError
from kaboost.service.events.decoder import Decoded
from kaboost.service.events.json_reader import decode_unframed
from kaboost.service.events.mapping import RecordMapping
from kaboost.service.events.metadata import read_time
from kaboost.service.events.reader import PlainReader
from kaboost.service.events.record_decoder import RecordDecoder
from kaboost.service.events.values import MAX_DEPTH, coerce, coerce_undeclared, flatten

BINARY = labels("binary")
ORDER = {
    "order_id": 17,
    "created_at": "2026-11-20T10:00:00Z",
    "amount": 12.5,
    "customer": {"age": 31, "vip": True, "country": "PT"},
    "outcome": {"is_fraud": 1},
    "row_version": 3,
    "_meta": {"source": {"lsn": [1, 2]}},
}
SETTINGS = {
    "label": "outcome.is_fraud",
    "id": "order_id",
    "timestamp": "created_at",
    "ignore": ["row_version", "_meta"],
}
SCHEMA = {
    "amount": "number",
    "customer.age": "number",
    "customer.vip": "boolean",
    "customer.country": "category",
}


def decoder(schema: Any = SCHEMA, *, plain_json: bool = True, **settings: Any) -> RecordDecoder:
    """Make a decoder that decodes JSON by its types, or else field by field."""
    mapping = RecordMapping(Events(**{**SETTINGS, **settings}))
    reader = PlainReader(decode_unframed)
    return RecordDecoder(
        reader, mapping, schema, BINARY, plain_json=plain_json, needs_headers=not plain_json
    )


def encode(record: Any) -> bytes:
    return json.dumps(record).encode()


def without(record: dict[str, Any], *keys: str) -> dict[str, Any]:
    return {key: value for key, value in record.items() if key not in keys}


def fault(record: Any, **settings: Any) -> tuple[str, str]:
    """Return code and message of the only fault."""
    decoded = decoder(**settings).decode([encode(record)])
    ((_, error),) = decoded.faults
    return error.code, error.message


@pytest.mark.parametrize("plain_json", [True, False])
def test_a_nested_record_is_an_event(plain_json: bool) -> None:
    """Nested objects become names with dots; the named paths are no features."""
    decoded = decoder(plain_json=plain_json).decode([encode(ORDER)])

    assert [] == decoded.faults
    assert [[12.5, 31.0]] == decoded.table.numbers.tolist()
    assert [[1.0]] == decoded.table.booleans.tolist()
    assert [["PT"]] == [list(column) for column in decoded.table.categories]
    assert [1.0] == decoded.y.tolist()
    assert "17" == str(decoded.meta[0].id)
    assert datetime(2026, 11, 20, 10, tzinfo=UTC) == decoded.meta[0].timestamp


def test_kinds_are_inferred_from_a_record() -> None:
    """Without a schema the first record brings the features and their kinds."""
    decoded = decoder("auto").decode([encode(ORDER)])

    assert SCHEMA == decoded.new_features


def test_the_fields_of_an_object_are_features() -> None:
    """A path names the object whose fields are the features."""
    one = decoder({"age": "number", "vip": "boolean", "country": "category"}, features="customer")

    decoded = one.decode([encode(ORDER)])

    assert [] == decoded.faults
    assert [[31.0]] == decoded.table.numbers.tolist()


@pytest.mark.parametrize("plain_json", [True, False])
@pytest.mark.parametrize("path", ["items", "items.count"])
def test_the_number_of_a_list_is_ignored_by_name(path: str, plain_json: bool) -> None:
    """A list of objects is the feature `items.count`: both names leave it out."""
    one = decoder(plain_json=plain_json, ignore=["row_version", "_meta", path])

    decoded = one.decode([encode({**ORDER, "items": [{"sku": "a"}, {"sku": "b"}]})])

    assert [] == decoded.faults
    assert [[12.5, 31.0]] == decoded.table.numbers.tolist()


def test_features_are_named_one_by_one() -> None:
    """A mapping names every feature and its path; other fields are ignored."""
    one = decoder(
        {"n": "number", "land": "category"}, features={"n": "amount", "land": "/customer/country"}
    )

    decoded = one.decode([encode(ORDER)])

    assert [] == decoded.faults
    assert [[12.5]] == decoded.table.numbers.tolist()
    assert [["PT"]] == [list(column) for column in decoded.table.categories]


def test_an_unknown_field_is_named() -> None:
    """A misspelt field is refused, and the nearest feature is named."""
    code, message = fault({**ORDER, "amout": 1})

    assert "feature_unknown" == code
    assert "did you mean amount?" in message


@pytest.mark.parametrize(
    ("record", "code", "part"),
    [
        (
            without(ORDER, "outcome"),
            "schema",
            "outcome.is_fraud: is missing; the record has order_id",
        ),
        ({**ORDER, "outcome": {"is_fraud": "yes"}}, "label", "outcome.is_fraud"),
        ({**ORDER, "outcome": {"is_fraud": None}}, "label", "outcome.is_fraud"),
        ({**ORDER, "amount": "12.5"}, "feature_type", "amount"),
        ([ORDER], "schema", "not an object"),
        ({}, "schema", "the record is empty"),
    ],
)
def test_a_fault_names_the_path(record: Any, code: str, part: str) -> None:
    """A fault names the record's path, not the key of the envelope."""
    found, message = fault(record)

    assert code == found
    assert part in message


def test_text_is_converted_where_that_is_set() -> None:
    """Numbers and booleans in text, and numbers of a category, are converted."""
    record = {**ORDER, "amount": "12.5", "customer": {"age": "31", "vip": "true", "country": 7}}
    for plain_json in (True, False):
        one = decoder(coerce=True, plain_json=plain_json)

        decoded = one.decode([encode(record), encode({**record, "outcome": {"is_fraud": "1"}})])

        assert [] == decoded.faults
        assert [[12.5, 31.0]] * 2 == decoded.table.numbers.tolist()
        assert [[1.0]] * 2 == decoded.table.booleans.tolist()
        assert [["7", "7"]] == [list(column) for column in decoded.table.categories]
        assert [1.0, 1.0] == decoded.y.tolist()


VALUES = [
    (None, None),
    (2**60, 2**60),
    (float("nan"), None),
    (Decimal("12.50"), 12.5),
    (Decimal("NaN"), None),
    ({"scale": 2, "value": b"\x04\xe2"}, 12.5),
    ({"scale": 2, "value": "BOI="}, 12.5),
    (datetime(2026, 11, 20, 10, tzinfo=UTC), "2026-11-20T10:00:00+00:00"),
    (datetime(2026, 11, 20, 10), "2026-11-20T10:00:00+00:00"),
    (date(2026, 11, 20), "2026-11-20"),
    (time(1, 2, 3), 3723.0),
    (timedelta(minutes=2), 120.0),
    (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
    (b"\x00\x01", "AAE="),
    (["a", "b"], "a b"),
]


@pytest.mark.parametrize(("value", "meaning"), VALUES, ids=lambda value: type(value).__name__)
def test_every_value_has_a_meaning(value: Any, meaning: Any) -> None:
    """Every type that a format can give has one meaning."""
    assert {"x": meaning} == flatten({"x": value}, frozenset())


def test_lists_become_features_with_names() -> None:
    """Numbers count by position, objects by their number."""
    record = {"numbers": [1, None, 2.5], "items": [{"sku": 1}, {"sku": 2}], "none": []}

    assert {
        "numbers.0": 1,
        "numbers.1": None,
        "numbers.2": 2.5,
        "items.count": 2,
    } == flatten(record, frozenset())


def test_objects_nested_too_deeply_are_a_fault() -> None:
    """Depth is limited, and the message has the remedy."""
    record: dict[str, Any] = {}
    for _ in range(MAX_DEPTH + 1):
        record = {"a": record}

    with pytest.raises(EventError, match="name the paths"):
        flatten(record, frozenset())


@pytest.mark.parametrize(
    ("value", "kind", "meaning"),
    [
        ("1e3", "number", 1000.0),
        (" 7 ", "number", 7.0),
        ("nan", "number", None),
        ("inf", "number", "inf"),
        ("x", "number", "x"),
        ("TRUE", "boolean", True),
        (0, "boolean", False),
        ("maybe", "boolean", "maybe"),
        (7, "category", "7"),
        (True, "category", "true"),
        ("7", None, "7"),
        ("1,5", "number", 1.5),
        ("-0,125", "number", -0.125),
        ("1.234,5", "number", 1234.5),
        ("1 234,5", "number", 1234.5),
        ("1,234.5", "number", 1234.5),
        ("1,234,567", "number", 1234567.0),
        ("1,2,3", "number", "1,2,3"),
        ("1.2.3", "number", "1.2.3"),
        ("Yes", "boolean", True),
        ("off", "boolean", False),
        ("0", "boolean", False),
    ],
)
def test_coercion(value: Any, kind: str | None, meaning: Any) -> None:
    """Text is converted by the schema's kind, and stays where it is none."""
    assert meaning == coerce(value, kind)


@pytest.mark.parametrize(
    ("value", "meaning"),
    [
        ("12.5", 12.5), ("1,5", 1.5), ("007", "007"), ("0.5", 0.5), ("0", 0.0), ("A1", "A1"),
        ("TRUE", True), ("no", False), ("y", "y"), ("", ""), ("nan", "nan"), ("1e3", 1000.0),
        (3, 3),         ("2026-11-20", "2026-11-20"),
    ],
)  # fmt: skip
def test_an_undeclared_feature_is_what_it_reads_as(value: Any, meaning: Any) -> None:
    """Numbers and truth in text; codes that begin with a zero stay texts."""
    assert meaning == coerce_undeclared(value)


@pytest.mark.parametrize("number", [1_763_632_800, 1_763_632_800_000, 1_763_632_800_000_000])
def test_an_epoch_is_read_by_its_size(number: int) -> None:
    """Seconds, milliseconds and microseconds are distinguished by size."""
    assert 1_763_632_800_000 == read_time(number)
    assert 1_763_632_800_000 == read_time(str(number))


RECORDS = st.fixed_dictionaries(
    {
        "order_id": st.integers(0, 99) | st.text(max_size=3),
        "created_at": st.sampled_from(["2026-11-20T10:00:00Z", 1_763_632_800_000, None, 5]),
        "amount": st.floats(allow_nan=False, allow_infinity=False)
        | st.none()
        | st.text(max_size=2),
        "outcome": st.fixed_dictionaries({"is_fraud": st.sampled_from([0, 1, True, 1.0, 2, "1"])}),
    },
    optional={
        "customer": st.none()
        | st.fixed_dictionaries(
            {},
            optional={"age": st.integers(), "vip": st.booleans(), "country": st.text(max_size=2)},
        ),
        "row_version": st.integers(),
        "other": st.integers(0, 1),
    },
)


def summary(decoded: Decoded) -> Any:
    """Return everything that learning and dead letters see."""
    table = decoded.table
    return (
        np.nan_to_num(table.numbers, nan=-1.0).tolist(),
        np.nan_to_num(table.booleans, nan=-1.0).tolist(),
        [list(column) for column in table.categories],
        decoded.y.tolist(),
        [str(meta.id) for meta in decoded.meta],
        [meta.timestamp for meta in decoded.meta],
        decoded.w.tolist(),
        [(index, str(error)) for index, error in decoded.faults],
        dict(decoded.repairs),
        (decoded.consumed, decoded.ignored, decoded.new_features),
    )


@pytest.mark.parametrize("labelled", [True, False])
def test_a_record_without_its_features_is_a_fault(labelled: bool) -> None:
    """Trap: by types it was an event whose features are all missing."""
    mapping = RecordMapping(Events(features="a.b", label="y"), labelled=labelled)
    for plain_json in (True, False):
        reader = PlainReader(decode_unframed)
        made = RecordDecoder(reader, mapping, {"x": "number"}, BINARY, plain_json=plain_json)
        records = [{"y": 1}, {"y": 1, "a": {}}, {"y": 1, "a": {"b": {}}}]
        decoded = made.decode(list(map(encode, records)))

        assert [0, 1] == [index for index, _ in decoded.faults]
        assert 1 == len(decoded.meta)


@given(st.lists(RECORDS, max_size=5))
def test_both_ways_of_decoding_give_the_same(records: list[Any]) -> None:
    """The typed way and the general way differ in speed only."""
    values = [encode(record) for record in records]

    assert summary(decoder(plain_json=False).decode(values)) == summary(decoder().decode(values))


class Given(PlainReader):
    """A reader of any format: the bytes are the number of a value."""

    def __init__(self, values: list[Any]) -> None:
        super().__init__(lambda number: values[int(number)])


PLAIN = st.one_of(
    st.none(), st.booleans(), st.text(max_size=3), st.integers(-(2**70), 2**70), st.floats(),
    st.decimals(), st.just(Decimal("sNaN")), st.datetimes(), st.datetimes(timezones=st.just(UTC)),
    st.dates(), st.uuids(),
    st.binary(max_size=3), st.timedeltas(), st.just(ORDER["created_at"]), st.just(1.7e12),
    st.lists(st.integers(0, 9), max_size=2),
)  # fmt: skip
OBJECTS = st.fixed_dictionaries(
    {},
    optional={
        "order_id": PLAIN | st.integers(0, 5),
        "created_at": PLAIN,
        "weight": PLAIN | st.floats(0.0, 2.0),
        "amount": PLAIN | st.floats(-9, 9),
        "customer": PLAIN
        | st.fixed_dictionaries(
            {}, optional={"age": PLAIN | st.floats(0, 99), "vip": PLAIN, "country": PLAIN}
        ),
        "outcome": st.fixed_dictionaries({"is_fraud": st.sampled_from([0, 1, True, "1", 1.0, 2])}),
        "row_version": PLAIN,
        "other": PLAIN,
    },
)
USUAL = st.fixed_dictionaries(
    {
        "amount": st.floats(-9, 9) | st.decimals(-9, 9, places=2),
        "customer": st.just({"age": 31, "vip": True, "country": "PT"}),
        "outcome": st.just({"is_fraud": 1}),
    },
    optional={"created_at": st.datetimes(timezones=st.just(UTC)), "order_id": st.integers(0, 5)},
)


@settings(max_examples=300)
@given(
    st.lists(OBJECTS | USUAL | USUAL, max_size=6),
    st.sampled_from([{}, {"features": "customer"}, {"weight": "weight"}, {"coerce": True}]),
    st.booleans(),
    st.sampled_from(["refuse", "ignore", "auto"]),
)
def test_plain_values_are_decoded_alike_in_both_ways(
    records: list[Any], more: dict[str, Any], labelled: bool, unknown: Any
) -> None:
    """What a reader of Avro, Protobuf or MessagePack gives, by types and field by field."""
    mapping = RecordMapping(Events(**{**SETTINGS, **more}), labelled=labelled)
    schema = {"age": "number", "vip": "boolean", "country": "category"}
    schema = schema if "features" in more else SCHEMA
    schema, unknown = (
        ({**schema, "*": "auto"}, "refuse") if unknown == "auto" else (schema, unknown)
    )
    values = [str(k).encode() for k in range(len(records))]
    found = []
    for slow in (True, False):
        made = RecordDecoder(Given(records), mapping, schema, BINARY, unknown, needs_headers=slow)
        found.append(summary(made.decode(values)))

    assert found[0] == found[1]


def test_usual_plain_values_are_read_once() -> None:
    """They take the way by types: none is mapped field by field."""
    reads: list[bytes] = []

    class Counting(Given):
        def read(self, value: bytes | None, headers: Any) -> object:
            reads.append(value or b"")
            return super().read(value, headers)

    record = {**ORDER, "amount": Decimal("12.50"), "created_at": datetime(2026, 11, 20, tzinfo=UTC)}
    made = RecordDecoder(Counting([record] * 3), RecordMapping(Events(**SETTINGS)), SCHEMA, BINARY)
    decoded = made.decode([b"0", b"1", b"2"])

    assert (3, [b"0", b"1", b"2"]) == (len(decoded.meta), reads)


def test_an_id_teaches_once() -> None:
    """A repeated id is skipped; a fault does not count as learned."""
    seen: set[str] = set()

    def is_new(id_: str) -> bool:
        return not (id_ in seen or seen.add(id_))

    records = [
        ORDER,
        {**ORDER, "order_id": "17"},
        {**ORDER, "order_id": 18},
        {**ORDER, "amount": "x"},
    ]
    decoded = decoder().decode([encode(record) for record in records], is_new=is_new)

    assert 2 == len(decoded.y)
    assert [(1, "duplicate")] == list(decoded.skipped)
    assert [3] == [index for index, _ in decoded.faults]
