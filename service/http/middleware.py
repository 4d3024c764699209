"""The middleware around every request: its duration, its id, unhandled errors, a short way in."""

import logging
from collections.abc import Callable
from time import perf_counter
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kaboost.service.access.roles import RouteRoles
from kaboost.service.http.exemplars import Exemplars
from kaboost.service.http.problems import problem
from kaboost.service.metrics import ApiMetrics
from kaboost.service.request_context import CURRENT, REQUEST_ID, read_ids
from kaboost.service.tracing import Traces

PREDICT = "/predict"
METHODS = frozenset(
    ("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "CONNECT")
)

log = logging.getLogger(__name__)


class RequestIdMiddleware:
    """Give every request an id, for its log lines and its answer; the outermost layer."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, and return its id with the response."""
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        ids = read_ids(scope["headers"])
        header = (REQUEST_ID, ids.request_id.encode())

        async def send_with_id(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], header]
            await send(message)

        before = CURRENT.set(ids)
        try:
            await self._app(scope, receive, send_with_id)
        finally:
            CURRENT.reset(before)


class TracingMiddleware:
    """Trace every request; without traces it is not there at all."""

    def __init__(self, app: ASGIApp, traces: Traces, roles: RouteRoles) -> None:
        self._app = app
        self._traces = traces
        self._roles = roles

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, and record its route and status."""
        ids = CURRENT.get()
        if scope["type"] != "http" or ids is None:
            return await self._app(scope, receive, send)
        method = scope["method"] if scope["method"] in METHODS else "_OTHER"
        route = self._roles.route_of(scope["path"])
        with self._traces.request(f"{method} {route}".rstrip(), ids) as (span, own):
            span.set_attributes({"http.request.method": method, "http.route": route})

            async def send_and_note(message: Message) -> None:
                if message["type"] == "http.response.start":
                    span.set_attribute("http.response.status_code", message["status"])
                await send(message)

            before = CURRENT.set(own)
            try:
                await self._app(scope, receive, send_and_note)
            finally:
                CURRENT.reset(before)


class MetricsMiddleware:
    """Measure every request, as plain ASGI: the framework's base class took 180 µs a request."""

    def __init__(
        self,
        app: ASGIApp,
        metrics: ApiMetrics,
        roles: RouteRoles,
        is_draining: Callable[[], bool] = lambda: False,
        exemplars: Exemplars | None = None,
    ) -> None:
        self._app = app
        self._exemplars = exemplars
        self._is_draining = is_draining
        self._metrics = metrics
        self._roles = roles
        self._series: dict[
            tuple[str, str, int], Any
        ] = {}  # bounded by METHODS, routes and statuses

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on and record its response."""
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        started = perf_counter()
        status = 0

        async def send_and_record(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                if self._is_draining():
                    message["headers"] += [(b"connection", b"close")]
            await send(message)

        try:
            await self._app(scope, receive, send_and_record)
        except Exception as error:  # boundary: every request gets a response
            route = self._roles.route_of(scope["path"])  # not the path: it may hold a key
            log.exception("request failed", extra={"route": route})
            if not status:
                await problem(error, scope["path"])(scope, receive, send_and_record)
        finally:
            if status:  # no response is sent to a client that disconnected
                self._record(scope, status, perf_counter() - started)

    def _record(self, scope: Scope, status: int, seconds: float) -> None:
        path = self._roles.route_of(scope["path"])
        key = (scope["method"] if scope["method"] in METHODS else "_OTHER", path, status)
        series = self._series.get(key)
        if series is None:
            series = self._metrics.request_duration.labels(*map(str, key))
            self._series[key] = series
        series.observe(seconds)
        if self._exemplars is not None:
            self._exemplars.note(key, seconds)
        if status >= 400 and path == PREDICT:
            self._metrics.predict_errors.labels(str(status)).inc()


class PredictShortcut:
    """Pass `POST /predict` around the framework's routing and layers: a tenth of their time.

    HEAD, which the framework does not know, is treated as GET; the server sends no body.
    """

    def __init__(self, app: ASGIApp, predict: ASGIApp) -> None:
        self._app = app
        self._predict = predict

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Choose the application of one request."""
        is_http = scope["type"] == "http"
        shortcut = is_http and scope["path"] == PREDICT and scope["method"] == "POST"
        if is_http and scope["method"] == "HEAD":
            scope = {**scope, "method": "GET"}
        await (self._predict if shortcut else self._app)(scope, receive, send)
