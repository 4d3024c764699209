"""Send snapshots to further places, in threads that learning never waits for.

A thread watches the learner's own folder, as an API process does. It sends the newest version when
it is free to, so that a slow place gets fewer versions, and holds one in memory at most.
"""

import json
import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from kaboost.service.config.settings import Settings
from kaboost.service.errors import CheckpointError, StoreAway
from kaboost.service.kafka.snapshot_topic import TopicTarget
from kaboost.service.metrics import LearnerMetrics
from kaboost.service.storage import files
from kaboost.service.storage.live import FIGURES, LiveFiles
from kaboost.service.storage.manifest import LearnerFiles, Manifest, SnapshotTarget
from kaboost.service.storage.object_snapshots import ObjectTarget
from kaboost.service.storage.object_store import RemoteFiles
from kaboost.service.storage.snapshots import FolderSnapshotStore, Numbering
from kaboost.service.storage.stores import reveal

POLL_SECONDS = 0.1
ANNOUNCE_SECONDS = 1.0  # between two manifests: readers see the learner's heartbeat move in them
RETRY_SECONDS = 1.0  # after a failure
CLOSE_SECONDS = 5.0  # for the last snapshot at the end
MAX_FIGURES_BYTES = 400_000  # a manifest is one record

log = logging.getLogger(__name__)


class Sender:
    """Send the newest snapshot of a folder, and what is known of the learner, to one place."""

    def __init__(
        self,
        target: SnapshotTarget,
        directory: Path,
        metrics: LearnerMetrics,
        clock: Callable[[], float] = time.monotonic,
        leader_epoch: int = 0,
    ) -> None:
        self._target = target
        self._leader_epoch = leader_epoch
        self._directory = directory
        self._store = FolderSnapshotStore(directory)
        self._live = LiveFiles(directory)
        self._clock = clock
        self._manifest: Manifest | None = None  # of the version that was sent last
        self._last: Numbering | None = None  # version that was announced last
        self._announced = -ANNOUNCE_SECONDS
        self._is_failing = False
        place = target.location
        self._counts = {
            result: metrics.snapshots_sent.labels(place, result)
            for result in ("sent", "failed", "skipped")
        }
        self._version = metrics.sent_version.labels(place)

    def run(self, stop: threading.Event) -> None:
        """Send until asked to stop, and then what is newest."""
        while not stop.wait(POLL_SECONDS):
            try:
                has_failed = not self.step()
            except Exception as err:  # boundary: a fault of one place must not end its thread
                log.exception("snapshot not sent", extra={"target": self._target.location})
                has_failed = self._note_failure(repr(err))
            if has_failed:
                stop.wait(RETRY_SECONDS)
        if not self._is_failing:
            self._announced = -ANNOUNCE_SECONDS
            self.step()
        self._target.close()

    def step(self) -> bool:
        """Send what is new; return false if that failed."""
        try:
            has_sent = self._send_newest()
            is_due = self._clock() - self._announced >= ANNOUNCE_SECONDS
            if self._manifest is not None and (has_sent or is_due):
                self._announced = self._clock()
                self._target.announce(self._manifest._replace(learner=self._learner()))
            if has_sent:
                self._note_sent()
        except StoreAway as err:
            return not self._note_failure(str(err))
        if self._is_failing and self._manifest is not None:
            self._is_failing = False
            log.info("snapshots sent again", extra={"target": self._target.location})
        return True

    def _send_newest(self) -> bool:
        """Send the newest version, unless it was; return whether it did."""
        path = self._store.newest_path()
        if path is None:
            return False
        try:
            header, _ = files.read(path, mapped=True, verify=False)
            numbering = Numbering(header.get("epoch", 0), header["version"])
            if self._manifest is not None and self._manifest.numbering == numbering:
                return False
            leader_epoch = header.get("leader_epoch", 0)
            if leader_epoch < self._leader_epoch:
                return False  # of an earlier leadership of this learner
            data = path.read_bytes()
        except (CheckpointError, OSError, KeyError):
            return False  # removed since the folder was listed, or damaged: readers would refuse it
        self._manifest = self._target.send(numbering, data, leader_epoch)
        return True

    def _note_failure(self, reason: str) -> bool:
        """Count a failure, and log the first in a row; return true. The version is sent again: the
        place may have lost what it had.
        """
        self._counts["failed"].inc()
        if not self._is_failing:
            fields = {"target": self._target.location, "reason": reason}
            log.error("snapshot not sent, it is tried again", extra=fields)
        self._is_failing, self._manifest = True, None
        return True

    def _note_sent(self) -> None:
        assert self._manifest is not None
        sent, last = self._manifest.numbering, self._last
        self._counts["sent"].inc()
        if last is not None and last.epoch == sent.epoch and last.version < sent.version:
            self._counts["skipped"].inc(sent.version - last.version - 1)
        self._last = sent
        self._version.set(sent.version)

    def _learner(self) -> LearnerFiles:
        """Read the learner's small files; what cannot be read now is sent the next time."""
        figures = self._live.read(FIGURES)
        if len(json.dumps(figures)) > MAX_FIGURES_BYTES:
            figures = {}
        status, condition = map(self._text, (".status.json", ".condition.json"))
        return LearnerFiles(self._store.last_heartbeat() or "", status, condition, figures)

    def _text(self, name: str) -> str:
        with suppress(OSError, ValueError):
            return (self._directory / name).read_text(encoding="utf-8")
        return ""


@contextmanager
def sending(settings: Settings, metrics: LearnerMetrics, leader_epoch: int = 0) -> Iterator[None]:
    """Send snapshots to the places of the settings, each from a thread of its own; none of
    earlier leader epochs.
    """
    stop = threading.Event()
    with ExitStack() as stack:
        for place in settings.snapshots.publish:
            folder = settings.snapshots.directory
            target = open_target(place, settings)
            sender = Sender(target, folder, metrics, leader_epoch=leader_epoch)
            name = f"send to {place}"
            # A daemon: a place that hangs must not keep the learner from ending.
            thread = threading.Thread(target=sender.run, args=(stop,), name=name, daemon=True)
            thread.start()
            stack.callback(thread.join, CLOSE_SECONDS)
        stack.callback(stop.set)
        yield


def open_target(place: str, settings: Settings) -> SnapshotTarget:
    """Choose the transport of a place: nothing is contacted yet."""
    scheme, _, topic = place.partition(":")
    if scheme == "kafka":
        return TopicTarget(settings.kafka.client(), topic)
    options = {key: reveal(value) for key, value in settings.snapshots.options.items()}
    remote = RemoteFiles(place, options, "snapshots.publish")
    return ObjectTarget(remote, settings.snapshots.keep)
