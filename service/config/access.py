"""The sections `api.auth` and `api.tls` of the settings: who may send requests, and how."""

import ipaddress
from urllib.parse import urlsplit

from pydantic import Field, field_validator, model_validator

from kaboost.service.config.section import File, Seconds, Section


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def is_trusted_url(url: str) -> bool:
    """Whether nobody between can change what comes from a URL: https, or http on this machine."""
    parts = urlsplit(url)
    if parts.scheme == "http":
        return is_loopback(parts.hostname or "")
    return parts.scheme == "https"


def without_secrets(url: str) -> str:
    """Return a URL without user, password, query and fragment."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return "an address that is no URL"
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


class Jwt(Section):
    """Tokens of an identity provider; `issuer`, `audience` and `jwks` are set together."""

    issuer: str | None = Field(
        default=None, min_length=1, description="The `iss` that tokens must have."
    )
    audience: str | None = Field(
        default=None, min_length=1, description="The `aud` that tokens must have, or have among it."
    )
    jwks: str | None = Field(
        default=None,
        min_length=1,
        description="The provider's public keys (JWKS): a file, which is read again when it "
        "changes, or an https URL without a password, which is asked again every `jwks_seconds`.",
    )
    jwks_seconds: Seconds = Field(
        default=300.0, description="Seconds until the URL of `jwks` is asked again."
    )
    roles_claim: str = Field(
        default="roles",
        min_length=1,
        description="Claim with the roles, a list or words of a text; dots lead into objects: "
        "`realm_access.roles`.",
    )

    @field_validator("jwks")
    @classmethod
    def _check_jwks(cls, value: str | None) -> str | None:
        if value is None or "://" not in value:
            return value
        if not is_trusted_url(value):
            raise ValueError("whoever is between could send other keys: write an https URL")
        parts = urlsplit(value)
        if parts.username is not None or parts.password is not None:
            raise ValueError("public keys need no password: leave out what is before the @")
        try:
            (parts.hostname or "").encode("idna")
        except UnicodeError as err:
            raise ValueError(f"its host is no name: {err}; write an https URL") from err
        return value

    @model_validator(mode="after")
    def _check_complete(self) -> "Jwt":
        parts = {name: getattr(self, name) for name in ("issuer", "audience", "jwks")}
        missing = [name for name, value in parts.items() if value is None]
        if missing and len(missing) < len(parts):
            raise ValueError(
                f"api.auth.jwt has no {' and no '.join(missing)}: without it tokens of others "
                "would be accepted; set issuer, audience and jwks"
            )
        return self


class Auth(Section):
    """Who may send requests; `api.auth: none` for everybody who reaches the port."""

    required: bool | None = Field(
        default=None,
        description="Whether requests need a key or a token; `api.auth: none` is short for false. "
        "Not set: where `keys` or `jwt` is set.",
    )
    keys: File | None = Field(
        default=None,
        description="File of API keys, a line each, made by `kaboost keys new`; it is read again "
        "when it changes.",
    )
    jwt: Jwt = Field(default_factory=Jwt)
    max_requests_per_second: float | None = Field(
        default=None,
        gt=0.0,
        le=1e6,
        description="Most requests per second of one key or one subject of tokens, over all "
        "workers; more are refused with 429.",
    )

    @property
    def is_on(self) -> bool:
        """Whether requests need a key or a token."""
        has_some = self.keys is not None or self.jwt.jwks is not None
        return has_some if self.required is None else self.required

    @model_validator(mode="after")
    def _check_some(self) -> "Auth":
        if self.required and self.keys is None and self.jwt.jwks is None:
            raise ValueError(
                "api.auth.required = true, but there are neither api.auth.keys nor api.auth.jwt, "
                "so every request would be refused: set one of them"
            )
        return self


class Tls(Section):
    """TLS of the API and of the admin port; `cert` and `key` are set together."""

    cert: File | None = Field(
        default=None,
        description="File of the certificate and those between it and the root, in PEM; read "
        "again when it changes.",
    )
    key: File | None = Field(
        default=None, description="File of its private key, in PEM and without a passphrase."
    )
    client_ca: File | None = Field(
        default=None,
        description="File of root certificates, in PEM: then clients need a certificate of theirs "
        "(mutual TLS).",
    )

    @model_validator(mode="after")
    def _check_pair(self) -> "Tls":
        if (self.cert is None) != (self.key is None):
            missing = "key" if self.key is None else "cert"
            raise ValueError(f"api.tls has no {missing}: set both cert and key")
        if self.client_ca is not None and self.cert is None:
            raise ValueError("api.tls.client_ca needs cert and key: set all three")
        return self
