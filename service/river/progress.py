"""What a live model keeps on disk: how far its dead letters are written, which versions it gave."""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from kaboost.service.storage import files

KIND = "live"
NAME = f"{KIND}{files.SUFFIX}"


class Note(NamedTuple):
    """Everything before these offsets is done with; no version above the limit was given."""

    topic: str
    offsets: dict[int, int]
    limit: int


def read(directory: Path, topic: str) -> Note:
    """Read the note about a topic; of another topic only the versions count."""
    try:
        header, _ = files.read(directory / NAME)
    except FileNotFoundError:
        return Note(topic, {}, 0)
    offsets = {int(p): offset for p, offset in header["offsets"].items()}
    return Note(topic, offsets if header["topic"] == topic else {}, header["limit"])


def write(directory: Path, note: Note) -> Path:
    """Write the note in place of the one before, durably."""
    path = files.make(directory) / NAME
    offsets: Mapping[str, int] = {str(p): offset for p, offset in note.offsets.items()}
    header = {"kind": KIND, "topic": note.topic, "offsets": offsets, "limit": note.limit}
    files.write(path, {}, header)
    return path
