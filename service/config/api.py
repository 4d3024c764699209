"""The section `api` of the settings: the HTTP API, its limits, and who may use it."""

import re

from pydantic import Field, field_validator

from kaboost.service.config.access import Auth, Tls, is_loopback
from kaboost.service.config.section import Seconds, Section

ORIGIN = re.compile(r"https?://[^\s/?#@]+")


class Api(Section):
    """The HTTP API."""

    host: str = Field(
        default="127.0.0.1",
        min_length=1,
        description="Address to listen on; 0.0.0.0 for all.",
    )
    port: int = Field(
        default=8000, ge=0, le=65_535, description="Port to listen on; 0 for any free one."
    )
    workers: int = Field(default=1, ge=1, le=256, description="Number of serving processes.")
    max_body_bytes: int = Field(
        default=8 * 1024 * 1024,
        ge=1,
        le=1_000_000_000,
        description="Larger requests are refused with 413.",
    )
    max_rows: int = Field(
        default=10_000, ge=1, le=10_000_000, description="Most instances in one request."
    )
    timeout_seconds: Seconds = Field(
        default=10.0,
        description="Seconds for the body of a request to arrive, and for requests in flight to "
        "finish at shutdown.",
    )
    drain_seconds: float = Field(
        default=1.0,
        ge=0.0,
        le=15.0,
        description="Seconds at shutdown in which requests are still served while "
        "`/healthz/ready` is 503, so that balancers send the next ones elsewhere.",
    )
    stale_after_seconds: Seconds = Field(
        default=30.0,
        description="Seconds without a heartbeat of the learner until predictions are `stale`.",
    )
    max_rejected_ratio: float = Field(
        default=0.99,
        gt=0.0,
        le=1.0,
        description="Share of rejected records, of the last 1,000, from which the service is not "
        "ready, unless it serves a model that has learned.",
    )
    show_records: bool | None = Field(
        default=None,
        description="Whether the page shows the last events and dead letters, without values "
        "of `privacy.fields`. Not set: only where `api.host` is an address of this machine alone, "
        "and the request names such an address or localhost.",
    )

    cors_origins: tuple[str, ...] = Field(
        default=(),
        description="Origins of web pages of others that may send requests, such as "
        "[https://shop.example.com]; `*` for all.",
    )
    auth: Auth = Field(default_factory=Auth)
    tls: Tls = Field(default_factory=Tls)

    @field_validator("auth", mode="before")
    @classmethod
    def _expand_none(cls, value: object) -> object:
        return {"required": False} if value == "none" else value

    @field_validator("cors_origins")
    @classmethod
    def _check_origins(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for origin in value:
            if origin != "*" and not ORIGIN.fullmatch(origin):
                raise ValueError(
                    f"{origin!r} is no origin: write scheme and host without a path, such as "
                    "https://shop.example.com"
                )
        return value

    @property
    def shows_records(self) -> bool:
        """Whether the page shows records."""
        return is_loopback(self.host) if self.show_records is None else self.show_records
