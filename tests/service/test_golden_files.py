"""Files of every version are read by this one: those of tests/golden/, and one pretend version."""

import json
import lzma
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kaboost.models.state import migrations
from kaboost.models.state.format import pack, unpack
from kaboost.models.state.migrations import FORMAT
from kaboost.service.errors import Damaged, Incompatible
from kaboost.service.events.json import JsonDecoder
from kaboost.service.storage import checkpoints, files, snapshots
from kaboost.service.storage.checkpoints import FolderCheckpointStore
from tests.golden.make import EVENTS, FOLDER, TASKS, expected
from tests.kafka.client import encode

VERSIONS = [f"v{number}" for number in range(1, FORMAT + 1)]
CASES = [(version, task) for version in VERSIONS for task in TASKS]


def unpacked(folder: Path, version: str, task: str, kind: str) -> Path:
    """Write a golden file under a name that it can be read by."""
    path = files.numbered(folder, kind, 1)
    data = (FOLDER / version / f"{task}-{kind}.safetensors.xz").read_bytes()
    path.write_bytes(lzma.decompress(data))
    return path


def predictions(version: str, task: str) -> Any:
    found: Mapping[str, Any] = json.loads((FOLDER / version / "predictions.json").read_text())
    return pytest.approx(np.array(found[task]), rel=1e-9)


def test_every_version_has_its_files() -> None:
    """A new version of the format comes with a migration, and with golden files of its own."""
    assert VERSIONS == sorted(path.name for path in FOLDER.glob("v*"))
    assert all(map(migrations.is_readable, range(1, FORMAT + 1)))


@pytest.mark.parametrize(("version", "task"), CASES)
def test_a_golden_checkpoint_is_read_and_learns_on(version: str, task: str, tmp_path: Path) -> None:
    """With all that it holds; what it predicts is what it did; the next event is learned."""
    state = checkpoints.load(unpacked(tmp_path, version, task, "checkpoint")).state
    label = {"binary": 1, "regression": 0.5, "multiclass": "b"}[task]
    model = state.model

    assert predictions(version, task) == np.array(expected(state))
    assert ({0: EVENTS, 1: 7}, EVENTS) == (state.offsets, state.events_learned)
    assert state.replayed is not None
    assert ("t", 0, 17) in state.replayed
    assert not state.ids.is_new("b")
    assert state.late is not None
    assert ({0: 3}, "labels", 2) == (state.late.offsets, state.late.topic, state.late.generation)
    decoder = JsonDecoder(model.encoder.schema, model.labels)
    decoded = decoder.decode([encode({"x": 0.5, "c": "q"}, label)])
    model.learn(decoded.table, decoded.y, decoded.w)
    assert EVENTS + 1 == state.events_learned
    again = FolderCheckpointStore(tmp_path / "again")
    again.write({"topic": "t"}, state)
    assert again.restore({"topic": "t"})[0] is not None


@pytest.mark.parametrize(("version", "task"), CASES)
def test_a_golden_snapshot_is_served(version: str, task: str, tmp_path: Path) -> None:
    """It predicts what the learner predicted that published it."""
    snapshot = snapshots.load(unpacked(tmp_path, version, task, "snapshot"))
    state = checkpoints.load(unpacked(tmp_path, version, task, "checkpoint")).state

    served = state._replace(model=snapshot.model)
    assert predictions(version, task) == np.array(expected(served))


def rename(header: dict[str, Any], arrays: dict[str, Any]) -> migrations.Content:
    """Make what version 2 calls `weights` of what version 1 called `w`, in other units."""
    return {**header, "unit": "ms"}, {"weights": arrays["w"] * 1000.0}


def test_a_file_of_an_older_version_is_migrated(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the functions of all versions between, in their order."""
    old = pack({"w": np.array([1.0, 2.0])}, {"kind": "x"})
    monkeypatch.setattr(migrations, "FORMAT", 3)
    steps = {1: rename, 2: lambda header, arrays: ({**header, "step": 2}, arrays)}
    monkeypatch.setattr(migrations, "MIGRATIONS", steps)
    header, arrays = unpack(old)

    assert {"kind": "x", "unit": "ms", "step": 2} == header
    assert [1000.0, 2000.0] == arrays["weights"].tolist()
    assert {"kind": "x"} == unpack(pack({"w": np.ones(1)}, {"kind": "x"}))[0]


def test_a_file_of_a_newer_version_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As no damage: the checkpoint before it must not be used in its place."""
    path = tmp_path / "run-0001" / "checkpoint-000000000002.safetensors"
    path.parent.mkdir()
    monkeypatch.setattr(migrations, "FORMAT", 2)
    files.write(path, {"w": np.ones(1)}, {"kind": "checkpoint", "sequence": 2})
    monkeypatch.undo()
    files.write(files.numbered(path.parent, "checkpoint", 1), {"w": np.ones(1)}, {"kind": "x"})

    message = "format 2 is newer than 1, the newest that this Kaboost reads; use the Kaboost that"
    with pytest.raises(Incompatible, match=message):
        FolderCheckpointStore(tmp_path).restore()
    assert {"kind": "x"} == FolderCheckpointStore(tmp_path).newest_header()


@pytest.mark.parametrize(
    ("version", "error"), [(0, Damaged), ("1", Damaged), (None, Damaged), (1, Incompatible)]
)
def test_other_versions_are_named(
    version: Any, error: type[Exception], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is no version is damage; one without a migration is too old."""
    monkeypatch.setattr(migrations, "FORMAT", version)
    path = tmp_path / "a.safetensors"
    path.write_bytes(pack({"w": np.ones(1)}, {}))
    monkeypatch.setattr(migrations, "FORMAT", 2)
    with pytest.raises(error, match=r"too old|is none"):
        files.read(path)
