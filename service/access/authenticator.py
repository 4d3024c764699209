"""Who sends a request, and whether its caller may: keys, tokens, roles and rates together."""

import math
import time
from collections.abc import Iterable

from kaboost.service.access.callers import Caller, Denied
from kaboost.service.access.keys import Entry, KeyRing, Keys, digest_of
from kaboost.service.access.rate import RateLimit
from kaboost.service.access.roles import ADMIN
from kaboost.service.access.tls import context_factory
from kaboost.service.access.tokens import Tokens
from kaboost.service.config.access import is_loopback
from kaboost.service.config.settings import Settings
from kaboost.service.errors import ConfigError

AUTHORIZATION = b"authorization"
BEARER = b"bearer "
NO_KEY = "send Authorization: Bearer KEY with a key or a token of this service"
UNKNOWN_KEY = "the key is not one of this service: was it replaced, or cut short?"
EXPIRED = "the key has expired: ask for a new one"
Headers = Iterable[tuple[bytes, bytes]]


def refuse_open(settings: Settings) -> None:
    """Refuse to listen for other machines without a word about who may send requests."""
    api = settings.api
    if api.auth.is_on or api.auth.required is False or is_loopback(api.host):
        return
    raise ConfigError(
        f"api.host = {api.host} is reachable from other machines, and api.auth says nothing: "
        "whoever reaches it could read the model and write events. Set api.auth.keys to a file of "
        "`kaboost keys new`, or api.auth.jwt; or where a proxy or a network policy decides, write "
        "api.auth: none (KABOOST_API__AUTH__REQUIRED=false); or leave api.host at 127.0.0.1"
    )


def check_access(settings: Settings) -> None:
    """Refuse what could not serve: an open port, an unreadable file of keys or certificates."""
    refuse_open(settings)
    context_factory(settings.api.tls)
    if settings.api.auth.is_on:
        Authenticator(settings)


class Authenticator:
    """Find the caller of a request; raise Denied where it may not.

    Parameters
    ----------
    settings
        Of the whole service; `admin.key` counts as a key with the role admin.
    """

    def __init__(self, settings: Settings) -> None:
        auth = settings.api.auth
        self._keys = KeyRing(auth.keys, _admin_key(settings))
        self._tokens = Tokens(auth.jwt) if auth.jwt.jwks else None
        per_second = auth.max_requests_per_second
        share = None if per_second is None else per_second / settings.api.workers
        self._rate = None if share is None else RateLimit(share)

    @property
    def problem(self) -> str:
        """Why tokens cannot be checked as they should; empty if they can."""
        return "" if self._tokens is None else self._tokens.problem

    def start(self) -> None:
        """Begin with what needs an event loop: ask an identity provider for its keys."""
        if self._tokens is not None:
            self._tokens.start()

    async def admit(self, headers: Headers, role: str | None) -> Caller:
        """Return the caller if it has the role (None: any), within its rate; a look-up."""
        caller = await self.find(headers, role)
        wait = 0.0 if self._rate is None else self._rate.wait_of((caller.is_subject, caller.name))
        if wait:
            detail = "more than api.auth.max_requests_per_second: send fewer, or rows together"
            raise Denied(429, "rate", detail, math.ceil(wait))
        return caller

    async def find(self, headers: Headers, role: str | None) -> Caller:
        """Return the caller if it has the role, whatever its rate: also of a long answer again."""
        sent = _sent(headers)
        caller = self._keys.find(sent)
        if caller is None and self._tokens is not None:
            caller = self._tokens.known(sent) or await self._tokens.check(sent)
        if caller is None:
            raise Denied(401, "unknown_key", UNKNOWN_KEY)
        if caller.expires <= time.time():
            raise Denied(401, "expired", EXPIRED)
        if role is not None and role not in caller.roles:
            has = ", ".join(sorted(caller.roles)) or "no role"
            raise Denied(403, "role", f"the path needs the role {role}; {caller.name} has {has}")
        return caller


def _sent(headers: Headers) -> bytes:
    for name, value in headers:
        if name == AUTHORIZATION and value[: len(BEARER)].lower() == BEARER:
            return value[len(BEARER) :].strip()
    raise Denied(401, "no_key", NO_KEY)


def _admin_key(settings: Settings) -> Keys:
    key = settings.admin.key
    if key is None:
        return {}
    digest = digest_of(key.get_secret_value().encode())
    return {digest: Entry("admin.key", frozenset((ADMIN,)), digest, math.inf)}
