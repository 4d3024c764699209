"""The same events without broker, crash or service: what the state has to be in the end."""

from collections.abc import Sequence

import numpy as np

from kaboost.models.evaluation.baselines import progressive_validation, record
from kaboost.models.features.rows import tabulate
from kaboost.models.model import Model
from kaboost.models.state.tree import to_arrays
from kaboost.service.demo import producer
from kaboost.service.demo.claims import Arrays
from kaboost.service.demo.stage import LABELS


def uninterrupted(events: Sequence[tuple[producer.Row, str]]) -> Arrays:
    """Learn the events in this process from the first to the last; gives the whole state."""
    model = Model(task="binary", features=producer.schema(), labels=LABELS)
    seen = progressive_validation(model.labels)
    rows, labels = zip(*events, strict=True)
    y = np.array([model.labels.encode(label) for label in labels])
    w = np.ones(len(y))
    record(seen, model.learn(tabulate(model.encoder.kinds, rows), y, w), y, w)
    return {**model.to_arrays(), **to_arrays(seen, "validation")}
