"""Copy snapshots from a source into a folder, which API processes follow as that of a learner."""

import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path

from kaboost.service.errors import CheckpointError, StoreAway
from kaboost.service.storage import files, heartbeat
from kaboost.service.storage.live import FIGURES, LiveFiles
from kaboost.service.storage.manifest import LearnerFiles, Manifest, SnapshotSource
from kaboost.service.storage.snapshots import KIND, Numbering
from kaboost.service.storage.source_status import SourceStatus

POLL_SECONDS = 0.2
STATUS_SECONDS = 0.5  # between two reports while nothing else changes
FIRST_RETRY_SECONDS = 0.2  # for a snapshot that is not whole; doubled after every further attempt
MAX_RETRY_SECONDS = 10.0

log = logging.getLogger(__name__)


class Mirror:
    """Keep a folder like the learner's: whole snapshots, the newest few, and the learner's state.

    Whatever the source does, the folder only ever gets a snapshot that is newer than the last one,
    and whose bytes are those of its manifest.
    """

    def __init__(
        self,
        source: SnapshotSource,
        directory: Path,
        keep: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._source = source
        self._directory = files.make(directory)
        self._live = LiveFiles(directory)
        self._keep = keep
        self._clock = clock
        self._held = Numbering(-1)  # of the newest file in the folder
        self._manifest: Manifest | None = None  # of a newer one that is not received yet
        self._retry_at, self._retry_after = 0.0, FIRST_RETRY_SECONDS
        self._learner = LearnerFiles()
        self._term = (-1, 0)  # of the newest manifest
        self._reported = 0.0
        self.status = SourceStatus(source.location, clock())
        self.status.write(self._directory)

    def run(self, stop: threading.Event) -> None:
        """Copy until asked to stop."""
        while not stop.is_set():
            started = self._clock()
            try:
                self.step()
            except Exception as err:  # boundary: no content of the source may end the mirror
                log.exception("snapshot not received")
                self._note_damage(repr(err))
            stop.wait(max(0.0, started + POLL_SECONDS - self._clock()))

    def step(self) -> None:
        """Look once for news, and take them; a failure is logged, counted and reported."""
        before = self.status
        try:
            manifest = self._source.newest(POLL_SECONDS)
            self._note_answer()
            if manifest is not None:
                self._take(manifest)
        except StoreAway as err:
            self._note_failure(str(err))
        except (CheckpointError, OSError) as err:
            self._note_damage(str(err))
        if self._manifest is not None and self._clock() >= self._retry_at:
            try:
                self._receive(self._manifest)
            except (CheckpointError, OSError) as err:
                self._note_damage(str(err))
        if self.status._replace(reached=None) != before._replace(reached=None) or (
            self._clock() - self._reported >= STATUS_SECONDS
        ):
            self._report()

    def _take(self, manifest: Manifest) -> None:
        """Note the learner's state, and which snapshot has to be received.

        An older epoch's learner may still run, or a leader that was replaced: neither its snapshots
        nor its state are news.
        """
        if manifest.term < self._term:
            return
        self._term = manifest.term
        wanted = self._manifest.numbering if self._manifest else self._held
        self._write_learner(manifest.learner)
        if self._manifest is None:
            self.status = self.status._replace(damage="", damaged_since=None)
        if manifest.numbering > wanted:
            self._manifest, self._retry_at = manifest, 0.0
        elif self._manifest is not None and manifest.numbering == wanted:
            self._manifest = manifest  # sent again, perhaps to another place

    def _receive(self, manifest: Manifest) -> None:
        """Fetch a snapshot, and give it to the folder if it is whole."""
        data = self._source.fetch(manifest)
        manifest.check(data)
        version = manifest.numbering.version
        path = files.numbered(self._directory, KIND, version)
        files.replace(path, data)
        if manifest.numbering.epoch != self._held.epoch:
            for other in files.newest(self._directory, KIND):
                if other != path:
                    other.unlink(missing_ok=True)  # who maps it keeps its content
        files.prune(self._directory, KIND, self._keep)
        level = logging.INFO if self._held.epoch < 0 else logging.DEBUG
        log.log(level, "snapshot received", extra={"version": version, "bytes": len(data)})
        self._held, self._manifest = manifest.numbering, None
        self._retry_after = FIRST_RETRY_SECONDS
        received = self.status.received + 1
        self.status = self.status._replace(version=version, received=received)
        self.status = self.status._replace(damage="", damaged_since=None)

    def _write_learner(self, learner: LearnerFiles) -> None:
        """Write what has changed of the learner's files."""
        before, self._learner = self._learner, learner
        folder = self._directory
        if learner.status and learner.status != before.status:
            files.replace(folder / ".status.json", learner.status.encode())
        if learner.condition and learner.condition != before.condition:
            files.replace(folder / ".condition.json", learner.condition.encode())
        if learner.figures != before.figures:
            self._live.write(FIGURES, learner.figures)
        if learner.heartbeat and learner.heartbeat != before.heartbeat:
            files.replace(folder / heartbeat.NAME, learner.heartbeat.encode("ascii", "replace"))

    def _note_answer(self) -> None:
        if self.status.reason:
            log.info("source of snapshots answers again", extra={"source": self.status.location})
        self.status = self.status._replace(reached=self._clock(), reason="")

    def _note_failure(self, reason: str) -> None:
        """Log the first failure in a row."""
        if not self.status.reason:
            fields = {"source": self.status.location, "reason": reason}
            log.error("source of snapshots does not answer, the last one is served", extra=fields)
        failures = self.status.failures + 1
        self.status = self.status._replace(failures=failures, reason=reason)

    def _note_damage(self, reason: str) -> None:
        """Log once that a snapshot is not whole, and try it later: a store may lag behind."""
        self._retry_at = self._clock() + self._retry_after
        self._retry_after = min(2.0 * self._retry_after, MAX_RETRY_SECONDS)
        if self.status.damage != reason:
            log.warning("snapshot not received, it is tried again", extra={"reason": reason})
        since, damaged = self.status.damaged_since, self.status.damaged + 1
        since = self._clock() if since is None else since
        self.status = self.status._replace(damaged=damaged, damage=reason, damaged_since=since)

    def _report(self) -> None:
        self._reported = self._clock()
        try:
            self.status.write(self._directory)
        except (OSError, CheckpointError) as err:
            log.error("status of the source not written", extra={"reason": str(err)})
