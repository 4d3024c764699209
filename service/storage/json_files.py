"""Small JSON files: replaced as a whole, so that a reader never sees half of one."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kaboost.service.errors import NotWritten
from kaboost.service.storage import files


def write(path: Path, values: Mapping[str, Any]) -> None:
    """Replace a file durably, or raise NotWritten."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        files.make(path.parent)
        with open(temporary, "w", encoding="utf-8") as file:
            json.dump(values, file)
            file.flush()
            files.sync(file.fileno())
        os.replace(temporary, path)
        files.sync_folder(path.parent)
    except OSError as err:
        raise NotWritten(
            f"{path} cannot be written ({err.strerror}): make room, or correct the folder's "
            "permissions"
        ) from err


def read(path: Path) -> dict[str, Any] | None:
    """Read a file; None where there is none, or no JSON object in it."""
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return None
    return values if isinstance(values, dict) else None
