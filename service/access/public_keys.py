"""The public keys of an identity provider (JWKS), of a file or a URL."""

import contextlib
import http.client
import json
import socket
import threading
import time
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError

from kaboost.service.config.access import is_trusted_url, without_secrets
from kaboost.service.errors import ConfigError

try:
    import jwt
except ImportError:  # the extra `auth`
    jwt = None  # type: ignore[assignment]

ALGORITHMS = ["RS256", "ES256"]  # whatever a token asks for: HS256 would take a public key
TIMEOUT_SECONDS = 5.0  # of each step
MOST_SECONDS = 10.0  # of a whole answer: one that trickles passes every step
TOO_LONG = f"the answer takes longer than {MOST_SECONDS:g} s"
MOST_BYTES = 1_000_000  # of a JWKS

PublicKeys = Mapping[str | None, Any]  # jwt.PyJWK by key id


def read_jwks(text: str | bytes, where: str) -> PublicKeys:
    """Read the public keys for RS256 and ES256 of a key set."""
    try:
        found = json.loads(text)["keys"]
        usable = [(key, name) for key in found if (name := _algorithm(key))]
        keys = {key.get("kid"): jwt.PyJWK(key, name) for key, name in usable}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, jwt.PyJWTError) as err:
        raise ConfigError(
            f"api.auth.jwt.jwks = {where}: no JWKS ({type(err).__name__}); "
            'it must be JSON such as {"keys": [{"kty": "RSA", "kid": ..., ...}]}'
        ) from err
    if not keys:
        raise ConfigError(f"api.auth.jwt.jwks = {where}: no RSA or EC key is in it")
    return keys


def _algorithm(key: Mapping[str, Any]) -> str:
    """Return what a key signs with; empty for keys of other purposes, which are skipped."""
    kinds = {("RSA", None): "RS256", ("EC", "P-256"): "ES256"}
    name = kinds.get((key["kty"], key.get("crv")), "")
    return name if key.get("alg", name) == name and key.get("use", "sig") == "sig" else ""


def read_jwks_file(path: Path) -> PublicKeys:
    """Read a key set from a file."""
    try:
        return read_jwks(path.read_bytes(), str(path))
    except OSError as err:
        raise ConfigError(
            f"api.auth.jwt.jwks = {path}: {err.strerror}; name a file or an https URL"
        ) from err


def fetch_jwks(url: str) -> PublicKeys:
    """Read a key set from a URL, within `MOST_SECONDS`; errors are without its query."""
    where = without_secrets(url)
    try:
        deadline = time.monotonic() + MOST_SECONDS
        with _open(url, timeout=TIMEOUT_SECONDS) as response:
            return read_jwks(_read(response, deadline), where)
    except (OSError, http.client.HTTPException, ValueError) as err:
        raise ConfigError(
            f"api.auth.jwt.jwks = {where}: {_explain(err)}; is the address right?"
        ) from err


def _read(response: Any, deadline: float) -> bytes:
    found = b""
    while len(found) < MOST_BYTES and (part := response.read1(MOST_BYTES - len(found))):
        found += part
        if time.monotonic() > deadline:
            raise TimeoutError(TOO_LONG)
    return found


def _explain(err: Exception) -> str:
    """Return why, never with a URL: those of the library's messages have their query."""
    reason = err.reason if isinstance(err, URLError) else err
    if isinstance(err, HTTPError):
        err.close()
        return f"status {err.code}"
    if isinstance(reason, _Refused):
        return str(reason)
    is_system = isinstance(reason, OSError) and not isinstance(reason, URLError)
    return (is_system and str(reason)) or type(reason).__name__


class _Refused(str):
    """A reason in own words."""


class _TrustedRedirects(urllib.request.HTTPRedirectHandler):
    """Follow no redirect to where somebody between could send other keys."""

    def http_error_302(
        self, req: urllib.request.Request, fp: Any, code: int, msg: str, headers: Any
    ) -> Any:
        """Close the answer first: the library would read the whole body, however long."""
        fp.close()
        return super().http_error_302(req, fp, code, msg, headers)

    http_error_301 = http_error_303 = http_error_307 = http_error_308 = http_error_302

    def redirect_request(
        self, req: urllib.request.Request, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        """Refuse http after https, and http to other machines."""
        downgrade = req.type == "https" and not newurl.startswith("https:")
        if downgrade or not is_trusted_url(newurl):
            reason = f"it redirects to {without_secrets(newurl)}, and not over https"
            raise URLError(_Refused(reason))
        return super().redirect_request(req, fp, code, msg, headers, newurl)


class _HeadInTime:
    """End a connection whose status and headers take too long."""

    def do_open(self, http_class: Any, req: urllib.request.Request, **options: Any) -> Any:
        """Open a connection; its socket is shut down at the deadline."""
        made: list[http.client.HTTPConnection] = []
        is_late = threading.Event()

        def connect(*args: Any, **more: Any) -> http.client.HTTPConnection:
            made.append(http_class(*args, **more))
            return made[0]

        def end() -> None:
            is_late.set()
            with contextlib.suppress(OSError, AttributeError, IndexError):  # it has no socket now
                made[0].sock.shutdown(socket.SHUT_RDWR)

        timer = threading.Timer(MOST_SECONDS, end)
        timer.daemon = True
        timer.start()
        try:
            parent: Callable[..., Any] = super().do_open  # type: ignore[misc]
            response = parent(connect, req, **options)
        finally:
            timer.cancel()
        if is_late.is_set():  # the end looks like that of the headers
            response.close()
            raise TimeoutError(TOO_LONG)
        return response


class _Http(_HeadInTime, urllib.request.HTTPHandler):
    pass


class _Https(_HeadInTime, urllib.request.HTTPSHandler):
    pass


_open = urllib.request.build_opener(_TrustedRedirects, _Http, _Https).open
