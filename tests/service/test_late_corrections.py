"""Labels that replace another one of their event: their importance, and their order."""

import json
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from confluent_kafka import Message
from prometheus_client import CollectorRegistry

from kaboost.models.model import Model
from kaboost.service.config.settings import Settings
from kaboost.service.learner.late_trainer import LateTrainer
from kaboost.service.learner.parts import make_parts
from kaboost.service.metrics import learner_metrics
from kaboost.service.storage.state import LateState, State
from tests.service.learning import rows, settings_for

T0 = 1_760_000_000.0
AUTO: dict[str, Any] = {"features": {"schema": "auto"}, "model": {}}
DECLARED: dict[str, Any] = {"features": {"unknown": "ignore"}}


def message(topic: str, offset: int, value: dict[str, Any]) -> Message:
    """Make a record of partition 0."""
    stamp = (1, int((T0 + offset) * 1000))
    data = json.dumps(value).encode()
    return Message(topic=topic, partition=0, offset=offset, value=data, timestamp=stamp, headers=[])  # type: ignore[call-arg]


@contextmanager
def trainer(folder: Path, **sections: Any) -> Iterator[LateTrainer]:
    """Make a trainer of late labels without a broker."""
    folder.mkdir(exist_ok=True)
    sections.setdefault("events", {"id": "id"})
    labels = {"topic": "labels", "weight": "weight", **sections.pop("labels", {})}
    settings = settings_for("127.0.0.1:9", folder, "events", labels=labels, **sections)
    parts = make_parts(settings, learner_metrics(CollectorRegistry()))
    made = LateTrainer(parts, new_state(settings), restored=False)
    yield made
    made.close()


def new_state(settings: Settings) -> State:
    """Return the state of a model that has learned nothing."""
    model = Model("binary", settings.model, settings.features.columns)
    return State.initial(model, {0: 0})._replace(late=LateState({0: 0}))


def features(count: int, seed: int) -> list[Message]:
    """Draw the features of events; from the middle on, they have one more."""
    drawn = [{"id": k, **row} for k, (row, _) in enumerate(rows(count, seed))]
    more = [{**row, "later": k} if 2 * k > count else row for k, row in enumerate(drawn)]
    return [message("events", k, row) for k, row in enumerate(more)]


def learn(made: LateTrainer, messages: Sequence[Message], cuts: Sequence[int]) -> None:
    """Learn records in batches that end at the cuts."""
    for first, after in zip([0, *cuts], [*cuts, len(messages)], strict=True):
        assert [] == made.learn(messages[first:after])


@pytest.mark.parametrize(("schema", "seed"), [(AUTO, 1), (DECLARED, 2), (DECLARED, 3)])
def test_batches_do_not_matter(tmp_path: Path, schema: dict[str, Any], seed: int) -> None:
    """Labels, corrections and repeated ones teach in the order of their records, also where
    features were added between: any cut of batches gives the same state.
    """
    draw = np.random.default_rng(seed)
    ids = draw.integers(0, 40, 120).tolist()
    weights = draw.choice([None, 0.0, 0.5, 3.0], 120).tolist()
    labels = [
        message("labels", n, {"id": k, "label": int(draw.random() < 0.5), "weight": w})
        for n, (k, w) in enumerate(zip(ids, weights, strict=True))
    ]
    cuts: list[list[int]] = [[], list(range(1, 120)), sorted({*draw.integers(1, 120, 7).tolist()})]
    found = []
    for number, cut in enumerate(cuts):
        with trainer(tmp_path / str(number), **schema) as made:
            learn(made, features(40, seed), [10, 30])
            learn(made, labels, cut)
            found.append((made.state.to_arrays(), made.late_figures))

    (arrays, figures), *others = found
    assert figures.corrected > 10
    for others_arrays, others_figures in others:
        assert figures == others_figures
        for name, array in arrays.items():
            np.testing.assert_array_equal(array, others_arrays[name], err_msg=name)


def test_inferred_features_are_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Once for a batch, as they are where labels are in the events."""
    caplog.set_level(logging.INFO)
    with trainer(tmp_path, **AUTO) as made:
        made.learn(features(10, 1)[:3])
        made.learn(features(10, 1)[3:])
    logged = [vars(one)["kinds"] for one in caplog.records if one.message == "features inferred"]

    assert [{"x", "y", "colour", "flag"}, {"later"}] == [set(kinds) for kinds in logged]


@pytest.mark.parametrize(
    ("weights", "learned", "counted"),
    [
        ([3.0, 2.0], [3.0, 2.0], 3.0),
        ([3.0, None], [3.0, 3.0], 3.0),  # not that of the features
        ([None, 2.0], [7.0, 2.0], 7.0),
        ([None, None], [7.0, 7.0], 7.0),
        ([0.0, 2.0], [0.0, 2.0], 2.0),  # it did not count before
        ([2.0, 0.0], [2.0, 0.0], 2.0),
        ([3.0, 2.0, None], [3.0, 2.0, 3.0], 3.0),
    ],
)
@pytest.mark.parametrize("together", [True, False])
def test_a_correction_has_its_own_importance(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    weights: list[float | None],
    learned: list[float],
    counted: float,
    together: bool,
) -> None:
    """It is learned with it, or with that of the label that it replaces; the loss of the event
    counts as it did.
    """
    seen: list[float] = []
    losses: list[float] = []
    learn_captured = Model.learn_captured

    def spy(model: Model, captured: Any, y: Any, w: Any) -> Any:
        outcome = learn_captured(model, captured, y, w)
        seen.extend(w)
        losses.extend(outcome.losses)
        return outcome

    monkeypatch.setattr(Model, "learn_captured", spy)
    event = {"id": 5, "features": rows(1)[0][0], "weight": 7.0}
    labels = [
        message("labels", n, {"id": 5, "label": n % 2, "weight": weight})
        for n, weight in enumerate(weights)
    ]
    with trainer(tmp_path, events={"id": "id", "features": "features", "weight": "weight"}) as made:
        made.learn([message("events", 0, event)])
        learn(made, labels, [] if together else range(1, len(labels)))

        validation = made.state.validation
        assert learned == seen
        assert counted == float(validation.weight_sum)
        assert counted * losses[-1] == pytest.approx(float(validation.loss_sum[0]))
        assert len(weights) - 1 == made.late_figures.corrected
