"""Checkpoints: state and offsets as one thing, whatever moment the learner dies in."""

import logging
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kaboost.models.evaluation.baselines import record
from kaboost.models.model import Model
from kaboost.models.state.format import pack
from kaboost.service.errors import CheckpointError, Damaged, Incompatible
from kaboost.service.storage import checkpoints, files
from kaboost.service.storage.checkpoints import Checkpoint, FolderCheckpointStore
from kaboost.service.storage.comparison import require_equal
from kaboost.service.storage.state import State
from tests.outcomes import outcome

SPEC = {"bank": {"kind": "linear", "n": 3}}
SCHEMA = {"age": "number", "country": "category"}
RNG = np.random.default_rng(1)
EVENTS = [
    ({"age": float(x), "country": "PT" if x > 0 else "DE"}, int(x + RNG.normal() > 0))
    for x in RNG.normal(size=40)
]
Save = Callable[[], Path]


class Learner:
    """The least that learns: a state."""

    def __init__(self, restored: Checkpoint | None = None) -> None:
        fresh = State.initial(Model("binary", SPEC, SCHEMA), {0: 0})
        self.state = restored.state if restored else fresh

    @property
    def offset(self) -> int:
        """The next offset of the one partition."""
        return self.state.offsets[0]

    def learn(self, until: int) -> None:
        """Learn the events up to a position."""
        for features, label in EVENTS[self.offset : until]:
            self.state.model.learn_one(features, label)
            one = np.ones(1)
            record(self.state.validation, outcome(one, one), np.array([float(label)]), one)
        self.state.offsets[0] = until

    def save(self, store: FolderCheckpointStore) -> Path:
        """Write a checkpoint; return its path."""
        header = {"topic": "t", "events_learned": self.offset}
        return Path(store.write(header, self.state).name)

    def bytes(self) -> dict[str, bytes]:
        """Return every array's bytes."""
        return {name: array.tobytes() for name, array in self.state.to_arrays().items()}


@pytest.fixture
def learner() -> Learner:
    """A learner that has learned ten events."""
    learner = Learner()
    learner.learn(10)
    return learner


@pytest.fixture
def save(tmp_path: Path, learner: Learner) -> Save:
    """Write a checkpoint of the learner, three are kept."""
    return lambda: learner.save(FolderCheckpointStore(tmp_path, keep=3))


def flip(path: Path, position: int = -1) -> None:
    """Damage one byte of a file."""
    data = bytearray(path.read_bytes())
    data[position] ^= 16
    path.write_bytes(data)


def restored(folder: Path, **configured: Any) -> Checkpoint:
    """Restore what must be there."""
    found, _ = FolderCheckpointStore(folder).restore(configured)
    assert found is not None
    return found


def test_continue_equals_never_stopped(tmp_path: Path, learner: Learner, save: Save) -> None:
    """Save, restore, learn on: every array has the bytes of a learner that never stopped."""
    save()
    learner.learn(40)
    again = Learner(restored(tmp_path))
    assert again.offset == 10
    again.learn(40)

    assert again.bytes() == learner.bytes()


def test_numbers_and_keep(tmp_path: Path, save: Save) -> None:
    """Numbers go on from the highest on disk; the last K are kept; the header says what it is."""
    paths = [save() for _ in range(5)]
    found = restored(tmp_path)

    assert [files.number(path) for path in paths] == [1, 2, 3, 4, 5]
    assert list(FolderCheckpointStore(tmp_path).paths()) == paths[:1:-1]
    assert found.header["sequence"] == 5
    assert found.state.offsets == {0: 10}
    assert found.header["topic"] == "t"


def test_first_start(tmp_path: Path) -> None:
    """Where nothing was ever written there is nothing, and no damage either."""
    assert FolderCheckpointStore(tmp_path / "new").restore() == (None, 0)


def test_abort_at_every_step(tmp_path: Path, learner: Learner, save: Save) -> None:
    """A learner that stops in the middle of a write restores the old state or the new one.

    State and offsets go together, and from one step to the next they never go back.
    """
    path = save()
    old = learner.bytes()
    learner.learn(20)
    new, there = learner.bytes(), files.numbered(path.parent, "checkpoint", 2)
    learner.save(FolderCheckpointStore(tmp_path))
    data = there.read_bytes()
    seen = []
    for count in range(6):
        there.unlink(missing_ok=True)
        list(islice(files.steps(there, data), count))
        again = Learner(restored(tmp_path))
        seen.append(again.offset)
        assert again.bytes() == (old if again.offset == 10 else new)

    assert seen == [10, 10, 10, 10, 20, 20]


@pytest.mark.parametrize("position", [0, 8, 200, -100, -1])
def test_damaged_newest(
    tmp_path: Path,
    learner: Learner,
    save: Save,
    caplog: pytest.LogCaptureFixture,
    position: int,
) -> None:
    """A damaged newest is passed over loudly and counted; the next write leaves it as evidence."""
    save()
    learner.learn(20)
    newest = save()
    flip(newest, position)
    with caplog.at_level(logging.ERROR):
        found, fallbacks = FolderCheckpointStore(tmp_path).restore()

    assert found is not None
    assert (found.state.offsets, fallbacks) == ({0: 10}, 1)
    assert [record.message for record in caplog.records] == ["checkpoint damaged"]
    assert files.number(save()) == 3
    assert newest.exists()


def test_dangling_newest(
    tmp_path: Path, learner: Learner, save: Save, caplog: pytest.LogCaptureFixture
) -> None:
    """A link to nothing is a damaged file: the one before it is used, and the next is written."""
    old = save()
    link = old.with_name("checkpoint-000000000002.safetensors")
    link.symlink_to(tmp_path / "gone")
    store = FolderCheckpointStore(tmp_path)
    with caplog.at_level(logging.ERROR):
        found, fallbacks = store.restore()
    newest = store.newest()
    assert found is not None
    assert newest is not None

    assert ({0: 10}, 1, str(old)) == (found.state.offsets, fallbacks, newest.name)
    assert f"it is a link to {tmp_path / 'gone'}, which is not there" in caplog.records[0].reason  # type: ignore[attr-defined]
    assert files.number(save()) == 3
    old.unlink()
    link.with_name("checkpoint-000000000003.safetensors").unlink()
    with pytest.raises(CheckpointError, match=r"no checkpoint can be read.*--cold-start") as caught:
        store.restore()
    assert caught.value.exit_code == 3


def test_damaged_do_not_count_among_the_kept(tmp_path: Path, learner: Learner) -> None:
    """After a fallback there are as many good ones as wanted, restarts in between or not."""
    paths = [learner.save(FolderCheckpointStore(tmp_path, keep=3)) for _ in range(3)]
    flip(paths[2])

    def restart() -> list[int]:
        store = FolderCheckpointStore(tmp_path, keep=3)
        learner = Learner(store.restore()[0])
        learner.save(store)
        return [files.number(path) for path in store.paths()]

    for _ in range(2):
        assert len(set(restart()) - {3}) == 3
    restart()

    assert [7, 6, 5] == restart()
    assert [] == restored(tmp_path).header["damaged"]


def test_all_damaged(tmp_path: Path, save: Save) -> None:
    """With nothing readable left the learner refuses with exit code 3 and makes no cold start."""
    for path in (save(), save()):
        flip(path)

    with pytest.raises(CheckpointError, match=r"no checkpoint can be read.*--cold-start") as caught:
        FolderCheckpointStore(tmp_path).restore()
    assert caught.value.exit_code == 3


def test_file_under_another_name(save: Save) -> None:
    """A copied checkpoint cannot pass for a newer one."""
    path = save()
    copy = files.numbered(path.parent, "checkpoint", 9)
    copy.write_bytes(path.read_bytes())

    with pytest.raises(Damaged, match="holds checkpoint 1"):
        checkpoints.load(copy)


CHANGES: list[tuple[tuple[Any, ...], str, str]] = [
    (("binary", {"bank": {"kind": "linear", "n": 4}}, SCHEMA), "t", "model.bank.n is 3 there, 4 "),
    (("binary", SPEC, {**SCHEMA, "vip": "boolean"}), "t", "vip from none to boolean: .* cannot"),
    (("binary", SPEC, {**SCHEMA, "age": "category"}), "t", "schema.age is 'number' there"),
    (("binary", SPEC, {"age": "number"}), "t", r"features\.schema\.country is 'category' there"),
    (("binary", SPEC, SCHEMA, ["a", "b"]), "t", r"task\.labels is \[0, 1\] there, \['a', 'b'\]"),
    (("regression", SPEC, SCHEMA), "t", "task.kind is 'binary' there, 'regression' configured"),
    (("binary", SPEC, SCHEMA), "u", "kafka.topic is 't' there, 'u' configured"),
]


@pytest.mark.parametrize(("model", "topic", "told"), CHANGES, ids=[row[2][:12] for row in CHANGES])
def test_another_model(
    tmp_path: Path, save: Save, model: tuple[Any, ...], topic: str, told: str
) -> None:
    """A checkpoint of another model is refused with exit code 3, naming the difference."""
    save()
    restored(tmp_path, model=Model("binary", SPEC, SCHEMA).describe(), topic="t")

    with pytest.raises(Incompatible, match=told) as caught:
        restored(tmp_path, model=Model(*model).describe(), topic=topic)
    assert caught.value.exit_code == 3


def test_inferred_kinds_declared_later() -> None:
    """What was inferred is told when another kind is declared for it, and is no difference where
    nothing is.
    """
    stored = {"schema": [["vip", "boolean"], ["age", "number"]], "declared": 1}
    before = {"schema": [["vip", "boolean"]], "declared": 1}
    after = {"schema": [["vip", "boolean"], ["age", "category"]], "declared": 2}
    require_equal(Path("file"), {"model": stored}, {"model": before})

    with pytest.raises(Incompatible) as caught:
        require_equal(Path("file"), {"model": stored}, {"model": after})
    assert "features.schema.age is 'number' there, 'category' configured" in str(caught.value)
    assert "features.schema: 1 of its features were declared there, 2 are now" in str(caught.value)


def test_arrays_of_another_program(tmp_path: Path, save: Save) -> None:
    """A whole file whose arrays are not those of its description stops the start."""
    path = save()
    header, arrays = files.read(path)
    path.write_bytes(pack({k: v for k, v in arrays.items() if k != "bank.w"}, header))

    with pytest.raises(Incompatible, match=r"another Kaboost: .*bank"):
        FolderCheckpointStore(tmp_path).restore()


def test_arrays_that_learning_needs(tmp_path: Path, learner: Learner, save: Save) -> None:
    """A file that could serve, but not learn, stops the start as well: an earlier build's."""
    path = save()
    header, arrays = files.read(path)
    lost = min(learner.state.model.to_arrays().keys() - learner.state.model.serving_arrays().keys())
    path.write_bytes(pack({k: v for k, v in arrays.items() if k != lost}, header))

    with pytest.raises(Incompatible, match=r"another Kaboost: .*learning.*--cold-start"):
        FolderCheckpointStore(tmp_path).restore()


def test_runs(tmp_path: Path, learner: Learner, save: Save) -> None:
    """A cold start begins in a new folder; the old one stays; the highest one is current."""
    store, old = FolderCheckpointStore(tmp_path), save()
    assert (old.parent.name, store.is_new_run()) == ("run-0001", False)
    store.start_run()
    assert store.run == "run-0002"
    assert store.restore() == (None, 0)
    store.start_run()
    assert (store.run, store.is_new_run()) == ("run-0002", True)
    learner.learn(20)
    new = save()

    assert new.parent.name == "run-0002"
    assert not store.is_new_run()
    assert restored(tmp_path).state.offsets == {0: 20}
    assert list(store.paths()) == [new, old]


@pytest.mark.parametrize("empty", [False, True])
def test_cold_start_without_anything(tmp_path: Path, empty: bool) -> None:
    """The first folder is a first start's: an empty one says nothing of a cold start."""
    if empty:
        files.make(tmp_path / "run-0001")
    store = FolderCheckpointStore(tmp_path)
    assert not store.is_new_run()

    for _ in range(2):
        store.start_run()
        assert (store.run, store.is_new_run()) == ("run-0002", True)
