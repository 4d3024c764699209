"""What every section of the settings is made of: the frozen base class and types of values."""

import re
from contextlib import suppress
from pathlib import Path
from typing import Annotated

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    WithJsonSchema,
)

SECRET = re.compile(
    r"password|passphrase|secret|credential|token(?!\.endpoint)|key\.pem$|ssl\.key$|oauthbearer\.config"
    r"|basic\.auth\.user\.info|account_key|access_key|connection_string|sas\b"
)
UNITS = {"s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0}  # seconds
DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*([smhd])")
LONGEST = 10 * 366 * 86_400.0  # seconds


class Section(BaseModel):
    """A section of the settings: frozen, without unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


def is_secret(key: str) -> bool:
    """Whether a client's key holds a secret."""
    return SECRET.search(key.lower()) is not None


def to_text(value: bool | int | float | str | SecretStr) -> str:
    """Return a value of a client's key as text, secrets revealed."""
    if isinstance(value, SecretStr):
        return value.get_secret_value()
    return str(value).lower() if isinstance(value, bool) else str(value)


def _parse_duration(value: object) -> object:
    match = DURATION.fullmatch(value.strip()) if isinstance(value, str) else None
    if match:
        return float(match[1]) * UNITS[match[2]]
    if isinstance(value, str) and not value.strip().isdigit():
        raise ValueError("write a number and a unit, s, m, h or d, such as 30d")
    return value


def _folder(path: Path) -> Path:
    with suppress(OSError):  # missing permissions are reported at the first write
        if path.exists() and not path.is_dir():
            raise ValueError("is not a folder; name a folder, or a path where one can be created")
    return path


Seconds = Annotated[float, Field(gt=0, le=86_400)]
Duration = Annotated[float, Field(gt=0, le=LONGEST), BeforeValidator(_parse_duration)]
Folder = Annotated[Path, AfterValidator(_folder)]
File = Annotated[Path, WithJsonSchema({"type": "string", "format": "file-path"})]
StoreUrl = Annotated[str, Field(pattern=r"^[a-z][a-z0-9+.-]*://\S+$")]
TopicName = Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,249}$")]
# Where snapshots travel: kafka:TOPIC, or the URL of an object store.
TRANSPORT = r"^(kafka:[A-Za-z0-9._-]{1,249}|[a-z][a-z0-9+.-]*://\S+)$"
Transport = Annotated[str, Field(pattern=TRANSPORT)]
