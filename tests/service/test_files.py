"""The writer under snapshots and checkpoints: killed, damaged, crowded out, and still whole."""

import resource
import subprocess
import sys
import textwrap
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest

from kaboost.models.state.format import pack
from kaboost.service.errors import Damaged, NotWritten
from kaboost.service.storage import files

ROOT = Path(__file__).parents[2]
STEPS = ["opened", "written", "synced", "renamed", "durable"]


def state(value: float) -> dict[str, np.ndarray]:
    """A small state that says which one it is."""
    return {"w": np.full((2, 3), value), "n": np.array(7), "none": np.zeros((0, 4))}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file with the old state in it."""
    path = files.numbered(tmp_path, "state", 1)
    files.write(path, state(1.0), {"kind": "state"})
    return path


def value(path: Path) -> float:
    """Read which state a file holds."""
    return float(files.read(path)[1]["w"][0, 0])


@pytest.mark.parametrize("mapped", [False, True])
def test_what_is_written_is_read(path: Path, mapped: bool) -> None:
    """Arrays and header come back bit for bit, and cannot be written to."""
    header, arrays = files.read(path, mapped=mapped)

    assert header == {"kind": "state"}
    assert {name: array.tobytes() for name, array in arrays.items()} == {
        name: array.tobytes() for name, array in state(1.0).items()
    }
    assert [array.shape for _, array in sorted(arrays.items())] == [(), (0, 4), (2, 3)]
    with pytest.raises(ValueError, match="read-only"):
        arrays["w"][0, 0] = 2.0


def test_size_is_told(path: Path) -> None:
    """`write` gives the bytes on the disk."""
    assert files.write(path, state(2.0), {}) == path.stat().st_size


def test_order_of_the_durable_write(path: Path) -> None:
    """Bytes, fsync of the file, rename, fsync of the folder: seen in the calls really made."""
    seen: list[str] = []

    def watch(frame: FrameType, event: str, call: Any) -> None:
        recorded = {"write", "fsync", "replace"}
        if (
            event == "c_call"
            and call.__name__ in recorded
            and frame.f_code.co_filename == files.__file__
        ):
            seen.append(f"{frame.f_code.co_name}: {call.__name__}")

    sys.setprofile(watch)
    try:
        files.write(path, state(2.0), {})
    finally:
        sys.setprofile(None)

    assert seen == ["steps: write", "sync: fsync", "steps: replace", "sync_folder: fsync"]


@pytest.mark.parametrize("count", range(len(STEPS) + 1))
def test_abort_at_every_step(path: Path, count: int) -> None:
    """A writer that stops after any step leaves the old state or the new one, whole."""
    done = list(islice(files.steps(path, pack(state(2.0), {})), count))

    assert done == STEPS[:count]
    assert value(path) == (2.0 if "renamed" in done else 1.0)
    assert files.newest(path.parent, "state") == [path]


def test_kill_at_every_step(tmp_path: Path) -> None:
    """The same with real processes that really die: only a temporary file is left behind."""
    script = f"""
        import os, signal
        from itertools import islice
        from pathlib import Path
        from kaboost.models.state.format import pack
        from kaboost.service.storage import files
        import numpy as np
        for count in range({len(STEPS) + 1}):
            path = files.numbered(files.make(Path({str(tmp_path)!r}) / str(count)), "state", 1)
            files.write(path, {{"w": np.full((2, 3), 1.0)}}, {{}})
            child = os.fork()
            if child == 0:
                steps = files.steps(path, pack({{"w": np.full((2, 3), 2.0)}}, {{}}))
                list(islice(steps, count))
                os.kill(os.getpid(), signal.SIGKILL)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(script)], cwd=ROOT, check=True)
    found = {count: tmp_path / str(count) for count in range(len(STEPS) + 1)}
    left = {count: [path.name for path in folder.glob(".*.tmp")] for count, folder in found.items()}
    values = [value(files.newest(folder, "state")[0]) for folder in found.values()]

    temporary = [".state-000000000001.safetensors.tmp"]
    assert values == [1.0, 1.0, 1.0, 1.0, 2.0, 2.0]
    assert left == {0: [], 1: temporary, 2: temporary, 3: temporary, 4: [], 5: []}


def test_no_room(path: Path) -> None:
    """A write that finds no room says so, leaves no temporary file and keeps the old state."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        with pytest.raises(NotWritten, match=r"File too large.*make room.*untouched") as caught:
            files.write(path, {"w": np.zeros(10_000)}, {})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    assert caught.value.exit_code == 1
    assert value(path) == 1.0
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize("mapped", [False, True])
def test_every_flipped_byte_is_found(path: Path, mapped: bool) -> None:
    """No byte of the file can change without a word."""
    whole = path.read_bytes()
    missed = []
    for position in range(len(whole)):
        damaged = bytearray(whole)
        damaged[position] ^= 1 << position % 8
        path.write_bytes(damaged)
        try:
            files.read(path, mapped=mapped)
        except Damaged:
            continue
        missed.append(position)

    assert len(whole) > 300
    assert missed == []


@pytest.mark.parametrize("mapped", [False, True])
@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"",
        lambda data: data[:7],
        lambda data: data[: len(data) // 2],
        lambda data: data[:-1],
        lambda data: data + b"\0",
        lambda data: bytes(len(data)),
        lambda data: b"\xff" * len(data),
    ],
    ids=["empty", "seven", "half", "short", "long", "zeros", "ones"],
)
def test_cut_and_foreign_files(path: Path, mapped: bool, damage: Callable[[bytes], bytes]) -> None:
    """Cut, lengthened and foreign files are damaged, by name."""
    path.write_bytes(damage(path.read_bytes()))

    with pytest.raises(Damaged, match=r"state-000000000001.* is damaged"):
        files.read(path, mapped=mapped)


def test_missing_is_not_damaged(tmp_path: Path) -> None:
    """A file that is gone was pruned, not damaged."""
    with pytest.raises(FileNotFoundError):
        files.read(tmp_path / "gone.safetensors")


def test_a_dangling_link_is_damaged(tmp_path: Path) -> None:
    """A file that is a link to nothing was not pruned; a folder that is one is named."""
    link = tmp_path / "state.safetensors"
    link.symlink_to("gone")
    with pytest.raises(Damaged, match="it is a link to gone, which is not there"):
        files.read(link)
    with pytest.raises(NotWritten, match="a link to gone, which is not there; make that folder"):
        files.make(link / "below")


def test_newest_are_kept(tmp_path: Path) -> None:
    """The newest K stay; whoever maps an old one keeps what it sees."""
    for number in (1, 2, 9, 10, 11):
        files.write(files.numbered(tmp_path, "state", number), state(number), {})
    (tmp_path / "state-of-things.safetensors").touch()
    _, mapped = files.read(files.numbered(tmp_path, "state", 1), mapped=True)
    files.prune(tmp_path, "state", keep=2)

    assert [files.number(path) for path in files.newest(tmp_path, "state")] == [11, 10]
    assert mapped["w"][0, 0] == 1.0
    assert (tmp_path / "state-of-things.safetensors").exists()


@pytest.mark.parametrize(
    ("keep", "left"), [(1, [11]), (2, [11, 10, 9]), (3, [11, 10, 9, 2]), (9, [11, 10, 9, 2, 1])]
)
def test_uncounted_are_kept_beside_the_newest(tmp_path: Path, keep: int, left: list[int]) -> None:
    """Some files count for nothing: they go when all that are older go."""
    for number in (1, 2, 9, 10, 11):
        files.numbered(tmp_path, "state", number).touch()
    files.prune(tmp_path, "state", keep, uncounted=[1, 10])

    assert [files.number(path) for path in files.newest(tmp_path, "state")] == left


def test_folders_are_made(tmp_path: Path) -> None:
    """Folders come into being on the way; what stands in the way is named."""
    assert files.make(tmp_path / "a" / "b").is_dir()
    (tmp_path / "file").touch()
    with pytest.raises(NotWritten, match=r"file cannot be made: File exists"):
        files.make(tmp_path / "file" / "below")


@pytest.mark.parametrize("links", [True, False])
def test_a_kept_file_stays(path: Path, monkeypatch: pytest.MonkeyPatch, links: bool) -> None:
    """Under a second name, or as a copy. What an attempt that was killed has left is not written
    to: it may be another file's second name.
    """
    other = files.numbered(path.parent, "state", 2)
    files.write(other, state(2.0), {"kind": "state"})
    folder = files.make(path.parent / "kept")
    (folder / f".{path.name}.tmp").hardlink_to(other)

    def refuse(*_: Any) -> None:
        raise OSError(95, "Operation not supported")

    if not links:
        monkeypatch.setattr("os.link", refuse)
    files.keep(path, folder)
    path.unlink()

    assert (1.0, 2.0) == (value(folder / path.name), value(other))
    assert [folder / path.name] == list(folder.iterdir())
