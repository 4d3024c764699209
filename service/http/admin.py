"""The HTTP application of the admin port: commands to the learner, and the audit log."""

import asyncio
import hmac
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Literal
from urllib.parse import urlsplit

import msgspec
from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from kaboost.service.access.roles import ADMIN
from kaboost.service.admin.sending import MAX_TEXT, send
from kaboost.service.config.settings import Settings
from kaboost.service.errors import Damaged, Incompatible, KaboostError, NotTaken, RequestError
from kaboost.service.http import problems
from kaboost.service.http.access import add_admin_access, caller_of
from kaboost.service.http.body import read_body
from kaboost.service.http.middleware import RequestIdMiddleware
from kaboost.service.storage import commands, files
from kaboost.service.storage.audit import AuditLog
from kaboost.service.storage.checkpoints import FolderCheckpointStore
from kaboost.service.storage.commands import Command, Result

LOCAL_NAMES = ("127.0.0.1", "localhost", "::1")
OTHER_NAME = "without admin.key only requests to 127.0.0.1 or localhost are answered: set a key"
FROM_A_PAGE = "requests of web pages (with an Origin) are refused: send it from a program"
FROM_ANOTHER_PAGE = "the request comes from a page of another host: open the page of this one"
NOT_ADMIN = "commands need the role admin"
NO_KEY = "send Authorization: Bearer KEY with the key of admin.key"

log = logging.getLogger(__name__)


class Asked(msgspec.Struct, forbid_unknown_fields=True):
    """The body of a command; it may be empty."""

    reason: str = ""
    by: str = ""


class AskedRollback(Asked, forbid_unknown_fields=True, kw_only=True):
    """The body of a rollback."""

    version: int
    positions: Literal["stay", "back"] = "stay"


class AskedPromotion(Asked, forbid_unknown_fields=True, kw_only=True):
    """The body of a promotion."""

    candidate: str


BODIES: dict[str, type[Asked]] = {
    commands.ROLLBACK: AskedRollback,
    commands.PROMOTE: AskedPromotion,
}
Check = Callable[[Request, Settings], None]


class _Admin(Starlette):
    def build_middleware_stack(self) -> ASGIApp:
        """Give requests ids around all, also what answers unexpected errors."""
        return RequestIdMiddleware(super().build_middleware_stack())


def create_admin(settings: Settings) -> Starlette:
    """Build the application."""
    handlers = dict.fromkeys((HTTPException, KaboostError, Exception), problem)
    app = _Admin(routes=steering_routes(settings, check), exception_handlers=handlers)
    add_admin_access(app, settings)
    return app


def add_steering(app: FastAPI, settings: Settings) -> None:
    """Add the commands to the application of the page, if the settings say so."""
    if settings.admin.page:
        app.router.routes += steering_routes(settings, check_page)
        app.add_exception_handler(NotTaken, problem)


def steering_routes(settings: Settings, check: Check) -> list[Route]:
    """Make the routes of all commands, of the audit log and of the kept checkpoints."""
    audit = AuditLog(settings.checkpoints.folder)

    def route(name: str) -> Route:
        kind = BODIES.get(name, Asked)

        async def endpoint(request: Request) -> Response:
            check(request, settings)
            body = await read_body(request.scope, request.receive, settings.api)
            command = to_command(request, name, read(bytes(body), kind))
            result = await asyncio.to_thread(send, settings, command)
            return respond(result, request.url.path)

        return Route(f"/admin/{name}", endpoint, methods=["POST"])

    async def entries(request: Request) -> Response:
        check(request, settings)
        found = await asyncio.to_thread(audit.read)
        return Response(msgspec.json.encode(found), media_type="application/json")

    async def checkpoints(request: Request) -> Response:
        check(request, settings)
        found = await asyncio.to_thread(list_kept, settings)
        return Response(msgspec.json.encode(found), media_type="application/json")

    others = [Route("/admin/audit", entries), Route("/admin/checkpoints", checkpoints)]
    return [*map(route, commands.NAMES), *others]


def list_kept(settings: Settings) -> list[dict[str, Any]]:
    """List the checkpoints of the current run that a rollback can name, the newest first."""
    store = FolderCheckpointStore(settings.checkpoints.folder, settings.checkpoints.keep)
    rows = []
    for path in store.paths():
        if path.parent.name != store.run:
            continue
        with suppress(Damaged, Incompatible, OSError):
            header, _ = files.read(path, mapped=True, verify=False)
            row = {"number": header.get("sequence"), "created": header.get("created")}
            rows.append(row | {"events_learned": header.get("events_learned")})
    return rows


def check_page(request: Request, settings: Settings) -> None:
    """Refuse a request of another page, and one without the key."""
    origin = request.headers.get("origin")
    if origin is not None and urlsplit(origin).netloc != request.headers.get("host"):
        raise HTTPException(403, FROM_ANOTHER_PAGE)
    check_key(request, settings)


def check(request: Request, settings: Settings) -> None:
    """Refuse a request of a web page, and one without the key."""
    if "origin" in request.headers:
        raise HTTPException(403, FROM_A_PAGE)
    if settings.admin.key is None and caller_of(request.scope) is None:
        if request.url.hostname not in LOCAL_NAMES:  # a page's own name may resolve to this address
            raise HTTPException(403, OTHER_NAME)
        return
    check_key(request, settings)


def check_key(request: Request, settings: Settings) -> None:
    """Refuse a request without the key; without any key in the settings, every request.

    Where all requests need keys, `AccessControl` has found the caller; the role is checked twice.
    """
    caller = caller_of(request.scope)
    if caller is not None:
        if ADMIN not in caller.roles:
            raise HTTPException(403, NOT_ADMIN)
        return
    client = request.client.host if request.client else "unknown"
    if settings.admin.key is None:
        raise HTTPException(401, NO_KEY)
    wanted = b"Bearer " + settings.admin.key.get_secret_value().encode()
    sent = request.headers.get("authorization", "").encode("latin-1")
    if not hmac.compare_digest(wanted, sent):
        log.warning("command refused: no key", extra={"client": client, "path": request.url.path})
        raise HTTPException(401, NO_KEY, {"www-authenticate": "Bearer"})


def read(body: bytes, kind: type[Asked]) -> Asked:
    """Decode the body of a command; an empty one stands for no arguments."""
    try:
        return msgspec.json.decode(body or b"{}", type=kind)
    except msgspec.ValidationError as err:
        raise RequestError([("#", str(err))]) from err
    except msgspec.DecodeError as err:
        raise HTTPException(400, f"the body is not JSON: {err}") from err


def to_command(request: Request, name: str, asked: Asked) -> Command:
    """Return the command that a request asks for."""
    client = request.client.host if request.client else "unknown"
    arguments: dict[str, Any] = {}
    if isinstance(asked, AskedRollback):
        arguments = {"version": asked.version, "positions": asked.positions}
    elif isinstance(asked, AskedPromotion):
        arguments = {"candidate": asked.candidate}
    caller = caller_of(request.scope)
    by = asked.by[:MAX_TEXT] or f"HTTP client {client}"
    if caller is not None:  # its name cannot be replaced by what the client writes
        by = f"{caller.name} ({asked.by[:MAX_TEXT]})" if asked.by else caller.name
    return Command(name, by, f"HTTP from {client}", asked.reason[:MAX_TEXT], arguments)


def respond(result: Result, path: str) -> Response:
    """Write what became of a command: 409 where the learner refuses it."""
    if result.state == "refused":
        return problems.respond(409, result.message, path)
    return Response(msgspec.json.encode(result._asdict()), media_type="application/json")


async def problem(request: Request, error: Exception) -> Response:
    """Make every error a problem document."""
    if isinstance(error, NotTaken):
        return problems.respond(503, str(error), request.url.path)
    if isinstance(error, KaboostError) and not isinstance(error, RequestError):
        return problems.respond(500, str(error), request.url.path)
    if not isinstance(error, HTTPException | RequestError):
        log.error("admin request failed", exc_info=error)
    return problems.problem(error, request.url.path)
