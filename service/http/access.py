"""The middleware that admits requests; where no key is needed it is not there at all."""

import logging
import time
from collections.abc import Callable, Iterable
from functools import partial

from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from kaboost.service.access.authenticator import Authenticator
from kaboost.service.access.callers import Caller, Denied
from kaboost.service.access.roles import OPEN, RouteRoles, route_roles
from kaboost.service.config.settings import Settings
from kaboost.service.http import problems
from kaboost.service.metrics import ApiMetrics

CALLER = "kaboost.caller"  # in the scope of an admitted request
CHECK_AGAIN = "kaboost.check_again"  # there: raises Denied once the caller may not any more
LOG_SECONDS = 1.0  # between two lines about refused requests: a flood must not fill the log

log = logging.getLogger(__name__)
Count = Callable[[str], None]


class AccessControl:
    """Pass on the requests of callers that have the role of the path, as plain ASGI."""

    def __init__(
        self, app: ASGIApp, authenticator: Authenticator, roles: RouteRoles, count: Count
    ) -> None:
        self._app = app
        self._authenticator = authenticator
        self._roles = roles
        self._count = count
        self._next_log = 0.0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Admit or refuse one request; a path that does not exist is 404 with any key."""
        if scope["type"] == "lifespan":
            self._authenticator.start()
        if scope["type"] == "http":
            role = self._roles.role_of(scope["path"])
            if role != OPEN:
                try:
                    scope[CALLER] = await self._authenticator.admit(scope["headers"], role)
                    scope[CHECK_AGAIN] = partial(self._authenticator.find, scope["headers"], role)
                except Denied as denied:
                    self._report(scope, denied)
                    return await _problem(denied, scope["path"])(scope, receive, send)
                if role is None:  # never left to the routes, which may see the path otherwise
                    missing = problems.problem(HTTPException(404), scope["path"])
                    return await missing(scope, receive, send)
        await self._app(scope, receive, send)

    def _report(self, scope: Scope, denied: Denied) -> None:
        self._count(denied.reason)
        if time.monotonic() >= self._next_log:
            self._next_log = time.monotonic() + LOG_SECONDS
            client = (scope.get("client") or ("unknown",))[0]
            route = self._roles.route_of(scope["path"])  # not the path: it may hold a key
            fields = {"client": client, "route": route, "reason": denied.reason}
            log.warning("request refused", extra=fields)


def _problem(denied: Denied, path: str) -> ASGIApp:
    headers = {"www-authenticate": "Bearer"} if denied.status == 401 else {}
    headers |= {"retry-after": str(denied.retry_after)} if denied.retry_after else {}
    if denied.status == 503:
        return problems.respond(
            503, denied.detail, path, headers=headers, kind=problems.NO_PROVIDER
        )
    return problems.problem(HTTPException(denied.status, denied.detail, headers), path)


def make_authenticator(settings: Settings) -> Authenticator | None:
    """Make what finds callers; None if the settings want no keys."""
    return Authenticator(settings) if settings.api.auth.is_on else None


def add_access(
    app: FastAPI, authenticator: Authenticator | None, roles: RouteRoles, metrics: ApiMetrics
) -> None:
    """Admit only callers with the roles of the routes."""
    if authenticator is not None:
        count = _counter(metrics)
        app.add_middleware(AccessControl, authenticator=authenticator, roles=roles, count=count)


def add_cors(app: FastAPI, settings: Settings) -> None:
    """Admit requests of the web pages of some origins, if the settings name any.

    Around the check of keys: a browser asks first, without one. Commands are refused all the same.
    """
    if settings.api.cors_origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=settings.api.cors_origins,
            allow_methods=("GET", "POST"),
            allow_headers=("authorization", "content-type", "x-request-id", "traceparent"),
            expose_headers=("retry-after", "x-request-id"),
        )


def plain_routes(routes: Iterable[BaseRoute]) -> list[Route]:
    """Check that there are only plain routes, whose paths are whole."""
    found = [route for route in routes if isinstance(route, Route)]
    assert found == list(routes), "a mounted application has no lines in service/access/roles.py"
    return found


def _counter(metrics: ApiMetrics) -> Count:
    def count(reason: str) -> None:
        metrics.refused.labels(reason).inc()

    return count


def add_admin_access(app: Starlette, settings: Settings) -> None:
    """Admit only callers with the role admin to the admin port, if the settings want keys."""
    authenticator = make_authenticator(settings)
    if authenticator is not None:
        roles = route_roles(plain_routes(app.router.routes))
        app.add_middleware(
            AccessControl,
            authenticator=authenticator,
            roles=roles,
            count=lambda _reason: None,
        )


async def is_still_allowed(scope: Scope) -> bool:
    """Return whether the caller of a request that goes on still may: keys end and are removed."""
    check = scope.get(CHECK_AGAIN)
    try:
        if check is not None:
            await check()
    except Denied as denied:
        fields = {"reason": denied.reason}  # without the path, which may hold a key
        log.warning("a long answer is ended", extra=fields)
        return False
    return True


def caller_of(scope: Scope) -> Caller | None:
    """Return who has sent a request; None where no key is needed."""
    found: Caller | None = scope.get(CALLER)
    return found
