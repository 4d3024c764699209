"""The OpenAPI document and the pages: what they say is so, and they work offline."""

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import fastapi.openapi.models
import msgspec
import pytest

from kaboost.service.config.settings import Settings
from kaboost.service.http.predict import BatchPredictResponse, PredictResponse
from tests.service.serving import Program, publish, taught

Start = Callable[..., tuple[Settings, Program]]

TASKS: dict[str, dict[str, Any]] = {
    "booleans": {"kind": "binary", "labels": [False, True]},
    "words": {"kind": "multiclass", "labels": ["good", "bad", "ugly"]},
    "regression": {"kind": "regression"},
}
DOCUMENTED = {200, 400, 408, 413, 415, 422, 503}
SCHEMAS = {
    *("PredictRequest", "BatchPredictRequest", "Row", "Features"),
    *("PredictRecordRequest", "RecordRow"),
    *("PredictResponse", "BatchPredictResponse", "Problem", "ModelReport"),
}


@pytest.mark.parametrize("task", TASKS.values(), ids=TASKS)
def test_examples_of_the_document_hold(serve: Start, task: dict[str, Any]) -> None:
    """Every example request of the document is answered, every example answer has its form."""
    wanted, program = serve(task=task)
    publish(wanted, taught(wanted))
    program.ready()
    document = program.client.get("/openapi.json").json()
    route = document["paths"]["/predict"]["post"]
    body = route["requestBody"]["content"]["application/json"]
    examples = route["responses"]["200"]["content"]["application/json"]["examples"]

    fastapi.openapi.models.OpenAPI.model_validate(document)
    assert {str(status) for status in DOCUMENTED} == set(route["responses"])
    for name, example in body["examples"].items():
        answer = program.client.post("/predict", json=example["value"])
        form = BatchPredictResponse if "instances" in example["value"] else PredictResponse
        fields = set(msgspec.to_builtins(msgspec.json.decode(answer.content, type=form)))
        assert 200 == answer.status_code, (name, answer.text)
        assert fields == set(answer.json())
    assert msgspec.convert(examples["one row"]["value"], PredictResponse).prediction in (
        wanted.task.labels or [0, 1, 1.58]
    )
    msgspec.convert(examples["many rows"]["value"], BatchPredictResponse)


def test_references_of_the_document_lead_somewhere(api: Program) -> None:
    """Every schema that is referred to is there."""
    document = api.client.get("/openapi.json").json()
    text = json.dumps(document)
    named = {part.split('"')[0] for part in text.split("#/components/schemas/")[1:]}

    assert SCHEMAS <= named
    assert named <= set(document["components"]["schemas"])


def test_descriptions_are_plain_text_and_bodies_are_described(api: Program) -> None:
    """The page shows backticks as they are; every route that takes a body has an example."""
    document = api.client.get("/openapi.json").json()
    texts = [text for _, text in described(document)]

    assert texts
    assert not [text for text in texts if "`" in text]
    for path in ("/predict", "/events", "/labels"):
        body = document["paths"][path]["post"]["requestBody"]["content"]["application/json"]
        assert all(example["value"] for example in body["examples"].values())


def described(node: Any) -> Iterator[tuple[str, str]]:
    """List all descriptions below a node."""
    if isinstance(node, dict):
        for key, value in node.items():
            if key in ("description", "summary") and isinstance(value, str):
                yield key, value
            yield from described(value)
    elif isinstance(node, list):
        for value in node:
            yield from described(value)


@pytest.mark.parametrize("path", ["/", "/docs"])
def test_pages_work_offline(api: Program, path: str) -> None:
    """The pages come as HTML and load nothing from anywhere else."""
    answer = api.client.get(path)

    assert answer.headers["content-type"].startswith("text/html")
    assert "://" not in answer.text.replace("http://www.w3.org", "")
    assert all(path.startswith("web/") for path in re.findall(r'src="([^"]*)"', answer.text))
