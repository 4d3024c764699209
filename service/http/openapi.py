"""The OpenAPI document; `/predict` is described from the types that decode and encode it."""

from collections.abc import Callable
from typing import Any

import msgspec
from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from kaboost.models.features.labels import Labels
from kaboost.models.features.schema import Schema, parse_schema
from kaboost.service.config.settings import Settings
from kaboost.service.events.flat import feature_path
from kaboost.service.events.json import JsonDecoder
from kaboost.service.events.mapping import Path, parse_path, paths_of
from kaboost.service.http.follower import Served
from kaboost.service.http.middleware import PREDICT
from kaboost.service.http.predict import (
    EVENT_KEYS,
    MAX_LEVEL,
    MIN_LEVEL,
    BatchPredictResponse,
    Interval,
    PredictCodec,
    Prediction,
    PredictResponse,
    Stamp,
)
from kaboost.service.http.problems import MEDIA_TYPE, Problem

REF = "#/components/schemas/"
INTERVAL = {
    "type": ["number", "null"],
    "minimum": MIN_LEVEL,
    "maximum": MAX_LEVEL,
    "description": "Request prediction intervals of this level, the share of labels inside.",
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
    503: "There is no snapshot to serve yet.",
}
MOMENT = "2026-11-20T10:00:00+01:00"
RECORD = "The record as it is on the topic of events; its label may be absent."
EXPLAIN = "Request explanations; only with bank reboosted_trees."
TEXT: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "Prometheus' text format.",
        "content": {"text/plain": {}, "application/openmetrics-text": {}},
    }
}


def refusal(status: int) -> dict[str, Any]:
    """Describe one problem response."""
    return {
        "description": REFUSALS[status],
        "content": {MEDIA_TYPE: {"schema": {"$ref": f"{REF}Problem"}}},
    }


STREAM: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "Events `status`, whose data is the report of `GET /status`.",
        "content": {"text/event-stream": {}},
    },
    503: refusal(503),
}

NOT_READY: dict[int | str, dict[str, Any]] = {503: refusal(503)}
INGEST = {status: refusal(status) for status in REFUSALS}
NO_IMPORTANCE = NOT_READY | {422: refusal(422) | {"description": "The served bank has no trees."}}


def install(app: FastAPI, settings: Settings, current: Callable[[], Served | None]) -> None:
    """Replace the framework's document; its features and labels are those of the served model,
    `current`, some of which may have been inferred or learned.
    """
    configured = parse_schema(settings.features.columns), settings.task.known_labels
    described: list[tuple[Schema, Labels]] = []

    def document() -> dict[str, Any]:
        served = current()
        model = served.snapshot.model if served else None
        of_model = configured if model is None else (model.encoder.schema, model.labels)
        if app.openapi_schema is None or described != [of_model]:
            described[:] = [of_model]
            app.openapi_schema = describe(app, settings, *of_model)
        return app.openapi_schema

    app.openapi = document  # type: ignore[method-assign]


def describe(app: FastAPI, settings: Settings, schema: Schema, classes: Labels) -> dict[str, Any]:
    """Build the document for these features and labels."""
    document = get_openapi(
        title=app.title,
        version=app.version,
        summary="Predictions from a boosted model that learns from Kafka while it serves",
        routes=app.routes,
    )
    decoder = JsonDecoder(schema, classes, settings.features.unknown)
    schemas = components(PredictCodec(decoder, classes, settings.api.max_rows), settings)
    document["components"] = {"schemas": schemas | document["components"]["schemas"]}
    document["paths"] = {PREDICT: {"post": predict(settings, schema, classes)}} | document["paths"]
    describe_ingest(document["paths"], settings, schema, classes)
    if settings.api.auth.is_on:
        document["components"]["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
        document["security"] = [{"key": []}]
    _drop_backticks(document)
    return document


def components(codec: PredictCodec, settings: Settings) -> dict[str, Any]:
    """Make the schemas of the types that decode requests and encode responses."""
    _, schemas = msgspec.json.schema_components(
        [codec.Row, PredictResponse, BatchPredictResponse, Problem], ref_template=REF + "{name}"
    )
    properties = schemas["Features"]["properties"]
    names = {field: name for name, field in codec.aliases.items()}
    schemas["Features"]["properties"] = {names.get(k, k): v for k, v in properties.items()}
    for feature in properties.values():
        feature["default"] = None  # the decoder's default of a number is NaN, which JSON has not
    names_of_rows = ("Row", "RecordRow", "Features")
    rows = {"anyOf": [{"$ref": f"{REF}{name}"} for name in names_of_rows]}
    schemas["RecordRow"] = {
        "title": "RecordRow",
        "type": "object",
        "properties": {"record": {"type": "object", "description": RECORD}},
        "required": ["record"],
    }
    instances = {"type": "array", "items": rows, "maxItems": settings.api.max_rows}
    explain = {"type": "boolean", "default": False, "description": EXPLAIN}
    schemas["BatchPredictRequest"] = {
        "title": "BatchPredictRequest",
        "type": "object",
        "properties": {"instances": instances, "explain": explain},
        "required": ["instances"],
    }
    # Accepted and not read: an event can be sent as it is.
    options = {"explain": explain} | dict.fromkeys(EVENT_KEYS, True)
    if settings.task.kind == "regression":
        options["interval"] = INTERVAL
        schemas["BatchPredictRequest"]["properties"]["interval"] = INTERVAL
    for name, row in {"PredictRequest": "Row", "PredictRecordRequest": "RecordRow"}.items():
        ref = {"$ref": f"{REF}{row}"}
        schemas[name] = {"title": name, "allOf": [ref], "properties": options}
        if settings.features.unknown == "refuse":
            schemas[name]["unevaluatedProperties"] = False
    return schemas


def describe_ingest(
    paths: dict[str, Any], settings: Settings, schema: Schema, classes: Labels
) -> None:
    """Add the bodies of `POST /events` and `POST /labels`, by the paths of the settings."""
    label = classes.classes[-1] if classes.classes else 1.5
    event = example_record(settings, schema, label)
    section = settings.labels
    one: dict[str, Any] = {}
    for path, value in ((section.id, "a1"), (section.label, label), (section.timestamp, MOMENT)):
        if path is not None:
            _put(one, parse_path(path), value)
    for path, example in (("/events", event), ("/labels", one)):
        record: dict[str, Any] = {"type": "object"}
        many = {"type": "array", "items": record, "minItems": 1, "maxItems": settings.api.max_rows}
        body = {"anyOf": [record, many]}
        examples = {"one": example, "many": [example]}
        paths[path]["post"]["requestBody"] = {"required": True, "content": _json(body, examples)}


def example_record(settings: Settings, schema: Schema, label: Any = None) -> dict[str, Any]:
    """Make a record as it is on the topic of events; with a label where it brings one."""
    labelled = label is not None and settings.labels.topic is None
    paths = paths_of(settings.events, labelled=labelled)
    record: dict[str, Any] = {}
    for name, kind in schema.kinds.items():
        _put(record, feature_path(paths, name), EXAMPLES[kind])
    for path, value in ((paths.id, "a1"), (paths.timestamp, MOMENT), (paths.label, label)):
        if path is not None:
            _put(record, path, value)
    if settings.events.envelope == "debezium":
        return {"before": None, "after": record, "op": "c"}
    if settings.events.envelope == "cloudevents":
        return {"specversion": "1.0", "id": "a1", "source": "/shop", "type": "example", **record}
    return record


def _put(record: dict[str, Any], path: Path, value: Any) -> None:
    for key in path[:-1]:
        below = record.setdefault(key, {})
        if not isinstance(below, dict):
            return  # the name of a feature with a dot of its own
        record = below
    record.setdefault(path[-1], value)


def _drop_backticks(node: Any) -> None:
    """Remove backticks from descriptions: the page shows them as they are."""
    for key, value in list(node.items() if isinstance(node, dict) else enumerate(node)):
        if key in ("description", "summary") and isinstance(value, str):
            node[key] = value.replace("`", "")
        elif isinstance(value, dict | list):
            _drop_backticks(value)


def predict(settings: Settings, schema: Schema, classes: Labels) -> dict[str, Any]:
    """Describe `POST /predict`."""
    body = _any_of("PredictRequest", "PredictRecordRequest", "BatchPredictRequest")
    response = _any_of("PredictResponse", "BatchPredictResponse")
    refusals = {str(status): refusal(status) for status in REFUSALS}
    return {
        "summary": "Predict",
        "operationId": "predict",
        "description": "Predict one row (features, or a record as it is on the topic) or many "
        "(instances) from one snapshot.",
        "requestBody": {"required": True, "content": _json(body, requests(settings, schema))},
        "responses": {
            "200": {
                "description": "The predictions.",
                "content": _json(response, responses(classes)),
            },
            **refusals,
        },
    }


def requests(settings: Settings, schema: Schema) -> dict[str, Any]:
    """Make example bodies that fit the features."""
    row = {name: EXAMPLES[kind] for name, kind in schema.kinds.items()}
    missing = dict.fromkeys(row)
    examples: dict[str, Any] = {
        "one row": {"features": row, "id": "a1"},
        "one record, as it is on the topic": {"record": example_record(settings, schema)},
        "many rows": {"instances": [row, {}]},
        "many rows with ids": {"instances": [{"features": row, "id": "a1"}, {"features": missing}]},
    }
    if settings.task.kind == "regression":
        examples["one row and its interval"] = {"features": row, "interval": 0.9}
    return examples


def responses(classes: Labels) -> dict[str, Any]:
    """Make example responses of the task."""
    stamp = Stamp("kaboost", 412, 45_312, "2026-11-20T10:00:00Z", cold_start=False, stale=False)
    prediction: dict[str, Any] = {"prediction": 1.58, "score": 1.58}
    if classes.kind == "regression":
        prediction["interval"] = Interval(0.9, 0.71, 2.64)
    else:
        known = classes.classes if len(classes.classes) > 1 else ("a", "b")  # of those to come
        rest = 0.17 / (len(known) - 1)
        shares = dict.fromkeys(map(classes.text, known), rest)
        shares[classes.text(known[-1])] = 0.83
        prediction |= {
            "prediction": known[-1],
            "probability": 0.83,
            "probabilities": shares,
        }
    return {
        "one row": msgspec.to_builtins(PredictResponse(**prediction, id="a1", model=stamp)),
        "many rows": msgspec.to_builtins(
            BatchPredictResponse([Prediction(**prediction)] * 2, stamp)
        ),
    }


def _any_of(*names: str) -> dict[str, Any]:
    return {"anyOf": [{"$ref": REF + name} for name in names]}


def _json(schema: dict[str, Any], examples: dict[str, Any]) -> dict[str, Any]:
    named = {name: {"value": value} for name, value in examples.items()}
    return {"application/json": {"schema": schema, "examples": named}}
