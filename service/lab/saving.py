"""Save a replayed model as a folder that a service continues from."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from kaboost.service.config.yaml12 import Loader
from kaboost.service.errors import ConfigError
from kaboost.service.lab.planning import Planned
from kaboost.service.lab.writing import write_text
from kaboost.service.learner.live import values_for_form
from kaboost.service.learner.trainer import Trainer
from kaboost.service.storage.live import RECORDS, LiveFiles
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
    sample = trainer.recent.take_sample()
    if planned.settings.api.shows_records and sample:  # the form of the page begins with them
        seen = {"shown": True, "seen": values_for_form(trainer, sample)}
        LiveFiles(folder / "snapshots").write(RECORDS, seen)
    if planned.text is not None:
        tree = nested(planned.text, planned.overrides)
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


def nested(text: str, overrides: Mapping[str, object]) -> dict[str, Any]:
    """Return a configuration in YAML as a tree, with other values at dotted keys.

    Examples
    --------
    >>> nested("model: {bank: nets}", {"model.bank.n": "4", "task.kind": "binary"})
    {'model': {'bank': {'kind': 'nets', 'n': 4}}, 'task': {'kind': 'binary'}}
    """
    tree: dict[str, Any] = yaml.load(text, Loader) or {}
    for key, value in overrides.items():
        *above, last = key.split(".")
        node = tree
        for name in above:
            inner = node.get(name)
            if not isinstance(inner, dict):  # a bare word means {kind: word}
                inner = {} if inner is None else {"kind": inner}
            node[name] = dict(inner)
            node = node[name]
        node[last] = _plain(value)
    return tree


def _plain(value: object) -> Any:
    """Return a value that a flag gave as text as YAML reads it."""
    if isinstance(value, str):
        return yaml.load(value, Loader)
    return dict(value) if isinstance(value, Mapping) else value
