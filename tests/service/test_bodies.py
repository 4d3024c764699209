"""A request's body as the server hands it over: at once, in pieces, late, or never."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from kaboost.service.config.api import Api
from kaboost.service.http.body import read_body

Piece = tuple[float, bytes]  # seconds until it comes, and what it holds
SCOPE: dict[str, Any] = {"headers": [(b"content-type", b"application/json")]}
LIMITS = Api(timeout_seconds=0.1, max_body_bytes=1024)


class Server:
    """Hands over pieces, each after its time; notes if it is told to stop meanwhile."""

    def __init__(self, pieces: Sequence[Piece], last: str = "http.request") -> None:
        self._pieces = list(pieces)
        self._last = last
        self.cancelled = False

    async def receive(self) -> dict[str, Any]:
        """Give the next piece."""
        seconds, body = self._pieces.pop(0)
        try:
            if seconds:
                await asyncio.sleep(seconds)
        except asyncio.CancelledError:
            self.cancelled = True
            raise
        more = bool(self._pieces)
        return {"type": "http.request" if more else self._last, "body": body, "more_body": more}


def read(server: Server) -> bytes:
    """Read one body on a loop of its own."""
    return bytes(asyncio.run(read_body(SCOPE, server.receive, LIMITS)))


@pytest.mark.parametrize(
    "pieces",
    [
        [(0, b"abc")],
        [(0, b"a"), (0, b"b"), (0, b"c")],
        [(0, b"a"), (0.02, b"b"), (0.02, b"c")],
        [(0.02, b"a"), (0, b"b"), (0.02, b"c")],
    ],
)
def test_pieces_become_one_body(pieces: list[Piece]) -> None:
    """Whether a piece is there or waited for, none is lost and their order stays."""
    assert b"abc" == read(Server(pieces))


def test_whole_body_needs_no_timer(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is there already is only read: a timer would take longer than that."""

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a timer was set")

    monkeypatch.setattr(asyncio.BaseEventLoop, "call_at", refuse)

    assert b"ab" == read(Server([(0, b"a"), (0, b"b")]))


@pytest.mark.parametrize("pieces", [[(5, b"a")], [(0, b"a"), (0.06, b"b"), (0.06, b"c")]])
def test_time_is_for_the_whole_body(pieces: list[Piece]) -> None:
    """A body that takes longer is given up with 408, and nobody waits for it any more."""
    server = Server(pieces)

    with pytest.raises(HTTPException) as caught:
        read(server)

    assert 408 == caught.value.status_code
    assert server.cancelled


@pytest.mark.parametrize("seconds", [0, 0.02])
def test_faults_come_through(seconds: float) -> None:
    """Too large or broken off: said in the same way, at once or later."""
    with pytest.raises(HTTPException) as caught:
        read(Server([(seconds, b"x" * 2000)]))
    with pytest.raises(ClientDisconnect):
        read(Server([(seconds, b"")], last="http.disconnect"))

    assert 413 == caught.value.status_code


def test_the_end_of_the_server_is_no_timeout() -> None:
    """Cancelled from outside, it is cancelled, not answered."""
    server = Server([(0.05, b"a")])

    async def leave(reading: Callable[[], Awaitable[bytearray]]) -> None:
        task = asyncio.ensure_future(reading())
        await asyncio.sleep(0.01)
        task.cancel()
        await task

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(leave(lambda: read_body(SCOPE, server.receive, LIMITS)))

    assert server.cancelled
