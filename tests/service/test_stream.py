"""Server-sent events to readers of different speeds."""

import asyncio
from typing import Any

import pytest

from kaboost.service.http import stream
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
