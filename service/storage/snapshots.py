"""Publish and follow the newest snapshot: immutable, versioned, mapped read-only by its readers."""

import json
import logging
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from kaboost.models.evaluation.baselines import ProgressiveValidation, progressive_validation
from kaboost.models.model import Model
from kaboost.models.state.tree import from_arrays, to_arrays
from kaboost.service.errors import CheckpointError, Incompatible, NotWritten
from kaboost.service.storage import files

PREFIX = "snapshot"
log = logging.getLogger(__name__)


class Snapshot(NamedTuple):
    """One published version: all that a prediction needs, and what the model has seen."""

    version: int
    model: Model
    header: dict[str, Any]
    baselines: ProgressiveValidation


class Status(NamedTuple):
    """What the supervisor says of the learner."""

    state: str
    exit_code: int | None
    reason: str


def publish(
    directory: Path,
    model: Model,
    header: Mapping[str, Any],
    keep: int,
    *,
    baselines: ProgressiveValidation,
) -> int:
    """Write the next version, then forget all but the newest `keep`; give the version."""
    files.make(directory)
    version = last(directory) + 1
    whole = {**header, "kind": PREFIX, "version": version, "model": model.describe()}
    arrays = {**model.serving_arrays(), **to_arrays(baselines, "validation")}
    files.write(files.numbered(directory, PREFIX, version), arrays, whole)
    files.prune(directory, PREFIX, keep)
    return version


def last(directory: Path) -> int:
    """Give the highest version on disk, 0 where there is none."""
    return next(map(files.number, files.newest(directory, PREFIX)), 0)


def newest(directory: Path, above: int = 0, known: set[int] | None = None) -> Snapshot | None:
    """Map the newest snapshot above a version; a damaged one is reported, the one before it used.

    `known` belongs to the follower: damaged versions it has met are neither read nor told again.
    """
    bad = set() if known is None else known
    for path in files.newest(directory, PREFIX):
        version = files.number(path)
        if version <= above:
            return None
        if version in bad:
            continue
        try:
            return load(path)
        except FileNotFoundError:
            continue  # pruned since the folder was listed
        except CheckpointError as err:
            bad.add(version)
            log.error("snapshot unusable", extra={"version": version, "reason": str(err)})
    return None


def load(path: Path) -> Snapshot:
    """Map one snapshot file; it may be none of ours, however whole."""
    header, arrays = files.read(path, mapped=True)
    files.expect(path, header, PREFIX, header.get("version"))
    try:
        model = Model.from_arrays(header["model"], arrays)
        seen = from_arrays(progressive_validation(model.labels), arrays, "validation")
        return Snapshot(header["version"], model, header, seen)
    except KeyError as err:
        raise Incompatible(f"{path} was written by another Kaboost: it lacks {err}") from err
    except (TypeError, ValueError) as err:
        raise Incompatible(f"{path} was written by another Kaboost: {err}") from err


def heartbeat(directory: Path) -> None:
    """Show that the learner is alive."""
    path = files.make(directory) / ".learner"
    try:
        path.touch()
    except OSError as err:
        raise NotWritten(
            f"{path} cannot be touched ({err.strerror}): make room or mend the folder's rights"
        ) from err


def learner_age(directory: Path, clock: Callable[[], float] = time.time) -> float | None:
    """Give the seconds since the learner's last heartbeat, None if there was never one."""
    try:
        return max(0.0, clock() - (directory / ".learner").stat().st_mtime)
    except FileNotFoundError:
        return None


def write_status(
    directory: Path, state: str, exit_code: int | None = None, reason: str = ""
) -> None:
    """Tell the API processes what became of the learner; half a status is never seen."""
    # A name of our own: the learner and its supervisor may write at the same moment.
    temporary = files.make(directory) / f".status.json.{os.getpid()}"
    with open(temporary, "w", encoding="utf-8") as file:
        json.dump(Status(state, exit_code, reason)._asdict(), file)
        file.flush()
        files.sync(file.fileno())
    os.replace(temporary, directory / ".status.json")


def read_status(directory: Path) -> Status | None:
    """Read what the supervisor said, None where there is none that can be read."""
    try:
        return Status(**json.loads((directory / ".status.json").read_text(encoding="utf-8")))
    except (FileNotFoundError, TypeError, ValueError):
        return None
