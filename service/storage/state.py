"""The learner's whole state: what a checkpoint holds, and what decides all that comes next."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from numpy.typing import NDArray

from kaboost.models.evaluation.baselines import ProgressiveValidation, progressive_validation
from kaboost.models.evaluation.history import History
from kaboost.models.features.labels import Labels
from kaboost.models.model import Model
from kaboost.models.state.format import Arrays
from kaboost.models.state.tree import from_arrays, to_arrays
from kaboost.service.storage.candidate_state import (
    CANDIDATES,
    CHAMPION,
    MODEL,
    CandidateState,
)
from kaboost.service.storage.key_influence import KeyInfluence
from kaboost.service.storage.late_figures import LabelFit, LateCounts
from kaboost.service.storage.recent_ids import RecentIds
from kaboost.service.storage.replayed import ReplayedOrigins

VALIDATION = "validation"  # prefix of its arrays


class LateState(NamedTuple):
    """How far the topic of labels was learned, and the moment of the store of waiting features."""

    offsets: dict[int, int]  # partition → next offset of the topic of labels
    generation: int = 0  # of the store
    kept: tuple[int, ...] = ()  # generations that checkpoints may still name
    features_time: float = -math.inf  # latest event times, seconds since 1970
    labels_time: float = -math.inf
    time: float = -math.inf  # the watermark
    counts: LateCounts = LateCounts()
    fit: LabelFit = LabelFit()
    topic: str | None = None  # of the labels, and its id
    topic_id: str | None = None
    last_records: Mapping[int, Sequence[int]] = {}  # partition → mark of the last record read
    expired_ratio: float = 0.0  # expired features for each joined label; 0 before the first

    def describe(self) -> dict[str, Any]:
        """Return the state as JSON values."""
        times = {name: _finite(getattr(self, name)) for name in TIMES}
        offsets = {str(partition): offset for partition, offset in self.offsets.items()}
        counts = self.counts._asdict()
        names = ("generation", "kept", "topic", "topic_id")
        whole = {name: getattr(self, name) for name in names}
        marks = {str(partition): mark for partition, mark in self.last_records.items()}
        more = {**times, "counts": counts, "fit": self.fit._asdict(), "last_records": marks}
        return {"offsets": offsets, **whole, **more, "expired_ratio": self.expired_ratio}

    @classmethod
    def from_description(cls, values: Mapping[str, Any]) -> "LateState":
        """Return the state of what `describe` returned."""
        offsets = {int(partition): offset for partition, offset in values["offsets"].items()}
        more = {name: values[name] for name in ("generation", "topic", "topic_id")}
        more |= {name: -math.inf if values[name] is None else values[name] for name in TIMES}
        more["expired_ratio"] = float(values.get("expired_ratio", 0.0))
        more["fit"] = LabelFit(**values.get("fit", {}))
        counts = LateCounts(**values["counts"])
        marks = {int(p): mark for p, mark in values.get("last_records", {}).items()}
        kept = tuple(values["kept"])
        return cls(offsets, kept=kept, counts=counts, last_records=marks, **more)


TIMES = ("features_time", "labels_time", "time")


def _finite(time: float) -> float | None:
    return time if math.isfinite(time) else None


class State(NamedTuple):
    """A model, its progressive validation, and how far in the topic both have learned."""

    model: Model
    validation: ProgressiveValidation
    offsets: dict[int, int]  # partition → next offset
    ids: RecentIds = RecentIds()  # of the last learned events
    late: LateState | None = None  # where labels come later
    replayed: ReplayedOrigins | None = None  # origins of replayed events that were learned
    influence: KeyInfluence = KeyInfluence()  # of the keys of records, where it is limited
    history: History | None = None  # of the validation; no part of what is learned
    candidates: tuple[CandidateState, ...] = ()  # models that learn the same events
    champion: str = MODEL  # the name of `model` among them

    @classmethod
    def initial(cls, model: Model, offsets: dict[int, int]) -> "State":
        """Return the state of a model that has learned nothing."""
        return cls(model, progressive_validation(model.labels), offsets)

    @property
    def events_learned(self) -> int:
        """How many events the model has learned, over all restarts."""
        return int(self.model.booster.progress.events)

    def to_arrays(self) -> Arrays:
        """Return every array by its name; no copy of those of model and validation."""
        replayed = self.replayed.to_arrays() if self.replayed else {}
        seen = {**self.ids.to_arrays(), **replayed, **self.influence.to_arrays()}
        for candidate in self.candidates:
            seen |= candidate.to_arrays()
        return {**self.model.to_arrays(), **self.validation_arrays(), **seen}

    def describe_candidates(self) -> dict[str, Any]:
        """Return what a header has of the candidates; nothing where there never were any."""
        if not self.candidates and self.champion == MODEL:
            return {}
        described = [candidate.describe() for candidate in self.candidates]
        return {CANDIDATES: described, CHAMPION: self.champion}

    def serving_arrays(self) -> Arrays:
        """Return the arrays that a prediction and a report need; no copy."""
        return {**self.model.serving_arrays(), **self.validation_arrays()}

    def validation_arrays(self) -> Arrays:
        """Return the arrays of the validation by name; no copy."""
        return to_arrays(self.validation, VALIDATION)


def read_validation(labels: Labels, arrays: Mapping[str, NDArray[Any]]) -> ProgressiveValidation:
    """Return the validation over these very arrays."""
    return from_arrays(progressive_validation(labels), arrays, VALIDATION)
