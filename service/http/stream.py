"""Server-sent events: one status a second to every reader; slow readers are dropped."""

import asyncio
import contextlib
import contextvars
import itertools
import logging
from collections.abc import Callable
from typing import Any

from fastapi import Response
from starlette.exceptions import HTTPException
from starlette.types import Receive, Scope, Send

from kaboost.service.http.access import is_still_allowed

EVERY_SECONDS = 1.0
CHECK_EVERY = 10  # messages, until it is looked again whether the reader still may
SLOW_SECONDS = 5.0  # in which a message must be taken
WAITING_MESSAGES = 2  # for one reader
MAX_READERS = 100  # of one process
HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),  # of a proxy that would collect messages
]

log = logging.getLogger(__name__)

Queue = asyncio.Queue[bytes | None]


class Broadcast:
    """Make one message a second while anybody reads, and give it to all readers.

    Parameters
    ----------
    make
        Returns the data of a message as JSON in one line; called in a thread.
    is_ending
        Whether the process is about to end: then streams end, too.
    """

    def __init__(self, make: Callable[[], str], is_ending: Callable[[], bool]) -> None:
        self._make = make
        self._is_ending = is_ending
        self._readers: set[Queue] = set()
        self._sending: asyncio.Task[None] | None = None

    @property
    def readers(self) -> int:
        """How many read now."""
        return len(self._readers)

    def subscribe(self) -> Response:
        """Return a response that goes on until its reader leaves, or is too slow."""
        if len(self._readers) >= MAX_READERS:
            detail = f"{MAX_READERS} pages read already; close some, or ask GET /status"
            raise HTTPException(503, detail, {"retry-after": "10"})
        return _Stream(self)

    def add(self, queue: Queue) -> None:
        """Add a reader; the first one starts the messages."""
        self._readers.add(queue)
        if self._sending is None or self._sending.done():
            # Not in the context of the first reader: its id would be in lines about all of them.
            context = contextvars.Context()
            self._sending = asyncio.create_task(self._send_all(), context=context)

    def remove(self, queue: Queue) -> None:
        """Remove a reader."""
        self._readers.discard(queue)

    async def _send_all(self) -> None:
        while self._readers:
            if self._is_ending():
                message = None
            else:
                message = await asyncio.to_thread(self._encode)
            for queue in list(self._readers):
                self._give(queue, message)
            await asyncio.sleep(EVERY_SECONDS)

    def _encode(self) -> bytes:
        try:
            return f"event: status\ndata: {self._make()}\n\n".encode()
        except Exception:  # boundary: one status that fails must not end the stream
            log.exception("status not made")
            return b": no status\n\n"

    def _give(self, queue: Queue, message: bytes | None) -> None:
        if queue.full():  # a slow reader: its stream ends, at the latest after SLOW_SECONDS
            self._readers.discard(queue)
            message = None
        if message is None:
            while not queue.empty():
                queue.get_nowait()
        queue.put_nowait(message)


class _Stream(Response):
    """The response to one reader."""

    def __init__(self, broadcast: Broadcast) -> None:
        super().__init__()
        self._broadcast = broadcast

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        queue: Queue = asyncio.Queue(WAITING_MESSAGES)
        self._broadcast.add(queue)
        left = asyncio.ensure_future(_disconnected(receive))
        try:
            await send({"type": "http.response.start", "status": 200, "headers": [*HEADERS]})
            for number in itertools.count(1):
                message = await _next(queue, left)
                due = number % CHECK_EVERY == 0
                if message is None or (due and not await is_still_allowed(scope)):
                    break
                body = {"type": "http.response.body", "body": message, "more_body": True}
                await asyncio.wait_for(send(body), SLOW_SECONDS)
            await asyncio.wait_for(send({"type": "http.response.body", "body": b""}), SLOW_SECONDS)
        except TimeoutError:
            log.info("a slow reader of /stream is dropped")
        finally:
            self._broadcast.remove(queue)
            left.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await left


async def _next(queue: Queue, left: asyncio.Future[None]) -> bytes | None:
    """Return the next message; None at the end, or once the reader has left."""
    getting = asyncio.ensure_future(queue.get())
    both: set[asyncio.Future[Any]] = {getting, left}
    await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
    if getting.done():
        return getting.result()
    getting.cancel()
    return None


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
