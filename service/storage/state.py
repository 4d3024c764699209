"""The learner's whole state: what a checkpoint holds, and what decides all that comes next."""

from typing import NamedTuple

from kaboost.models.evaluation.baselines import (
    ProgressiveValidation,
    progressive_validation,
    to_arrays,
)
from kaboost.models.model import Model
from kaboost.models.state.format import Arrays


class State(NamedTuple):
    """A model, its progressive validation, and the position up to which both have learned."""

    model: Model
    validation: ProgressiveValidation
    offsets: dict[int, int]  # partition → next offset

    @classmethod
    def initial(cls, model: Model, offsets: dict[int, int]) -> "State":
        """Return the state of a model that has learned nothing."""
        return cls(model, progressive_validation(model.labels), offsets)

    @property
    def events_learned(self) -> int:
        """How many events the model has learned, over all restarts."""
        return int(self.model.booster.progress.events)

    def to_arrays(self) -> Arrays:
        """Return every array of model and validation by its name; no copy."""
        return {**self.model.to_arrays(), **to_arrays(self.validation)}
