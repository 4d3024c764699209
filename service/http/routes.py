"""The HTTP door: every route, answered from the newest snapshot without asking the learner."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

from fastapi import FastAPI, Request, Response
from fastapi.responses import FileResponse
from prometheus_client import CollectorRegistry
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from kaboost.service.config.settings import Settings
from kaboost.service.errors import NotReady, RequestError
from kaboost.service.http import openapi, problems
from kaboost.service.http.body import read_body
from kaboost.service.http.follower import Follower, Served
from kaboost.service.http.metrics_page import CONTENT_TYPE, expose
from kaboost.service.http.middleware import MetricsMiddleware
from kaboost.service.http.predict import Rows
from kaboost.service.http.reports import (
    ImportanceReport,
    ModelReport,
    Readiness,
    report_importance,
    report_learner,
    report_model,
)
from kaboost.service.metrics import ApiMetrics

PREDICT = "/predict"
LARGE_BODY_BYTES = (
    65_536  # bytes of a body that takes milliseconds: a thread hop of 0.1 ms is little to it
)
WEB = Path(__file__).parent / "web"


class Parts(NamedTuple):
    """What the routes answer from."""

    settings: Settings
    follower: Follower
    metrics: ApiMetrics
    registry: CollectorRegistry
    learner_metrics: str | None = None  # the address of the learner's own port, to merge it


class Predict:
    """`POST /predict` as plain ASGI: what a framework route adds would double its time."""

    def __init__(self, parts: Parts) -> None:
        self._follower = parts.follower
        self._limits = parts.settings.api
        self._metrics = parts.metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request: a small one on the loop, a large one or its reasons beside it."""
        started = perf_counter()
        try:
            body = await read_body(scope, receive, self._limits)
            if len(body) > LARGE_BODY_BYTES:
                response = await asyncio.to_thread(lambda: self._answer(*self._read(body)))
            else:
                served, rows = self._read(body)
                answer = partial(self._answer, served, rows)
                response = await asyncio.to_thread(answer) if rows.explain else answer()
        except (HTTPException, RequestError, NotReady) as error:
            response = problems.problem(error, scope["path"])
        except ClientDisconnect:
            return
        await response(scope, receive, send)
        self._metrics.predict_duration.observe(perf_counter() - started)

    def _read(self, body: bytearray) -> tuple[Served, Rows]:
        served = current(self._follower)  # read once: a swap in between cannot mix two versions
        return served, served.door.read(body)

    def _answer(self, served: Served, rows: Rows) -> Response:
        answer = served.door.answer(rows, served.snapshot.model, served.stamp)
        self._metrics.predictions.inc(len(rows.features))
        self._metrics.features_ignored.inc(len(rows.ignored))
        return Response(answer, media_type="application/json")


class PredictShortcut:
    """Takes `POST /predict` past routing and the framework's own layers: a tenth of its time.

    HEAD goes the way of GET, which the framework does not know; the server sends no body.
    """

    def __init__(self, app: ASGIApp, predict: ASGIApp) -> None:
        self._app = app
        self._predict = predict

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Choose the way of one request."""
        fast = scope["type"] == "http" and scope["path"] == PREDICT and scope["method"] == "POST"
        if scope["type"] == "http" and scope["method"] == "HEAD":
            scope = {**scope, "method": "GET"}
        await (self._predict if fast else self._app)(scope, receive, send)


def build(parts: Parts) -> FastAPI:
    """Make the application of these parts."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        following = asyncio.create_task(parts.follower.follow())
        yield
        following.cancel()
        with suppress(asyncio.CancelledError):
            await following

    app = FastAPI(
        title="Kaboost",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        telemetry={"tracing": False, "metrics": False, "logs": False},
        lifespan=lifespan,
    )
    predict = Predict(parts)
    app.router.routes.append(Route(PREDICT, predict, methods=["POST"]))
    add_state(app, parts)
    add_pages(app)
    paths = frozenset(str(getattr(route, "path", "")) for route in app.routes)
    app.add_middleware(PredictShortcut, predict=predict)
    app.add_middleware(MetricsMiddleware, metrics=parts.metrics, paths=paths)
    problems.install(app)
    app.add_exception_handler(405, method_not_allowed)
    openapi.install(app, parts.settings, parts.follower.current)
    return app


def add_state(app: FastAPI, parts: Parts) -> None:
    """Add the routes that say how we are."""

    @app.get("/model", responses=openapi.NOT_READY)
    async def model() -> ModelReport:
        """Describe the model that answers: specification, features, losses, offsets."""
        return report_model(current(parts.follower))

    @app.get("/model/importance", responses=openapi.NO_IMPORTANCE)
    def importance() -> ImportanceReport:
        """Tell how much every feature matters to the model that answers."""
        return report_importance(current(parts.follower))

    @app.get("/healthz/live")
    async def live() -> dict[str, str]:
        """Say that the process answers."""
        return {"status": "alive"}

    @app.get("/healthz/ready", responses=openapi.NOT_READY)
    async def ready() -> Readiness:
        """Say whether predictions are answered; the body tells how the learner is."""
        stamp, trouble = current(parts.follower).stamp, parts.follower.trouble
        learner = report_learner(parts.follower.learner)
        return Readiness(version=stamp.version, stale=stamp.stale, reason=trouble, learner=learner)

    @app.get("/metrics", response_class=Response, responses=openapi.TEXT)
    def metrics() -> Response:
        """Give the metrics of all workers, and under `serve` the learner's."""
        text = expose(parts.registry, parts.learner_metrics)
        return Response(text, media_type=CONTENT_TYPE)


def add_pages(app: FastAPI) -> None:
    """Add the pages for people; they load nothing from anywhere else."""

    def page(path: str, name: str) -> None:
        async def serve() -> FileResponse:
            return FileResponse(WEB / name)

        app.add_api_route(path, serve, include_in_schema=False)

    page("/", "index.html")
    page("/docs", "docs.html")


async def method_not_allowed(request: Request, error: Exception) -> Response:
    """List the allowed methods: HEAD too where the framework allows GET (`PredictShortcut`)."""
    named = getattr(error, "headers", None) or {}
    allowed = set(named.get("Allow", "").split(", "))
    right = sorted(allowed | {"HEAD"} if "GET" in allowed else allowed)
    told = f"the path does not take {request.method}, but {' and '.join(right)}"
    refused = HTTPException(405, told, headers={"allow": ", ".join(right)})
    return problems.problem(refused, request.url.path)


def current(follower: Follower) -> Served:
    """Return what is served now, or say why nothing is."""
    served = follower.current()
    if served is None:
        learner = report_learner(follower.learner)
        why = [follower.nothing]
        if learner.state != "unknown":
            reason = f": {learner.reason}" if learner.reason else ""
            why.append(f"the learner is {learner.state}{reason}")
        if follower.awaited and learner.state in ("running", "restarting"):
            why.append(f"it publishes once it has {follower.awaited}, see its log")
        raise NotReady("; ".join([*why, *filter(None, [follower.trouble])]))
    return served
