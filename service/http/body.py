"""Read a request's body within its limits: media type, bytes and time."""

import asyncio
from collections.abc import Callable, Coroutine, Generator, Mapping
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope

from kaboost.service.config.api import Api

Checks = Mapping[bytes, Callable[[bytes, Api], None]]


async def read_body(
    scope: Scope, receive: Receive, limits: Api, checks: Checks | None = None
) -> bytearray:
    """Return the whole body, or raise 408, 413 or 415; `checks` of headers, CHECKS by default.

    1. Check the headers.
    2. Read what has arrived: usually all of it, and then no timer is needed (5 µs).
    3. Wait for the rest, at most `api.timeout_seconds`.
    """
    checks = CHECKS if checks is None else checks
    for name, value in scope["headers"]:
        if name in checks:
            checks[name](value, limits)
    reader = _collect(receive, limits.max_body_bytes)
    try:
        future = reader.send(None)
    except StopIteration as done:
        body: bytearray = done.value
        return body
    try:
        async with asyncio.timeout(limits.timeout_seconds):
            return await _ResumedCoroutine(reader, future)
    except TimeoutError as err:
        detail = f"the body took longer than api.timeout_seconds, {limits.timeout_seconds:g}"
        raise HTTPException(408, detail, {"connection": "close"}) from err


def check_type(kind: bytes, _limits: Api) -> None:
    """Accept JSON in UTF-8, or a request without a Content-Type."""
    if kind == b"application/json":
        return
    media, _sep, parameters = kind.lower().partition(b";")
    charset = parameters.partition(b"charset=")[2].strip(b' "')
    if media.strip() != b"application/json" or charset not in (b"utf-8", b""):
        shown = kind.decode("latin-1")
        raise HTTPException(415, f"Content-Type {shown!r}: send application/json in UTF-8")


def check_encoding(encoding: bytes, _limits: Api) -> None:
    """Accept only an uncompressed body."""
    if encoding.lower() != b"identity":
        shown = encoding.decode("latin-1")
        raise HTTPException(415, f"Content-Encoding {shown!r}: send the body uncompressed")


def check_length(length: bytes, limits: Api) -> None:
    """Refuse a body whose Content-Length exceeds the limit."""
    if int(length) > limits.max_body_bytes:  # the server has parsed it before
        raise too_large(limits.max_body_bytes)


CHECKS = {
    b"content-type": check_type,
    b"content-encoding": check_encoding,
    b"content-length": check_length,
}


def too_large(limit: int) -> HTTPException:
    """Make the error for a body that is too large."""
    detail = f"the body is larger than api.max_body_bytes, {limit:,}: send it in parts"
    return HTTPException(413, detail, {"connection": "close"})


class _ResumedCoroutine(Generator[Any, Any, bytearray]):
    """Awaits the rest of a coroutine that was started by hand and waits for `future`."""

    def __init__(self, coroutine: Coroutine[Any, Any, bytearray], future: object) -> None:
        self._coroutine = coroutine
        self._first = [future]

    def __await__(self) -> Generator[Any, Any, bytearray]:
        return self

    def send(self, value: Any) -> Any:
        """Yield the future that it already waits for, then resume it."""
        return self._first.pop() if self._first else self._coroutine.send(value)

    def throw(self, *error: Any) -> Any:
        """Pass an error, such as a timeout, to the coroutine."""
        return self._coroutine.throw(*error)


async def _collect(receive: Receive, limit: int) -> bytearray:
    body, more = bytearray(), True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        body += message.get("body", b"")
        more = message.get("more_body", False)
        if len(body) > limit:
            raise too_large(limit)
    return body
