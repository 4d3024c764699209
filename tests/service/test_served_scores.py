"""The loss of late labels is that of the answers that were given, where these are the features."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kaboost.service.events.served_scores import ServedScores
from kaboost.service.learner.late_trainer import LateTrainer
from tests.service.learning import rows
from tests.service.test_late_corrections import message, trainer

LOG = {"events": {}, "predictions": {"topic": "events"}}


def answers(made: LateTrainer, scores: list[Any], **other: Any) -> list[Any]:
    """Return records as `POST /predict` writes them, by the model of the trainer."""
    model = {"run": made._run, "epoch": made._numbering.epoch, **other}
    return [
        message(
            "events",
            k,
            {"id": k, "features": rows(9)[k][0], "weight": 1.0, "score": score, **model},
        )
        for k, score in enumerate(scores)
    ]


def learn_labels(made: LateTrainer, labels: list[int]) -> float:
    """Learn the labels, and return the mean loss."""
    records = [
        message("labels", k, {"id": k, "label": y, "weight": None}) for k, y in enumerate(labels)
    ]
    assert [] == made.learn(records)
    return float(made.state.validation.loss_sum[0] / made.state.validation.weight_sum)


def test_the_loss_is_that_of_the_answers(tmp_path: Path) -> None:
    """Whatever the model says when it reads them."""
    with trainer(tmp_path, **LOG) as made:
        assert [] == made.learn(answers(made, [3.0, -2.0, 0.5]))
        loss = learn_labels(made, [1, 1, 0])

    expected = [math.log1p(math.exp(-3.0)), math.log1p(math.exp(2.0)), math.log1p(math.exp(0.5))]
    assert loss == pytest.approx(np.mean(expected))


@pytest.mark.parametrize(
    "other", [{"run": "run-0009"}, {"epoch": 1}, {"score": None}, {"score": "high"}, {"run": 7}]
)
def test_answers_of_another_model_keep_its_own_score(tmp_path: Path, other: dict[str, Any]) -> None:
    """A model that has learned nothing says one half."""
    with trainer(tmp_path, **LOG) as made:
        assert [] == made.learn(answers(made, [9.0], **other))
        assert learn_labels(made, [0]) == pytest.approx(math.log(2.0))


def test_events_of_other_topics_bring_no_score(tmp_path: Path) -> None:
    """A feature of that name is no answer."""
    with trainer(tmp_path, events={}) as made:
        assert [] == made.learn(answers(made, [9.0]))
        assert learn_labels(made, [0]) == pytest.approx(math.log(2.0))


def test_scores_of_all_classes() -> None:
    """Classes to come have no score in an answer, and keep that of the model."""
    model = b'"run": "run-0001", "epoch": 3}'
    values = [
        b'{"scores": [1.0, 2.0], "score": 2.0, ' + model,
        b'{"scores": [1.0, 2.0, 3.0, 4.0], ' + model,  # more than there are
        b'{"scores": [], ' + model,
        None,
    ]
    scores = np.zeros((4, 3)) + 0.5

    served = ServedScores().replace(values, scores, "run-0001", 3)

    assert [[1.0, 2.0, 0.5], [0.5] * 3, [0.5] * 3, [0.5] * 3] == served.tolist()
    assert 0.5 == scores[0, 0]  # what was captured stays
