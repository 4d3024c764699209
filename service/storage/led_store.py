"""Checkpoints of learners that take turns: a leadership has an epoch, and older ones are refused.

An epoch is claimed by creating the object of its number, which only one process can. Whoever leads
looks for the object of the next number before it writes. Checkpoints are created as well, never
replaced: one that comes late finds its number taken.
"""

import json
import logging
import math
import os
import platform
import re
import shutil
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from kaboost.service.errors import (
    CheckpointError,
    FolderBusy,
    NotWritten,
    StoreAway,
    Superseded,
)
from kaboost.service.storage import files
from kaboost.service.storage.checkpoints import KIND, RUNS, Written
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
            self.fetch(FETCHED_RUNS)  # the newest header bounds the epoch from below
            self.leader_epoch = self._claim_epoch()
            self._remote.put(WRITER, self._claim())  # ends a learner that knows no epochs
            self.fetch(FETCHED_RUNS)
            yield

    def clear(self) -> None:
        """Empty the folder: a process that was killed may have left a file that was not sent, or
        one of another store.
        """
        with self._lock:
            for run in self._folder.glob(RUNS):
                shutil.rmtree(run, ignore_errors=True)

    def follow(self) -> None:
        """Make the folder a copy of the newest runs, as a standby; nothing is claimed."""
        with self._lock:
            self.fetch(FETCHED_RUNS)

    def fetch(self, runs: int | None = None) -> None:
        """Make the folder a copy of the newest runs; what this process has copied is not read
        again, as no object is ever replaced.
        """
        names = [name for name in self._remote.names() if name.count("/") == 1]
        found = sorted({n.partition("/")[0] for n in names if is_run(n.partition("/")[0])})
        found = found[-(runs or len(found)) :]
        wanted = {
            name
            for name in names
            if name.partition("/")[0] in found
            and (name.endswith(f"/{STARTED}") or number_of(name) is not None)
        }
        try:
            self._remove_others(found, wanted)
            for name in sorted(wanted):
                self._fetch(name)
        except OSError as err:
            raise NotWritten(
                f"{self._folder} (checkpoints.cache) cannot be written ({err.strerror}): make "
                "room, or correct the folder's permissions"
            ) from err

    def write(self, header: Mapping[str, Any], state: State) -> Written:
        """Write the next checkpoint of the current run, unless there is a newer leader.

        Where an older leader has taken its number late, it takes the next. A newer leader may have
        removed this number as an old one, so that its object could be created again: whether there
        is one is looked for once more, and nothing is reported as written.
        """
        for _ in range(ATTEMPTS):
            self.require_leader()
            whole = {**header, "is_elected": True}
            path = Path(super(ObjectCheckpointStore, self).write(whole, state).name)
            name = f"{path.parent.name}/{path.name}"
            is_written = False
            try:
                is_written = self._remote.create(name, path.read_bytes())
                self.require_leader()
            except CheckpointError:
                is_written = False
                raise
            finally:
                if not is_written:
                    path.unlink(missing_ok=True)
            if is_written:
                self._prune(path.parent)
                status = path.stat()
                return Written(f"{self._remote.url}/{name}", status.st_size, status.st_mtime)
            self._fetch(name)
            log.warning("number of a checkpoint exists already", extra={"path": name})
        raise StoreAway(f"{self._remote.url}: {ATTEMPTS} numbers of checkpoints exist already")

    def require_leader(self) -> None:
        """Raise Superseded if another process has claimed a later epoch."""
        with suppress(FileNotFoundError):
            claim = self._remote.get(_claim_name(self.leader_epoch + 1))
            raise Superseded(self._remote.url, _holder_of(claim), self.leader_epoch)
        try:
            self._require_writer()
        except FolderBusy as busy:
            epoch = self._writer_epoch()
            if epoch > self.leader_epoch:
                raise Superseded(self._remote.url, busy.holder, self.leader_epoch) from busy
            if not epoch or epoch == self.leader_epoch:
                raise  # a learner that knows no epochs
            log.warning("an earlier leader has signed late", extra={"holder": busy.holder})
            self._remote.put(WRITER, self._claim())

    def _prune(self, run: Path) -> None:
        """Remove what is older than all that the folder keeps; a failure leaves it for the next
        time. What is newer is of a later leader, where this one comes late.
        """
        kept = [files.number(path) for path in files.newest(run, KIND)]
        try:
            for name in self._remote.names() if kept else ():
                number = number_of(name)
                is_old = number is not None and number < min(kept)
                is_left = number is None and _number_of_temporary(name) < min(kept)
                if name.startswith(f"{run.name}/") and (is_old or is_left):
                    self._remote.remove(name)
        except StoreAway as err:
            log.warning("old checkpoints stay in the object store", extra={"reason": str(err)})

    def _claim_epoch(self) -> int:
        """Create the object of the next epoch; a listing may lag behind, a creation does not.

        Where claims were lost, the epochs of the writer and of the newest checkpoint count.
        """
        claims = [name for name in self._remote.names() if name.startswith(f"{CLAIMS}/")]
        claimed = [int(Path(name).stem) for name in claims if Path(name).stem.isdecimal()]
        known = self.newest_header().get("leader_epoch", 0)
        self.leader_epoch = max([*claimed, self._writer_epoch(), known]) + 1
        while not self._remote.create(_claim_name(self.leader_epoch), self._claim()):
            self.leader_epoch += 1
        fields = {"epoch": self.leader_epoch, "store": self._remote.url}
        log.info("leader epoch claimed", extra=fields)
        return self.leader_epoch

    def _claim(self) -> bytes:
        claim = {"epoch": self.leader_epoch, "holder": self.leader, "id": self._writer}
        return json.dumps(claim).encode()

    def _writer_epoch(self) -> int:
        """Return the epoch of the last writer, 0 where it knows no epochs, or there is none."""
        try:
            return int(json.loads(self._remote.get(WRITER))["epoch"])
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            return 0

    def _continue_epoch(self, header: Mapping[str, Any]) -> None:
        """Keep the epoch that was claimed."""

    def _remove_others(self, runs: Collection[str], wanted: Collection[str]) -> None:
        """Remove what the store does not have; an empty folder would look like a new run."""
        for run in self._folder.glob(RUNS):
            if run.name not in runs:
                shutil.rmtree(run)
        for path in self._folder.glob(f"{RUNS}/*"):
            if path.is_file() and f"{path.parent.name}/{path.name}" not in wanted:
                path.unlink(missing_ok=True)

    def _fetch(self, name: str) -> None:
        """Copy an object into the folder, if it is not there."""
        run, _, file = name.partition("/")
        path = files.make(self._folder / run) / file
        if file != STARTED and not path.exists():
            try:
                files.replace(path, self._remote.get(name))
            except FileNotFoundError:
                log.debug("%s %s was removed meanwhile", KIND, name)


def number_of(name: str) -> int | None:
    """Return the number of a checkpoint's object, None if it is another object."""
    found = re.fullmatch(rf"run-\d{{4}}/{KIND}-(\d{{12}})\.safetensors", name)
    return int(found[1]) if found else None


def _number_of_temporary(name: str) -> float:
    """Return the number of a checkpoint whose process was killed before it had its name."""
    found = re.fullmatch(rf"run-\d{{4}}/\.{KIND}-(\d{{12}})\.safetensors\..*tmp", name)
    return int(found[1]) if found else math.inf


def _claim_name(epoch: int) -> str:
    return f"{CLAIMS}/{epoch:012d}.json"


def _holder_of(claim: bytes) -> str:
    try:
        return str(json.loads(claim)["holder"])
    except (ValueError, KeyError, TypeError):
        return "another process"
