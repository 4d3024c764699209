"""`kaboost checkpoints diff`: what has changed from one checkpoint to the next."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from kaboost.models.model import Model
from kaboost.service import cli
from kaboost.service.checkpoint_diff import diff_rows
from kaboost.service.storage import files
from kaboost.service.storage.checkpoints import FolderCheckpointStore
from kaboost.service.storage.state import State
from tests.specs import LINEAR

CONFIG = {"task": {"kind": "binary"}, "features": {"schema": {"x": "number"}}}


@pytest.fixture
def config(tmp_path: Path) -> list[str]:
    """A configuration, and a folder of checkpoints of 10 and of 30 events."""
    directory = tmp_path / "checkpoints"
    path = tmp_path / "kaboost.yaml"
    path.write_text(json.dumps({**CONFIG, "checkpoints": {"directory": str(directory)}}))
    store = FolderCheckpointStore(directory)
    model = Model("binary", LINEAR, {"x": "number"})
    for count in (10, 20):
        model.learn_many([{"x": float(k)} for k in range(count)], [k % 2 for k in range(count)])
        events = int(model.booster.progress.events)
        header = {"topic": "t", "events_learned": events, "created": f"after {events}"}
        store.write(header, State.initial(model, {0: events, 1: 0}))
    return ["--config", str(path)]


def diff(*arguments: str) -> Result:
    return CliRunner().invoke(cli.app, ["checkpoints", "diff", *arguments])


def test_the_two_newest_are_compared(config: list[str]) -> None:
    """Offsets and counts with their difference; parts and arrays that changed, no others."""
    found = diff(*config, "--json")
    rows: dict[str, dict[str, Any]] = {row["key"]: row for row in json.loads(found.stdout)}
    table = diff(*config).stdout

    expected = {"key": "offsets.0", "before": 10, "after": 30, "change": "+20"}
    assert expected == rows["offsets.0"]
    assert "+20" == rows["events_learned"]["change"]
    assert {"before": "after 10", "after": "after 30"}.items() <= rows["created"].items()
    assert not {"topic", "offsets.1", "model"} & rows.keys()
    parts = [key for key in rows if key.startswith("[")]
    assert "[validation]" in parts
    assert all("arrays differ" in rows[part]["change"] for part in parts)
    assert "offsets.0" in table


def test_arrays_are_compared_by_value(tmp_path: Path) -> None:
    """Added, removed, of another size; NaN equals itself; the largest difference of floats."""
    old, new = tmp_path / "a.safetensors", tmp_path / "b.safetensors"
    nan = float("nan")
    files.write(
        old, {"p.a": np.array([1.0, nan, 3.0]), "p.b": np.zeros(2), "p.c": np.arange(3)}, {}
    )
    later = {"p.a": np.array([1.0, nan, 5.5]), "p.c": np.arange(3) * 2, "p.d": np.ones(1)}
    files.write(new, later, {})
    changes = {row["key"]: row["change"] for row in diff_rows(old, new)}

    assert {
        "[p]": "4 of 4 arrays differ",
        "p.a": "1 of 3 values, by up to 2.5",
        "p.b": "removed",
        "p.c": "2 of 3 values",
        "p.d": "added",
    } == changes
    assert ["0 of 3 arrays differ"] == [row["change"] for row in diff_rows(old, old)]


def test_one_file_is_not_enough(config: list[str], tmp_path: Path) -> None:
    """Two, or none; and a file that is there."""
    one = diff("x", *config)
    missing = diff("x", "y", *config)
    next(FolderCheckpointStore(tmp_path / "checkpoints").paths()).unlink()
    only = diff(*config)

    assert "name two files, or none" in str(one.exception)
    assert "x does not exist" in str(missing.exception)
    assert "is the only checkpoint" in str(only.exception)
