"""Disks that are full, read-only, slow, broken, and that forget what was not flushed."""

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kaboost.service.storage.checkpoints import FolderCheckpointStore
from tests.chaos.hooks import disk
from tests.chaos.scenario import Run, scenario
from tests.chaos.service import Service, pause
from tests.service.learning import committed, until
from tests.service.serving import PATIENCE

PROGRESS = 200  # records that are learned while nothing is wrong
MOUNT_MB = 2


@contextmanager
def small_disks(run: Run) -> Iterator[list[Path]]:
    """Mount a small file system for the checkpoints and one for the snapshots; it takes root."""
    if os.getuid() != 0:
        raise RuntimeError("full disks are mounted: run this scenario as root")
    folders = [run.folder / "checkpoints", run.folder / "snapshots"]
    options = f"size={MOUNT_MB}m"
    mounted: list[Path] = []
    try:
        for folder in folders:
            folder.mkdir()
            subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", folder], check=True)
            mounted.append(folder)
        yield folders
    finally:
        for folder in mounted:
            subprocess.run(["umount", "-l", folder], check=True)


@scenario(rounds=3, long=60)
def disk_full(run: Run) -> None:
    """No room for checkpoints and snapshots for seconds; in some rounds the learner is killed."""
    with small_disks(run) as folders:
        service = Service(run)
        with service.under_load():
            for k in range(run.rounds):
                ballast = [folder / "ballast" for folder in folders]
                list(map(_fill, ballast))
                pause(run, 1.0, 4.0)
                list(map(_fill, ballast))  # what pruning has given back
                if k % 3 == 1:
                    service.kill("learner")
                    time.sleep(1.0)
                service.check_order()
                for path in ballast:
                    path.unlink()
                service.progress(PROGRESS)


def _fill(path: Path) -> None:
    """Write until there is no room."""
    with path.open("ab", buffering=0) as file:
        for size in (65_536, 4096, 512, 1):
            try:
                while True:
                    file.write(b"x" * size)
            except OSError:
                continue


@scenario(rounds=3, long=60)
def disk_read_only(run: Run) -> None:
    """No file can be made, renamed or removed in the folders for seconds, not even by root."""
    service = Service(run)
    with service.under_load():
        folders = [service.folder / "snapshots", service.folder / "checkpoints" / "run-0001"]
        for k in range(run.rounds):
            _mark(folders, "+i")
            try:
                pause(run, 1.0, 4.0)
                if k % 3 == 1:
                    service.kill("learner")
                    time.sleep(1.0)
                service.check_order()
            finally:
                _mark(folders, "-i")
            service.progress(PROGRESS)


def _mark(folders: list[Path], attribute: str) -> None:
    """Make folders immutable, or mutable again."""
    subprocess.run(["chattr", attribute, *map(str, folders)], check=True)


@scenario(rounds=4, long=80)
def disk_slow(run: Run) -> None:
    """Every fsync takes half a second, and the learner is killed while it waits for one."""
    service = Service(run, env={"CHAOS_DISK": str(run.folder / "disk")})
    with service.under_load():
        disk.set_faults(service.disk, slow=0.5)
        for _ in range(run.rounds):
            pause(run, 0.2, 1.0)
            service.kill("learner")
            service.check_order()
            service.progress()
        disk.set_faults(service.disk)


@scenario(rounds=3, long=60)
def disk_errors(run: Run) -> None:
    """Writes, fsyncs and renames of checkpoints and snapshots fail with EIO, half-way too."""
    service = Service(run, env={"CHAOS_DISK": str(run.folder / "disk")})
    with service.under_load():
        for k in range(run.rounds):
            step = ("write", "sync", "replace")[k % 3]
            of = run.draw.choice(["checkpoint-", "snapshot-", ".safetensors"])
            disk.set_faults(service.disk, **{step: run.draw.choice([0.5, 1.0])}, of=of)
            pause(run, 1.0, 3.0)
            if k % 3 == 2:
                service.kill("learner")
                service.check_order()
            disk.set_faults(service.disk)
            service.progress(PROGRESS)


@scenario(rounds=4, long=80)
def power_cut(run: Run) -> None:
    """All processes are killed, and the disk has only what was flushed; nothing else is missing."""
    service = Service(run, env={"CHAOS_DISK": str(run.folder / "disk")})
    service.broken_allowed = True
    with service.under_load():
        for _ in range(run.rounds):
            pause(run, 0.0, 1.0)
            service.kill_all()
            disk.cut_power(service.disk)
            store = FolderCheckpointStore(service.settings.checkpoints.directory)
            checkpoint, damaged = store.restore()
            assert damaged == 0, f"{damaged} checkpoints have a name and not their bytes"
            assert checkpoint is not None, "no checkpoint has survived"
            at, group = checkpoint.state.offsets[0], committed(service.settings)
            assert group <= at, f"the group is at {group}, the durable checkpoint at {at}"
            service.start()
            service.program.ready()
            until(lambda at=at: service.checkpoint > at, PATIENCE)
