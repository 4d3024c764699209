"""Datetimes and texts over HTTP, in its document and in GET /model."""

from collections.abc import Callable
from typing import Any

import pytest

from kaboost.service.config.settings import Settings
from tests.service.serving import Program, publish, refusal, taught

Start = Callable[..., tuple[Settings, Program]]
SCHEMA = {"when": "datetime", "note": "text", "age": "number"}
BANKS: list[Any] = [
    None,
    {"bank": {"kind": "reboosted_trees", "max_memory": 16, "structures": [{"trees": 2}] * 4}},
]


@pytest.mark.parametrize("model", BANKS, ids=["linear", "trees"])
def test_both_kinds_are_served(serve: Start, model: Any) -> None:
    """Answers, refusals with their pointers, the document's examples, and the kinds."""
    wanted, program = serve(features={"schema": SCHEMA}, model=model or {})
    twin = taught(wanted)
    publish(wanted, twin)
    program.ready()
    row = {"when": "2026-11-20T10:00:00.5+01:00", "note": "a few words, few", "age": 31}
    served = program.predict(row)["probability"]

    assert twin.predict_proba_one(row)[1] == served
    assert (
        twin.predict_proba_one({})[1]
        == program.predict({"when": None, "note": None})["probability"]
    )
    same = [{"when": "2026-11-20"}, {"when": "2026-11-20T00:00:00-07:00"}]
    found = program.client.post("/predict", json={"instances": same}).json()["predictions"]
    assert found[0] == found[1]
    bad = [row | {"when": "tomorrow"}, {"features": {"note": 5, "when": [1763632800]}}]
    faults = refusal(program.client.post("/predict", json={"instances": bad})).errors
    assert ["#/instances/0/when", "#/instances/1/features/note", "#/instances/1/features/when"] == [
        fault.pointer for fault in faults
    ]
    assert faults[0].detail.startswith('"tomorrow" where a date and time such as "2026-')
    assert SCHEMA == program.client.get("/model").json()["features"]
    examples = program.client.get("/openapi.json").json()["paths"]["/predict"]["post"][
        "requestBody"
    ]["content"]["application/json"]["examples"]
    for example in examples.values():
        assert 200 == program.client.post("/predict", json=example["value"]).status_code
