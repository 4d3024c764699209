"""Features with quotes, backslashes, control characters and any script in their names."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kaboost.models.model import Model
from kaboost.service.config.settings import Settings
from kaboost.service.events.decoders import make_decoder
from kaboost.service.events.json import JsonDecoder
from tests.boosters import array_bytes
from tests.kafka.client import encode
from tests.models.test_schema import SPEC
from tests.service.learning import settings_for
from tests.service.serving import Program, publish, refusal
from tests.service.test_first_records import served
from tests.service.test_inference import TREES

Start = Callable[..., tuple[Settings, Program]]
NAMES = ['a"b', "back\\slash", "new\nline", "tab\t", "\x00", "Größe", "日本", "a.b/c~d", "'", "{}"]


def rows(names: list[str]) -> tuple[list[dict[str, Any]], list[int]]:
    found = [{name: float((k * (j + 1)) % 7) for j, name in enumerate(names)} for k in range(60)]
    return found, [int(row[names[0]] > 3) for row in found]


@pytest.mark.parametrize("mapped", [False, True])
def test_records_with_any_names(mapped: bool, tmp_path: Path) -> None:
    """Declared or inferred; the bytes are those of the library, and a file keeps the names."""
    x, y = rows(NAMES)
    events = {"events": {"features": "features", "label": "label"}} if mapped else {}
    one = settings_for(
        "h:1", tmp_path, "t", features={"schema": "auto"}, model={"bank": TREES}, **events
    )
    model, library = Model("binary", SPEC), Model("binary", SPEC)
    library.learn_many(x, y)
    decoder = make_decoder(model.encoder.schema, model.labels, one)
    records = [encode(*each) for each in zip(x, y, strict=True)]

    assert [] == served(model, decoder, records, 17)
    assert array_bytes(model.to_arrays()) == array_bytes(library.to_arrays())
    library.save(tmp_path / "model")
    assert dict.fromkeys(NAMES, "number") == Model.load(tmp_path / "model").kinds
    assert set(NAMES) == library.explain_one(x[0]).contributions.keys()


@settings(max_examples=50, deadline=None)
@given(st.lists(st.text(min_size=1, max_size=30), min_size=1, max_size=5, unique=True))
def test_any_text_is_a_name(names: list[str]) -> None:
    """Every value comes to its own column."""
    names = [name for name in names if name != "*"] or ["x"]
    schema = dict.fromkeys(names, "number")
    labels = Model("binary", {"bank": "linear"}, schema).labels
    event = {name: float(j) for j, name in enumerate(names)}
    decoded = JsonDecoder(schema, labels).decode([encode(event, 1), encode({"other one": 1}, 1)])

    assert [[float(j) for j in range(len(names))]] == decoded.table.numbers.tolist()
    assert [1] == [place for place, _ in decoded.faults]


def test_requests_with_any_names(serve: Start) -> None:
    """Predictions, faults by their pointers, warnings, and the document."""
    schema = dict.fromkeys(NAMES, "number")
    wanted, program = serve(features={"schema": schema}, model={"bank": TREES})
    model = Model("binary", wanted.model, schema)
    x, y = rows(NAMES)
    model.learn_many(x, y)
    publish(wanted, model)
    program.ready()

    assert model.predict_proba_one(x[5])[1] == program.predict(x[5])["probability"]
    many = program.client.post("/predict", json={"instances": [x[1], {"features": x[2]}]}).json()
    assert [model.predict_proba_one(row)[1] for row in x[1:3]] == [
        one["probability"] for one in many["predictions"]
    ]
    some = program.predict({NAMES[0]: "N/A", NAMES[1]: 2.0})
    assert model.predict_proba_one({NAMES[1]: 2.0})[1] == some["probability"]
    assert 'a"b' in json.dumps(some["warnings"], ensure_ascii=False).replace('\\"', '"')
    fault = refusal(program.client.post("/predict", json={"features": {'a"b': "x", "c\\": 1}}))
    assert {'#/features/a"b', "#/features/c\\"} == {each.pointer for each in fault.errors}
    document = program.client.get("/openapi.json").json()
    assert set(NAMES) == set(document["components"]["schemas"]["Features"]["properties"])
    assert set(NAMES) == set(program.client.get("/model").json()["features"])
    shares = program.client.get("/model/importance").json()
    assert set(NAMES) <= {one["name"] for one in shares["importance"]}
