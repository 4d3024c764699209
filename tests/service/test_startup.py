"""How a learner gets its first state, without a broker."""

import weakref
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Message
from prometheus_client import CollectorRegistry

from kaboost.models import build
from kaboost.service.config.settings import Kafka
from kaboost.service.errors import Refused
from kaboost.service.events.decoder import Decoded
from kaboost.service.kafka.accepted_gaps import AcceptedGaps
from kaboost.service.kafka.consumer import KafkaConsumer
from kaboost.service.kafka.identity import Identity
from kaboost.service.learner.inputs import Inputs
from kaboost.service.learner.parts import Parts, make_parts
from kaboost.service.learner.startup import RestoreFromCheckpoint
from kaboost.service.learner.trainer import Trainer
from kaboost.service.metrics import learner_metrics
from tests.kafka.client import encode
from tests.service.learning import settings_for


class Consumer(KafkaConsumer):
    """The answers of a broker whose topic begins at offset 0."""

    def __init__(self, *, committed: bool = False) -> None:
        self.committed = committed
        self.identity = Identity()
        self.gaps = AcceptedGaps(Kafka())

    def check_identity(self, known: Identity | None = None) -> None:
        """Accept every topic."""

    def start_offsets(self, partitions: list[int]) -> dict[int, int]:
        """Begin at 0."""
        return dict.fromkeys(partitions, 0)

    def is_committed(self, partitions: list[int]) -> bool:
        """Return what the test says."""
        return self.committed


def parts_for(folder: Path, **sections: Any) -> Parts:
    """Make the parts of one start; the files stay between starts."""
    settings = settings_for("127.0.0.1:9", folder, "t", **sections)
    return make_parts(settings, learner_metrics(CollectorRegistry()))


def start(parts: Parts, *, committed: bool = False, partitions: int = 1) -> Trainer:
    """Start a learner up to its trainer."""
    startup = RestoreFromCheckpoint(parts, cold_start=False)
    startup.prepare()
    inputs = Inputs.__new__(Inputs)  # without clients of a broker
    inputs.events, inputs.labels = Consumer(committed=committed), None
    inputs.partitions = list(range(partitions))
    return startup.open(inputs)


def save(trainer: Trainer) -> None:
    """Write both files."""
    trainer.publish(cold=True)
    trainer.write_checkpoint()


@pytest.mark.parametrize("model", [{}, {"rule": "sgb", "bank": "linear", "loss": "logistic"}])
def test_every_start_builds_one_booster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model: dict[str, Any]
) -> None:
    """Neither the comparison with the settings nor the newest snapshot builds one more."""
    builds: list[object] = []
    build_one = build._build

    def counted(*arguments: Any) -> Any:
        builds.append(arguments)
        return build_one(*arguments)

    monkeypatch.setattr(build, "_build", counted)
    save(start(parts_for(tmp_path, model=model)))
    assert 1 == len(builds)

    build._template.cache_clear()
    builds.clear()
    trainer = start(parts_for(tmp_path, model=model))
    assert 1 == len(builds)
    assert not trainer.unsaved
    assert not trainer.unpublished


def test_new_partitions_begin_at_their_first_offset(tmp_path: Path) -> None:
    """A restored state reads what was added while nobody learned."""
    save(start(parts_for(tmp_path)))

    assert {0: 0, 1: 0} == start(parts_for(tmp_path), partitions=2).state.offsets


def test_a_learned_batch_is_released(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Trap: kept until the next one was learned, it took a fifth of the learner's speed."""
    trainer = start(parts_for(tmp_path))
    decode, kept = trainer._decoder.decode, list[weakref.ref[Any]]()

    def spy(*arguments: Any) -> Decoded:
        decoded = decode(*arguments)
        kept.append(weakref.ref(decoded.y))
        return decoded

    monkeypatch.setattr(trainer._decoder, "decode", spy)
    for first in (0, 3):
        values = [(k, encode({"x": 1.0}, k % 2)) for k in range(first, first + 3)]
        made: Any = Message
        stamp = (1, 1_760_000_000_000)
        trainer.learn(
            [made(topic="t", partition=0, offset=k, value=v, timestamp=stamp) for k, v in values]
        )

    assert 6 == trainer.events_learned
    assert [True, True] == [each() is None for each in kept]


def test_lost_partitions_and_lost_checkpoints_are_refused(tmp_path: Path) -> None:
    """A state that has read a partition that is gone, and offsets without any state."""
    with pytest.raises(Refused, match="committed offsets"):
        start(parts_for(tmp_path), committed=True)
    save(start(parts_for(tmp_path), partitions=2))

    with pytest.raises(Refused, match=r"has no partitions \[1\] any more"):
        start(parts_for(tmp_path))
