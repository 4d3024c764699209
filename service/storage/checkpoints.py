"""The learner's whole state with its next offsets in one file: written, restored, listed."""

import json
import logging
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from kaboost.models.evaluation.baselines import ProgressiveValidation, progressive_validation
from kaboost.models.model import Model
from kaboost.models.state.tree import from_arrays, to_arrays
from kaboost.models.types import ModelError
from kaboost.service.errors import CheckpointError, Damaged, Incompatible
from kaboost.service.storage import files

PREFIX = "checkpoint"
FIRST = "run-0001"
log = logging.getLogger(__name__)


class Checkpoint(NamedTuple):
    """State and position as one thing; `model` and `baselines` own arrays that can learn on."""

    sequence: int
    model: Model
    baselines: ProgressiveValidation
    offsets: dict[int, int]  # partition → next offset
    header: dict[str, Any]
    damaged: tuple[int, ...] = ()  # sequences that were passed over on the way to this state


def write(directory: Path, checkpoint: Checkpoint, keep: int) -> Path:
    """Write the next checkpoint of the current run, then forget all but the newest `keep`.

    The file takes the next free number, whatever `checkpoint.sequence` says: a damaged file
    that was passed over stays beside it, as evidence, and does not count among the newest.
    """
    run = files.make(current(directory))
    there = [files.number(path) for path in files.newest(run, PREFIX)]
    sequence = next(iter(there), 0) + 1
    damaged = [number for number in there if number in checkpoint.damaged]
    header = {
        **checkpoint.header,
        "kind": PREFIX,
        "sequence": sequence,
        "damaged": damaged,
        "model": checkpoint.model.describe(),
        "offsets": {str(partition): offset for partition, offset in checkpoint.offsets.items()},
    }
    path = files.numbered(run, PREFIX, sequence)
    validation = to_arrays(checkpoint.baselines, "validation")
    files.write(path, checkpoint.model.to_arrays() | validation, header)
    files.prune(run, PREFIX, keep, damaged)
    return path


def restore(
    directory: Path, configured: Mapping[str, Any] | None = None
) -> tuple[Checkpoint | None, int]:
    """Read the newest readable checkpoint; also say how many damaged ones were passed over.

    `configured` holds what the header must say, such as `model` (its description) and `topic`.
    """
    damaged: dict[int, str] = {}
    for path in files.newest(current(directory), PREFIX):
        try:
            found = load(path, configured)
            return found._replace(damaged=(*damaged, *found.damaged)), len(damaged)
        except Damaged as err:
            log.error("checkpoint damaged", extra={"path": str(path), "reason": str(err)})
            damaged[files.number(path)] = str(err)
    if damaged:
        told = "; ".join(damaged.values())
        raise CheckpointError(f"no checkpoint can be read, start anew with --cold-start: {told}")
    return None, 0


def load(path: Path, configured: Mapping[str, Any] | None = None) -> Checkpoint:
    """Read one checkpoint wholly."""
    header, arrays = files.read(path)
    files.expect(path, header, PREFIX, header.get("sequence"))
    _compare(path, header, configured or {})
    own = files.writable(arrays)
    try:
        model = Model.from_arrays(header["model"], own)
        if model.serving_only:
            raise ModelError("it lacks arrays that learning needs")
        baselines = from_arrays(progressive_validation(model.labels), own, "validation")
    except ModelError as err:
        raise Incompatible(
            f"{path} was written by another Kaboost: {err}; use that one, or --cold-start"
        ) from err
    offsets = {int(partition): offset for partition, offset in header["offsets"].items()}
    damaged = tuple(header.get("damaged", ()))
    return Checkpoint(header["sequence"], model, baselines, offsets, header, damaged)


def current(directory: Path) -> Path:
    """Name the folder of the current run: the highest, the first where there is none."""
    return max(directory.glob("run-[0-9][0-9][0-9][0-9]"), default=directory / FIRST)


def new_run(directory: Path) -> Path:
    """Begin a new model in a folder of its own, or go on with one just begun; the old one stays.

    The empty folder holds the wish over restarts, until the first checkpoint.
    """
    newest = current(directory)
    count = int(newest.name.removeprefix("run-")) + (not is_begun(directory))
    return files.make(directory / f"run-{count:04d}")


def is_begun(directory: Path) -> bool:
    """Whether a cold start is under way: nothing is in its folder yet.

    An empty `run-0001` is none: so it looks where the files of a first start were lost.
    """
    run = current(directory)
    return run.is_dir() and run.name != FIRST and not files.newest(run, PREFIX)


def listing(directory: Path) -> Iterator[Path]:
    """List the checkpoint files of all runs, the newest first."""
    for run in sorted(directory.glob("run-[0-9][0-9][0-9][0-9]"), reverse=True):
        yield from files.newest(run, PREFIX)


def _compare(path: Path, header: Mapping[str, Any], configured: Mapping[str, Any]) -> None:
    """Refuse a checkpoint of another model than the configured one, naming every difference."""
    wanted = json.loads(json.dumps(configured))
    stored = {key: _told(header.get(key), wanted[key]) for key in configured}
    told = "; ".join(_differences(stored, wanted, ""))
    if told:
        raise Incompatible(
            f"{path} belongs to another model: {told}. Configure what it was, or begin a new "
            "model in a new folder with --cold-start (the old one stays)"
        )


def _differences(stored: Any, wanted: Any, name: str) -> Iterator[str]:
    stored, wanted = _by_name(stored), _by_name(wanted)
    if isinstance(stored, dict) and isinstance(wanted, dict):
        for key in dict.fromkeys([*stored, *wanted]):
            below = f"{name}.{key}".lstrip(".")
            yield from _differences(stored.get(key), wanted.get(key), below)
        if stored == wanted and [*stored] != [*wanted] and name.endswith("schema"):
            yield f"{name} has its features in another order"
    elif stored != wanted and name.endswith("declared"):
        told, here = ("all" if n is None else n for n in (stored, wanted))
        yield f"{name}: {told} of its features were declared there, {here} are now"
    elif stored != wanted:
        yield f"{name} is {stored!r} there, {wanted!r} configured"


def _told(stored: Any, wanted: Any) -> Any:
    """Leave out of a stored description what was inferred, but for what is declared now."""
    if not isinstance(stored, dict) or stored.get("declared") is None:
        return stored
    schema, declared = stored["schema"], stored["declared"]
    named = dict(wanted["schema"]) if isinstance(wanted, dict) else {}
    return {**stored, "schema": schema[:declared] + [p for p in schema[declared:] if p[0] in named]}


def _by_name(value: Any) -> Any:
    """Read the description's schema, a list of pairs, as the mapping that it is."""
    pairs = isinstance(value, list) and all(isinstance(x, list) and len(x) == 2 for x in value)
    return dict(value) if pairs else value
