"""The middleware around every request: how long it took, its id, and no exception past it."""

import logging
from time import perf_counter
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kaboost.service.http.problems import problem
from kaboost.service.metrics import ApiMetrics

METHODS = frozenset(
    ("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "CONNECT")
)

log = logging.getLogger(__name__)


class MetricsMiddleware:
    """Plain ASGI: the framework's own kind of middleware took a request from 36 to 216 µs."""

    def __init__(self, app: ASGIApp, metrics: ApiMetrics, paths: frozenset[str]) -> None:
        self._app = app
        self._metrics = metrics
        self._paths = paths
        self._series: dict[tuple[str, str, int], Any] = {}  # bounded by METHODS, paths and statuses

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request through, and see what is sent in answer."""
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        started = perf_counter()
        status = 0

        async def watched(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] += request_id_headers(scope)
            await send(message)

        try:
            await self._app(scope, receive, watched)
        except Exception as error:  # the door of the HTTP framework
            log.exception("request failed", extra={"path": scope["path"]})
            if not status:
                await problem(error, scope["path"])(scope, receive, watched)
        finally:
            if status:  # none was sent to a caller who went away
                self._record(scope, status, perf_counter() - started)

    def _record(self, scope: Scope, status: int, seconds: float) -> None:
        path = scope["path"] if scope["path"] in self._paths else ""
        key = (scope["method"] if scope["method"] in METHODS else "_OTHER", path, status)
        series = self._series.get(key)
        if series is None:
            series = self._metrics.request_duration.labels(*map(str, key))
            self._series[key] = series
        series.observe(seconds)
        if status >= 400 and path == "/predict":
            self._metrics.predict_errors.labels(str(status)).inc()


def request_id_headers(scope: Scope) -> list[tuple[bytes, bytes]]:
    """Return the caller's X-Request-ID, so that both logs can be laid side by side."""
    return [(b"x-request-id", value) for name, value in scope["headers"] if name == b"x-request-id"]
