"""Checkpoints in an object store: written to a folder first, then sent there and read back.

The folder is a copy that every start replaces. What counts is in the object store.
"""

import hashlib
import json
import logging
import os
import platform
import shutil
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

from kaboost.service.errors import CheckpointError, ConfigError, FolderBusy, StoreAway
from kaboost.service.storage import files
from kaboost.service.storage.checkpoints import RUNS, FolderCheckpointStore, Written
from kaboost.service.storage.lock import FolderLock
from kaboost.service.storage.state import State

TRIES = 3  # of one request
BACKOFF_SECONDS = 0.25  # before the second; four times as long before the third
STARTED = ".started"  # marks a run without a checkpoint: object stores have no empty folders
WRITER = ".writer"  # says which process writes
LOCAL = ("file", "local")
FETCHED_RUNS = 2  # the current one, and the one before it for the numbers of versions
S3_TIMEOUTS = {"connect_timeout": 5, "read_timeout": 30, "retries": {"max_attempts": 0}}
S3_OPTIONS = {"use_listings_cache": False, "config_kwargs": S3_TIMEOUTS}
PROTOCOL_OPTIONS: dict[str, dict[str, Any]] = {
    "s3": S3_OPTIONS,
    "s3a": S3_OPTIONS,
    "file": {"auto_mkdir": True},
}

T = TypeVar("T")

log = logging.getLogger(__name__)


class RemoteFiles:
    """The objects below one URL; each request is tried a few times."""

    def __init__(
        self,
        url: str,
        options: Mapping[str, Any],
        setting: str = "checkpoints.directory",
        tries: int = TRIES,
    ) -> None:
        self._tries = tries
        try:
            import fsspec
        except ImportError as err:
            raise _missing(setting, url, err) from err
        self._protocol = protocol = url.partition("://")[0]
        known = PROTOCOL_OPTIONS.get(protocol, {})
        try:
            self._fs, self._root = fsspec.core.url_to_fs(url, **{**known, **options})
        except ImportError as err:
            raise _missing(setting, url, err) from err
        except (TypeError, ValueError) as err:
            raise ConfigError(f"{setting}: {url}: {err}") from err
        self.url = url.rstrip("/")

    def names(self) -> list[str]:
        """List the names of all objects, in order."""

        def find() -> list[str]:
            self._fs.invalidate_cache()
            start = len(self._root.rstrip("/")) + 1
            return sorted(path[start:] for path in self._fs.find(self._root))

        return self._attempt("listed", "", find)

    def get(self, name: str) -> bytes:
        """Return the content of an object, or raise FileNotFoundError."""

        def read() -> bytes | None:
            try:
                content: bytes = self._fs.cat_file(self._path(name))
            except FileNotFoundError:
                return None
            return content

        found = self._attempt("read", name, read)
        if found is None:
            raise FileNotFoundError(f"{self.url}/{name}")
        return found

    def put(self, name: str, data: bytes) -> None:
        """Write an object, and read it again: what is stored is what was sent."""
        digest = hashlib.sha256(data).digest()

        def write() -> None:
            self._pipe(name, data)
            if hashlib.sha256(self._fs.cat_file(self._path(name))).digest() != digest:
                raise OSError("the store returns other bytes than were sent")

        self._attempt("written", name, write)

    def create(self, name: str, data: bytes) -> bool:
        """Write an object that is not there yet; return false if it has other content.

        Atomic where the client offers it: S3 and stores like it (If-None-Match), Google Cloud
        Storage (generation 0), folders. Others are asked first whether the object is there.
        """

        def write() -> bool:
            path = self._path(name)
            try:
                if self._protocol in LOCAL:
                    files.create(Path(path), data)
                else:
                    self._fs.pipe_file(path, data, mode="create")
            except Exception as err:
                # Some stores answer with another error where the object exists.
                if not isinstance(err, FileExistsError) and not self._fs.exists(path):
                    raise
                return bool(self._fs.cat_file(path) == data)  # perhaps by an attempt before
            return True

        return self._attempt("created", name, write)

    def replace(self, name: str, data: bytes) -> None:
        """Write an object that its readers check, without reading it again."""
        self._attempt("written", name, lambda: self._pipe(name, data))

    def remove(self, name: str) -> None:
        """Remove an object, if it is there."""

        def remove() -> None:
            with suppress(FileNotFoundError):
                self._fs.rm_file(self._path(name))

        self._attempt("removed", name, remove)

    def _pipe(self, name: str, data: bytes) -> None:
        """Write an object; fsspec would let readers of a folder see half of it."""
        if self._protocol in LOCAL:
            files.put(Path(self._path(name)), data)
        else:
            self._fs.pipe_file(self._path(name), data)

    def _path(self, name: str) -> str:
        return f"{self._root.rstrip('/')}/{name}"

    def _attempt(self, what: str, name: str, request: Callable[[], T]) -> T:
        for number in range(self._tries):
            try:
                return request()
            except Exception as err:  # each library behind fsspec has errors of its own
                place = f"{self.url}/{name}".rstrip("/")
                reason = f"{type(err).__name__}: {err}"
                if number == self._tries - 1:
                    raise StoreAway(
                        f"{place} cannot be {what} ({reason}): see whether the object store "
                        "answers and its rights; what was written before is untouched"
                    ) from err
                fields = {"path": place, "reason": reason}
                log.warning("object store request failed, it is tried again", extra=fields)
                time.sleep(BACKOFF_SECONDS * 4.0**number)
        raise AssertionError("unreachable")


def require_packages(url: str, setting: str) -> None:
    """Raise ConfigError where a package for a URL is missing, without the second that it takes to
    load it.
    """
    try:
        from fsspec.registry import available_protocols, known_implementations
    except ImportError as err:
        raise _missing(setting, url, err) from err
    protocol = url.partition("://")[0]
    if protocol not in available_protocols():
        raise ConfigError(f"{setting}: {url}: no protocol of fsspec is called {protocol}")
    package = known_implementations.get(protocol, {}).get("class", "fsspec").partition(".")[0]
    if find_spec(package) is None:
        raise _missing(setting, url, ImportError(name=package))


class ObjectCheckpointStore(FolderCheckpointStore):
    """Keep the newest checkpoints of every run below a URL, one writer at a time."""

    def __init__(self, remote: RemoteFiles, folder: Path, keep: int, lock: FolderLock) -> None:
        super().__init__(folder, keep, lock)
        self._remote = remote
        self._folder = folder
        self._kept = keep
        self._writer = f"{uuid.uuid4()}"

    @property
    def location(self) -> str:
        """The URL."""
        return self._remote.url

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Be the only writer on this machine, and take over from one on another machine, which ends
        at its next checkpoint.
        """
        with super().lock():
            self._remote.put(WRITER, self._claim())
            self.fetch(FETCHED_RUNS)
            yield

    def fetch(self, runs: int | None = None) -> None:
        """Make the folder a copy of the newest runs, of all by default."""
        names = [name for name in self._remote.names() if name.count("/") == 1]
        folders = {name.partition("/")[0] for name in names}  # others may be below the URL, too
        found = sorted(filter(is_run, folders), reverse=True)[:runs]
        for old in self._folder.glob(RUNS):
            shutil.rmtree(old)
        for name in names:
            run, _, file = name.partition("/")
            if run not in found:
                continue
            folder = files.make(self._folder / run)
            if file != STARTED:
                (folder / file).write_bytes(self._remote.get(name))

    def start_run(self) -> None:
        """Start a new run, for a new model; do nothing if the current one was just started."""
        super().start_run()
        self._remote.put(f"{self.run}/{STARTED}", b"")

    def write(self, header: Mapping[str, Any], state: State) -> Written:
        """Write the next checkpoint of the current run, then remove the oldest.

        1. Another writer, that has taken over, ends this one.
        2. The file is written to the folder.
        3. It is sent, read back and compared; if that fails the folder loses it again.
        4. Older ones than the folder keeps are removed from the store.
        """
        self._require_writer()
        path = Path(super().write(header, state).name)
        name = f"{path.parent.name}/{path.name}"
        try:
            self._remote.put(name, path.read_bytes())
        except StoreAway:
            path.unlink(missing_ok=True)
            raise
        self._prune(path.parent)
        status = path.stat()
        return Written(f"{self._remote.url}/{name}", status.st_size, status.st_mtime)

    def _prune(self, run: Path) -> None:
        """Remove what the folder has not kept; a failure leaves it for the next time."""
        kept = {path.name for path in run.iterdir()}
        try:
            for name in self._remote.names():
                folder, _, file = name.partition("/")
                if folder == run.name and file != STARTED and file not in kept:
                    self._remote.remove(name)
        except StoreAway as err:
            log.warning("old checkpoints stay in the object store", extra={"reason": str(err)})

    def _claim(self) -> bytes:
        holder = f"process {os.getpid()} on {platform.node()}"
        return json.dumps({"id": self._writer, "holder": holder}).encode()

    def _require_writer(self) -> None:
        """Raise FolderBusy if another process has become the writer."""
        try:
            current = json.loads(self._remote.get(WRITER))
            writer, holder = current["id"], str(current["holder"])
        except FileNotFoundError:
            self._remote.put(WRITER, self._claim())  # the store was emptied: what follows is new
            return
        except (ValueError, KeyError, TypeError) as err:
            raise CheckpointError(
                f"{self._remote.url}/{WRITER} says of no process that it writes there: remove it"
            ) from err
        if writer != self._writer:
            raise FolderBusy(self._remote.url, holder)


def is_run(folder: str) -> bool:
    """Return whether a folder is that of a run."""
    return Path(folder).match(RUNS)


def _missing(setting: str, url: str, err: ImportError) -> ConfigError:
    return ConfigError(
        f"{setting}: {url} needs the package {err.name or 'of its protocol'}: run pip "
        "install '.[object-store]', or name a folder"
    )
