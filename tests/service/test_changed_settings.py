"""A checkpoint takes over what it can of a changed configuration; the rest is refused."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kaboost.models.model import Model
from kaboost.service.config.settings import Settings
from kaboost.service.errors import ConfigError, Incompatible
from kaboost.service.storage.changes import ALIASES
from kaboost.service.storage.checkpoints import FolderCheckpointStore
from kaboost.service.storage.snapshots import FolderSnapshotStore
from kaboost.service.storage.state import State
from tests.kafka.client import encode
from tests.service.learning import (
    SCHEMA,
    events,
    learn_all,
    learned,
    learning,
    rows,
    settings_for,
    until,
)
from tests.service.steering import audited
from tests.specs import LINEAR

Make = Callable[..., Settings]
Send = Callable[..., None]
TREES = {"bank": {"kind": "reboosted_trees", "max_memory": 16}}
DECLARED = {"x": "number", "colour": "category"}


def test_features_are_renamed_and_dropped(topic: str, make_settings: Make, send: Send) -> None:
    """The model goes on; requests and events have the new names at once."""
    stream = rows(120)
    send(topic, events(stream[:100]))
    learn_all(make_settings(topic), 100)
    schema = {"width": "number", "y": "number", "colour": "category"}
    features = {"schema": schema, "aliases": {"x": "width", "flag": None}}
    settings = make_settings(topic, features=features)
    store = FolderSnapshotStore(settings.snapshots.directory)
    version = store.last_version()
    for _ in range(2):  # the second one changes nothing
        with learning(settings) as running:
            until(lambda: not running.alive or learned(settings) == 100)
            until(lambda: store.last_version() > version)
            assert 0 == running.stop()
    assert version + 1 == store.last_version()
    new = [({"width": f["x"], "y": f["y"], "colour": f["colour"]}, y) for f, y in stream[100:]]
    send(topic, [encode(*one) for one in new])
    learn_all(settings, 120)

    newest = store.newest()
    assert newest is not None
    kinds = {"width": "number", "y": "number", "colour": "category", "flag (dropped)": "boolean"}
    assert kinds == newest.model.kinds
    twin = Model("binary", LINEAR, SCHEMA)
    twin.learn_many(
        [f if k < 100 else {**f, "flag": None} for k, (f, _) in enumerate(stream)],
        [label for _, label in stream],
    )
    assert twin.predict_proba_one(stream[0][0] | {"flag": None}) == newest.model.predict_proba_one(
        new[0][0] | {"width": stream[0][0]["x"], "y": stream[0][0]["y"], **_colour(stream[0][0])}
    )
    notes = [entry["reason"] for entry in audited(settings)]
    assert ["features.schema.x is now width", "features.schema.flag is dropped"] == notes


def _colour(features: dict[str, Any]) -> dict[str, Any]:
    return {"colour": features["colour"]}


def restore(folder: Path, spec: Any, schema: dict[str, str], **aliases: str | None) -> Model:
    """Restore the newest checkpoint for a configured model."""
    wanted = Model.describe_new("binary", spec, schema)
    expected = {"model": wanted, "topic": "t", ALIASES: aliases}
    checkpoint, _ = FolderCheckpointStore(folder).restore(expected)
    assert checkpoint is not None
    return checkpoint.state.model


def save(folder: Path, model: Model) -> None:
    """Write a checkpoint of a model."""
    FolderCheckpointStore(folder).write({"topic": "t"}, State.initial(model, {0: 0}))


def test_sizes_and_features_of_trees_change(tmp_path: Path) -> None:
    """Budget, memory, a new feature wherever it stands in the file; also with the next start."""
    save(tmp_path, Model("binary", TREES, DECLARED))
    spec = {"bank": {"kind": "reboosted_trees", "max_memory": 20, "budget": 9000.0}}
    schema = {"x": "number", "age": "number", **DECLARED}
    for _ in range(2):
        model = restore(tmp_path, spec, schema)
        assert (20, 9000.0) == (model.spec["bank"]["max_memory"], model.spec["bank"]["budget"])
        assert schema == model.kinds
        save(tmp_path, model)
    assert {"width", "colour", "age"} == set(restore(tmp_path, spec, {
        "width": "number", "age": "number", "colour": "category"}, x="width").kinds)  # fmt: skip


CHANGES: list[tuple[Any, dict[str, str], dict[str, Any], str]] = [
    ({"bank": {**TREES["bank"], "calibrate": False}}, DECLARED, {}, r"model\.bank\.calibrate is T"),
    (TREES, {"x": "category", "colour": "category"}, {}, r"features\.schema\.x is 'number' there"),
    (TREES, {"colour": "category"}, {}, r"features\.schema\.x is 'number' there, None configured"),
    (TREES, DECLARED, {"x": "colour"}, "has learned a feature of that name already"),
    (
        {"bank": {**TREES["bank"], "max_memory": 1}},
        DECLARED,
        {},
        r"max_memory from 16\.0 to 1\.0: .*hold no",
    ),
]


@pytest.mark.parametrize(("spec", "schema", "aliases", "words"), CHANGES)
def test_other_changes_are_refused(
    tmp_path: Path, spec: Any, schema: dict[str, str], aliases: dict[str, Any], words: str
) -> None:
    """With the setting, its old and new value, and what to do."""
    save(tmp_path, Model("binary", TREES, DECLARED))

    with pytest.raises(Incompatible, match=words) as err:
        restore(tmp_path, spec, schema, **aliases)
    assert "--cold-start" in str(err.value)


@pytest.mark.parametrize(
    ("aliases", "words"),
    [
        ({"x": "width"}, r"x is also in features\.schema"),
        ({"a": "b", "b": "y"}, "b is an old name and a new one"),
        ({"a": "y", "b": "y"}, "features cannot be merged"),
    ],
)
def test_aliases_are_checked(tmp_path: Path, aliases: dict[str, str], words: str) -> None:
    """What says two things of one name is refused before anything starts."""
    with pytest.raises(ConfigError, match=words):
        settings_for("127.0.0.1:1", tmp_path, "t", features={"aliases": aliases})
