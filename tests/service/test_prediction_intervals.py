"""Prediction intervals over HTTP: asked for, refused, and told of."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from kaboost.models.evaluation.intervals import LEVELS, WARMUP_EVENTS
from kaboost.service.config.settings import Settings
from tests.service.serving import (
    ROW,
    Program,
    post,
    publish,
    refusal,
    row,
    running,
    settings,
    snapshot,
    taught,
)

Start = Callable[..., tuple[Settings, Program]]
NUMBERS = {"kind": "regression"}
REQUESTS = ("PredictRequest", "BatchPredictRequest")
RANGE = "where a level from 0.5 to 0.99 belongs, such as 0.9"
REFUSED = {
    "too low": ("0.3", f"0.3 {RANGE}"),
    "one": ("1", f"1 {RANGE}"),
    "percent": ("90", f"90 {RANGE}"),
    "a string": ('"0.9"', f'"0.9" {RANGE}'),
    "a boolean": ("true", f"true {RANGE}"),
    "an object": ("{}", f"an object {RANGE}"),
    "beyond floats": ("1e999", f"1e999 {RANGE}"),
}


@pytest.fixture(scope="module")
def numbers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Settings, Program]]:
    """An API over a regression that has learned 200 events; nobody changes it."""
    wanted = settings(tmp_path_factory.mktemp("numbers"), task=NUMBERS)
    publish(wanted, taught(wanted, events=200))
    with running("api", wanted) as program:
        program.ready()
        yield wanted, program


def asked(program: Program, **body: Any) -> dict[str, Any]:
    """Ask, and have an answer."""
    answer = post(program, json.dumps(body).encode())
    assert 200 == answer.status_code, answer.text
    return dict(answer.json())


@pytest.mark.parametrize("level", [0.5, 0.77, 0.9, 0.99])
def test_intervals_are_the_snapshots(numbers: tuple[Settings, Program], level: float) -> None:
    """One row as many, to the last bit what the snapshot's file says."""
    wanted, program = numbers
    draw = np.random.default_rng(5)
    rows = [row(wanted, draw) for _ in range(5)]
    many = asked(program, instances=rows, interval=level)
    model = snapshot(program, many["model"]["version"])
    ends = model.predict_interval_many(rows, level).tolist()

    assert [{"level": level, "low": low, "high": high} for low, high in ends] == [
        served["interval"] for served in many["predictions"]
    ]
    for features, served in zip(rows, many["predictions"], strict=True):
        alone = asked(program, features=features, interval=level)
        assert served["interval"] == alone["interval"]
        assert alone["interval"]["low"] < alone["prediction"] < alone["interval"]["high"]


@pytest.mark.parametrize("body", [{}, {"interval": None}])
def test_nothing_is_added_unasked(numbers: tuple[Settings, Program], body: dict[str, None]) -> None:
    """Absent and null are the same."""
    assert {"prediction", "score", "model"} == asked(numbers[1], features=ROW, **body).keys()


def test_levels_beyond_are_refused(numbers: tuple[Settings, Program]) -> None:
    """With the value, the range and every other fault of the body."""
    _, program = numbers
    for text, detail in REFUSED.values():
        for form in ('"features": {"age": "x"}', '"instances": [{"age": "x"}]'):
            answer = post(program, f'{{{form}, "interval": {text}}}'.encode())
            found = {fault.pointer: fault.detail for fault in refusal(answer).errors}
            assert 422 == answer.status_code
            assert detail == found.pop("#/interval")
            assert 1 == len(found)


def test_classes_are_refused_with_the_reason(api: Program) -> None:
    """Probabilities say it; null asks for nothing."""
    answer = post(api, b'{"features": {}, "interval": 0.9}')
    (fault,) = refusal(answer).errors

    assert (422, "#/interval") == (answer.status_code, fault.pointer)
    assert "only probabilities; leave it out" in fault.detail
    assert "interval" not in asked(api, features={}, interval=None)


def test_nothing_is_known_before_20_events(serve: Start) -> None:
    """No bound is null; of counts the lower one is known."""
    wanted, program = serve(task=NUMBERS, model={"loss": "poisson"})
    publish(wanted, taught(wanted, events=0))
    program.ready()
    served = asked(program, features=ROW, interval=0.9)
    levels = program.client.get("/model").json()["intervals"]

    assert {"level": 0.9, "low": 0.0, "high": None} == served["interval"]
    assert [None] * len(LEVELS) == [each["coverage"] for each in levels]


def test_the_model_tells_what_its_intervals_held(numbers: tuple[Settings, Program]) -> None:
    """GET /model pairs each level with its coverage."""
    _, program = numbers
    found = program.client.get("/model").json()
    model = snapshot(program, found["version"])
    assert model.intervals is not None

    assert WARMUP_EVENTS < model.intervals.events
    assert [
        {"level": level, "coverage": share}
        for level, share in zip(LEVELS, model.intervals.coverage.tolist(), strict=True)
    ] == found["intervals"]


def test_the_document_tells_of_them(numbers: tuple[Settings, Program], api: Program) -> None:
    """Of a regression alone."""
    forms = [
        program.client.get("/openapi.json").json()["components"]["schemas"]
        for program in (numbers[1], api)
    ]

    assert all("interval" in forms[0][name]["properties"] for name in REQUESTS)
    assert not any("interval" in forms[1][name].get("properties", {}) for name in REQUESTS)
