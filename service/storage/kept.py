"""Checkpoints from before a rollback: kept in a folder of their own, where no newer one counts."""

import os
from pathlib import Path

from kaboost.service.errors import NotWritten, Refused
from kaboost.service.storage import files

FOLDER = "before-rollback"


def keep_newest(run: Path, kind: str, most: int) -> int:
    """Keep the newest file of a run, and the newest so many of those kept; return its number.

    It is the same file by a second name: no byte is copied.
    """
    newest = files.newest(run, kind)[0]
    folder = files.make(run / FOLDER)
    second = folder / newest.name
    try:
        second.unlink(missing_ok=True)
        os.link(newest, second)
        files.sync_folder(folder)
    except OSError as err:
        raise NotWritten(f"{second} cannot be made: {err.strerror}") from err
    files.prune(folder, kind, most)
    return files.number(newest)


def find(run: Path, kind: str, number: int) -> Path:
    """Return the file of a number, or refuse it and list those that are there."""
    for folder in (run, run / FOLDER):
        path = files.numbered(folder, kind, number)
        if path.exists():
            return path
    newer, before = (
        ", ".join(str(files.number(path)) for path in files.newest(folder, kind)) or "none"
        for folder in (run, run / FOLDER)
    )
    raise Refused(
        f"there is no {kind} {number} in {run}: there are {newer}, and from before rollbacks "
        f"{before}"
    )
