"""What a River model keeps on disk: how far dead letters are written, which versions were used."""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple, Self

from kaboost.service.storage import files
from kaboost.service.storage.checkpoints import Written

KIND = "live"
NAME = f"{KIND}{files.SUFFIX}"


class RiverProgress(NamedTuple):
    """Dead letters before these offsets are written; no version above the limit was used."""

    topic: str
    offsets: dict[int, int]  # partition → next offset
    version_limit: int

    @classmethod
    def read(cls, directory: Path, topic: str) -> Self:
        """Read the progress on a topic; from another topic's only the limit counts."""
        try:
            header, _ = files.read(directory / NAME)
        except FileNotFoundError:
            return cls(topic, {}, 0)
        offsets = {int(p): offset for p, offset in header["offsets"].items()}
        return cls(topic, offsets if header["topic"] == topic else {}, header["limit"])

    def write(self, directory: Path) -> Written:
        """Replace the file durably."""
        path = files.make(directory) / NAME
        offsets: Mapping[str, int] = {str(p): offset for p, offset in self.offsets.items()}
        header = {"kind": KIND, "topic": self.topic, "offsets": offsets}
        files.write(path, {}, {**header, "limit": self.version_limit})
        status = path.stat()
        return Written(str(path), status.st_size, status.st_mtime)
