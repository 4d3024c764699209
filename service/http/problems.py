"""Errors of requests as RFC 9457 documents (`application/problem+json`); those of the Open
Inference Protocol as objects with `error`, which its clients read.
"""

from collections.abc import Mapping, Sequence
from http import HTTPStatus

import msgspec
from fastapi import FastAPI, Request, Response
from starlette.exceptions import HTTPException

from kaboost.service.errors import NotReady, RequestError
from kaboost.service.request_context import CURRENT

MEDIA_TYPE = "application/problem+json"
RETRY_AFTER = 1  # seconds
OPEN_INFERENCE = "/v2"  # its paths
MAX_FAULTS = 1_000  # listed in one document; a body of 8 MiB can hold millions

# Public: a client may switch on `type`.
TYPES = {
    400: "urn:kaboost:problem:not-json",
    401: "urn:kaboost:problem:no-key",
    403: "urn:kaboost:problem:not-allowed",
    404: "urn:kaboost:problem:no-such-path",
    405: "urn:kaboost:problem:wrong-method",
    408: "urn:kaboost:problem:body-too-slow",
    409: "urn:kaboost:problem:refused",
    413: "urn:kaboost:problem:too-large",
    415: "urn:kaboost:problem:wrong-media-type",
    422: "urn:kaboost:problem:does-not-fit",
    429: "urn:kaboost:problem:too-many-requests",
    500: "urn:kaboost:problem:bug",
    503: "urn:kaboost:problem:no-model",
}
NO_PROVIDER = "urn:kaboost:problem:no-provider"  # 503 for tokens alone
# Where the framework's own detail only repeats the title.
DETAILS = {
    404: "there is no such path; /docs lists all paths",
}


class Fault(msgspec.Struct):
    """One place in the request and what is wrong with it."""

    pointer: str
    detail: str


class Problem(msgspec.Struct, omit_defaults=True):
    """The response to a request that cannot be served."""

    type: str
    title: str
    status: int
    detail: str
    instance: str
    errors: list[Fault] = []
    request_id: str = ""


def problem(error: Exception, path: str) -> Response:
    """Make the response to an error."""
    match error:
        case RequestError():
            return respond(422, _summary(error.errors), path, faults=error.errors)
        case NotReady():
            return respond(503, str(error), path, headers={"retry-after": str(RETRY_AFTER)})
        case HTTPException():
            repeated = error.detail == HTTPStatus(error.status_code).phrase
            detail = DETAILS.get(error.status_code, error.detail) if repeated else error.detail
            return respond(error.status_code, detail, path, headers=error.headers)
        case _:
            return respond(500, "internal error, a bug in Kaboost: the log has the details", path)


def respond(
    status: int,
    detail: str,
    path: str,
    *,
    faults: Sequence[tuple[str, str]] = (),
    headers: Mapping[str, str] | None = None,
    kind: str = "",
) -> Response:
    """Write one problem document, or what the protocol of the path has in its place."""
    if path == OPEN_INFERENCE or path.startswith(f"{OPEN_INFERENCE}/"):
        error = {"error": "; ".join(map(": ".join, faults[:MAX_FAULTS])) or detail}
        return Response(msgspec.json.encode(error), status, headers, "application/json")
    document = Problem(
        type=kind or TYPES.get(status, "about:blank"),
        title=HTTPStatus(status).phrase,
        status=status,
        detail=detail,
        instance=path,
        errors=[Fault(*fault) for fault in faults[:MAX_FAULTS]],
        request_id=ids.request_id if (ids := CURRENT.get()) else "",
    )
    return Response(msgspec.json.encode(document), status, headers, MEDIA_TYPE)


def _summary(faults: Sequence[tuple[str, str]]) -> str:
    if len(faults) == 1:
        return f"{faults[0][0]}: {faults[0][1]}"
    listed = "" if len(faults) <= MAX_FAULTS else f", the first {MAX_FAULTS} are listed"
    return f"{len(faults)} faults{listed}"


def install(app: FastAPI) -> None:
    """Make every error of the framework's routes a problem document, too."""

    async def handler(request: Request, error: Exception) -> Response:
        return problem(error, request.url.path)

    for kind in (HTTPException, RequestError, NotReady, Exception):
        app.add_exception_handler(kind, handler)
