"""Files that are flipped at every offset or cut at every length: never taken for whole ones."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kaboost.models.evaluation.baselines import progressive_validation
from kaboost.models.model import Model
from kaboost.service.errors import CheckpointError, KaboostError
from kaboost.service.storage.checkpoints import FolderCheckpointStore
from kaboost.service.storage.snapshots import FolderSnapshotStore
from kaboost.service.storage.state import State
from tests.chaos.scenario import Run, scenario

SMALL: dict[str, Any] = {"rule": "sgb", "bank": {"kind": "linear", "n": 1, "step": "nag"}}


def small_state(events: int) -> State:
    """Make a state as small as one can be."""
    model = Model("binary", SMALL, {"x": "number"})
    model.learn_many([{"x": float(k)} for k in range(events)], [k % 2 for k in range(events)])
    return State(model, progressive_validation(model.labels), {0: events})


def checkpoints(folder: Path) -> tuple[Path, Callable[[], int]]:
    """Write two checkpoints; return the newest, and what reads the offset that is restored."""
    store = FolderCheckpointStore(folder)
    for events in (3, 7):
        written = store.write({"name": "chaos", "events_learned": events}, small_state(events))

    def restored() -> int:
        try:
            checkpoint, _ = FolderCheckpointStore(folder).restore()
        except CheckpointError:
            return -1
        assert checkpoint is not None
        return checkpoint.state.offsets[0]

    return Path(written.name), restored


def snapshots(folder: Path) -> tuple[Path, Callable[[], int]]:
    """Write two snapshots; return the newest, and what reads how many events the served one has."""
    store = FolderSnapshotStore(folder, keep=5)
    for events in (3, 7):
        header = {"name": "chaos", "events_learned": events, "cold_start": False}
        version = store.publish({**header, "created": "", "offsets": {}}, small_state(events))

    def served() -> int:
        found = FolderSnapshotStore(folder).newest()
        return -1 if found is None else int(found.header["events_learned"])

    return folder / f"snapshot-{version:012d}.safetensors", served


def _try_all(run: Run, cases: Callable[[bytes], list[bytes]]) -> None:
    """Read each damaged file: the one before is used, or it is the undamaged content itself."""
    logging.getLogger("kaboost").setLevel(logging.CRITICAL + 1)  # a line for each case
    for kind in (checkpoints, snapshots):
        path, read = kind(run.folder / kind.__name__)
        whole = path.read_bytes()
        assert read() == 7
        for damaged in cases(whole):
            path.write_bytes(damaged)
            try:
                found = read()
            except KaboostError as err:
                raise AssertionError(f"{kind.__name__}: {err}") from err
            assert found == 3, f"a damaged one of {kind.__name__} was read: {found}"
            run.events += 1
        path.write_bytes(whole)
        assert read() == 7
        run.notes.append(f"{kind.__name__}: {len(whole):,} bytes")


@scenario(rounds=1, long=8)
def flipped_bits(run: Run) -> None:
    """A flipped bit at every offset of a small checkpoint and snapshot; long: every bit."""

    def cases(whole: bytes) -> list[bytes]:
        made = []
        for place in range(len(whole)):
            for shift in range(run.rounds):
                bit = 1 << (place + run.seed + shift) % 8
                made.append(whole[:place] + bytes([whole[place] ^ bit]) + whole[place + 1 :])
        return made

    _try_all(run, cases)


@scenario(rounds=1, long=1)
def truncated(run: Run) -> None:
    """A small checkpoint and a small snapshot, cut at every length."""
    _try_all(run, lambda whole: [whole[:length] for length in range(len(whole))])
