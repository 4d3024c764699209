"""The JSON decoder turns bytes into an event, or into an error with the first fault's code."""

import json
import math
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kaboost.models.features.datetimes import PATTERN
from kaboost.models.features.labels import labels
from kaboost.service.errors import EventError
from kaboost.service.events.diagnosis import CODES, EPOCH_MS, LIMIT, Rules, faults
from kaboost.service.events.json import JsonDecoder

SCHEMA = {
    "age": "number",
    "country": "category",
    "when": "datetime",
    "vip": "boolean",
    "note": "text",
    "income": "number",
}
TASKS = {
    "regression": labels("regression"),
    "binary": labels("binary"),
    "named": labels("binary", ["fine", "fraud"]),
    "booleans": labels("binary", [False, True]),
    "numbers": labels("multiclass", [1, 2.5, "3"]),
    "halves": labels("binary", [0.5, 1.5]),
    "large": labels("binary", [2**63, 5]),
    "mixed": labels("binary", [True, 2]),
    "wholes": labels("binary", [1, 2]),
}


def decoder(task: str = "named", **options: Any) -> JsonDecoder:
    return JsonDecoder(SCHEMA, TASKS[task], **options)


def event(features: Any = None, **keys: Any) -> dict[str, Any]:
    return {"features": {"age": 31} if features is None else features, "label": "fraud", **keys}


def raw(**keys: str) -> bytes:
    """Write an event whose values are given as JSON text."""
    values = {"features": '{"age": 31}', "label": '"fraud"', **keys}
    return ("{" + ", ".join(f'"{key}": {text}' for key, text in values.items()) + "}").encode()


def fault(value: bytes | None, **options: Any) -> EventError | None:
    """Decode one value; return its error, None for an event."""
    decoded = decoder(**options).decode([value])
    return decoded.faults[0][1] if decoded.faults else None


def code(value: bytes | None, **options: Any) -> str | None:
    """Decode one value; return the code of its error, None for an event."""
    error = fault(value, **options)
    return error.code if error else None


BAD_IDS = ("1", "17.0", "1.5", "true", "[]", '{"a": 1}', "1e400", "1" * 5000)
BAD_TIMES = (
    '"yesterday"',
    '"2026-11-20T10:00:00"',
    '"2026-11-20T10:00:00.123456"',
    '"2026-11-20T10:00:00+0100"',
    '"2026-02-30T10:00:00Z"',
    '"2026-11-20T10:00:00+24:00"',
    '"1760000000123"',
    "1760000000123456",
    "true",
    "[]",
    "1e400",
    str(EPOCH_MS[0] - 1),
)

REFUSED = {
    "null_value": [None],
    "json": [
        b"",
        b" ",
        b"{",
        b"not json",
        b"\x00\x01",
        b"\xff\xfe",
        b"\xef\xbb\xbf" + raw(),
        raw() + b"x",
        raw() + raw(),
        raw()[:-1],
        raw(features='{"age": NaN}'),
        raw(features='{"age": Infinity}'),
        raw(features='{"age": -Infinity}'),
        raw(features='{"age": 01}'),
        raw(features='{"age": 1.}'),
        raw(features='{"age": 1,}'),
        raw(features='{"country": "\\ud800"}'),
        raw(note='"\\ud800"'),
        raw(note="nul"),
        raw(note="[" * 100_000 + "]" * 100_000),
        raw().replace(b"fraud", b"fra\xffd"),
        raw(note='"x"').replace(b'"x"', b'"\xff"'),
        raw(features='{"country": "a\nb"}'),
        "{}".encode("utf-16"),
    ],
    "schema": [
        b"1",
        b"null",
        b'"x"',
        b"[]",
        b"{}",
        b'{"features": {}}',
        b'{"label": "fraud"}',
        raw(features="[]"),
        raw(features="null"),
        raw(features='"x"'),
    ],
    "label": [
        raw(label="null"),
        raw(label="[]"),
        raw(label='{"a": 1}'),
        raw(label='"spam"'),
        raw(label="1"),
        raw(label="true"),
        raw(label="1e400"),
        raw(label="1" * 5000),
        raw(label='"spam"', weight="-1", features='{"x": 1}'),
    ],
    "weight": [
        raw(weight="-1"),
        raw(weight="-1e-300"),
        raw(weight='"1"'),
        raw(weight="true"),
        raw(weight="1e309"),
        raw(weight="1.1e308"),
        raw(weight="[]"),
        raw(weight="-1", features='{"x": 1, "age": "y"}'),
    ],
    "feature_unknown": [
        raw(features='{"x": 1}'),
        raw(features='{"": null}'),
        raw(features='{"Age": 1}'),
        raw(features='{"age": "x", "x": 1}'),
        raw(features='{"age": 1e309, "x": 1}'),
    ],
    "feature_type": [
        raw(features='{"age": "31"}'),
        raw(features='{"age": true}'),
        raw(features='{"age": [1]}'),
        raw(features='{"age": {"a": 1}}'),
        raw(features='{"country": 1.5}'),
        raw(features='{"country": [true]}'),
        raw(features='{"vip": 1}'),
        raw(features='{"vip": "true"}'),
        raw(features='{"vip": 1e400}'),
        raw(features='{"income": 1e309, "age": "x"}'),
        raw(features='{"when": "yesterday"}'),
        raw(features='{"when": "2026-02-29"}'),
        raw(features='{"when": "2026-11-20T10:00:00Z\\n"}'),
        raw(features='{"when": ""}'),
        raw(features='{"when": 1e20}'),
        raw(features='{"when": true}'),
        raw(features='{"age": "x"}', id="true"),
        raw(features='{"when": "x", "when": "2026-11-20"}'),
        raw(features='{"note": 1}'),
        raw(features='{"note": ["a", "b"]}'),
        raw(features='{"age": "x", "age": 1}'),
    ],
    "not_finite": [
        raw(features='{"age": 1e309}'),
        raw(features='{"age": -1.1e308}'),
        raw(features='{"age": 1e999999}'),
        raw(features='{"age": ' + "1" * 5000 + "}"),
        raw(features='{"age": -' + "9" * 310 + "}"),
    ],
}

GOOD = [
    raw(),
    b" \r\n\t" + raw() + b"\n",
    raw(features="{}"),
    raw(features='{"age": null, "country": null, "vip": null}'),
    raw(features='{"age": 1e308}'),
    raw(features='{"age": -1E+308}'),
    raw(features='{"age": ' + "1" * 300 + "}"),
    raw(features='{"age": 0.' + "1" * 5000 + "}"),
    raw(features='{"age": 1, "age": 2}'),
    raw(features='{"country": ""}'),
    raw(features='{"when": null, "note": null}'),
    raw(features='{"when": "2026-11-20"}'),
    raw(features='{"when": "2026-11-20T10:00:00"}'),
    raw(features='{"when": "2026-11-20t10:00:00.123456789z"}'),
    raw(features='{"when": "2024-02-29 23:59:59-12:30"}'),
    raw(features='{"note": ""}'),
    raw(features='{"note": "\\ud83d\\ude00 ' + "word " * 10_000 + '"}'),
    raw(features='{"country": "\\ud83d\\ude00 \\u0000"}'),
    raw(id='""', timestamp='"2026-11-20T10:00:00Z"', weight="0"),
    raw(timestamp='"2026-11-20T10:00:00.123456789+05:30"'),
    raw(timestamp="1763632800000"),
    raw(timestamp="-1.5"),
    raw(id="null", timestamp="null", weight="null"),
    raw(features='{"when": "2026-11-20T10:00"}'),
    raw(features='{"when": "2026-11-20T10:00:00+0100"}'),
    raw(features='{"when": 1763632800000}'),
    raw(features='{"when": "1763632800000123"}'),
    *(raw(id=value) for value in BAD_IDS),
    *(raw(timestamp=value) for value in BAD_TIMES),
    raw(note="[1, {}, null]"),
    raw(note="1e400"),
]


@pytest.mark.parametrize(
    ("expected", "value"), [(code, value) for code, values in REFUSED.items() for value in values]
)
def test_every_fault_has_its_code(expected: str, value: bytes | None) -> None:
    """Of several faults the first in the order of the interface names the code."""
    assert expected == code(value)


@pytest.mark.parametrize("size", [101, 5000])
def test_a_large_event_is_refused_unread(size: int) -> None:
    """Size goes before everything that would need reading."""
    assert "too_large" == code(b"x" * size, max_bytes=100)
    assert "json" == code(b"x" * 100, max_bytes=100)


def test_all_codes_are_tried() -> None:
    """The examples above leave no code of the interface out."""
    # test_frame_faults.py, test_late_labels.py, test_isolation.py
    elsewhere = {"timestamp", "too_large", "schema_id", "format", "label_unmatched", "internal"}
    assert set(CODES) == {*REFUSED, *elsewhere}


@pytest.mark.parametrize("value", GOOD)
def test_what_an_event_may_be(value: bytes) -> None:
    """Absent and null are the same but for features and label; unknown keys are passed over."""
    assert code(value) is None


@pytest.mark.parametrize(
    ("task", "label", "expected"),
    [
        ("regression", "2", 2.0),
        ("regression", "-1e308", -1e308),
        ("regression", "true", None),
        ("regression", '"2"', None),
        ("regression", "1.1e308", None),
        ("binary", "0", 0.0),
        ("binary", "1.0", 1.0),
        ("binary", "true", 1.0),
        ("binary", "2", None),
        ("binary", '"1"', None),
        ("named", '"fraud"', 1.0),
        ("booleans", "false", 0.0),
        ("booleans", "0", None),
        ("numbers", "2.5", 1.0),
        ("numbers", '"3"', 2.0),
        ("numbers", "3", None),
        ("numbers", "true", None),
    ],
)
def test_labels_are_told_apart_by_type(task: str, label: str, expected: float | None) -> None:
    """1, true and "1" are three labels, whichever of them came before."""
    one = decoder(task)
    for seen in ("1", "true", '"1"', label):
        decoded = one.decode([raw(label=seen)])
        got = decoded.faults[0][1].code if decoded.faults else decoded.y[0]

    assert ("label" if expected is None else expected) == got


def test_a_batch_becomes_arrays() -> None:
    """Columns are grouped by kind in the order of the schema; missing is NaN, or None."""
    one = decoder()
    values = [
        event({"income": 2, "age": 1, "vip": True, "country": "PT"}, weight=0),
        event({"vip": False, "when": "1970-01-02T03:00:00+09:00"}, label="fine", weight=2.5),
        event({"age": None, "country": "ES", "note": "a b", "when": "1969-12-31"}),
    ]

    table, y, w, *_ = one.decode([json.dumps(value).encode() for value in values])

    np.testing.assert_array_equal([[1, 2], [math.nan] * 2, [math.nan] * 2], table.numbers)
    np.testing.assert_array_equal([[1], [0], [math.nan]], table.booleans)
    assert [("PT", None, "ES")] == table.categories
    np.testing.assert_array_equal([[math.nan], [97_200.0], [-86_400.0]], table.times)
    assert [(None, None, "a b")] == table.texts
    assert [1, 0, 1] == y.tolist()
    assert [0, 2.5, 1] == w.tolist()
    assert table.numbers.flags.c_contiguous


def test_an_empty_batch_keeps_its_shape() -> None:
    """A batch in which every record was refused is a table of no rows."""
    table, y, w, *_ = decoder().decode([])

    assert (0, 2) == table.numbers.shape
    assert (0, 1) == table.booleans.shape
    assert [()] == table.categories == table.texts
    assert (0, 1) == table.times.shape
    assert (0,) == y.shape == w.shape


def test_the_other_keys_are_kept() -> None:
    """Id and timestamp come through."""
    value = raw(id='"a1"', timestamp='"2026-11-20T10:00:00Z"', weight="2")
    decoded = decoder().decode([value])
    (meta,) = decoded.meta

    assert ("a1", [2.0]) == (meta.id, decoded.w.tolist())
    assert datetime(2026, 11, 20, 10, tzinfo=UTC) == meta.timestamp


def test_ignored_features_are_counted() -> None:
    """`features.unknown: ignore` passes over what the schema does not know, and says how much."""
    texts = ['{"age": 1}', '{"age": 1, "x": [], "y": {}}', '{"age": 1, "z": 1e400}']
    faulty = raw(features='{"x": 1, "age": "x"}')
    one = decoder(unknown="ignore")
    decoded = one.decode([*(raw(features=text) for text in texts), faulty])

    assert 3 == decoded.ignored
    assert ["feature_type"] == [error.code for _, error in decoded.faults]
    assert 0 == one.decode([faulty]).ignored


def test_faults_list_all() -> None:
    """A request gets every fault, with a JSON pointer each."""
    strict = decoder()
    features = {"age": "x", "a/b~c": 1, "income": 10**400, "vip": None, "country": "PT"}

    found = strict.diagnose(features, "#/instances/0/features")

    at = "#/instances/0/features"
    assert [f"{at}/age", f"{at}/a~1b~0c", f"{at}/income"] == [pointer for pointer, _ in found]
    assert [("#/features", "an array is not an object of features")] == strict.diagnose(
        [], "#/features"
    )
    assert [] == decoder(unknown="ignore").diagnose({"x": 1}, "#")


def test_a_message_names_value_and_remedy_and_is_short() -> None:
    """What a person reads in the header of the dead letter does not grow with the event."""
    long = '"' + "x" * 100_000 + '"'
    wrong_number = str(fault(raw(features='{"age": ' + long + "}")))
    wrong_date = str(fault(raw(features='{"when": "20.11.2026"}')))

    assert re.search(r'^age: "xx+\.\.\. where a number or null belongs; send', wrong_number)
    assert len(wrong_number) < 200
    pattern = r'^when: "20\.11\.2026" where a date and time .* since 1970 or null belongs; send'
    assert re.search(pattern, wrong_date)
    assert len(str(fault(raw(label=long)))) < 400


@pytest.mark.parametrize("name", ['a"b', "a\\b", "a\nb"])
def test_a_name_that_json_must_escape_is_a_name(name: str) -> None:
    """Fields of such names are decoded under others."""
    one = JsonDecoder({name: "number"}, labels("binary", ["fine", "fraud"]))
    decoded = one.decode([raw(features=json.dumps({name: 3.0}))])
    assert ([], [[3.0]]) == (decoded.faults, decoded.table.numbers.tolist())


DOCS = (Path(__file__).parents[2] / "docs" / "events.md").read_text()


def fits(value: Any, schema: Any) -> bool:
    """Check a JSON value by as much of JSON Schema as docs/events.md uses."""
    enum, kinds = schema.get("enum", [value]), schema.get("type", [kind(value)])
    if value not in enum or kind(value) not in kinds:
        return False
    if isinstance(value, dict) and "properties" in schema:
        known = schema["properties"]
        return (
            set(schema.get("required", [])) <= value.keys()
            and (schema.get("additionalProperties", True) or value.keys() <= known.keys())
            and all(fits(value[key], known[key]) for key in value.keys() & known.keys())
        )
    return kind(value) != "number" or (
        schema.get("minimum", value) <= value <= schema.get("maximum", value)
    )


def kind(value: Any) -> str:
    names = {bool: "boolean", str: "string", dict: "object", list: "array", type(None): "null"}
    return names.get(type(value), "number")


@pytest.mark.parametrize(
    "value",
    [v for code, values in REFUSED.items() for v in values if code not in ("json", "null_value")]
    + GOOD,
)
def test_the_json_schema_of_the_docs_is_that_of_the_code(value: bytes) -> None:
    """What it accepts is an event, but for the forms of a time and repeated keys."""
    block = re.search(r"```json\n(.*?)```", DOCS, re.S)
    assert block is not None
    schema = json.loads(block[1])
    schema["properties"]["features"]["properties"]["income"] = {"type": ["number", "null"]} | {
        "minimum": -LIMIT,
        "maximum": LIMIT,
    }
    verdict = code(value)
    text = value.decode("utf-8", "replace") if value else ""
    if not ("when" in text and verdict) and value != raw(features='{"age": "x", "age": 1}'):
        assert fits(json.loads(value, parse_int=float), schema) == (verdict is None)


def test_the_docs_name_every_code_in_its_order() -> None:
    """The table of docs/events.md is the order of precedence."""
    table = DOCS[DOCS.index("| code | the record |") :].split("\n\n")[0]

    assert list(CODES) == re.findall(r"^\| `(\w+)` \|", table, re.M)


SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False, allow_infinity=False),
    st.floats(0.9 * LIMIT, 1.7e308),
    st.sampled_from(["fraud", "fine", "1", "", "2026-11-20T10:00:00Z", "2026-11-20T10:00:00"]),
    st.from_regex(PATTERN),
    st.sampled_from(["2026-11-20", "2026-02-30", "2026-11-20T10:00:00\n", "2026-11-20T24:00:00"]),
    st.text(max_size=5),
    st.sampled_from([10**308, 10**308 + 1, 10**309, -(10**400), 1, 0, 2.5, 2, 3]),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=5,
)


@st.composite
def objects(draw: st.DrawFn, names: list[str], values: st.SearchStrategy[str]) -> str:
    """Draw the text of an object over some names, each absent, there, or there twice."""
    pairs = draw(st.lists(st.tuples(st.sampled_from(names), values), max_size=6))
    return "{" + ",".join(f"{json.dumps(name)}:{value}" for name, value in pairs) + "}"


@st.composite
def documents(draw: st.DrawFn) -> bytes:
    """Draw something like an event, rarely a good one, sometimes with a byte broken."""
    scalars = st.builds(json.dumps, VALUES) | st.sampled_from(
        ["NaN", "Infinity", "1e400", "-1e400", "1" * 5000, '"\\ud800"', "01", "1E5", "-0", "1e-400"]
    )
    good = {"age": "1.5", "income": "-3", "country": '"PT"', "vip": "true"}
    good |= {"when": '"2026-11-20T10:00:00.5+01:00"', "note": '"a b"'}
    features = draw(objects([*good, "x"], scalars) | st.just(json.dumps({"age": 1})) | scalars)
    label = draw(st.sampled_from(['"fraud"', "1", "true", "0.0"]) | scalars)
    pairs = [("features", features), ("label", label)]
    more = st.tuples(st.sampled_from(["id", "timestamp", "weight", "note", "label"]), scalars)
    pairs = draw(st.permutations(pairs + draw(st.lists(more, max_size=2))))
    text = "{" + ",".join(f'"{key}":{value}' for key, value in pairs) + "}"
    value = bytearray(text.encode("utf-8", "surrogatepass"))
    if draw(st.integers(0, 9)) == 0:
        value[draw(st.integers(0, len(value) - 1))] = draw(st.integers(0, 255))
    return bytes(value)


@given(
    value=documents() | st.binary(max_size=40) | st.builds(json.dumps, VALUES).map(str.encode),
    task=st.sampled_from(sorted(TASKS)),
    unknown=st.sampled_from(["refuse", "ignore"]),
)
@example(value=raw(features='{"age": "x", "age": 1}'), task="named", unknown="refuse")
@example(value=raw(note='"x"').replace(b'"x"', b'"\xff"'), task="named", unknown="refuse")
@example(value=raw(features='{"age": ' + str(10**308 + 1) + "}"), task="named", unknown="refuse")
def test_an_event_or_an_error_and_the_fast_path_agrees_with_the_slow(
    value: bytes, task: str, unknown: Any
) -> None:
    """Nothing else comes out; the fast path accepts if and only if the slow one finds no fault."""
    one = decoder(task, unknown=unknown, max_bytes=20_000)
    rules = Rules(SCHEMA, TASKS[task], unknown == "ignore", 20_000)
    found = [fault.code for fault in faults(value, rules)]
    table, y, w, _, errors, *_ = one.decode([value])
    if found:
        assert [min(found, key=CODES.index)] == [error.code for _, error in errors]
    else:
        assert 1 == len(y)
        assert np.all(np.isnan(table.numbers) | (np.abs(table.numbers) <= LIMIT))
        assert np.all(np.isnan(table.times) | (np.abs(table.times) < 1e12))
        assert np.isfinite(y).all()
        assert np.isfinite(w).all()
        assert (w >= 0).all()
