"""Server-sent events to readers of different speeds."""

import asyncio
from typing import Any

import pytest

from kaboost.service.http import stream
from kaboost.service.request_context import CURRENT, RequestIds
from tests.service.serving import PATIENCE


@pytest.mark.parametrize("sends_again", [True, False])
def test_readers_that_do_not_read_are_dropped(
    monkeypatch: pytest.MonkeyPatch, *, sends_again: bool
) -> None:
    """Also those that go on reading soon; they cost no other reader a message."""
    monkeypatch.setattr(stream, "EVERY_SECONDS", 0.01)
    monkeypatch.setattr(stream, "SLOW_SECONDS", PATIENCE if sends_again else 0.1)
    monkeypatch.setattr(stream, "MAX_READERS", 2)

    async def read() -> list[Any]:
        broadcast, goes_on = stream.Broadcast(lambda: "{}", lambda: False), asyncio.Event()
        slow, fast = asyncio.Queue[Any](), asyncio.Queue[Any]()

        async def send_slowly(message: Any) -> None:
            slow.put_nowait(message)
            if message["type"] == "http.response.body":
                await goes_on.wait()

        async def never() -> Any:
            await asyncio.Event().wait()

        scope = {"type": "http"}
        reading = asyncio.create_task(broadcast.subscribe()(scope, never, fast.put))
        dropped = asyncio.create_task(broadcast.subscribe()(scope, never, send_slowly))
        while broadcast.readers != 2:
            await asyncio.sleep(0)
        while broadcast.readers != 1:
            await fast.get()
        if sends_again:
            goes_on.set()
        await asyncio.wait_for(dropped, PATIENCE)
        while not fast.empty():
            fast.get_nowait()
        await asyncio.wait_for(fast.get(), PATIENCE)
        reading.cancel()
        return [slow.get_nowait() for _ in range(slow.qsize())]

    sent = asyncio.run(read())

    end = {"type": "http.response.body", "body": b""}
    assert sends_again is (end == sent[-1])


def test_messages_have_no_id_of_their_first_reader() -> None:
    """Its request may have ended long before a line about a status that cannot be made."""
    seen: list[RequestIds | None] = []

    def make() -> str:
        seen.append(CURRENT.get())
        return "{}"

    async def read() -> None:
        CURRENT.set(RequestIds("of a reader"))
        broadcast, queue = stream.Broadcast(make, lambda: False), asyncio.Queue[bytes | None]()
        broadcast.add(queue)
        await asyncio.wait_for(queue.get(), PATIENCE)

    asyncio.run(read())
    assert [None] == seen
