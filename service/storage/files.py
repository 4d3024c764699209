"""One writer and one reader under snapshots and checkpoints: durable, checked, the last K kept."""

import fcntl
import mmap
import os
from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from kaboost.models.state.format import FormatError, pack, unpack
from kaboost.service.errors import Damaged, NotWritten, Refused

SUFFIX = ".safetensors"
Arrays = dict[str, NDArray[Any]]


def write(path: Path, arrays: Mapping[str, NDArray[Any]], header: dict[str, Any]) -> int:
    """Write one file that is whole or not there at all; give its size in bytes."""
    data = pack(arrays, header)
    try:
        for _ in steps(path, data):
            pass
    except OSError as err:
        with suppress(OSError):  # a disk that takes no write may not let go of one either
            _temporary(path).unlink()
        raise NotWritten(
            f"{path} cannot be written ({err.strerror}): make room or mend the folder's rights; "
            "what was written before is untouched"
        ) from err
    return len(data)


def steps(path: Path, data: bytes) -> Iterator[str]:
    """Write durably and pause after every step, so that a test can stop at each.

    1. The bytes go into a temporary file of the same folder.
    2. fsync: they are on the disk before any name points to them.
    3. rename: the name points to the old file or to the whole new one, never to a part.
    4. fsync of the folder: the name itself survives a power cut.
    """
    with open(_temporary(path), "wb") as file:
        yield "opened"
        file.write(data)
        file.flush()
        yield "written"
        sync(file.fileno())
        yield "synced"
    os.replace(_temporary(path), path)
    yield "renamed"
    sync_folder(path.parent)
    yield "durable"


def read(path: Path, *, mapped: bool = False) -> tuple[dict[str, Any], Arrays]:
    """Read and check one file; its arrays cannot be written to, mapped ones stay on the disk."""
    try:
        with open(path, "rb") as file:
            buffer = _map(file.fileno()) if mapped else file.read()
        header, arrays = unpack(buffer)
    except FileNotFoundError:
        raise
    except (FormatError, OSError, ValueError) as err:
        raise Damaged(f"{path} is damaged: {err}") from err
    return header, dict(arrays)


def expect(path: Path, header: Mapping[str, Any], kind: str, told: object) -> None:
    """Refuse a file of ours that was given the name of another."""
    if header.get("kind") != kind or told != number(path):
        raise Damaged(f"{path} holds {header.get('kind')} {told}: give it back its own name")


def newest(directory: Path, prefix: str) -> list[Path]:
    """List a folder's numbered files, the newest first."""
    return sorted(directory.glob(f"{prefix}-{'[0-9]' * 12}{SUFFIX}"), reverse=True)


def numbered(directory: Path, prefix: str, number: int) -> Path:
    """Name the file of a number."""
    return directory / f"{prefix}-{number:012d}{SUFFIX}"


def number(path: Path) -> int:
    """Read the number out of a file's name."""
    return int(path.stem.rpartition("-")[2])


def prune(directory: Path, prefix: str, keep: int, uncounted: Collection[int] = ()) -> None:
    """Remove what is older than the newest `keep`, the uncounted among them not counted.

    Readers that still map one keep what they see.
    """
    found = newest(directory, prefix)
    counted = [path for path in found if number(path) not in uncounted]
    for path in found:
        if len(counted) >= keep and path < counted[keep - 1]:
            path.unlink(missing_ok=True)


def make(directory: Path) -> Path:
    """Make a folder, and those above it, whose names survive a power cut."""
    if not directory.is_dir():
        make(directory.parent)
        try:
            directory.mkdir(exist_ok=True)
            sync_folder(directory.parent)
        except OSError as err:
            raise NotWritten(f"folder {directory} cannot be made: {err.strerror}") from err
    return directory


@contextmanager
def lock(directory: Path) -> Iterator[None]:
    """Be the folder's only writer, or refuse; the kernel lets go even of a killed one."""
    path = make(directory) / ".lock"
    with ExitStack() as stack:
        try:
            file = stack.enter_context(open(path, "a+b", buffering=0))
            _take(file, directory)
        except OSError as err:
            raise NotWritten(
                f"{path} cannot be written ({err.strerror}): make room or mend the folder's rights"
            ) from err
        try:
            yield
        finally:
            file.truncate(0)


def _take(file: BinaryIO, directory: Path) -> None:
    """Hold the lock or refuse; sign it, and clear what the last holder left."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as err:
        file.seek(0)
        holder = file.read().decode().strip() or "unknown"
        raise Refused(
            f"{directory} is in use by process {holder}: stop it, or give this learner a "
            "folder of its own"
        ) from err
    file.truncate(0)
    file.write(b"%d\n" % os.getpid())
    sweep(directory)


def sweep(directory: Path) -> None:
    """Remove what a writer left behind when it died in the middle; only the lock's holder may."""
    for path in directory.rglob(f".*{SUFFIX}.tmp"):
        path.unlink(missing_ok=True)


def sync(descriptor: int) -> None:
    """Bring a file's bytes onto the disk; macOS needs a word of its own for that."""
    full = getattr(fcntl, "F_FULLFSYNC", None)
    if full is None:
        os.fsync(descriptor)
    else:
        fcntl.fcntl(descriptor, full)


def sync_folder(directory: Path) -> None:
    """Bring a folder's names onto the disk."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def writable(arrays: Mapping[str, NDArray[Any]]) -> Arrays:
    """Copy arrays so that learning can go on in them."""
    return {name: np.array(array, order="C") for name, array in arrays.items()}


def _temporary(path: Path) -> Path:
    return path.with_name(f".{path.name}.tmp")


def _map(descriptor: int) -> mmap.mmap:
    return mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ)
