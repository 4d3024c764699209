"""A disk that is slow, fails in the middle of a write, and forgets what was not flushed.

Only files of `kaboost.service.storage.files` are meant: checkpoints and snapshots.
"""

import builtins
import errno
import json
import os
import random
import shutil
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from kaboost.service.storage import files

FAULTS = "faults.json"  # {"slow": seconds, "write": p, "sync": p, "replace": p, "of": part of name}


def set_faults(folder: Path, **faults: Any) -> None:
    """Change what the disk does from now on."""
    temporary = folder / f".{FAULTS}"
    temporary.write_text(json.dumps(faults))
    temporary.replace(folder / FAULTS)


def install(folder: str) -> None:
    """Put the faults of a folder between the writer and the disk."""
    disk = _Disk(Path(folder))
    files.open = disk.open_file  # type: ignore[attr-defined] # hides the built-in one
    files.os = disk  # type: ignore[assignment] # the module's only


class _Disk:
    """Stands for `os` in the writer's module."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._copies = folder / f"durable-{os.getpid()}"
        self._copies.mkdir(exist_ok=True)
        self._flushed: dict[str, Path] = {}  # copies of what was flushed, by the file's path
        self._draw = random.Random(os.getpid())
        self._count = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def open_file(self, path: Any, mode: str = "r", *more: Any, **options: Any) -> Any:
        file = builtins.open(path, mode, *more, **options)  # noqa: SIM115 # the writer closes it
        return _File(file, self, str(path)) if mode == "wb" else file

    def replace(self, source: Path, target: Path) -> None:
        self.fail("replace", str(source))
        if not (self._folder / f"{_key(target.parent)}.json").exists():
            self._write_names(target.parent, {})  # none of its names is durable so far
        os.replace(source, target)
        copy = self._flushed.pop(str(source), None)
        self._flushed.pop(str(target), None)
        if copy is not None:
            self._flushed[str(target)] = copy

    def fsync(self, descriptor: int) -> None:
        path = os.readlink(f"/proc/self/fd/{descriptor}")
        if os.path.isdir(path):
            os.fsync(descriptor)
            self.note_folder(Path(path))
            return
        self.fail("sync", path)
        os.fsync(descriptor)
        self._count += 1
        copy = self._copies / str(self._count)
        shutil.copyfile(path, copy)
        self._flushed[path] = copy

    def note_folder(self, directory: Path) -> None:
        """Note which names of a folder are durable, and with which content."""
        names = {}
        for path in directory.glob(f"*{files.SUFFIX}"):
            copy = self._flushed.get(str(path.absolute()))
            names[path.name] = str(copy) if copy else self._before(directory).get(path.name, "")
        self._write_names(directory, names)
        for path in set(self._flushed) - {str(directory.absolute() / name) for name in names}:
            if Path(path).parent == directory.absolute():
                self._flushed.pop(path).unlink()

    def _write_names(self, directory: Path, names: Mapping[str, str]) -> None:
        listing = self._folder / f"{_key(directory)}.json"
        temporary = listing.with_suffix(".tmp")
        temporary.write_text(json.dumps({"folder": str(directory.absolute()), "names": names}))
        temporary.replace(listing)

    def fail(self, step: str, path: str) -> None:
        """Do to one step what is asked for."""
        faults = self.faults
        if faults.get("of", "") not in path:
            return
        if step == "sync" and faults.get("slow"):
            time.sleep(faults["slow"])
        if self._draw.random() < faults.get(step, 0.0):
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    @property
    def faults(self) -> Mapping[str, Any]:
        with suppress(FileNotFoundError):
            return dict(json.loads((self._folder / FAULTS).read_text()))
        return {}

    def _before(self, directory: Path) -> dict[str, str]:
        with suppress(FileNotFoundError):
            text = (self._folder / f"{_key(directory)}.json").read_text()
            return dict(json.loads(text)["names"])
        return {}


class _File:
    """A file that takes half of the bytes and then fails."""

    def __init__(self, file: IO[bytes], disk: _Disk, path: str) -> None:
        self._file, self._disk, self._path = file, disk, path

    def __enter__(self) -> "_File":
        return self

    def __exit__(self, *_: Any) -> None:
        self._file.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def write(self, data: bytes) -> int:
        try:
            self._disk.fail("write", self._path)
        except OSError:
            self._file.write(data[: len(data) // 2])
            self._file.flush()
            raise
        return self._file.write(data)


def cut_power(folder: Path) -> int:
    """Leave of all files what was durable, after the processes are gone; return how many files."""
    count = 0
    for listing in folder.glob("names-*.json"):
        noted = json.loads(listing.read_text())
        directory = Path(noted["folder"])
        for path in directory.glob(f"*{files.SUFFIX}"):
            if path.name not in noted["names"]:
                path.unlink()  # its name was not durable
        for name, copy in noted["names"].items():
            (directory / name).write_bytes(Path(copy).read_bytes() if copy else b"")
            count += 1
    return count


def _key(directory: Path) -> str:
    return "names-" + "-".join(directory.absolute().parts[-2:])
