"""Settings of the files: snapshots and checkpoints, in a folder or an object store."""

import re
from pathlib import Path
from typing import Any

from pydantic import Field, SecretStr, field_validator

from kaboost.service.config.section import (
    TRANSPORT,
    Folder,
    Seconds,
    Section,
    StoreUrl,
    Transport,
    is_secret,
    to_text,
)


class Snapshots(Section):
    """How often the served model is updated."""

    directory: Folder = Field(
        default=Path("data/snapshots"), description="Folder of the snapshot files."
    )
    every_events: int = Field(
        default=100_000, ge=1, description="Most events between two snapshots."
    )
    every_seconds: Seconds = Field(default=1.0, description="Most seconds between two snapshots.")
    keep: int = Field(default=10, ge=1, le=100_000, description="Number of newest files to keep.")
    publish: list[Transport] = Field(
        default_factory=list,
        max_length=8,
        description="Further places to which the learner sends its snapshots, for readers without "
        "its folder: `kafka:TOPIC`, or a URL of an object store such as s3://bucket/fraud "
        "(docs/readers.md).",
    )
    source: str | None = Field(
        default=None,
        min_length=1,
        description="Where `kaboost api` has its snapshots from, instead of `snapshots.directory`: "
        "one of the places of `snapshots.publish`, or a folder; its flag `--from` sets it.",
    )
    options: dict[str, bool | int | float | str | SecretStr] = Field(
        default_factory=dict,
        description="Options of the client of object stores in `publish` and `source`, such as "
        "endpoint_url; values of keys that look like secrets are never shown.",
    )

    @field_validator("options")
    @classmethod
    def _hide_options(cls, options: dict[str, Any]) -> dict[str, Any]:
        return hide_options(options)

    @field_validator("source")
    @classmethod
    def _check_source(cls, source: str | None) -> str | None:
        is_place = source is None or re.match(TRANSPORT, source)
        if not is_place and re.match(r"kafka:|[\w+.-]+:/", source or ""):
            raise ValueError(
                f"{source!r} is no source: write kafka:TOPIC, a URL such as s3://bucket/fraud, or "
                "a folder"
            )
        return source

    @property
    def is_remote(self) -> bool:
        """Whether the snapshots to serve come from a topic or an object store."""
        return self.source is not None and re.match(TRANSPORT, self.source) is not None


class Checkpoints(Section):
    """How often the learner saves its state, to continue after a crash."""

    directory: StoreUrl | Folder = Field(
        default=Path("data/checkpoints"),
        description="Folder of the files, or a URL of an object store that fsspec knows, "
        "such as s3://bucket/fraud (extra `object-store`, docs/deploy.md).",
    )
    options: dict[str, bool | int | float | str | SecretStr] = Field(
        default_factory=dict,
        description="Options of the object store's client, such as endpoint_url; values of keys "
        "that look like secrets are never shown.",
    )
    cache: Folder = Field(
        default=Path("data/checkpoints-cache"),
        description="Folder in which checkpoints of an object store are written and read first; "
        "with --standby, of a shared folder as well.",
    )
    every_events: int = Field(
        default=1_000_000, ge=1, description="Most events between two checkpoints."
    )
    every_seconds: Seconds = Field(
        default=10.0, description="Most seconds between two checkpoints."
    )
    keep: int = Field(
        default=3,
        ge=1,
        le=100_000,
        description="Number of newest files to keep; with 1 a damaged file has no fallback.",
    )
    lock_timeout: Seconds | None = Field(
        default=None,
        description="Seconds to wait for another learner to leave this folder, or that of the "
        "snapshots, before exit 3; as long as it runs, if not set.",
    )

    @property
    def folder(self) -> Path:
        """The folder on this machine."""
        return self.directory if isinstance(self.directory, Path) else self.cache

    @field_validator("directory", mode="before")
    @classmethod
    def _read_file_url(cls, value: object) -> object:
        if isinstance(value, str) and value.startswith("file://"):
            return Path(value.removeprefix("file://"))
        return value

    @field_validator("options")
    @classmethod
    def _hide_options(cls, options: dict[str, Any]) -> dict[str, Any]:
        return hide_options(options)


def hide_options(options: dict[str, Any]) -> dict[str, Any]:
    """Wrap the values of keys that look like secrets."""
    return {
        key: SecretStr(to_text(value)) if is_secret(key) else value
        for key, value in options.items()
    }
