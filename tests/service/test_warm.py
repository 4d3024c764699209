"""A trainer that is warm compiles nothing more, however few or many events a batch holds."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.service.learning import settings_for
from tests.specs import LINEAR

ROOT = Path(__file__).parents[2]
TASKS: dict[str, dict[str, Any]] = {
    "regression": {"kind": "regression"},
    "binary": {"kind": "binary"},
    "multiclass": {"kind": "multiclass", "labels": [0, 1, 2]},
}
MODELS: dict[str, dict[str, Any]] = {"default": {}, "linear": LINEAR}
# A process of its own: this one has compiled before.
LEARN = """
import sys
from pathlib import Path

from confluent_kafka import Message
from numba.core.dispatcher import Dispatcher
from prometheus_client import CollectorRegistry

from kaboost.models.model import Model
from kaboost.service.config.settings import load
from kaboost.service.metrics import learner_metrics
from kaboost.service.learner.parts import make_parts
from kaboost.service.learner.trainer import Trainer
from kaboost.service.storage.state import State


def compiled():
    kernels = {
        f"{name}.{key}": each
        for name, module in list(sys.modules.items()) if name.startswith("kaboost.models.")
        for key, each in list(vars(module).items()) if isinstance(each, Dispatcher)
    }
    return {name: len(each.nopython_signatures) for name, each in kernels.items()}


def records(offset, count):
    value = b'{"label": 1, "features": {"x": 0.5, "colour": "red", "flag": true}}'
    return [Message(topic="t", partition=0, offset=offset + k, value=value) for k in range(count)]


settings = load(Path(sys.argv[1]))
task = settings.task
parts = make_parts(settings, learner_metrics(CollectorRegistry()))
parts.stores.checkpoints.start_run()
model = Model(task.kind, settings.model, settings.features.columns, task.labels)
trainer = Trainer(parts, State.initial(model, {0: 0}), restored=False)
trainer.publish(cold=True)
trainer.warm()
before = compiled()
assert sum(before.values()) > 0
for offset, count in ((0, 1), (1, 2), (3, 50)):
    assert [] == trainer.learn(records(offset, count))
trainer.publish()
trainer.write_checkpoint()
assert trainer.events_learned == 53
print({name for name, count in compiled().items() if count > before.get(name, 0)})
"""


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("task", TASKS)
def test_no_event_waits_for_a_compiler(tmp_path: Path, task: str, model: str) -> None:
    """What batches of one, of two and of many events need is compiled by `warm`."""
    settings_for("127.0.0.1:9", tmp_path, "t", task=TASKS[task], model=MODELS[model])
    command = [sys.executable, "-c", LEARN, str(tmp_path / "kaboost.json")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)

    assert (0, "set()") == (done.returncode, done.stdout.strip()), done.stderr


@pytest.mark.parametrize(
    ("late", "task"),
    [(False, "binary"), (False, "auto"), (True, "binary"), (True, "regression")],
)
def test_nothing_of_a_stream_waits_for_a_compiler(tmp_path: Path, late: bool, task: str) -> None:
    """What comes later is warm too: features, classes, categories, unknown values, moved columns;
    with late labels also corrections and expiry.
    """
    sections: dict[str, dict[str, Any]] = {
        "task": {**TASKS, "auto": {"kind": "multiclass", "labels": "auto"}}[task],
        "features": {"schema": {"x": "number", "*": "auto"}},
        "events": {"id": "id", "features": "*"},
        "model": {},
    }
    if late:
        sections["labels"] = {"topic": "labels", "wait": "1h", "expired": {"label": 0}}
    settings_for("127.0.0.1:9", tmp_path, "events", **sections)
    program = ["-m", "tests.service.kernels_after_warm", str(tmp_path / "kaboost.json")]
    done = subprocess.run([sys.executable, *program], cwd=ROOT, capture_output=True, text=True)

    assert (0, "set()") == (done.returncode, done.stdout.strip()), done.stderr
