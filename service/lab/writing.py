"""Write a report whole or not at all; a full disk leaves what was there before."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import IO

from kaboost.service.errors import NotWritten


def write_text(path: Path, text: str) -> None:
    """Write a text file, in UTF-8."""
    write(path, lambda file: file.write(text.encode()))


def write(path: Path, fill: Callable[[IO[bytes]], object]) -> None:
    """Write a file under a temporary name, then rename it.

    Raises
    ------
    NotWritten
        If that fails: the file of before stays.
    """
    spare = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with spare.open("wb") as file:
            fill(file)
            file.flush()
            os.fsync(file.fileno())
        spare.replace(path)
    except OSError as err:
        spare.unlink(missing_ok=True)
        raise NotWritten(
            f"{path}: cannot be written: {err.strerror}; make room there, or name another file. "
            "What was measured is printed above, and --json prints all of it"
        ) from err
