"""An identity provider that is asked for its keys: new ones, slow answers, none, and odd ones."""

import asyncio
import contextlib
import http.server
import math
import socket
import threading
import time
import urllib.request
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any
from urllib.error import URLError

import pytest
from starlette.testclient import TestClient

from kaboost.service.access import public_keys, tokens
from kaboost.service.access.authenticator import check_access
from kaboost.service.access.callers import Denied
from kaboost.service.access.public_keys import read_jwks
from kaboost.service.access.tokens import Tokens
from kaboost.service.config.access import Jwt
from kaboost.service.errors import ConfigError
from kaboost.service.processes.api_server import create_api
from kaboost.service.request_context import CURRENT, RequestIds
from tests.service.keyfiles import bearer, one_of_each_role
from tests.service.learning import until
from tests.service.serving import PATIENCE, ROW, publish, settings, taught
from tests.service.test_tokens import AUDIENCE, ISSUER, KEYS, check, foreign, jwks, token


def asking(url: str) -> Tokens:
    """Make what asks a provider for its keys."""
    return Tokens(Jwt(issuer=ISSUER, audience=AUDIENCE, jwks=url))


@pytest.fixture
def provider() -> Iterator[tuple[str, dict[str, Any]]]:
    """An identity provider's key server on loopback, and what it answers."""
    served: dict[str, Any] = {"body": jwks(RS256=KEYS["RS256"]), "asked": 0, "location": ""}

    class Answer(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            served["asked"] += 1
            self.send_response(302 if served["location"] else 200)
            if served["location"]:
                self.send_header("location", served["location"])
            self.end_headers()
            self.wfile.write(served["body"].encode())

        def log_message(self, *_: Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/keys", served
    server.shutdown()
    thread.join()
    server.server_close()


def test_new_keys_of_a_provider_are_asked_for(
    provider: tuple[str, dict[str, Any]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A token with an unknown kid waits for the keys; asked for at most every few seconds."""
    url, served = provider
    of = asking(url)
    assert 0 == served["asked"]
    check(of, token())
    served["body"] = jwks(**KEYS)
    with pytest.raises(Denied, match="kid is not a key"):
        check(of, token("ES256"))
    assert 1 == served["asked"]

    monkeypatch.setattr(tokens, "UNKNOWN_SECONDS", 0.0)
    assert "anna" == check(of, token("ES256")).name
    assert 2 == served["asked"]
    served["body"] = "an error page"
    with pytest.raises(Denied, match="kid is not a key"):
        check(of, foreign())
    assert "anna" == check(of, token("ES256")).name


def test_known_tokens_ask_for_keys_too(provider: tuple[str, dict[str, Any]]) -> None:
    """Every jwks_seconds: the tokens of a key that was taken back are not good until they end."""
    url, served = provider
    of, sent = asking(url), token()

    async def forgotten() -> None:
        assert of.known(sent) is None
        assert await of.check(sent) is of.known(sent)
        served["body"] = jwks(ES256=KEYS["ES256"])
        of._asked = -math.inf  # long ago
        while of.known(sent) is not None:
            await asyncio.sleep(0.01)

    asyncio.run(asyncio.wait_for(forgotten(), PATIENCE))


def test_a_provider_that_is_away_stops_no_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keys work; tokens get 503 with Retry-After, until it answers: it is asked again by itself."""
    monkeypatch.setattr(tokens, "RETRY_SECONDS", (0.05, 0.1))
    known = one_of_each_role(tmp_path / "keys")
    section = {"issuer": ISSUER, "audience": AUDIENCE, "jwks": "http://127.0.0.1:9/keys"}
    auth = {"keys": str(tmp_path / "keys"), "jwt": section}
    wanted = settings(tmp_path, api={"auth": auth})
    check_access(wanted)  # as `config check`
    publish(wanted, taught(wanted, 0))
    with TestClient(create_api(wanted)) as client:
        ask = partial(client.post, "/predict", json={"features": ROW})
        refused = ask(headers=bearer(token().decode()))
        assert (503, "urn:kaboost:problem:no-provider") == (
            refused.status_code,
            refused.json()["type"],
        )
        assert 1 <= int(refused.headers["retry-after"]) <= 2
        until(lambda: "gives no keys" in client.get("/healthz/ready").json()["access"])
        assert 200 == ask(headers=bearer(known["predict"])).status_code
        monkeypatch.setattr(tokens, "fetch_jwks", lambda _url: read_jwks(jwks(**KEYS), "here"))
        until(lambda: client.get("/healthz/ready").json()["access"] == "")
        assert 200 == ask(headers=bearer(token().decode())).status_code


@pytest.mark.parametrize("error", [ValueError, UnicodeError, RecursionError, ConfigError])
def test_no_error_of_a_fetch_is_lost(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    error: type[Exception],
) -> None:
    """Whatever it is, before and after the first keys: a log line, the problem, and a later try."""
    monkeypatch.setattr(tokens, "UNKNOWN_SECONDS", 0.0)
    url = "https://id.example.com/keys?api_key=planted"

    def fail(_url: str) -> Any:
        raise error("planted" if error is not ConfigError else "id.example.com is away")

    async def use() -> None:
        monkeypatch.setattr(tokens, "fetch_jwks", fail)
        of = asking(url)
        with pytest.raises(Denied, match="not answered yet") as denied:
            await of.check(token())
        assert 503 == denied.value.status
        assert "asked again in 1 s" in of.problem
        monkeypatch.setattr(tokens, "fetch_jwks", lambda _url: read_jwks(jwks(**KEYS), "here"))
        of._ask()
        assert "anna" == (await of.check(token())).name
        assert "" == of.problem
        monkeypatch.setattr(tokens, "fetch_jwks", fail)
        with pytest.raises(Denied, match="kid is not a key"):
            await of.check(foreign())
        assert "asked again in 1 s" in of.problem
        assert "planted" not in of.problem

    asyncio.run(use())
    assert ["keys of tokens not read, the earlier ones count"] * 2 == [
        each.message for each in caplog.records if each.levelname == "ERROR"
    ]
    assert "planted" not in str([vars(each) for each in caplog.records])


def test_one_timer_asks_a_provider_that_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many tokens with invented kids come: they neither ask nor begin timers of theirs."""
    monkeypatch.setattr(tokens, "UNKNOWN_SECONDS", 0.0)
    asked: list[str] = []

    def fetch(url: str) -> Any:
        asked.append(url)
        if len(asked) > 1:
            raise ConfigError("away")
        return read_jwks(jwks(**KEYS), "here")

    async def use() -> None:
        of = asking("https://id.example.com/keys")
        assert "anna" == (await of.check(token())).name
        for _ in range(5):
            with pytest.raises(Denied, match="kid is not a key"):
                await of.check(foreign())
        assert 2 == len(asked)
        first = of._retry
        of._ask()
        assert first is not None
        assert first.cancelled()

    monkeypatch.setattr(tokens, "fetch_jwks", fetch)
    asyncio.run(use())


def test_lines_about_a_fetch_have_no_id_of_a_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """It goes on, and is tried again, long after the request that began it."""
    seen: list[RequestIds | None] = []
    again = threading.Event()

    def fetch(_url: str) -> Any:
        seen.append(CURRENT.get())
        if len(seen) == 2:
            again.set()
        raise ConfigError("away")

    async def use() -> None:
        CURRENT.set(RequestIds("of a request"))
        of = asking("https://id.example.com/keys")
        of.start()
        while not again.is_set():
            await asyncio.sleep(0.01)

    monkeypatch.setattr(tokens, "fetch_jwks", fetch)
    monkeypatch.setattr(tokens, "RETRY_SECONDS", (0.01, 0.01))
    asyncio.run(asyncio.wait_for(use(), PATIENCE))
    assert [None, None] == seen[:2]


def test_a_slow_provider_keeps_no_request_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """A token with an unknown kid is refused with 503, and those with known kids are checked."""
    for name in ("UNKNOWN_SECONDS", "WAIT_SECONDS"):
        monkeypatch.setattr(tokens, name, 0.0)
    known, go_on = read_jwks(jwks(**KEYS), "here"), threading.Event()

    async def use() -> None:
        of = asking("https://id.example.com/keys")
        of._fetched, of._asked = known, time.monotonic() - 1.0
        monkeypatch.setattr(tokens, "fetch_jwks", lambda _url: go_on.wait() and known)
        try:
            for _ in range(2):  # the first one does not end the fetch that both wait for
                with pytest.raises(Denied, match="not answered yet") as denied:
                    await of.check(foreign())
                assert 503 == denied.value.status
            assert "anna" == (await of.check(token())).name
        finally:
            go_on.set()

    asyncio.run(use())


@pytest.mark.parametrize("sent", [b"HTTP/1.1 200 OK\r\nx: ", b"HTTP/1.1 200 OK\r\n\r\n{"])
def test_an_answer_that_trickles_is_ended(sent: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """In its headers and in its body: each byte comes within the time of one step."""
    monkeypatch.setattr(public_keys, "MOST_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            with server.accept()[0] as connection, contextlib.suppress(OSError):
                connection.sendall(sent)
                while True:
                    time.sleep(0.02)
                    connection.sendall(b" ")

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(ConfigError, match="answer takes longer"):
            public_keys.fetch_jwks(f"http://127.0.0.1:{server.getsockname()[1]}/keys")
        thread.join(PATIENCE)
        assert not thread.is_alive()


@pytest.mark.parametrize(
    ("location", "words"),
    [
        ("http://id.example.com/a?key=planted", "redirects to http://id.example.com/a, and not"),
        ("http://[?key=planted", "ValueError"),
        ("odd://id.example.com/?key=planted", "status 302"),
        ("/keys?key=planted", "status 302"),
    ],
)
def test_errors_of_a_fetch_have_no_query(
    provider: tuple[str, dict[str, Any]], location: str, words: str
) -> None:
    """Neither that of the setting nor that of a redirect, wherever it leads."""
    url, served = provider
    served["location"] = location
    with pytest.raises(ConfigError, match=words) as found:
        public_keys.fetch_jwks(f"{url}?api_key=planted")
    assert "planted" not in str(found.value)
    assert f"jwks = {url}: " in str(found.value)


@pytest.mark.parametrize("target", ["http://example.com/keys", "ftp://127.0.0.1/keys"])
def test_a_redirect_to_a_plain_address_is_not_followed(target: str) -> None:
    """Whoever is between could send other keys."""
    request = urllib.request.Request("https://id.example.com/keys")
    handler = public_keys._TrustedRedirects()

    def follow(url: str) -> Any:
        return handler.redirect_request(request, None, 302, "Found", {}, url)

    for url in (target, "http://127.0.0.1/keys"):
        with pytest.raises(URLError, match="not over https"):
            follow(url)
    assert "https://other.example.com/keys" == follow("https://other.example.com/keys").full_url


def test_a_broken_answer_of_a_provider_is_an_error_of_settings() -> None:
    """Also one that is no HTTP."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            with server.accept()[0] as connection:
                connection.recv(4096)
                connection.sendall(b"no HTTP\r\n\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(ConfigError, match="is the address right"):
            public_keys.fetch_jwks(f"http://127.0.0.1:{server.getsockname()[1]}/keys")
        thread.join()
