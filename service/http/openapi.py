"""The OpenAPI document; `/predict` is described from the very types that decode it."""

from collections.abc import Callable
from typing import Any

import msgspec
from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from kaboost.models.features.labels import Labels, labels
from kaboost.models.features.schema import Schema, parse_schema
from kaboost.service.config.settings import Settings
from kaboost.service.events.decoder import Decoder
from kaboost.service.http.follower import Served
from kaboost.service.http.predict import (
    LEAST,
    MOST,
    Answer,
    Answers,
    Door,
    Interval,
    Prediction,
    Stamp,
)
from kaboost.service.http.problems import MEDIA_TYPE, Problem

REF = "#/components/schemas/"
INTERVAL = {
    "type": ["number", "null"],
    "minimum": LEAST,
    "maximum": MOST,
    "description": "Ask for intervals that hold this share of labels.",
}
EXAMPLES: dict[str, Any] = {
    "number": 1.5,
    "boolean": True,
    "category": "a",
    "datetime": "2026-11-20T10:00:00+01:00",
    "text": "a few words",
}
REFUSALS = {
    400: "The body is not JSON.",
    408: "The body took too long to arrive.",
    413: "The body is too large, or has too many rows.",
    415: "The body is not application/json in UTF-8.",
    422: "The body does not fit: every fault is listed with its JSON pointer.",
    503: "There is no snapshot to answer from yet.",
}
EXPLAIN = "Whether answers say why; of the bank reboosted_trees only."
TEXT: dict[int | str, dict[str, Any]] = {
    200: {"description": "Prometheus' text format.", "content": {"text/plain": {}}}
}


def refusal(status: int) -> dict[str, Any]:
    """Describe one problem answer."""
    return {
        "description": REFUSALS[status],
        "content": {MEDIA_TYPE: {"schema": {"$ref": f"{REF}Problem"}}},
    }


NOT_READY: dict[int | str, dict[str, Any]] = {503: refusal(503)}
NO_IMPORTANCE = NOT_READY | {
    422: refusal(422) | {"description": "The bank that answers has no trees to ask."}
}


def install(app: FastAPI, settings: Settings, current: Callable[[], Served | None]) -> None:
    """Serve this document instead of the framework's own; its features are those of the model that
    answers, `current`, of which some may have been inferred.
    """
    configured = parse_schema(settings.features.columns)
    described: dict[str, Schema] = {}

    def document() -> dict[str, Any]:
        served = current()
        told = served.snapshot.model.encoder.schema if served else configured
        if app.openapi_schema is None or described["of"] != told:
            described["of"], app.openapi_schema = told, describe(app, settings, told)
        return app.openapi_schema

    app.openapi = document  # type: ignore[method-assign]


def describe(app: FastAPI, settings: Settings, told: Schema) -> dict[str, Any]:
    """Write the whole document for these features and the configured labels."""
    document = get_openapi(
        title=app.title,
        version=app.version,
        summary="Predictions from a booster that learns from Kafka while it answers",
        routes=app.routes,
    )
    known = labels(settings.task.kind, settings.task.labels)
    decoder = Decoder(told, known, settings.features.unknown)
    schemas = components(Door(decoder, known, settings.api.max_rows), settings)
    document["components"] = {"schemas": schemas | document["components"]["schemas"]}
    document["paths"] = {"/predict": {"post": predict(settings, told, known)}} | document["paths"]
    return document


def components(door: Door, settings: Settings) -> dict[str, Any]:
    """Make the schemas of the types that decode requests and encode answers."""
    _, schemas = msgspec.json.schema_components(
        [door.Row, Answer, Answers, Problem], ref_template=REF + "{name}"
    )
    for told in schemas["Features"]["properties"].values():
        told["default"] = None  # what decodes an absent number says nan, which JSON does not know
    rows = {"anyOf": [{"$ref": f"{REF}Row"}, {"$ref": f"{REF}Features"}]}
    instances = {"type": "array", "items": rows, "maxItems": settings.api.max_rows}
    explain = {"type": "boolean", "default": False, "description": EXPLAIN}
    schemas["Rows"] = {
        "title": "Rows",
        "type": "object",
        "properties": {"instances": instances, "explain": explain},
        "required": ["instances"],
    }
    asked = {"explain": explain}
    if settings.task.kind == "regression":
        asked["interval"] = schemas["Rows"]["properties"]["interval"] = INTERVAL
    row = {"$ref": f"{REF}Row"}
    schemas["Asked"] = {"title": "Asked", "allOf": [row], "properties": asked}
    return schemas


def predict(settings: Settings, told: Schema, known: Labels) -> dict[str, Any]:
    """Describe `POST /predict`."""
    body = {"anyOf": [{"$ref": f"{REF}Asked"}, {"$ref": f"{REF}Rows"}]}
    answer = {"anyOf": [{"$ref": f"{REF}Answer"}, {"$ref": f"{REF}Answers"}]}
    refusals = {str(status): refusal(status) for status in REFUSALS}
    return {
        "summary": "Predict",
        "operationId": "predict",
        "description": "Answer one row (`features`) or many (`instances`) from one snapshot.",
        "requestBody": {"required": True, "content": _json(body, requests(settings, told))},
        "responses": {
            "200": {"description": "The predictions.", "content": _json(answer, answers(known))},
            **refusals,
        },
    }


def requests(settings: Settings, told: Schema) -> dict[str, Any]:
    """Make example bodies that fit the features."""
    row = {name: EXAMPLES[kind] for name, kind in told.kinds.items()}
    missing = dict.fromkeys(row)
    made: dict[str, Any] = {
        "one row": {"features": row, "id": "a1"},
        "many rows": {"instances": [row, {}]},
        "many rows with ids": {"instances": [{"features": row, "id": "a1"}, {"features": missing}]},
    }
    if settings.task.kind == "regression":
        made["one row and its interval"] = {"features": row, "interval": 0.9}
    return made


def answers(known: Labels) -> dict[str, Any]:
    """Make example answers as the task words them."""
    stamp = Stamp("kaboost", 412, 45_312, "2026-11-20T10:00:00Z", cold_start=False, stale=False)
    said: dict[str, Any] = {"prediction": 1.58, "score": 1.58}
    if not known.classes:
        said["interval"] = Interval(0.9, 0.71, 2.64)
    if known.classes:
        rest = 0.17 / (len(known.classes) - 1)
        shares = dict.fromkeys(map(known.text, known.classes), rest)
        shares[known.text(known.classes[-1])] = 0.83
        said |= {"prediction": known.classes[-1], "probability": 0.83, "probabilities": shares}
    return {
        "one row": msgspec.to_builtins(Answer(**said, id="a1", model=stamp)),
        "many rows": msgspec.to_builtins(Answers([Prediction(**said)] * 2, stamp)),
    }


def _json(schema: dict[str, Any], examples: dict[str, Any]) -> dict[str, Any]:
    named = {name: {"value": value} for name, value in examples.items()}
    return {"application/json": {"schema": schema, "examples": named}}
