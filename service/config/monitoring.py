"""The sections `metrics` and `log` of the settings: what the learner shows of itself."""

from typing import Literal

from pydantic import Field

from kaboost.service.config.section import Seconds, Section


class Metrics(Section):
    """The learner's metrics port."""

    host: str = Field(default="127.0.0.1", min_length=1, description="Address to listen on.")
    port: int = Field(
        default=9464, ge=0, le=65_535, description="Port to listen on; 0 for any free one."
    )
    slices: tuple[str, ...] = Field(
        default=(),
        max_length=5,
        description="Features, such as [country], for whose commonest values the recent loss is "
        "shown; their values become labels of a metric.",
    )


class Log(Section):
    """The log lines on standard error."""

    level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="The lowest level that is logged."
    )
    format: Literal["json", "text"] = Field(
        default="json", description="JSON objects, one a line, or text."
    )
    progress_seconds: Seconds = Field(
        default=30.0, description="Seconds between two lines that report the learner's progress."
    )


class Otel(Section):
    """Traces for OpenTelemetry (extra `otel`)."""

    endpoint: str | None = Field(
        default=None,
        pattern=r"^https?://[^@?#\s]+$",
        description="Address of a collector that takes OTLP over HTTP, such as "
        "http://127.0.0.1:4318, without a password; not set: no traces.",
    )
    sample_ratio: float = Field(
        default=0.01,
        ge=0.0,
        le=1.0,
        description="Share of the requests that are traced. Those with a `traceparent` are traced "
        "if it says so, as are records.",
    )
