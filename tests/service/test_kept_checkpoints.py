"""Checkpoints from before a rollback are listed with the others."""

from pathlib import Path

from kaboost.service.listings import checkpoint_rows
from kaboost.service.storage.checkpoints import FolderCheckpointStore
from tests.chaos.damage import small_state
from tests.service.learning import settings_for


def test_kept_checkpoints_are_listed(tmp_path: Path) -> None:
    """After those of the runs, which are what a restart reads."""
    settings = settings_for("localhost:9", tmp_path, "t")
    store = FolderCheckpointStore(settings.checkpoints.directory)
    for events in (3, 7):
        store.write({"name": "t", "events_learned": events}, small_state(events))
        store.keep_newest()
    listed = [Path(row["file"]) for row in checkpoint_rows(settings)]
    run = settings.checkpoints.directory / "run-0001"

    names = [f"checkpoint-{k:012d}.safetensors" for k in (2, 1)]
    before = [run / "before-rollback" / name for name in names]
    assert [*(run / name for name in names), *before] == listed
    assert all(row["state"] == "ok" for row in checkpoint_rows(settings))
