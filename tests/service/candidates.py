"""A trainer with candidates, without a broker, for the tests."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from confluent_kafka import Message
from prometheus_client import CollectorRegistry

from kaboost.models.state.format import Arrays
from kaboost.service.config.settings import Settings
from kaboost.service.learner.inputs import Inputs
from kaboost.service.learner.parts import make_parts
from kaboost.service.learner.startup import RestoreFromCheckpoint
from kaboost.service.learner.trainer import Trainer
from kaboost.service.metrics import learner_metrics
from tests.service.learning import settings_for
from tests.service.test_startup import Consumer

CANDIDATES: dict[str, Any] = {"wide": {"bank": {"n": 40}}, "adagrad": {"bank": {"step": "adagrad"}}}
QUICK = {"after": 100, "margin": 0.0}


def messages(values: Sequence[bytes], first: int = 0) -> list[Message]:
    """Make the records of a topic of one partition."""
    made: Any = Message
    stamp = (1, 1_760_000_000_000)
    return [
        made(topic="t", partition=0, offset=k, value=value, timestamp=stamp)
        for k, value in enumerate(values, first)
    ]


def learn(trainer: Trainer, values: Sequence[bytes], step: int = 50) -> None:
    """Learn records in batches, from the trainer's offset on."""
    first = trainer.state.offsets[0]
    records = messages(values, first)
    for k in range(0, len(records), step):
        trainer.learn(records[k : k + step])


class Service:
    """The starts of one learner over its files, each with its own settings."""

    def __init__(self, folder: Path, **sections: Any) -> None:
        folder.mkdir(exist_ok=True)
        self._folder, self._sections = folder, sections
        self.startup: RestoreFromCheckpoint
        self.registry = CollectorRegistry()

    def settings(self, **sections: Any) -> Settings:
        """Return the settings of a start."""
        return settings_for("127.0.0.1:9", self._folder, "t", **{**self._sections, **sections})

    def start(self, **sections: Any) -> Trainer:
        """Start, with changed sections, up to the trainer."""
        self.registry = CollectorRegistry()
        parts = make_parts(self.settings(**sections), learner_metrics(self.registry))
        self.startup = RestoreFromCheckpoint(parts, cold_start=False)
        self.startup.prepare()
        self.inputs = Inputs.__new__(Inputs)  # without clients of a broker
        self.inputs.events, self.inputs.labels = Consumer(), None
        self.inputs.partitions = [0]
        return self.startup.open(self.inputs)

    def promote(self, name: str, now: Trainer) -> Trainer:
        """Return the trainer after a promotion."""
        return self.startup.promote(name, now, self.inputs)

    def figure(self, name: str, candidate: str) -> float | None:
        """Return a metric of a candidate."""
        return self.registry.get_sample_value(name, {"candidate": candidate})


def arrays_of(trainer: Trainer) -> Arrays:
    """Return every array of the champion and the candidates, as copies."""
    state = trainer.candidates.stored(trainer.state)
    return {name: np.array(array) for name, array in state.to_arrays().items()}


def expect_same(ours: Arrays, theirs: Arrays) -> None:
    """Compare arrays by name, bit for bit."""
    assert ours.keys() == theirs.keys()
    for name in theirs:
        np.testing.assert_array_equal(ours[name], theirs[name], err_msg=name)
