"""Warnings of predictions: what a request lacks or misspells is named, and costs nothing else."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from kaboost.models.features.labels import labels
from kaboost.models.model import Model
from kaboost.service.config.settings import Settings
from kaboost.service.errors import RequestError
from kaboost.service.events.json import JsonDecoder
from kaboost.service.http.predict import BODY_KEYS, PredictCodec, Stamp
from tests.service.serving import ROW, SCHEMA, Program, publish, taught
from tests.specs import LINEAR

STAMP = Stamp("kaboost", 1, 0, "2026-11-20T10:00:00Z", cold_start=True, stale=False)
Start = Callable[..., tuple[Settings, Program]]


def predict(body: Any, schema: Any = SCHEMA, unknown: Any = "refuse") -> dict[str, Any]:
    """Predict by a model that has learned nothing."""
    task = labels("binary")
    decoder = JsonDecoder(schema, task, unknown)
    codec = PredictCodec(decoder, task, 100, ignore_keys=unknown == "ignore")
    rows = codec.read(json.dumps(body).encode())
    answer: dict[str, Any] = json.loads(
        codec.respond(rows, Model("binary", LINEAR, schema), STAMP).body
    )
    return answer


def faults(body: Any, unknown: Any = "refuse") -> list[tuple[str, str]]:
    """Return the faults of a request that is refused."""
    with pytest.raises(RequestError) as refused:
        predict(body, unknown=unknown)
    return refused.value.errors


def test_a_whole_row_has_no_warnings() -> None:
    """The key is absent then."""
    assert "warnings" not in predict({"features": ROW})
    assert "warnings" not in predict({"instances": [ROW, ROW]})
    assert "warnings" not in predict({"instances": []})


@pytest.mark.parametrize("lacking", SCHEMA)
@pytest.mark.parametrize("null", [False, True])
def test_a_missing_feature_is_named(lacking: str, null: bool) -> None:
    """Of every kind, absent or null."""
    row = {name: value for name, value in ROW.items() if name != lacking}
    row |= {lacking: None} if null else {}
    expected = [f"missing, of 4 features: {lacking}"]

    assert expected == predict({"features": row})["warnings"]
    assert expected == predict({"instances": [row, row]})["warnings"]
    assert "warnings" not in predict({"instances": [row, ROW]})  # one row has it


def test_many_missing_features_are_counted() -> None:
    """The first five are named, in one warning."""
    schema = {f"x{k}": "number" for k in range(200)}
    expected = ["missing, of 200 features: x0, x2, x3, x4, x5 and 194 more"]

    assert expected == predict({"features": {"x1": 1.0}}, schema)["warnings"]
    assert expected == predict({"instances": [{"x1": 1.0}, {"x1": 2}]}, schema)["warnings"]


def test_an_ignored_feature_is_named_with_the_one_that_was_meant() -> None:
    """With `features.unknown: ignore`."""
    row = {**ROW, "contry": "PT", "zzz": 1}
    expected = [
        '"contry" is not a feature; did you mean country?',
        '"zzz" is not a feature; it was ignored',
    ]

    assert expected == predict({"features": row}, unknown="ignore")["warnings"]
    assert expected == predict({"instances": [row, row]}, unknown="ignore")["warnings"]

    many = {**ROW, **{f"zzz{k}": 1 for k in range(9)}}
    found = predict({"features": many}, unknown="ignore")["warnings"]
    assert (6, "... and 4 more were ignored") == (len(found), found[-1])


def test_an_unknown_key_is_refused_with_the_nearest_one() -> None:
    """A misspelled option would have no effect, and nobody would see it."""
    meant = "did you mean interval? Else leave it out, or set features.unknown: ignore"
    detail = f'"intervall" is not a key of a request; {meant}'
    row = {"features": ROW, "ident/ity": 1}

    assert [("#/intervall", detail)] == faults({"features": ROW, "intervall": 0.9})
    assert [("#/intervall", detail)] == faults({"instances": [ROW], "intervall": 0.9})
    ((pointer, detail),) = faults({"instances": [ROW, row]})
    assert "#/instances/1/ident~1ity" == pointer
    assert detail.startswith('"ident/ity" is not a key of a request; leave it out')


def test_an_unknown_key_is_a_warning_where_unknown_features_are() -> None:
    """With `features.unknown: ignore`, in the body and in a row."""
    expected = ['"intervall" is not a key of a request; did you mean interval?']
    bodies = (
        {"features": ROW, "intervall": 0.9},
        {"instances": [ROW], "intervall": 0.9},
        {"instances": [ROW, {"features": ROW, "intervall": 0.9}]},
    )

    for body in bodies:
        assert expected == predict(body, unknown="ignore")["warnings"]


def test_an_event_can_be_sent_as_it_is() -> None:
    """Its other keys are known, and not read."""
    event = {"features": ROW, "id": "a1", "label": [1], "timestamp": "?", "weight": -1}

    assert "warnings" not in predict(event)
    assert "warnings" not in predict({"instances": [event]})
    assert {"label", "timestamp", "weight"} < set(BODY_KEYS)


def test_the_service_warns(serve: Start) -> None:
    """Features are inferred: an unknown one is ignored, and a misspelled key is refused."""
    wanted, program = serve(features={"schema": SCHEMA | {"*": "auto"}}, model={})
    publish(wanted, taught(wanted, events=0))
    program.ready()
    row = {name: value for name, value in ROW.items() if name != "country"}
    answer = program.predict(row | {"contry": "PT"})
    refused = program.client.post("/predict", json={"features": ROW, "explian": True})

    assert answer["warnings"] == [
        '"contry" is not a feature; did you mean country?',
        "missing, of 4 features: country",
    ]
    assert 422 == refused.status_code
    assert "#/explian" == refused.json()["errors"][0]["pointer"]
