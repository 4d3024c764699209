"""The last good snapshot of a folder: kept next to the newest ones, whatever is published later."""

import os
import shutil
from pathlib import Path

from kaboost.service.errors import CheckpointError, NotWritten
from kaboost.service.storage import files, snapshots
from kaboost.service.storage.snapshots import KIND, Snapshot

GOOD, CANDIDATE = "last-good", "candidate"  # folders of one file each


class GoodSnapshot:
    """Keep one snapshot that has proved good, and one that may."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def offer(self, version: int) -> None:
        """Make a published version the candidate, in the place of the one before."""
        self.drop_candidate()
        files.keep(files.numbered(self._directory, KIND, version), self._directory / CANDIDATE)

    def promote(self) -> None:
        """Make the candidate the last good one."""
        folder, candidate = self._directory / GOOD, self._directory / CANDIDATE
        try:
            files.make(folder)
            for path in files.newest(candidate, KIND):
                os.replace(path, folder / path.name)
            files.sync_folder(folder)
        except OSError as err:
            raise NotWritten(f"{folder} cannot be written: {err.strerror}") from err
        files.prune(folder, KIND, 1)

    def drop_candidate(self) -> None:
        """Forget the candidate."""
        shutil.rmtree(self._directory / CANDIDATE, ignore_errors=True)

    def load(self) -> Snapshot | None:
        """Read the last good one; None where there is none that can be read."""
        for path in files.newest(self._directory / GOOD, KIND):
            try:
                return snapshots.load(path)
            except CheckpointError:
                continue
        return None
