"""Checks of this machine: ports, folders, disk, compiled kernels."""

import os
import shutil
from contextlib import AbstractContextManager
from pathlib import Path

from kaboost.models.kernels.jit import cache_folder
from kaboost.service.config.settings import Settings
from kaboost.service.errors import ConfigError
from kaboost.service.onboarding.report import Check, Status
from kaboost.service.processes.kernel_cache import is_compiled
from kaboost.service.processes.ports import (
    open_admin_listener,
    open_listener,
    reserve_metrics_port,
)

LOW_BYTES = 1 << 30
LEAST_BYTES = 100 << 20


def check_machine(settings: Settings) -> list[Check]:
    """Look at ports, folders, disk and the cache of kernels."""
    return [*check_ports(settings), *check_folders(settings), check_kernels(settings)]


def check_ports(settings: Settings) -> list[Check]:
    """Bind the ports for a moment."""
    checks = []
    ports: list[tuple[str, int | None, AbstractContextManager[object]]] = [
        ("api.port", settings.api.port, open_listener(settings.api)),
        ("metrics.port", settings.metrics.port, reserve_metrics_port(settings)),
    ]
    if settings.admin.port is not None:
        ports.append(("admin.port", settings.admin.port, open_admin_listener(settings.admin)))
    for name, port, holder in ports:
        try:
            with holder:
                checks.append(Check(name, "green", f"{port} is free" if port else "any free one"))
        except ConfigError as err:
            remedy = f"stop what listens there, kaboost itself perhaps, or set another {name}"
            checks.append(Check(name, "red", str(err), remedy))
    return checks


def check_folders(settings: Settings) -> list[Check]:
    """Look whether the folders can be written, and at the space on their disk."""
    folders = {
        "snapshots.directory": settings.snapshots.directory,
        "checkpoints.directory"
        if isinstance(settings.checkpoints.directory, Path)
        else "checkpoints.cache": settings.checkpoints.folder,
    }
    if settings.labels.topic is not None:
        folders["labels.directory"] = settings.labels.directory
    return [check for name, path in folders.items() for check in _check_folder(name, path)]


def _check_folder(name: str, path: Path) -> list[Check]:
    existing = next(one for one in (path.absolute(), *path.absolute().parents) if one.exists())
    if not existing.is_dir() or not os.access(existing, os.W_OK | os.X_OK):
        remedy = f"make {existing} writable for this user, or set {name}"
        return [Check(name, "red", f"{path} cannot be written", remedy)]
    free = shutil.disk_usage(existing).free
    note = "" if path.exists() else ", which the learner creates"
    space = f"{path}{note}: {free / (1 << 30):.1f} GiB free"
    if free >= LOW_BYTES:
        return [Check(name, "green", space)]
    status: Status = "yellow" if free >= LEAST_BYTES else "red"
    return [Check(name, status, space, f"free disk space, or set {name} to another disk")]


def check_kernels(settings: Settings) -> Check:
    """Look whether the kernels of this configuration and version are in the cache."""
    name = "compiled kernels"
    if settings.is_live:
        return Check(name, "green", "a River model needs none")
    folder = Path(os.environ.get("NUMBA_CACHE_DIR") or cache_folder())
    if is_compiled(settings):
        return Check(name, "green", f"all of this configuration are in {folder}")
    remedy = (
        "none needed: the first start compiles for about a minute and reports its steps; after a "
        "third of that it answers requests"
    )
    return Check(name, "yellow", f"some of this configuration are not in {folder}", remedy)
