"""Snapshots: published once and for all, followed by readers, reported when damaged."""

import logging
from collections.abc import Callable
from mmap import mmap
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kaboost.models.evaluation.baselines import (
    ProgressiveValidation,
    progressive_validation,
    record,
)
from kaboost.models.model import Model
from kaboost.models.types import ModelError
from kaboost.service.errors import Damaged, Incompatible, NotWritten
from kaboost.service.storage import files, snapshots
from kaboost.service.storage.snapshots import FolderSnapshotStore, Status
from kaboost.service.storage.state import State
from tests.outcomes import outcome

HEADER = {"name": "test", "events_learned": 3, "offsets": {"0": 3}}
ROWS = [{"age": 1.0, "country": "PT"}, {"age": -2.0}, {"country": "DE"}]
Publish = Callable[..., int]


@pytest.fixture
def model() -> Model:
    """A small model that has learned three events."""
    model = Model(
        "binary", {"bank": {"kind": "linear", "n": 3}}, {"age": "number", "country": "category"}
    )
    model.learn_many(ROWS, [0, 1, 1])
    return model


@pytest.fixture
def seen(model: Model) -> ProgressiveValidation:
    """Baselines that have seen three events."""
    seen = progressive_validation(model.labels)
    record(seen, outcome(np.ones(3), np.ones(3)), np.array([0.0, 1.0, 1.0]), np.ones(3))
    return seen


@pytest.fixture
def publish(tmp_path: Path, model: Model, seen: ProgressiveValidation) -> Publish:
    """Publish the model as it is now."""

    def publish(**header: Any) -> int:
        state = State(model, seen, {0: 3})
        return FolderSnapshotStore(tmp_path, keep=3).publish({**HEADER, **header}, state)

    return publish


def flip(path: Path) -> None:
    """Damage the last byte of a file."""
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)


def test_reader_predicts_as_the_learner(
    tmp_path: Path, model: Model, seen: ProgressiveValidation, publish: Publish
) -> None:
    """A follower answers bit for bit what the learner would have at that version."""
    publish()
    expected = model.predict_proba_many(ROWS)
    model.learn_many(ROWS, [1, 1, 0])
    found = FolderSnapshotStore(tmp_path).newest()

    assert found is not None
    assert found.version == 1
    assert found.model.predict_proba_many(ROWS).tobytes() == expected.tobytes()
    assert found.header["events_learned"] == 3
    assert found.header["offsets"] == {"0": 3}
    assert found.validation.loss_sum.tobytes() == seen.loss_sum.tobytes()


def test_reader_cannot_learn(tmp_path: Path, publish: Publish) -> None:
    """A mapped model refuses to learn, and predicting leaves the file's bytes alone."""
    publish()
    found = FolderSnapshotStore(tmp_path).newest()
    assert found is not None
    path = files.numbered(tmp_path, "snapshot", 1)
    before = path.read_bytes()
    for _ in range(100):
        found.model.predict_many(ROWS)

    assert path.read_bytes() == before
    assert not any(array.flags.writeable for array in found.model.serving_arrays().values())
    with pytest.raises(ModelError, match="only serve"):
        found.model.learn_one(ROWS[0], 1)


def test_only_what_serves_is_mapped(tmp_path: Path, model: Model, publish: Publish) -> None:
    """A snapshot leaves out what only learning needs, and its readers share the file's pages."""
    publish()
    _, arrays = files.read(files.numbered(tmp_path, "snapshot", 1))
    found = FolderSnapshotStore(tmp_path).newest()
    assert found is not None
    base: object = found.model.serving_arrays()["bank.w"]
    while isinstance(base, np.ndarray | memoryview):
        base = base.base if isinstance(base, np.ndarray) else base.obj

    assert {name for name in arrays if not name.startswith("validation.")} == {
        *model.serving_arrays()
    }
    assert set(model.serving_arrays()) < set(model.to_arrays())
    assert isinstance(base, mmap)


def test_versions_only_grow(tmp_path: Path, publish: Publish) -> None:
    """Versions go on from the highest on disk, damaged or not; the newest K are kept."""
    versions = [publish() for _ in range(4)]
    flip(files.numbered(tmp_path, "snapshot", 4))
    versions.append(publish())

    assert versions == [1, 2, 3, 4, 5]
    assert [files.number(path) for path in files.newest(tmp_path, "snapshot")] == [5, 4, 3]


def test_only_news_is_read(tmp_path: Path, publish: Publish) -> None:
    """Nothing comes back until there is a version above the one that is served."""
    assert FolderSnapshotStore(tmp_path / "not-there").newest() is None
    assert FolderSnapshotStore(tmp_path).newest() is None
    publish()
    assert FolderSnapshotStore(tmp_path).newest(above=1) is None
    publish()
    found = FolderSnapshotStore(tmp_path).newest(above=1)
    assert found is not None
    assert found.version == 2


def test_damaged_newest(tmp_path: Path, publish: Publish, caplog: pytest.LogCaptureFixture) -> None:
    """A damaged newest is reported once and the one before it used; the next one is used again."""
    publish()
    publish()
    flip(files.numbered(tmp_path, "snapshot", 2))
    store, known = FolderSnapshotStore(tmp_path), set[int]()
    with caplog.at_level(logging.ERROR):
        found = [store.newest(0, known), store.newest(1, known)]
    publish()
    found.append(store.newest(1, known))

    assert [snapshot and snapshot.version for snapshot in found] == [1, None, 3]
    assert [record.message for record in caplog.records] == ["snapshot unusable"]
    assert known == {2}


def test_file_under_another_name(tmp_path: Path, publish: Publish) -> None:
    """A copied or renamed snapshot cannot pass for another version."""
    publish()
    path = files.numbered(tmp_path, "snapshot", 7)
    files.numbered(tmp_path, "snapshot", 1).rename(path)

    with pytest.raises(Damaged, match="holds snapshot 1"):
        snapshots.load(path)


def test_arrays_of_another_program(tmp_path: Path, model: Model, publish: Publish) -> None:
    """A whole file whose arrays are not those of its description is refused."""
    publish()
    path = files.numbered(tmp_path, "snapshot", 1)
    header, arrays = files.read(path)
    files.write(path, {name: array for name, array in arrays.items() if name != "bank.w"}, header)

    with pytest.raises(Incompatible, match=r"another Kaboost: .*bank"):
        snapshots.load(path)


@pytest.mark.parametrize("description", [{}, {"model": None}, {"model": {"schema": "age"}}])
def test_header_of_another_program(
    tmp_path: Path, publish: Publish, description: dict[str, Any]
) -> None:
    """A whole file whose header is not that of a snapshot is refused, and the one before used."""
    publish()
    path = files.numbered(tmp_path, "snapshot", 2)
    files.write(path, {}, {"kind": "snapshot", "version": 2, **description})

    with pytest.raises(Incompatible, match="another Kaboost"):
        snapshots.load(path)
    found = FolderSnapshotStore(tmp_path).newest()
    assert found is not None
    assert found.version == 1


def test_heartbeat(tmp_path: Path) -> None:
    """Every heartbeat differs from those before, and there is none at first."""
    store = FolderSnapshotStore(tmp_path / "snapshots")
    found = [store.last_heartbeat()]
    for _ in range(3):
        store.heartbeat()
        found.append(store.last_heartbeat())

    assert found[0] is None
    assert 4 == len(set(found))


def test_heartbeat_that_cannot_be_given(tmp_path: Path) -> None:
    """A file that cannot be written is named, with the remedy."""
    (tmp_path / ".learner").symlink_to(tmp_path / "gone" / "file")

    with pytest.raises(NotWritten, match=r"\.learner cannot be written .*: make room"):
        FolderSnapshotStore(tmp_path).heartbeat()


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"state": "running"}', '{"other": 1}'])
def test_status_of_another_hand(tmp_path: Path, text: str) -> None:
    """A status that cannot be read is none."""
    (tmp_path / ".status.json").write_text(text)

    assert FolderSnapshotStore(tmp_path).read_status() is None


def test_status(tmp_path: Path) -> None:
    """What the supervisor writes is what the API reads."""
    folder = tmp_path / "snapshots"
    assert FolderSnapshotStore(folder).read_status() is None
    FolderSnapshotStore(folder).write_status("stopped", 3, "a gap")
    assert FolderSnapshotStore(folder).read_status() == Status("stopped", 3, "a gap")
    FolderSnapshotStore(folder).write_status("running")
    assert FolderSnapshotStore(folder).read_status() == Status("running", None, "")
