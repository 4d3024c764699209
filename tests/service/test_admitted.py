"""Callers after they were admitted: rates of subjects and keys apart, streams checked again."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from starlette.types import Receive, Scope, Send

from kaboost.service.access import watched
from kaboost.service.access.authenticator import Authenticator
from kaboost.service.access.callers import Denied
from kaboost.service.access.roles import READ, RouteRoles
from kaboost.service.http import stream
from kaboost.service.http.access import AccessControl
from tests.service.keyfiles import replace, with_keys, write_keys
from tests.service.serving import PATIENCE, settings


def test_a_subject_has_a_bucket_of_its_own(tmp_path: Path) -> None:
    """One that is spelled as the name of a key does not use up that key's requests."""
    known = write_keys(tmp_path / "keys", ("shop", "read"))
    auth = with_keys(tmp_path / "keys", max_requests_per_second=0.01)
    authenticator = Authenticator(settings(tmp_path, api={"auth": auth}))
    headers = [(b"authorization", b"Bearer " + known["shop"].encode())]
    assert authenticator._rate is not None
    authenticator._rate.wait_of((True, "shop"))

    assert "shop" == asyncio.run(authenticator.admit(headers, READ)).name
    with pytest.raises(Denied, match="max_requests"):
        asyncio.run(authenticator.admit(headers, READ))


def test_a_stream_ends_with_its_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that goes on is checked again: a key that was removed reads no more."""
    monkeypatch.setattr(stream, "EVERY_SECONDS", 0.01)
    monkeypatch.setattr(watched, "LOOK_SECONDS", 0.0)
    monkeypatch.setattr(watched, "SETTLED_SECONDS", 0.0)
    known = write_keys(tmp_path / "keys", ("shop", "read"), ("page", "read"))
    authenticator = Authenticator(settings(tmp_path, api={"auth": with_keys(tmp_path / "keys")}))
    broadcast = stream.Broadcast(lambda: "{}", lambda: False)

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        await broadcast.subscribe()(scope, receive, send)

    control = AccessControl(serve, authenticator, RouteRoles({"/stream": READ}, []), lambda _: None)

    async def read() -> list[Any]:
        sent: list[Any] = []

        async def keep(message: Any) -> None:
            sent.append(message)
            if len(sent) == 2 * stream.CHECK_EVERY:
                replace(tmp_path / "keys", (tmp_path / "keys").read_text().splitlines()[1])

        async def never() -> Any:
            await asyncio.Event().wait()

        headers = [(b"authorization", b"Bearer " + known["shop"].encode())]
        scope = {"type": "http", "path": "/stream", "headers": headers}
        await asyncio.wait_for(control(scope, never, keep), PATIENCE)
        return sent

    sent = asyncio.run(read())
    assert 2 * stream.CHECK_EVERY <= len(sent) <= 4 * stream.CHECK_EVERY
    assert b"" == sent[-1]["body"]
