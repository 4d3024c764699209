"""Tokens of an identity provider: JWT with RS256 or ES256, checked against its public keys."""

import asyncio
import contextvars
import logging
import math
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kaboost.service.access.callers import Caller, Denied
from kaboost.service.access.public_keys import (
    ALGORITHMS,
    PublicKeys,
    fetch_jwks,
    read_jwks_file,
)
from kaboost.service.access.roles import ROLES
from kaboost.service.access.watched import WatchedFile
from kaboost.service.config.access import Jwt
from kaboost.service.errors import ConfigError

try:
    import jwt
except ImportError:  # the extra `auth`
    jwt = None  # type: ignore[assignment]

LEEWAY_SECONDS = 10  # between two clocks
RETRY_SECONDS = (1.0, 60.0)  # until a provider that did not answer is asked again, doubled to this
WAIT_SECONDS = 1.0  # of a request for an answer of the provider
UNKNOWN_SECONDS = 5.0  # between two requests for keys that the provider may have added
MOST_TOKENS = 4_096  # that were checked and are remembered

NO_SUBJECT = "the token is refused: its sub is empty; it names who is counted and recorded"
NO_PROVIDER = (
    "the identity provider has not answered yet, so the token cannot be checked: try again"
)

log = logging.getLogger(__name__)


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
        self._retry: asyncio.TimerHandle | None = None  # at most one, whoever has asked
        self.problem = ""  # that the keys were not read the last time; shown without a key

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
        if key is None and self._may_ask_for_others():
            self._ask()
        asking = self._asking
        if key is None and asking is not None and not asking.done():
            await asyncio.wait({asking}, timeout=WAIT_SECONDS)  # others wait for it, too
            key = self._key(key_id)
            if key is None and not asking.done():
                raise Denied(503, "no_provider", NO_PROVIDER, 1)
        if key is None:
            raise Denied(401, "bad_token", "the token's kid is not a key of api.auth.jwt.jwks")
        caller = self._verify(token, key)
        self._forget_others()
        if len(self._known) >= MOST_TOKENS:
            self._known.clear()
        self._known[token] = caller
        return caller

    def _may_ask_for_others(self) -> bool:
        """Whether the provider may be asked for an unknown kid, which needs no right: not while it
        is away, when the timer asks.
        """
        since = time.monotonic() - self._asked
        return self._url is not None and not self._failures and since > UNKNOWN_SECONDS

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
            if self._retry is not None:
                self._retry.cancel()
            self._asked = time.monotonic()
            # Not in the context of a request: its id would be in lines that are not about it.
            context = contextvars.Context()
            self._asking = asyncio.create_task(self._fetch(), context=context)

    async def _fetch(self) -> None:
        """Read the keys; without an answer the same is done again by itself."""
        try:
            self._fetched = await asyncio.to_thread(fetch_jwks, self._url or "")
        except ConfigError as err:
            self._fail(str(err))
        except Exception as err:  # boundary: nobody awaits the task, so nobody would see the error
            self._fail(type(err).__name__)  # its message may hold the URL
        else:
            if self._failures:
                log.info("keys of tokens read again", extra={"failures": self._failures})
            self._failures, self.problem = 0, ""

    def _fail(self, reason: str) -> None:
        self._failures += 1
        self.problem = (
            f"the identity provider gives no keys; asked again in {self._retry_seconds:g} s"
        )
        log.error("keys of tokens not read, the earlier ones count", extra={"reason": reason})
        self._retry = asyncio.get_running_loop().call_later(self._retry_seconds, self._ask)


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
