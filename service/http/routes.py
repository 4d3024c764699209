"""The HTTP application: every route, served from the newest snapshot without asking the learner."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from time import perf_counter
from typing import Any, NamedTuple

from fastapi import FastAPI, Request, Response
from fastapi.responses import RedirectResponse
from prometheus_client import CollectorRegistry
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from kaboost.service.access.authenticator import Authenticator
from kaboost.service.access.roles import RouteRoles, route_roles
from kaboost.service.config.settings import Settings
from kaboost.service.errors import NotReady, RequestError
from kaboost.service.http import openapi, problems
from kaboost.service.http.access import add_access, add_cors, make_authenticator, plain_routes
from kaboost.service.http.admin import add_steering
from kaboost.service.http.body import read_body
from kaboost.service.http.exemplars import Exemplars
from kaboost.service.http.follower import Follower, Served
from kaboost.service.http.ingest import Ingest, PredictionLog, Sender
from kaboost.service.http.live import Live, add_live_routes
from kaboost.service.http.metrics_page import expose
from kaboost.service.http.middleware import (
    PREDICT,
    MetricsMiddleware,
    PredictShortcut,
    RequestIdMiddleware,
    TracingMiddleware,
)
from kaboost.service.http.open_inference import OpenInference, add_open_inference
from kaboost.service.http.pages import add_pages
from kaboost.service.http.predict import Rows
from kaboost.service.http.records import RecordRequests
from kaboost.service.http.reports import (
    Accepted,
    ImportanceReport,
    ModelReport,
    Readiness,
    report_importance,
    report_learner,
    report_model,
)
from kaboost.service.http.stream import Broadcast
from kaboost.service.metrics import ApiMetrics
from kaboost.service.tracing import Traces, make_traces

LARGE_BODY_BYTES = 65_536  # takes milliseconds to decode: a thread hop of 0.1 ms hardly matters
BEAT_SECONDS = 1.0  # between two heartbeats of the event loop
READY = "/healthz/ready"


class Parts(NamedTuple):
    """What the routes need."""

    settings: Settings
    follower: Follower
    metrics: ApiMetrics
    registry: CollectorRegistry
    sender: Sender
    learner_metrics: str | None = None  # URL of the learner's metrics, to merge them
    is_draining: Callable[[], bool] = lambda: False  # whether the process is about to end
    beat: Callable[[], None] = lambda: None  # show that the event loop runs


class PredictRequest(NamedTuple):
    """The body of a request, with features in the place of records, and its rows."""

    sent: bytes | bytearray
    rows: Rows


class Predict:
    """`POST /predict` as plain ASGI: a route of the framework would double its time."""

    def __init__(self, parts: Parts) -> None:
        self._follower = parts.follower
        self._limits = parts.settings.api
        self._metrics = parts.metrics
        self._records = RecordRequests(parts.settings.events)
        self._log = PredictionLog(parts.settings, parts.sender, parts.metrics)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request: on the event loop, or in a thread if it is large or explains."""
        started = perf_counter()
        try:
            body = await read_body(scope, receive, self._limits)
            served = await current(self._follower)  # once: a request never mixes two versions
            if len(body) > LARGE_BODY_BYTES:
                response = await asyncio.to_thread(self._read_and_respond, served, body)
            else:
                request = self._read(served, body)
                respond = partial(self._respond, served, request)
                explain = request.rows.explain
                response = await asyncio.to_thread(respond) if explain else respond()
        except (HTTPException, RequestError, NotReady) as error:
            response = problems.problem(error, scope["path"])
        except ClientDisconnect:
            return
        await response(scope, receive, send)
        self._metrics.predict_duration.observe(perf_counter() - started)

    def _read_and_respond(self, served: Served, body: bytearray) -> Response:
        return self._respond(served, self._read(served, body))

    def _read(self, served: Served, body: bytearray) -> PredictRequest:
        try:
            sent = self._records.to_rows(body, served.snapshot.model.encoder.kinds)
            return PredictRequest(sent, served.codec.read(sent))
        except RequestError as err:
            raise RequestError(self._records.locate(body, err.errors)) from err

    def _respond(self, served: Served, request: PredictRequest) -> Response:
        rows = request.rows
        snapshot = served.snapshot
        answer = served.codec.respond(rows, snapshot.model, served.stamp)
        self._metrics.predictions.inc(len(rows.features))
        self._metrics.features_ignored.inc(len(rows.ignored))
        self._log.write(rows.ids, request.sent, answer, snapshot)
        return Response(answer.body, media_type="application/json")


def build(parts: Parts) -> FastAPI:
    """Build the application."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        tasks = [
            asyncio.create_task(work) for work in (parts.follower.follow(), beat_on(parts.beat))
        ]
        yield
        for task in tasks:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        if traces is not None:
            await asyncio.to_thread(traces.close)

    traces = make_traces(parts.settings, "api")
    exemplars = Exemplars() if traces else None
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
    add_model_routes(app, parts)
    add_ingest_routes(app, parts)
    authenticator = make_authenticator(parts.settings)
    add_operation_routes(app, parts, authenticator, exemplars)
    live = Live(parts.settings, parts.follower)
    broadcast = Broadcast(lambda: live.status().model_dump_json(), parts.is_draining)
    add_live_routes(app, live, broadcast)
    add_steering(app, parts.settings)
    served = partial(ready_model, parts), partial(current, parts.follower)
    add_open_inference(app, OpenInference(parts.settings, *served, parts.metrics))
    add_redirects(app)
    add_pages(app)
    roles = route_roles(plain_routes(app.router.routes))
    app.add_middleware(PredictShortcut, predict=predict)
    add_access(app, authenticator, roles, parts.metrics)
    add_cors(app, parts.settings)
    add_metrics(app, parts, roles, exemplars)
    add_request_ids(app, traces, roles)
    problems.install(app)
    app.add_exception_handler(405, method_not_allowed)
    openapi.install(app, parts.settings, parts.follower.current)
    return app


def add_metrics(app: FastAPI, parts: Parts, roles: RouteRoles, exemplars: Exemplars | None) -> None:
    """Measure every request."""
    app.add_middleware(
        MetricsMiddleware,
        metrics=parts.metrics,
        roles=roles,
        is_draining=parts.is_draining,
        exemplars=exemplars,
    )


def add_request_ids(app: FastAPI, traces: Traces | None, roles: RouteRoles) -> None:
    """Give every request an id, and a span if it is traced."""
    if traces is not None:
        app.add_middleware(TracingMiddleware, traces=traces, roles=roles)
    app.add_middleware(RequestIdMiddleware)


def add_model_routes(app: FastAPI, parts: Parts) -> None:
    """Add the routes that describe the served model."""

    @app.get("/model", responses=openapi.NOT_READY)
    async def model() -> ModelReport:
        """Describe the served model: specification, features, losses, offsets."""
        return report_model(await current(parts.follower), parts.follower.learner)

    @app.get("/model/importance", responses=openapi.NO_IMPORTANCE)
    async def importance() -> ImportanceReport:
        """List how much every feature contributes to the served model."""
        return await asyncio.to_thread(report_importance, await current(parts.follower))


def add_ingest_routes(app: FastAPI, parts: Parts) -> None:
    """Add the routes that write to the topics of events and labels."""
    ingest = Ingest(parts.settings, parts.sender, parts.metrics)
    limits = parts.settings.api

    described: Any = {"responses": openapi.INGEST}

    @app.post("/events", status_code=202, **described)
    async def events(request: Request) -> Accepted:
        """Write one event or an array of them to the topic, once they are valid."""
        body = await read_body(request.scope, request.receive, limits)
        return await ingest.events(body, (await current(parts.follower)).snapshot.model)

    @app.post("/labels", status_code=202, **described)
    async def labels(request: Request) -> Accepted:
        """Write one label or an array of them to the topic of labels, once they are valid."""
        body = await read_body(request.scope, request.receive, limits)
        return await ingest.labels(body, (await current(parts.follower)).snapshot.model)


def add_operation_routes(
    app: FastAPI,
    parts: Parts,
    authenticator: Authenticator | None = None,
    exemplars: Exemplars | None = None,
) -> None:
    """Add the routes for probes and monitoring."""

    @app.get("/healthz/live")
    async def live() -> dict[str, str]:
        """Report that the process responds."""
        return {"status": "alive"}

    @app.get(READY, responses=openapi.NOT_READY)
    async def ready() -> Readiness:
        """Report whether predictions are served, and the state of the learner."""
        follower = parts.follower
        served = await ready_model(parts)
        return Readiness(
            version=served.stamp.version,
            stale=served.stamp.stale,
            reason=follower.reason,
            access=authenticator.problem if authenticator else "",
            learner=report_learner(follower.learner),
        )

    @app.get("/metrics", response_class=Response, responses=openapi.TEXT)
    def metrics(request: Request) -> Response:
        """Return the metrics of all workers, and under `serve` the learner's."""
        accept, snapshots = request.headers.get("accept", ""), parts.settings.snapshots.directory
        text, kind = expose(parts.registry, parts.learner_metrics, snapshots, accept, exemplars)
        return Response(text, media_type=kind)


def add_redirects(app: FastAPI) -> None:
    """Add the short paths of probes."""

    async def redirect() -> RedirectResponse:
        return RedirectResponse(READY)

    for path in ("/health", "/healthz"):
        app.add_api_route(path, redirect, include_in_schema=False)


async def beat_on(beat: Callable[[], None]) -> None:
    """Give a heartbeat every second."""
    while True:
        beat()
        await asyncio.sleep(BEAT_SECONDS)


async def method_not_allowed(request: Request, error: Exception) -> Response:
    """List the allowed methods: HEAD too where the framework allows GET (`PredictShortcut`)."""
    headers = getattr(error, "headers", None) or {}
    methods = set(headers.get("Allow", "").split(", "))
    allowed = sorted(methods | {"HEAD"} if "GET" in methods else methods)
    detail = f"the path does not allow {request.method}, but {' and '.join(allowed)}"
    refused = HTTPException(405, detail, headers={"allow": ", ".join(allowed)})
    return problems.problem(refused, request.url.path)


async def ready_model(parts: Parts) -> Served:
    """Return what is served now, or raise why the service is not ready."""
    if parts.is_draining():
        raise NotReady("the service is shutting down")
    served = await current(parts.follower)
    if parts.follower.learns_nothing:
        raise NotReady(f"nothing can be learned: {parts.follower.reason}")
    return served


async def current(follower: Follower) -> Served:
    """Return what is served now, or raise why nothing is."""
    await follower.catch_up()
    served = follower.current()
    if served is None:
        raise NotReady(not_ready_reason(follower))
    return served


def not_ready_reason(follower: Follower) -> str:
    """Explain why no model is served yet."""
    learner = report_learner(follower.learner)
    reasons = [follower.no_model_message]
    if learner.state != "unknown":
        reason = f": {learner.reason}" if learner.reason else ""
        reasons.append(f"the learner is {learner.state}{reason}")
    waiting = learner.state in ("running", "restarting") and not follower.reason
    if follower.waiting_for and waiting:
        reasons.append(f"it publishes once it has {follower.waiting_for}, see its log")
    return "; ".join([*reasons, *filter(None, [follower.reason])])
