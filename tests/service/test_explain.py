"""Explanations over HTTP: requests, sums of contributions, refusals."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from kaboost.service.config.settings import Settings
from tests.service.learning import until
from tests.service.serving import ROW, Program, post, publish, refusal, row, snapshot, taught

Start = Callable[..., tuple[Settings, Program]]
SMALL = {"trees": 6, "leaves": 8, "depth": 4, "least_rows": 200, "least_h": 1.0, "lam": 1.0}
BANK = {"kind": "reboosted_trees", "structures": [SMALL] * 4}
TASKS: dict[str, dict[str, Any]] = {
    "binary": {"kind": "binary"},
    "regression": {"kind": "regression"},
}
WORDS = {"kind": "multiclass", "labels": ["good", "bad", "ugly"]}


def whole(response: dict[str, Any]) -> float:
    """Add up an explanation as the page says."""
    parts = [*response["contributions"].values(), *response["label_lags"].values()]
    return float(sum([response["base"], *parts]))


def published(wanted: Settings, program: Program, events: int) -> dict[str, Any]:
    """Ask for the importance once a snapshot of so many events is served."""
    version = publish(wanted, taught(wanted, events=events))
    until(lambda: (program.probe(200) or {}).get("version") == version)
    return dict(program.client.get("/model/importance").json())


@pytest.mark.parametrize("task", TASKS.values(), ids=TASKS)
def test_explanations_add_up(serve: Start, task: dict[str, Any]) -> None:
    """With `explain` an answer is the one without it, and its parts come to its score."""
    wanted, program = serve(task=task, model={"bank": BANK})
    publish(wanted, taught(wanted, events=600))
    program.ready()
    draw = np.random.default_rng(2)
    rows = [row(wanted, draw) for _ in range(10)]
    many = program.client.post("/predict", json={"instances": rows, "explain": True}).json()
    found = snapshot(program, many["model"]["version"]).explain_many(rows)

    for each, response, reason in zip(rows, many["predictions"], found, strict=True):
        body = {"features": each, "explain": True}
        one = program.client.post("/predict", json=body).json()
        assert response == {name: one[name] for name in one if name not in ("model", "warnings")}
        assert response["explanation"] == reason._asdict()
        assert response["score"] == response["explanation"]["score"]
        assert whole(response["explanation"]) == pytest.approx(response["score"], rel=0.0, abs=1e-9)
        assert set(wanted.features.columns) == set(response["explanation"]["contributions"])
        assert {"country"} == set(response["explanation"]["recent_label_parts"])
        plain = program.predict(each)
        assert plain == {name: one[name] for name in one if name != "explanation"}


def test_every_class_is_explained(serve: Start) -> None:
    """Of several classes each has its reasons, the predicted one's stand by themselves as well."""
    wanted, program = serve(task=WORDS, model={"bank": BANK, "multiclass": "one_vs_rest"})
    model, draw = taught(wanted, events=0), np.random.default_rng(2)
    rows = [row(wanted, draw) for _ in range(600)]
    model.learn_many(rows, [WORDS["labels"][1 + int(np.sign(x.get("age", 0)))] for x in rows])
    publish(wanted, model)
    program.ready()
    many = program.client.post("/predict", json={"instances": rows[:30], "explain": True}).json()

    assert 1 < len({response["prediction"] for response in many["predictions"]})
    for response in many["predictions"]:
        assert WORDS["labels"] == list(response["explanations"])
        assert response["explanation"] == response["explanations"][response["prediction"]]
        assert response["score"] == response["explanation"]["score"]
        for each in response["explanations"].values():
            assert whole(each) == pytest.approx(each["score"], rel=0.0, abs=1e-9)


def test_importance_is_the_models(serve: Start) -> None:
    """It is that of the newest snapshot: shares in falling order, label lags named as such."""
    wanted, program = serve(model={"bank": BANK})
    until(lambda: program.probe(503))
    assert 503 == refusal(program.client.get("/model/importance")).status
    for events in (0, 600):
        response = published(wanted, program, events)
        shares = [one["share"] for one in response["importance"]]

        assert events == response["events_learned"]
        assert [one._asdict() for one in snapshot(program, response["version"]).importance()] == (
            response["importance"]
        )
        assert pytest.approx(float(events > 0)) == sum(shares)
        assert sorted(shares, reverse=True) == shares
    kinds = {one["name"]: one["kind"] for one in response["importance"]}

    assert "feature" == kinds["country"]
    assert "label lag" == kinds["label lag 0.01"]


def test_other_banks_say_which_to_take(api: Program) -> None:
    """A bank that cannot say why refuses, and names the remedy; without `explain` it answers."""
    asked = refusal(api.client.post("/predict", json={"features": ROW, "explain": True}))
    whole = refusal(api.client.get("/model/importance"))

    assert (422, "#/explain") == (asked.status, asked.errors[0].pointer)
    assert (422, "/model/importance") == (whole.status, whole.instance)
    for response in (asked, whole):
        assert "reboosted_trees" in response.detail
    assert 200 == api.client.post("/predict", json={"features": ROW, "explain": False}).status_code


@pytest.mark.parametrize("wanted", ["1", '"yes"', "null"])
def test_explain_is_true_or_false(api: Program, wanted: str) -> None:
    """Anything else is refused with its place, beside all other faults."""
    alone = b'{"instances": [], "explain": %s}' % wanted.encode()
    beside = b'{"instances": [{"age": "x"}], "explain": %s}' % wanted.encode()

    for body, pointers in ((alone, []), (beside, ["#/instances/0/age"])):
        response = refusal(post(api, body))
        assert ["#/explain", *pointers] == [fault.pointer for fault in response.errors]


def test_the_document_knows_them(api: Program) -> None:
    """OpenAPI tells of `explain`, of what it adds, and of the importance."""
    document = api.client.get("/openapi.json").json()
    schemas = document["components"]["schemas"]

    assert "boolean" == schemas["PredictRequest"]["properties"]["explain"]["type"]
    assert "boolean" == schemas["BatchPredictRequest"]["properties"]["explain"]["type"]
    assert "explain" not in schemas["Row"]["properties"]
    assert {"explanation", "explanations"} <= set(schemas["PredictResponse"]["properties"])
    assert {"base", "label_lags"} <= set(schemas["Explanation"]["properties"])
    assert {"200", "422", "503"} <= set(document["paths"]["/model/importance"]["get"]["responses"])
