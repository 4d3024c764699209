"""Print the kernels that a trainer compiles, or loads, after `warm`: a program for test_warm.py.

It learns a stream of all that happens: features, classes and categories that come later, unknown
values, corrected kinds, columns that move; with late labels also early ones, corrections, expiry.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from confluent_kafka import Message
from numba.core.dispatcher import Dispatcher
from prometheus_client import CollectorRegistry

from kaboost.models.model import Model
from kaboost.service.config.settings import load
from kaboost.service.kafka.ends import Ends
from kaboost.service.learner.late_trainer import LateTrainer
from kaboost.service.learner.parts import make_parts
from kaboost.service.learner.trainer import Trainer
from kaboost.service.metrics import learner_metrics
from kaboost.service.storage.state import LateState, State

T0 = 1_760_000_000
EXPIRED_AFTER = 10_000  # seconds, more than `labels.wait`


class Stream:
    """Records of an events topic and a labels topic, one a second."""

    def __init__(self, *, late: bool) -> None:
        self._late = late
        self._random = np.random.default_rng(0)
        self._next = {"events": 0, "labels": 0}  # offsets
        self.time = T0

    def events(self, count: int, change: Callable[[dict[str, Any], int], Any]) -> list[Message]:
        """Make the next events; `change` changes the features of each."""
        return [self._event(change) for _ in range(count)]

    def labels(self, ids: range, *, wrong: bool = False) -> list[Message]:
        """Make labels of events that came, or will come."""
        return [self._record("labels", {"id": k, "label": (k + wrong) % 2}) for k in ids]

    def _event(self, change: Callable[[dict[str, Any], int], Any]) -> Message:
        k = self._next["events"]
        row = {
            "x": float(self._random.normal()),
            "level": 1e9 + float(self._random.normal()),
            "colour": ("red", "green", "blue")[k % 3],
        }
        change(row, k)
        label = k % 2 if k < 500 else k % 3 % 2
        return self._record("events", {"id": k, **row, **({} if self._late else {"label": label})})

    def _record(self, topic: str, value: dict[str, Any]) -> Message:
        offset = self._next[topic]
        self._next[topic] = offset + 1
        self.time += 1
        return Message(  # type: ignore[call-arg]
            topic=topic,
            partition=0,
            offset=offset,
            value=json.dumps(value).encode(),
            timestamp=(1, self.time * 1000),
            headers=[],
        )


def signatures() -> dict[str, int]:
    """Count the signatures of every kernel that Python has called."""
    return {
        f"{name}.{key}": len(each.nopython_signatures)
        for name, module in list(sys.modules.items())
        if name.startswith("kaboost.models.")
        for key, each in list(vars(module).items())
        if isinstance(each, Dispatcher)
    }


def batches(stream: Stream, *, late: bool) -> list[list[Message]]:
    """Return the stream in batches."""

    def plain(row: dict[str, Any], k: int) -> None:
        pass

    def more(row: dict[str, Any], k: int) -> None:
        row.update(amount=float(k % 7), shop=f"s{k % 9}")

    def others(row: dict[str, Any], k: int) -> None:
        more(row, k)
        row.update(colour="violet", x=None, shop="new", **{f"n{j}": j for j in range(4)})

    found = [stream.labels(range(3))] if late else []  # early
    found += [stream.events(n, plain) for n in (1, 2, 50, 400)]
    if late:
        found.append(stream.labels(range(3, 400)))
    found += [stream.events(150, more)]
    if late:
        found += [stream.labels(range(400, 560)), stream.labels(range(5, 20), wrong=True)]
    found += [stream.events(100, others), stream.events(1, more)]
    if late:
        found.append(stream.labels(range(560, 650)))
        stream.time += EXPIRED_AFTER
        found += [stream.events(1, plain), stream.labels(range(704, 705)), []]
    found.append(stream.events(600, more))
    return found


def main(file: Path) -> None:
    """Learn the stream, and print what was compiled or loaded after `warm`."""
    settings = load(file)
    task, late = settings.task, settings.labels.topic is not None
    parts = make_parts(settings, learner_metrics(CollectorRegistry()))
    parts.stores.checkpoints.start_run()
    model = Model(task.kind, settings.model, settings.features.columns, task.labels)
    state = State.initial(model, {0: 0})._replace(late=LateState({0: 0}) if late else None)
    trainer = (LateTrainer if late else Trainer)(parts, state, restored=False)
    trainer.publish(cold=True)
    trainer.warm()
    before = signatures()
    assert sum(before.values()) > 0
    for batch in batches(Stream(late=late), late=late):
        assert [] == trainer.learn(batch)
        trainer.note_ends(Ends(frozenset({0}), frozenset(), 0, 0, any_read=False))
    trainer.publish()
    trainer.write_checkpoint()
    assert trainer.events_learned > 500
    if (figures := trainer.late_figures) is not None:
        assert figures.corrected == 15, figures
        assert figures.expired > 50, figures
    trainer.close()
    print({name for name, count in signatures().items() if count > before.get(name, 0)})


if __name__ == "__main__":
    main(Path(sys.argv[1]))
