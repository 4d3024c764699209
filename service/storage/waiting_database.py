"""One SQLite file with one writer: settings, chunked queries, and errors with their remedy."""

import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np

from kaboost.service.errors import CheckpointError, NotWritten, Refused
from kaboost.service.storage import files

CHUNK = 1024  # values of one IN (...), a power of two
PAGE_BYTES = 4096
RESERVE_BYTES = 64 * 2**20  # free space that an operation needs: more than one batch writes
WAL_BYTES = 64 * 2**20  # length of the log above which a commit copies it into the file
DAMAGED = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT}
IN_USE = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
FAILED = {sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY}
FAILED |= {sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM}
SUFFIXES = ("", "-wal", "-journal", "-shm")


class Database:
    """A transaction that is always open; `commit` makes it durable and opens the next.

    After a failed write SQLite has lost the transaction. Every call raises then, until `open`.
    """

    def __init__(self, path: Path, max_memory: int) -> None:
        self.path = path
        self._max_memory = max_memory
        self._connection: sqlite3.Connection | None = None

    def open(self, schema: str = "") -> None:
        """Open the file, or make it, as the last commit left it."""
        self.close()
        files.make(self.path.parent)
        with self._explained():
            # One writer, so that the index of the log is in memory, not in a third file.
            connection = sqlite3.connect(
                self.path, timeout=0.0, isolation_level=None, check_same_thread=False
            )
            try:
                self._configure(connection)
                connection.executescript(schema)
                connection.execute("BEGIN IMMEDIATE")
            except sqlite3.Error:
                connection.close()
                raise
            self._connection = connection

    def _configure(self, connection: sqlite3.Connection) -> None:
        """Set what SQLite does not remember; FULL makes a commit durable."""
        for pragma in (
            f"page_size = {PAGE_BYTES}",
            "locking_mode = EXCLUSIVE",
            "journal_mode = WAL",
            "synchronous = FULL",
            "wal_autocheckpoint = 0",
            f"journal_size_limit = {WAL_BYTES}",
            f"cache_size = {-max(self._max_memory // 1024, 64)}",
            "mmap_size = 0",
            "secure_delete = OFF",
            "temp_store = MEMORY",
        ):
            connection.execute(f"PRAGMA {pragma}")

    def close(self) -> None:
        """Close the file without the open transaction."""
        if self._connection is not None:
            connection, self._connection = self._connection, None
            with suppress(sqlite3.Error):  # what was committed is in the log
                connection.close()

    def remove(self) -> None:
        """Remove the file, for a store that begins empty."""
        self.close()
        try:
            for suffix in SUFFIXES:
                self.path.with_name(self.path.name + suffix).unlink(missing_ok=True)
        except OSError as err:
            raise NotWritten(
                f"{self.path} cannot be removed ({err.strerror}): correct the folder's permissions"
            ) from err

    @property
    def size(self) -> int:
        """Bytes on the disk."""
        paths = [self.path.with_name(self.path.name + suffix) for suffix in SUFFIXES]
        return sum(path.stat().st_size for path in paths if path.exists())

    @contextmanager
    def operation(self) -> Iterator[None]:
        """Refuse an operation that could run out of disk space, before it changes anything."""
        if self._connection is None:
            raise NotWritten(
                f"{self.path} lost what was not committed: restart the learner, which begins at "
                "its last checkpoint"
            )
        self._require_space()
        with self._explained():
            yield

    def _require_space(self) -> None:
        """Every page in memory may be written twice: to the log and to the file."""
        needed = RESERVE_BYTES + 2 * self._max_memory
        free = free_bytes(self.path.parent)
        if free < needed:
            raise NotWritten(
                f"{self.path} is not written: the disk has {free:,} bytes free and {needed:,} may "
                "be needed: make room; nothing was changed"
            )

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Turn an error of SQLite into one with a remedy."""
        try:
            yield
        except sqlite3.DatabaseError as err:
            code = getattr(err, "sqlite_errorcode", 0) & 0xFF
            if code not in DAMAGED | IN_USE | FAILED:
                raise  # an error of this program
            self.close()
            if code in DAMAGED:
                raise CheckpointError(self.damage(str(err))) from err
            if code in IN_USE:
                raise Refused(
                    f"{self.path} is in use by another process ({err}): stop it, or give this "
                    "learner another labels.directory"
                ) from err
            raise NotWritten(
                f"{self.path} cannot be written ({err}): make room, or correct the folder's "
                "permissions; what was committed is untouched"
            ) from err

    def damage(self, reason: str) -> str:
        """Return the message of a damaged file."""
        return (
            f"{self.path} is damaged: {reason}; restore it together with the checkpoints from a "
            "backup, or start again with --cold-start"
        )

    def commit(self) -> None:
        """Make the transaction durable, copy a long log into the file, open the next one."""
        self.execute("COMMIT")
        log = self.path.with_name(self.path.name + "-wal")
        if log.stat().st_size > WAL_BYTES:
            self.execute("PRAGMA wal_checkpoint(RESTART)")
        self.execute("BEGIN IMMEDIATE")

    def execute(self, sql: str, values: Sequence[Any] = ()) -> sqlite3.Cursor:
        """Run one statement."""
        assert self._connection is not None
        return self._connection.execute(sql, values)

    def execute_many(self, sql: str, rows: Iterable[Sequence[Any]]) -> int:
        """Run one statement for every row; return how many rows of the table it changed."""
        assert self._connection is not None
        return self._connection.executemany(sql, rows).rowcount

    def select_in(self, sql: str, values: Iterable[int]) -> Iterator[Any]:
        """Yield the rows of `sql`, whose `{}` takes the values, a chunk at a time."""
        ordered = sorted(values)  # neighbours are on one page
        for start in range(0, len(ordered), CHUNK):
            chunk = ordered[start : start + CHUNK]
            # Few lengths, so that SQLite compiles few texts; a repeated value finds nothing more.
            length = 1 << (len(chunk) - 1).bit_length()
            chunk += chunk[-1:] * (length - len(chunk))
            yield from self.execute(sql.format(",".join("?" * length)), chunk)


def free_bytes(directory: Path) -> int:
    """Return the free space of a folder's disk."""
    status = os.statvfs(directory)
    return status.f_bavail * status.f_frsize


def encode_id(text: str) -> bytes:
    """Encode an id; lone surrogates, which JSON allows, too."""
    return text.encode("utf-8", "surrogatepass")


def decode_id(data: bytes) -> str:
    """Decode an id."""
    return data.decode("utf-8", "surrogatepass")


def id_hashes(ids: Sequence[bytes]) -> list[int]:
    """Hash encoded ids to signed integers of 64 bits; equal hashes are distinguished by the id."""
    digests = b"".join([blake2b(data, digest_size=8).digest() for data in ids])
    hashes: list[int] = np.frombuffer(digests, "<i8").tolist()
    return hashes
