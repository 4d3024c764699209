"""Features that nobody declared: how they come up in records, and what requests may say of them."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from kaboost.models.features.labels import labels
from kaboost.models.model import Model
from kaboost.service.config.settings import Settings
from kaboost.service.events.json import JsonDecoder
from tests.kafka.client import encode
from tests.service.learning import learned, learning, until
from tests.service.serving import Program, publish, refusal
from tests.service.test_remedies import REMEDY

LABELS = labels("binary", ["fine", "fraud"])
# Four structures, as the default model has: the same compiled code.
TREES = {
    "kind": "reboosted_trees",
    "max_memory": 12,
    "structures": [{"trees": 2, "leaves": 8}] * 4,
}
Start = Callable[..., tuple[Settings, Program]]


AUTO = {"age": 31, "country": "PT", "vip": True, "income": None}


def encoded(features: dict[str, Any], **keys: Any) -> bytes:
    return json.dumps({"features": features, "label": "fraud", **keys}).encode()


def test_features_join_by_their_first_values() -> None:
    """It ends before an event that brings features, and goes on once they have joined."""
    one = JsonDecoder("auto", LABELS)
    values = [
        encoded({}),
        encoded({"gone": None}),
        encoded({"x": 1.0}, weight=0),
        b"{",
        encoded(AUTO),
        encoded({"age": "old"}),
        encoded({"age": 1, "nested": [1]}),
        encoded({"age": 1, "huge": 10**309}),
        encoded({"income": 5}),
    ]
    before = one.decode(values)
    assert (len(before.y), [k for k, _ in before.faults], before.consumed) == (3, [3], 4)
    assert before.new_features == {"age": "number", "country": "category", "vip": "boolean"}

    one.add_features(before.new_features)
    first = one.decode(values[4:])
    assert (len(first.y), first.consumed, first.faults) == (1, 1, [])  # "old" may be evidence
    one.follow(one._schema._replace(open=frozenset()))
    after = one.decode(values[4:])
    assert [(k, err.code, str(err).split(":")[0]) for k, err in after.faults] == [
        (1, "feature_type", "age"), (2, "feature_type", "nested"), (3, "not_finite", "huge"),
    ]  # fmt: skip
    logged = ["declare features.schema.age and" in str(err) for _, err in after.faults]
    assert logged == [True, False, False]
    assert (after.new_features, after.consumed) == ({"income": "number"}, 4)
    table = after.table
    assert (table.numbers.tolist(), table.booleans.tolist()) == ([[31.0]], [[1.0]])
    assert list(map(list, table.categories)) == [["PT"]]


def test_a_date_that_becomes_a_category_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    """What it would tell as a datetime is worth a new beginning; other strings are left alone."""
    one = JsonDecoder("auto", LABELS)
    values = [encoded({"when": "2026-11-20T10:00:00", "zip": "1000", "note": "2026-11-20 or so"})]
    one.add_features(one.decode(values).new_features)
    one.decode(values)

    (record,) = caplog.records
    logged = record.__dict__
    assert (logged["feature"], logged["value"]) == ("when", "2026-11-20T10:00:00")
    assert "declare it as datetime" in logged["remedy"]


def test_features_without_room_are_passed_over() -> None:
    """What cannot join is ignored and counted from then on, and holds nothing up."""
    one = JsonDecoder({"age": "number", "*": "auto"}, LABELS)
    values = [encoded({"age": 1, "x": 2}), encoded({"x": 3, "y": 4})]
    assert 0 == one.decode(values).consumed
    one.freeze()
    decoded = one.decode(values)

    assert (2, [], {}) == (len(decoded.y), decoded.faults, decoded.new_features)
    assert (2, 3) == (decoded.consumed, decoded.ignored)


def test_what_joins_is_told_once_a_batch(
    topic: str,
    make_settings: Callable[..., Settings],
    send: Callable[..., None],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Not once an event; and the end of the room once, with its bound and what to do."""
    settings = make_settings(
        topic, features={"schema": "auto", "max_new_per_hour": 1_000}, model={"bank": TREES}
    )
    names = [[f"x{k}.{j}" for j in range(10)] for k in range(40)]
    send(topic, [encode(dict.fromkeys(each, 1.5), k % 2) for k, each in enumerate(names)])
    caplog.set_level("INFO")
    with learning(settings) as running:
        until(lambda: learned(settings) == 40)
        assert 0 == running.stop()
    logged = [vars(one) for one in caplog.records if one.message == "features inferred"]
    ends = [vars(one) for one in caplog.records if one.message.startswith("no room for more")]
    joined = [name for one in logged for name in one["kinds"]]

    assert 1 <= len(logged) < 10
    assert joined == [name for each in names for name in each][: len(joined)]
    assert [(one["first"], one["known"], one["max_memory"]) for one in ends] == [
        (f"x{len(joined) // 10}.{len(joined) % 10}", len(joined), 12)
    ]
    assert "model.bank.max_memory" in ends[0]["remedy"]


REJECTED = {
    "label": encoded({"z": "v"}, label="other"),
    "schema": b'{"features": [], "label": "fraud"}',
    "weight": encoded({"z": "v"}, weight=-1),
    "feature_unknown": encoded({"n" * 201: 1, "z": "v"}),
    "feature_type": b'{"features": {"z": 1, "z": "v"}, "label": "fraud"}',
    "not_finite": b'{"features": {"z": 1e400}, "label": "fraud"}',
}
OTHERS = [
    ("feature_unknown", encoded({"": 1})),
    ("feature_unknown", encoded({"n" * 201: 1})),
    ("feature_unknown", encoded({"*": [1]})),
    ("not_finite", b'{"features": {"z": ' + b"9" * 5000 + b'}, "label": "fraud"}'),
    ("label", encoded({"z": [1]}, label="other")),
    ("feature_type", encoded({"z": {"deep": 1}})),
]


@pytest.mark.parametrize(("code", "value"), [*REJECTED.items(), *OTHERS])
def test_a_rejected_event_says_nothing_of_kinds(code: str, value: bytes) -> None:
    """Its features do not join, whatever is wrong with it; a sound one after it decides."""
    one = JsonDecoder("auto", LABELS)
    decoded = one.decode([value, encoded({"z": 3.0})])

    assert [(0, code)] == [(k, err.code) for k, err in decoded.faults]
    assert REMEDY.search(decoded.faults[0][1].message)
    assert ([], {"z": "number"}) == (decoded.meta, decoded.new_features)


def test_answers_pass_over_what_was_never_learned(serve: Start) -> None:
    """The prior answers anything; a later snapshot knows what was learned, and says what it took
    it for.
    """
    wanted, program = serve(features={"schema": "auto"}, model={"bank": TREES})
    model = Model("binary", wanted.model, wanted.features.columns)
    publish(wanted, model)
    program.ready()
    prior = program.predict({"age": 31, "new": [1]})
    assert program.client.get("/model").json()["features"] == {}

    rows = [{"age": k % 40, "country": "PT"} for k in range(220)]
    model.learn_many(rows, [k % 2 for k in range(220)])
    version = publish(wanted, model)
    until(lambda: program.predict({})["model"]["version"] == version)
    known = {"age": 31, "country": "PT"}
    shown = program.client.get("/model").json()
    answer = program.predict(known | {"new": [1]})
    document = program.client.get("/openapi.json").json()
    body = document["paths"]["/predict"]["post"]["requestBody"]["content"]["application/json"]

    assert prior["probability"] == 0.5
    assert shown["features"] == {"age": "number", "country": "category"}
    assert shown["inferred"] == ["age", "country"]
    assert body["examples"]["one row"]["value"]["features"] == {"age": 1.5, "country": "a"}
    assert set(document["components"]["schemas"]["Features"]["properties"]) == {"age", "country"}
    assert answer["probability"] == model.predict_proba_one(known)[1]
    assert program.metric("kaboost_predict_features_ignored_total") == 3
    logged = refusal(program.client.post("/predict", json={"features": {"age": "old"}}))
    assert "#/features/age" in str(logged)
