"""Until the first features expire, labels of one class alone are held, as there are no others."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from confluent_kafka import Message

from kaboost.models.model import Model
from kaboost.service.kafka.ends import Ends
from kaboost.service.learner.late_trainer import LateTrainer
from kaboost.service.storage.waiting import HELD, JOINED, NewEntry, WaitingStore
from tests.service.learning import rows
from tests.service.test_late_corrections import DECLARED, message, trainer

SECTIONS: dict[str, Any] = {
    **DECLARED,
    "labels": {"wait": "100s", "weight": None, "expired": {"label": 0}},
}


def features(first: int, count: int) -> list[Message]:
    """Events a second apart."""
    drawn = rows(first + count, 5)[first:]
    return [message("events", first + k, {"id": first + k, **x}) for k, (x, _) in enumerate(drawn)]


def labels(ids: Sequence[int], values: Sequence[int]) -> list[Message]:
    """Labels in the time of the features."""
    return [
        message("labels", n, {"id": k, "label": v})
        for n, (k, v) in enumerate(zip(ids, values, strict=True))
    ]


def read(made: LateTrainer, messages: Sequence[Message]) -> None:
    """Learn records, then what has expired by the latest features; all labels so far are read."""
    made.learn(messages)
    made.note_ends(Ends(frozenset({0}), frozenset(), 0, 0, any_read=False))
    made.learn([])


@pytest.fixture
def learned(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The labels that are learned, in order."""
    seen: list[float] = []
    learn_captured = Model.learn_captured

    def spy(model: Model, captured: Any, y: Any, w: Any) -> Any:
        seen.extend(y.tolist())
        return learn_captured(model, captured, y, w)

    monkeypatch.setattr(Model, "learn_captured", spy)
    return seen


def test_one_class_alone_waits_for_the_other(tmp_path: Path, learned: list[float]) -> None:
    """Both are learned in the order of the events; from then on labels are learned as they come."""
    with trainer(tmp_path, **SECTIONS) as made:
        made.learn(features(0, 50))
        made.learn(labels([3, 20, 7], [1, 1, 1]))
        assert ([], 3, 3) == (learned, made.late_figures.joined, made._store.held)

        read(made, features(50, 66))  # up to second 115: those before 15 expire
        expected = [float(k in (3, 7)) for k in range(15)]
        assert (expected, 1) == (learned, made._store.held)
        made.learn([message("labels", 9, {"id": 60, "label": 1})])
        assert [*expected, 1.0] == learned

        read(made, features(116, 10))
        assert [0.0] * 5 + [1.0] + [0.0] * 4 == learned[16:]
        assert (0, 4) == (made._store.held, made.late_figures.joined)


def test_held_labels_are_counted(tmp_path: Path) -> None:
    """They are joined and not learned: figures and metric say how many."""
    with trainer(tmp_path, **SECTIONS) as made:
        made.learn(features(0, 50))
        made.learn(labels([3, 20, 7], [1, 1, 1]))
        figures, metrics = made.late_figures, made._late._metrics
        assert (3, 3, 0) == (figures.held, figures.joined, made.events_learned)
        assert 3.0 == metrics.labels_held._value.get()
        read(made, features(50, 66))

    figures = made.late_figures
    assert (1, figures.joined + figures.expired - 1) == (figures.held, made.events_learned)


def test_nothing_is_held_where_both_classes_are_labels(
    tmp_path: Path, learned: list[float]
) -> None:
    """The first labels of the expired class come at once, and after a few of them all others."""
    with trainer(tmp_path, **SECTIONS) as made:
        made.learn(features(0, 50))
        made.learn(labels(range(40), [k % 2 for k in range(40)]))
        assert (37, 3) == (len(learned), made._store.held)


@pytest.mark.parametrize("place", [0, 1, 20])
def test_an_exception_does_not_end_it(tmp_path: Path, learned: list[float], place: int) -> None:
    """One label of the expired class, also as the very first, leaves the others held."""
    with trainer(tmp_path, **SECTIONS) as made:
        made.learn(features(0, 50))
        made.learn(labels(range(40), [int(k != place) for k in range(40)]))
        assert ([0.0], 39) == (learned, made._store.held)


def test_a_held_label_is_replaced(tmp_path: Path, learned: list[float]) -> None:
    """A correction of what was not learned yet leaves one label to learn."""
    with trainer(tmp_path, **SECTIONS) as made:
        made.learn(features(0, 10))
        made.learn([*labels([4, 5], [1, 1]), message("labels", 2, {"id": 4, "label": 0})])
        made.learn([message("labels", 3, {"id": 5, "label": 1})])  # the same again
        assert ([], 1) == (learned, made.late_figures.corrected)
        read(made, features(10, 110))

    assert [float(k == 5) for k in range(19)] == learned


@pytest.mark.parametrize("cuts", [[], [1, 2, 30], [17, 40]])
def test_batches_do_not_matter(tmp_path: Path, learned: list[float], cuts: list[int]) -> None:
    """Which labels are held depends on their order alone."""
    r = np.random.default_rng(3)
    values = [int(r.random() < 0.97) for _ in range(60)]
    records = labels(range(60), values)
    with trainer(tmp_path, **SECTIONS) as made:
        made.learn(features(0, 60))
        for first, after in zip([0, *cuts], [*cuts, 60], strict=True):
            made.learn(records[first:after])
        held = made._store.held

    with trainer(tmp_path / "whole", **SECTIONS) as made:
        learned.clear()
        made.learn(features(0, 60))
        made.learn(records)
        assert held == made._store.held


def test_held_labels_are_restored(tmp_path: Path) -> None:
    """As they were at the checkpoint."""
    store = WaitingStore(tmp_path, 1 << 20)
    store.begin(0)
    store.add([NewEntry(str(k), float(k), 1.0, b"row") for k in range(6)])
    store.mark([1, 4], HELD, [1.0, 1.0], [2.0, 3.0])
    store.commit(1, keep_from=1)
    store.mark([2], HELD, [1.0])
    store.mark([1], JOINED, [1.0])
    assert ([2, 4], 2) == ([e.number for e in store.oldest_held(9.0, 9)], store.held)
    store.close()

    store = WaitingStore(tmp_path, 1 << 20)
    store.begin(1)
    found = store.oldest_held(9.0, 9)
    assert [(1, 2.0), (4, 3.0)] == [(e.number, e.label_weight) for e in found]
    assert (2, 4) == (store.held, store.waiting)
    assert [1] == [e.number for e in store.oldest_held(3.0, 9)]
    store.close()


def test_held_ones_count_as_waiting(tmp_path: Path, learned: list[float]) -> None:
    """Beyond labels.max_waiting the oldest expire, and held ones are learned with their label."""
    section = {**SECTIONS["labels"], "max_waiting": 10}
    with trainer(tmp_path, **{**SECTIONS, "labels": section}) as made:
        read(made, features(0, 10))
        read(made, labels([1, 2], [1, 1]))
        assert ([], 8, 2) == (learned, made.late_figures.waiting, made._store.held)
        read(made, features(10, 4))  # the four oldest go: 0 and 3 expire

        assert ([0.0, 1.0, 1.0, 0.0], 0) == (learned, made._store.held)
        assert 10 == made.late_figures.waiting
