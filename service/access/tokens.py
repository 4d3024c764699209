"""Tokens of an identity provider: JWT with RS256 or ES256, checked against its public keys."""

import asyncio
import http.client
import json
import logging
import math
import time
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.error import URLError

from kaboost.service.access.callers import Caller, Denied
from kaboost.service.access.roles import ROLES
from kaboost.service.access.watched import WatchedFile
from kaboost.service.config.access import Jwt, is_trusted_url
from kaboost.service.errors import ConfigError

try:
    import jwt
except ImportError:  # the extra `auth`
    jwt = None  # type: ignore[assignment]

ALGORITHMS = ["RS256", "ES256"]  # whatever a token asks for: HS256 would take a public key
LEEWAY_SECONDS = 10  # between two clocks
RETRY_SECONDS = (1.0, 60.0)  # until a provider that did not answer is asked again, doubled to this
WAIT_SECONDS = 1.0  # of a request for the first answer of the provider
UNKNOWN_SECONDS = 5.0  # between two requests for keys that the provider may have added
TIMEOUT_SECONDS = 5.0
MOST_BYTES = 1_000_000  # of a JWKS
MOST_TOKENS = 4_096  # that were checked and are remembered

NO_SUBJECT = "the token is refused: its sub is empty; it names who is counted and recorded"
NO_PROVIDER = (
    "the identity provider has not answered yet, so no token can be checked: try again; keys work"
)

log = logging.getLogger(__name__)
PublicKeys = Mapping[str | None, Any]  # jwt.PyJWK by key id


def read_jwks(text: str | bytes, where: str) -> PublicKeys:
    """Read the public keys for RS256 and ES256 of a key set."""
    try:
        found = json.loads(text)["keys"]
        usable = [(key, name) for key in found if (name := _algorithm(key))]
        keys = {key.get("kid"): jwt.PyJWK(key, name) for key, name in usable}
    except (ValueError, KeyError, TypeError, jwt.PyJWTError) as err:
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


class _TrustedRedirects(urllib.request.HTTPRedirectHandler):
    """Follow no redirect to where somebody between could send other keys."""

    def redirect_request(
        self, req: urllib.request.Request, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        """Refuse http after https, and http to other machines."""
        downgrade = req.type == "https" and not newurl.startswith("https:")
        if downgrade or not is_trusted_url(newurl):
            raise URLError(f"it redirects to {newurl}, and not over https")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


_open = urllib.request.build_opener(_TrustedRedirects).open


def fetch_jwks(url: str) -> PublicKeys:
    """Read a key set from a URL."""
    try:
        with _open(url, timeout=TIMEOUT_SECONDS) as response:
            return read_jwks(response.read(MOST_BYTES), url)
    except (OSError, http.client.HTTPException) as err:
        reason = getattr(err, "reason", err) or type(err).__name__
        raise ConfigError(f"api.auth.jwt.jwks = {url}: {reason}; is the address right?") from err


class Tokens:
    """Check tokens; those that were good are remembered until they expire or the keys change.

    A provider is asked in the background: one that does not answer stops no start. Until it does,
    tokens are refused with 503, and it is asked again after a time that doubles.
    """

    def __init__(self, settings: Jwt) -> None:
        if jwt is None:
            raise ConfigError(
                "api.auth.jwt needs the extra auth: pip install 'kaboost[auth]'; or set "
                "api.auth.keys"
            )
        self._settings = settings
        self._known: dict[bytes, Caller] = {}
        self._of: PublicKeys | None = None  # whose tokens are remembered
        self._file: WatchedFile[PublicKeys] | None = None
        where = settings.jwks or ""
        self._url = where if "://" in where else None
        self._fetched: PublicKeys = {}
        if self._url is None:
            self._file = WatchedFile([Path(where)], lambda: read_jwks_file(Path(where)))
        self._asked = -math.inf
        self._failures = 0  # since the last answer
        self._asking: asyncio.Task[None] | None = None
        self.problem = ""  # why the provider's keys were not read the last time

    def start(self) -> None:
        """Ask the provider for its keys, if it was not asked."""
        self._ask_if_due()

    def known(self, token: bytes) -> Caller | None:
        """Return the caller of a token that was checked before: a look-up."""
        self._ask_if_due()
        self._forget_others()
        return self._known.get(token)

    async def check(self, token: bytes) -> Caller:
        """Check a token (about 0.1 ms), or raise Denied."""
        key_id = _key_id(token)
        self._ask_if_due()
        await self._wait_for_first()
        key = self._key(key_id)
        if key is None and self._url and time.monotonic() - self._asked > UNKNOWN_SECONDS:
            self._ask()
        if key is None and self._asking is not None:
            await self._asking
            key = self._key(key_id)
        if key is None:
            raise Denied(401, "bad_token", "the token's kid is not a key of api.auth.jwt.jwks")
        caller = self._verify(token, key)
        self._forget_others()
        if len(self._known) >= MOST_TOKENS:
            self._known.clear()
        self._known[token] = caller
        return caller

    async def _wait_for_first(self) -> None:
        """Wait a little for the first keys of the provider; 503 while there are none."""
        if self._keys():
            return
        if self._asking is not None:
            await asyncio.wait({self._asking}, timeout=WAIT_SECONDS)
        if not self._keys():
            again = self._asked + self._retry_seconds - time.monotonic()
            raise Denied(503, "no_provider", NO_PROVIDER, max(1, math.ceil(again)))

    def _verify(self, token: bytes, key: Any) -> Caller:
        try:
            claims = jwt.decode(
                token,
                key,
                algorithms=ALGORITHMS,
                audience=self._settings.audience,
                issuer=self._settings.issuer,
                leeway=LEEWAY_SECONDS,
                options={"require": ["exp", "iss", "aud", "sub"]},
            )
        except jwt.ExpiredSignatureError:
            raise Denied(401, "expired", "the token has expired: get a new one") from None
        except (jwt.PyJWTError, TypeError, ValueError) as err:
            raise Denied(401, "bad_token", f"the token is refused: {_explain(err)}") from None
        if not claims["sub"].strip():
            raise Denied(401, "bad_token", NO_SUBJECT)
        roles = roles_of(claims, self._settings.roles_claim)
        end = float(claims["exp"]) + LEEWAY_SECONDS
        return Caller(claims["sub"], roles, end, is_subject=True)

    def _keys(self) -> PublicKeys:
        return self._file.current() if self._file else self._fetched

    def _key(self, key_id: str | None) -> Any:
        keys = self._keys()
        only = next(iter(keys.values())) if len(keys) == 1 and key_id is None else None
        return keys.get(key_id) or only

    def _forget_others(self) -> None:
        """Forget tokens of a key set that was replaced: a key may have been taken back."""
        keys = self._keys()
        if keys is not self._of:
            self._of = keys
            self._known.clear()

    @property
    def _retry_seconds(self) -> float:
        first, most = RETRY_SECONDS
        return min(most, first * 2.0 ** max(0, min(self._failures, 10) - 1))

    def _ask_if_due(self) -> None:
        """Ask every `jwks_seconds`, also while all tokens are known: a key may be taken back."""
        due = self._retry_seconds if self._failures else self._settings.jwks_seconds
        if self._url and time.monotonic() - self._asked > due:
            self._ask()

    def _ask(self) -> None:
        """Ask the provider for its keys in the background; requests go on with those known."""
        if self._asking is None or self._asking.done():
            self._asked = time.monotonic()
            self._asking = asyncio.create_task(self._fetch())

    async def _fetch(self) -> None:
        """Read the keys; without an answer the same is done again by itself."""
        try:
            self._fetched = await asyncio.to_thread(fetch_jwks, self._url or "")
        except ConfigError as err:
            self._failures += 1
            self.problem = f"{err}; asked again in {self._retry_seconds:g} s"
            log.error("keys of tokens not read, the earlier ones count", extra={"reason": str(err)})
            asyncio.get_running_loop().call_later(self._retry_seconds, self._ask)
            return
        if self._failures:
            log.info("keys of tokens read again", extra={"failures": self._failures})
        self._failures, self.problem = 0, ""


def roles_of(claims: Mapping[str, Any], path: str) -> frozenset[str]:
    """Return the roles of a token: those words at the path that are roles of Kaboost."""
    found: Any = claims.get(path)
    if found is None:
        found = claims
        for part in path.split("."):
            found = found.get(part) if isinstance(found, Mapping) else None
    words = found.split() if isinstance(found, str) else found if isinstance(found, list) else ()
    return frozenset(role for role in ROLES if role in words)


def _key_id(token: bytes) -> str | None:
    try:
        found = jwt.get_unverified_header(token).get("kid")
    except (jwt.PyJWTError, ValueError):
        raise Denied(401, "bad_token", "Authorization is neither a key nor a token (JWT)") from None
    return found if isinstance(found, str) else None


def _explain(err: Exception) -> str:
    """Return why, without anything of the token."""
    words = {
        "InvalidAudienceError": "its aud is not api.auth.jwt.audience",
        "InvalidSubjectError": "its sub is no text",
        "InvalidIssuerError": "its iss is not api.auth.jwt.issuer",
        "InvalidSignatureError": "its signature is wrong",
        "InvalidAlgorithmError": f"its alg is not one of {', '.join(ALGORITHMS)}",
        "ImmatureSignatureError": "it is not valid yet",
        "MissingRequiredClaimError": "it needs exp, iss, aud and sub",
    }
    return words.get(type(err).__name__, "it is no valid JWT")
