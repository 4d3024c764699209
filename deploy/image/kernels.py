"""Compile every kernel that learning and serving need into the cache of the image.

Run in the build, with NUMBA_CACHE_DIR set. It uses the parts of the service: what they call is
compiled.
"""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry

from kaboost import BANKS
from kaboost.models.booster import warm_growth
from kaboost.models.model import Model
from kaboost.models.types import ModelError
from kaboost.service.config.settings import Settings
from kaboost.service.http.follower import Follower
from kaboost.service.learner.parts import make_parts
from kaboost.service.learner.trainer import Trainer
from kaboost.service.metrics import learner_metrics
from kaboost.service.storage.state import State

SCHEMA = {"number": "number", "category": "category", "boolean": "boolean"}
TASKS: list[dict[str, Any]] = [
    {"kind": "regression"},
    {"kind": "binary"},
    {"kind": "multiclass", "labels": ["a", "b", "c"]},
]
# Every bank with its defaults, and the cheaper step of the linear one.
CHOICES: list[dict[str, Any]] = [
    *({"kind": kind} for kind in BANKS),
    {"kind": "linear", "step": "sgd"},
]


def configurations(folder: Path) -> Iterator[Settings]:
    """Yield every kind of task with every bank that fits, each with its own folders."""
    for task in TASKS:
        for number, bank in enumerate(bank for bank in CHOICES if fits(bank, task)):
            directory = folder / f"{task['kind']}-{number}"
            yield Settings.model_validate(
                {
                    "task": task,
                    "features": {"schema": SCHEMA},
                    "model": {"bank": bank},
                    "snapshots": {"directory": directory / "snapshots"},
                    "checkpoints": {"directory": directory / "checkpoints"},
                }
            )


def fits(bank: dict[str, Any], task: dict[str, Any]) -> bool:
    """Whether the default rule accepts this bank: some are for other rules."""
    try:
        Model(task["kind"], {"bank": bank}, SCHEMA, task.get("labels"))
    except ModelError as err:
        print(f"not compiled, {task['kind']}: {err}")
        return False
    return True


def warm(settings: Settings) -> None:
    """Let a new model, then a restored one, learn; serve a prediction from its snapshot."""
    task = settings.task
    first = Model(task.kind, settings.model, settings.features.columns, task.labels)
    parts = make_parts(settings, metrics())
    parts.stores.checkpoints.start_run()
    trainer = Trainer(parts, State.initial(first, {0: 0}), restored=False)
    trainer.publish(cold=True)
    trainer.warm()
    warm_growth(first.booster)  # of features that come later
    trainer.write_checkpoint()
    restored, _ = parts.stores.checkpoints.restore({})
    assert restored is not None
    Trainer(make_parts(settings, metrics()), restored.state, restored=True).warm()
    served, _ = Follower(settings).refresh()
    assert served is not None


def metrics() -> Any:
    """Make metrics that are not exported."""
    return learner_metrics(CollectorRegistry())


def main() -> None:
    """Compile, and print the number and size of the kernels."""
    cache = Path(os.environ["NUMBA_CACHE_DIR"])
    with tempfile.TemporaryDirectory() as folder:
        for settings in configurations(Path(folder)):
            warm(settings)
    files = list(cache.rglob("*.nbc"))
    print(f"{len(files)} kernels, {sum(each.stat().st_size for each in files) / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
