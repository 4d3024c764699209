"""The expected final state: the same events learned in one process without interruption."""

from collections.abc import Sequence

import numpy as np

from kaboost.models.evaluation.baselines import progressive_validation, record
from kaboost.models.features.rows import tabulate
from kaboost.models.model import Model
from kaboost.models.state.tree import to_arrays
from kaboost.service.demo import producer
from kaboost.service.demo.checks import Arrays
from kaboost.service.demo.processes import LABELS


def uninterrupted(events: Sequence[tuple[producer.Row, str]]) -> Arrays:
    """Learn the events in this process and return the whole state."""
    model = Model(task="binary", features=producer.schema(), labels=LABELS)
    validation = progressive_validation(model.labels)
    rows, labels = zip(*events, strict=True)
    y = np.array([model.labels.encode(label) for label in labels])
    w = np.ones(len(y))
    record(validation, model.learn(tabulate(model.encoder.kinds, rows), y, w), y, w)
    return {**model.to_arrays(), **to_arrays(validation, "validation")}
