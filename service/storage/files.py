"""The only writer and reader of files: durable, checked, the newest kept."""

import fcntl
import mmap
import os
import shutil
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kaboost.models.state.format import FormatError, OtherFormat, pack, unpack
from kaboost.service.errors import Damaged, Incompatible, NotWritten, Refused

SUFFIX = ".safetensors"
Arrays = dict[str, NDArray[Any]]


def write(
    path: Path,
    arrays: Mapping[str, NDArray[Any]],
    header: dict[str, Any],
    confirm: Callable[[], None] | None = None,
) -> int:
    """Write one file that is complete or absent; return its size in bytes.

    `confirm` may refuse, by an error, at the last moment before the file gets its name.
    """
    data = pack(arrays, header)
    try:
        for step in steps(path, data):
            if step == "synced" and confirm is not None:
                confirm()
    except Refused:
        _discard(path)
        raise
    except OSError as err:
        _discard(path)
        raise NotWritten(
            f"{path} cannot be written ({err.strerror}): make room, or correct the folder's "
            "permissions; what was written before is untouched"
        ) from err
    return len(data)


def steps(path: Path, data: bytes) -> Iterator[str]:
    """Write durably, and yield after every step so that a test can stop there.

    1. The bytes go into a temporary file of the same folder.
    2. fsync: they are on the disk before any name points to them.
    3. rename: the name points to the old file or to the complete new one.
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


def create(path: Path, data: bytes) -> None:
    """Write a file durably that is not there yet, or raise FileExistsError; it is whole at once."""
    with _shared(path, data) as temporary:
        os.link(temporary, path)


def put(path: Path, data: bytes) -> None:
    """Write or replace a file durably, whole at once, where several processes may write it."""
    with _shared(path, data) as temporary:
        os.replace(temporary, path)


@contextmanager
def _shared(path: Path, data: bytes) -> Iterator[Path]:
    """Write a temporary file of a name that no other process has; it is to be given its name."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{uuid.uuid4()}.tmp")
    try:
        with open(temporary, "wb") as file:
            file.write(data)
            file.flush()
            sync(file.fileno())
        yield temporary
        sync_folder(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


def replace(path: Path, data: bytes) -> None:
    """Replace a file at once for its readers; it may be lost in a power cut."""
    with open(_temporary(path), "wb") as file:
        file.write(data)
    os.replace(_temporary(path), path)


def read(path: Path, *, mapped: bool = False, verify: bool = True) -> tuple[dict[str, Any], Arrays]:
    """Read and check one file; its arrays are read-only, and with `mapped` stay on the disk.

    Without `verify` only the structure is checked: enough for a header that decides nothing alone.
    """
    try:
        with open(path, "rb") as file:
            buffer = _map(file.fileno()) if mapped else file.read()
        header, arrays = unpack(buffer, verify=verify)
    except FileNotFoundError as err:
        if path.is_symlink():
            raise Damaged(f"{path} is damaged: {_dangling(path)}") from err
        raise
    except OtherFormat as err:
        raise Incompatible(f"{path}: {err}, or start a new model with --cold-start") from err
    except (FormatError, OSError, ValueError) as err:
        raise Damaged(f"{path} is damaged: {err}") from err
    return header, dict(arrays)


def expect(path: Path, header: Mapping[str, Any], kind: str, number_inside: object) -> None:
    """Refuse a file that was renamed to another's name."""
    if header.get("kind") != kind or number_inside != number(path):
        raise Damaged(f"{path} holds {header.get('kind')} {number_inside}: rename it back")


def newest(directory: Path, prefix: str) -> list[Path]:
    """List the numbered files of a folder, the newest first."""
    return sorted(directory.glob(f"{prefix}-{'[0-9]' * 12}{SUFFIX}"), reverse=True)


def numbered(directory: Path, prefix: str, number: int) -> Path:
    """Return the path of a numbered file."""
    return directory / f"{prefix}-{number:012d}{SUFFIX}"


def number(path: Path) -> int:
    """Return the number in a file's name."""
    return int(path.stem.rpartition("-")[2])


def keep(path: Path, folder: Path) -> None:
    """Give a file a second name in another folder, durably; copy it where there are no links."""
    second = make(folder) / path.name
    try:
        _temporary(second).unlink(missing_ok=True)  # it may be a link: never write into it
        try:
            os.link(path, _temporary(second))
        except OSError:
            shutil.copyfile(path, _temporary(second))
            with open(_temporary(second), "rb") as file:
                sync(file.fileno())
        os.replace(_temporary(second), second)
        sync_folder(folder)
    except OSError as err:
        _discard(second)
        raise NotWritten(f"{second} cannot be made: {err.strerror}") from err


def prune(directory: Path, prefix: str, keep: int, uncounted: Collection[int] = ()) -> None:
    """Remove files older than the newest `keep`, not counting the numbers in `uncounted`.

    A reader that maps a removed file keeps its content.
    """
    paths = newest(directory, prefix)
    counted = [path for path in paths if number(path) not in uncounted]
    for path in paths:
        if len(counted) >= keep and path < counted[keep - 1]:
            path.unlink(missing_ok=True)


def make(directory: Path) -> Path:
    """Create a folder and its parents durably: the names survive a power cut."""
    if not directory.is_dir():
        if directory.is_symlink():
            raise NotWritten(
                f"folder {directory} cannot be made: {_dangling(directory)}; make that folder, or "
                "remove the link"
            )
        make(directory.parent)
        try:
            directory.mkdir(exist_ok=True)
            sync_folder(directory.parent)
        except OSError as err:
            raise NotWritten(f"folder {directory} cannot be made: {err.strerror}") from err
    return directory


def sweep(directory: Path) -> None:
    """Remove the temporary files of a writer that died; only the lock's holder may."""
    for path in directory.rglob(f".*{SUFFIX}.tmp"):
        path.unlink(missing_ok=True)


def sync(descriptor: int) -> None:
    """Flush a file to the disk; macOS needs a special call for that."""
    full = getattr(fcntl, "F_FULLFSYNC", None)
    if full is None:
        os.fsync(descriptor)
    else:
        fcntl.fcntl(descriptor, full)


def sync_folder(directory: Path) -> None:
    """Flush the names in a folder to the disk."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def writable(arrays: Mapping[str, NDArray[Any]]) -> Arrays:
    """Copy arrays into memory that learning can change."""
    return {name: np.array(array, order="C") for name, array in arrays.items()}


def _dangling(path: Path) -> str:
    return f"it is a link to {os.readlink(path)}, which is not there"


def _discard(path: Path) -> None:
    with suppress(OSError):  # a disk that refuses a write may refuse to remove a file too
        _temporary(path).unlink()


def _temporary(path: Path) -> Path:
    return path.with_name(f".{path.name}.tmp")


def _map(descriptor: int) -> mmap.mmap:
    return mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ)
