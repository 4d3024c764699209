"""Save a replayed model as a folder that a service continues from."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from kaboost.service.errors import ConfigError
from kaboost.service.lab.planning import Planned
from kaboost.service.lab.writing import write_text
from kaboost.service.learner.trainer import Trainer
from kaboost.service.storage.stores import Stores

FILE = "kaboost.yaml"


def check_folder(folder: Path) -> None:
    """Refuse a folder that has something in it, before anything is learned."""
    if folder.is_file() or (folder.is_dir() and any(folder.iterdir())):
        raise ConfigError(f"--save {folder}: exists; name a folder that is new or empty")


def save(
    trainer: Trainer, stores: Stores, planned: Planned, folder: Path, *, keeps_offsets: bool
) -> None:
    """Write a checkpoint and a snapshot, and the configuration where it was inferred.

    Parameters
    ----------
    trainer, stores
        What has learned, and the stores in this folder that it writes to.
    planned
        Its settings.
    folder
        New or empty.
    keeps_offsets
        Whether the service continues where the replay ended. The rows of a file have no place in a
        topic: there it begins where `kafka.start_from` says.
    """
    if not keeps_offsets:
        trainer.state = trainer.state._replace(offsets={})
        trainer.marks[0].clear()
    with stores.lock():
        trainer.write_checkpoint()
        trainer.publish()
    if planned.text is not None:
        tree: dict[str, Any] = yaml.safe_load(planned.text)
        for key, value in planned.overrides.items():
            section, _, name = key.partition(".")
            if name:
                tree.setdefault(section, {})[name] = _plain(value)
            else:
                tree[section] = _plain(value)
        for section in ("checkpoints", "snapshots"):
            tree.setdefault(section, {})["directory"] = str((folder / section).resolve())
        head = "# Written by `kaboost replay --save`; docs/settings.md has all settings.\n"
        write_text(folder / FILE, head + yaml.safe_dump(tree, sort_keys=False, allow_unicode=True))


def how_to_serve(folder: Path, config: Path | None) -> str:
    """Return the command that continues."""
    if config is None:
        return f"kaboost serve --config {folder / FILE}"
    sets = (f"--set {s}.directory={(folder / s).resolve()}" for s in ("checkpoints", "snapshots"))
    return f"kaboost serve --config {config} {' '.join(sets)}"


def _plain(value: object) -> Any:
    """Return a value that a flag gave as text as YAML reads it."""
    if isinstance(value, str):
        return yaml.safe_load(value)
    return dict(value) if isinstance(value, Mapping) else value
