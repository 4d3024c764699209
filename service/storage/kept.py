"""Checkpoints from before a rollback: kept in a folder of their own, where no newer one counts."""

from pathlib import Path

from kaboost.service.errors import Refused
from kaboost.service.storage import files

FOLDER = "before-rollback"


def keep_newest(run: Path, kind: str, most: int) -> int:
    """Keep the newest file of a run, and the newest so many of those kept; return its number."""
    newest = files.newest(run, kind)[0]
    files.keep(newest, run / FOLDER)
    files.prune(run / FOLDER, kind, most)
    return files.number(newest)


def paths(directory: Path, kind: str) -> list[Path]:
    """List those of all runs below a folder, the newest first."""
    folders = sorted(directory.glob(f"run-*/{FOLDER}"), reverse=True)
    return [path for folder in folders for path in files.newest(folder, kind)]


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
