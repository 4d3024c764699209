"""Pairs of features and late labels through the learner, without Kafka: CPU time for everything.

`python -m bench.late_pairs` decodes events of 20 numbers in JSON and their labels, which come
50,000 events later: features are predicted and stored, labels joined and learned, with a checkpoint
every 100,000 records. Two models: the default one, and 20 linear learners with step sgd. With
`--waiting 10000000` as many features wait meanwhile, of the 29 days before.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from confluent_kafka import Message
from prometheus_client import CollectorRegistry

from kaboost.models.features.onehot import Table
from kaboost.models.model import Model
from kaboost.service.config.settings import Settings
from kaboost.service.learner.captured_rows import pack
from kaboost.service.learner.late_trainer import LateTrainer
from kaboost.service.learner.parts import make_parts
from kaboost.service.metrics import learner_metrics
from kaboost.service.storage.state import LateState, State
from kaboost.service.storage.waiting import NewEntry

LAG, BATCH, CHECKPOINT_EVERY = 50_000, 2_000, 100_000
FILLED = 100_000  # features stored in one call
START, BEFORE = 1_760_000_000.0, 29 * 86_400.0  # of the first event, and of those before, seconds
NAMES = [f"x{j}" for j in range(20)]
EMPTY_EVENT = Table(np.zeros((1, len(NAMES))), np.empty((1, 0)), [])
MODELS: dict[str, dict[str, Any]] = {
    "default": {},
    "20 linear, sgd": {"bank": {"kind": "linear", "n": 20, "step": "sgd", "lr": 0.05}},
}


def record(topic: str, k: int, value: dict[str, Any]) -> Message:
    """Make a record of partition 0, one a second."""
    stamp, data = (1, int(1000 * START) + 1000 * k), json.dumps(value).encode()
    return Message(topic=topic, partition=0, offset=k, value=data, timestamp=stamp, headers=[])  # type: ignore[call-arg]


def streams(count: int) -> tuple[list[Message], list[Message]]:
    """Draw the records of both topics."""
    draw = np.random.default_rng(0)
    x = draw.normal(size=(count, len(NAMES))).round(4)
    y = (x[:, 0] + draw.normal(size=count) > 0.0).astype(int).tolist()
    rows = (dict(zip(NAMES, row, strict=True)) for row in x.tolist())
    events = [record("events", k, {"id": str(k), "features": row}) for k, row in enumerate(rows)]
    return events, [
        record("labels", k, {"id": str(k), "label": label}) for k, label in enumerate(y)
    ]


def trainer(folder: Path, spec: dict[str, Any]) -> LateTrainer:
    """Make a trainer of a model that has learned nothing."""
    settings = Settings.model_validate(
        {
            "task": {"kind": "binary"},
            "features": {"schema": dict.fromkeys(NAMES, "number")},
            "model": spec,
            "kafka": {"topic": "events"},
            "labels": {
                "topic": "labels",
                "directory": folder / "labels",
                "max_waiting": 1_000_000_000,
            },
            "snapshots": {"directory": folder / "snapshots"},
            "checkpoints": {"directory": folder / "checkpoints"},
        }
    )
    model = Model("binary", settings.model, settings.features.columns)
    state = State.initial(model, {0: 0})._replace(late=LateState({0: 0}))
    return LateTrainer(
        make_parts(settings, learner_metrics(CollectorRegistry())), state, restored=False
    )


def fill(learner: LateTrainer, waiting: int) -> None:
    """Store so many features of earlier events, each as wide as one that the model captured."""
    row = pack(learner.state.model.capture(EMPTY_EVENT), np.zeros(1))[0]
    for first in range(0, waiting, FILLED):
        numbers = range(first, min(first + FILLED, waiting))
        times = (START - BEFORE + BEFORE * k / waiting for k in numbers)
        learner._store.add(
            [NewEntry(f"old-{k}", t, 1.0, row) for k, t in zip(numbers, times, strict=True)]
        )
    learner.write_checkpoint()


def measure(
    spec: dict[str, Any], events: list[Message], labels: list[Message], waiting: int
) -> float:
    """Return the seconds of CPU time of all threads for a pair."""
    with tempfile.TemporaryDirectory() as folder:
        learner = trainer(Path(folder), spec)
        learner.warm()
        fill(learner, waiting)
        for first in range(0, LAG, BATCH):
            learner.learn(events[first : first + BATCH])
        start = time.process_time()
        for first in range(LAG, len(events), BATCH):
            learner.learn(events[first : first + BATCH])
            learner.learn(labels[first - LAG : first - LAG + BATCH])
            if first % CHECKPOINT_EVERY == 0:
                learner.write_checkpoint()
        seconds = time.process_time() - start
        figures = learner.late_figures
        learner.close()
    assert figures.joined == len(events) - LAG
    return seconds / figures.joined


def main() -> int:
    """Print one line for each model."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--pairs", type=int, default=200_000)
    parser.add_argument("--waiting", type=int, default=0)
    asked = parser.parse_args()
    gc.set_threshold(100_000)  # as the learner's process
    events, labels = streams(asked.pairs + LAG)
    for name, spec in MODELS.items():
        seconds = measure(spec, events, labels, asked.waiting)
        print(
            f"{name:15} {1e6 * seconds:5.1f} us a pair, {1.0 / seconds:,.0f} per CPU s", flush=True
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
