"""Checkpoints of learners that take turns: a leadership has an epoch, and older ones are refused.

An epoch is claimed by creating the object of its number, which only one process can. Whoever leads
looks for the object of the next number before it writes. Checkpoints are created as well, never
replaced: one that comes late finds its number taken.
"""

import json
import logging
import os
import platform
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kaboost.service.errors import FolderBusy, StoreAway, Superseded
from kaboost.service.storage import files
from kaboost.service.storage.checkpoints import KIND, Written
from kaboost.service.storage.lock import FolderLock
from kaboost.service.storage.object_store import (
    FETCHED_RUNS,
    STARTED,
    WRITER,
    ObjectCheckpointStore,
    RemoteFiles,
    is_run,
)
from kaboost.service.storage.state import State

CLAIMS = ".leaders"  # folder of the claims, one object an epoch; they stay
ATTEMPTS = 10  # at a number of a checkpoint that is taken

log = logging.getLogger(__name__)


class LedCheckpointStore(ObjectCheckpointStore):
    """Keep checkpoints below a URL, written by the leader of the newest epoch alone."""

    def __init__(self, remote: RemoteFiles, folder: Path, keep: int, lock: FolderLock) -> None:
        super().__init__(remote, folder, keep, lock)
        self.leader = f"process {os.getpid()} on {platform.node()}"

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Be the leader: claim the next epoch, then read what the one before has written."""
        with self._lock:
            self.leader_epoch = self._claim_epoch()
            self._remote.put(WRITER, self._claim())  # ends a learner that knows no epochs
            self.fetch(FETCHED_RUNS)
            yield

    def clear(self) -> None:
        """Empty the folder: a process that was killed may have left a file that was not sent."""
        with self._lock:
            for path in self._folder.glob("run-*/*"):
                if path.is_file():
                    path.unlink()

    def follow(self) -> None:
        """Make the folder a copy of the newest runs, as a standby; nothing is claimed."""
        with self._lock:
            self.fetch(FETCHED_RUNS)

    def fetch(self, runs: int | None = None) -> None:
        """Make the folder a copy of the newest runs; what it has is not read again, as no object is
        ever replaced.
        """
        names = [name for name in self._remote.names() if name.count("/") == 1]
        found = sorted({n.partition("/")[0] for n in names if is_run(n.partition("/")[0])})
        wanted = {
            name for name in names if name.partition("/")[0] in found[-(runs or len(found)) :]
        }
        for path in self._folder.glob("run-*/*"):
            if path.is_file() and f"{path.parent.name}/{path.name}" not in wanted:
                path.unlink(missing_ok=True)
        for name in sorted(wanted):
            self._fetch(name)

    def write(self, header: Mapping[str, Any], state: State) -> Written:
        """Write the next checkpoint of the current run, unless there is a newer leader.

        Where an older leader has taken its number late, it takes the next.
        """
        for _ in range(ATTEMPTS):
            self.require_leader()
            path = Path(super(ObjectCheckpointStore, self).write(header, state).name)
            name = f"{path.parent.name}/{path.name}"
            is_written = False
            try:
                is_written = self._remote.create(name, path.read_bytes())
            finally:
                if not is_written:
                    path.unlink(missing_ok=True)
            if is_written:
                self._prune(path.parent)
                status = path.stat()
                return Written(f"{self._remote.url}/{name}", status.st_size, status.st_mtime)
            self._fetch(name)
            log.warning("number of a checkpoint is taken", extra={"path": name})
        raise StoreAway(f"{self._remote.url}: {ATTEMPTS} numbers of checkpoints are taken")

    def require_leader(self) -> None:
        """Raise Superseded if another process has claimed a later epoch."""
        busy: FolderBusy | None = None
        try:
            self._require_writer()
        except FolderBusy as err:  # a later leader, or a learner that knows no epochs
            busy = err
        try:
            claim = self._remote.get(_claim_name(self.leader_epoch + 1))
        except FileNotFoundError:
            if busy is not None:
                raise busy from None
            return
        raise Superseded(self._remote.url, _holder_of(claim), self.leader_epoch)

    def _claim_epoch(self) -> int:
        """Create the object of the next epoch; a listing may lag behind, a creation does not."""
        claims = [name for name in self._remote.names() if name.startswith(f"{CLAIMS}/")]
        epoch = max((int(Path(name).stem) for name in claims), default=0) + 1
        text = json.dumps({"epoch": epoch, "holder": self.leader, "id": self._writer})
        while not self._remote.create(_claim_name(epoch), text.encode()):
            epoch += 1
        log.info("leader epoch claimed", extra={"epoch": epoch, "store": self._remote.url})
        return epoch

    def _fetch(self, name: str) -> None:
        """Copy an object into the folder, if it is not there."""
        run, _, file = name.partition("/")
        path = files.make(self._folder / run) / file
        if file != STARTED and not path.exists():
            try:
                files.replace(path, self._remote.get(name))
            except FileNotFoundError:
                log.debug("%s %s was removed meanwhile", KIND, name)


def _claim_name(epoch: int) -> str:
    return f"{CLAIMS}/{epoch:012d}.json"


def _holder_of(claim: bytes) -> str:
    try:
        return str(json.loads(claim)["holder"])
    except (ValueError, KeyError, TypeError):
        return "another process"
