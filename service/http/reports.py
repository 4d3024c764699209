"""What `GET /model` and `GET /healthz/ready` say."""

import math
from collections.abc import Iterable
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from kaboost.models.evaluation.baselines import PREDICTORS
from kaboost.models.evaluation.intervals import LEVELS
from kaboost.models.explain.interface import REFUSAL
from kaboost.models.types import Mat, Vec
from kaboost.models.verbs import diagnostics
from kaboost.service.errors import RequestError
from kaboost.service.http.follower import Learner, Served

Number = float | None  # null where nothing was seen yet


class Losses(BaseModel):
    """Progressive validation of one predictor: each event is predicted before it is learned."""

    loss: Number = Field(description="Mean over all events: log-loss in nats, or half the square.")
    error: Number = Field(description="Share of wrong classes, or mean absolute difference.")
    recent_loss: Number = Field(description="The loss of about the last thousand events.")
    recent_error: Number = Field(description="The error of about the last thousand events.")


class Bin(BaseModel):
    """Events whose probability fell into one of 15 equal bins, decayed by .9999 an event."""

    weight: float = Field(description="How many events, weighted by importance.")
    said: float = Field(description="Their mean probability.")
    happened: float = Field(description="The share of positive ones among them.")


class Coverage(BaseModel):
    """How many labels of late the intervals of one level held."""

    level: float = Field(description="What was promised.")
    coverage: Number = Field(description="Of about the last thousand, weighted by importance.")


class ModelReport(BaseModel):
    """The model that answers now."""

    model_config = ConfigDict(protected_namespaces=())

    name: str
    version: int = Field(description="Of the snapshot; it only grows.")
    events_learned: int
    snapshot_time: str
    cold_start: bool = Field(description="Whether nothing was learned yet.")
    stale: bool = Field(description="Whether the learner is silent or stopped.")
    task: str
    labels: list[bool | int | float | str] = Field(description="Empty for regression.")
    specification: dict[str, Any] = Field(description="Rule, bank, loss, seed, all defaults shown.")
    features: dict[str, str] = Field(description="Every feature and its kind.")
    inferred: list[str] = Field(
        description="Features whose kinds were inferred from their first values, in order."
    )
    offsets: dict[str, int] = Field(description="The next offset of every partition.")
    progressive: dict[str, Losses] = Field(description="The model beside its two baselines.")
    prefix_losses: list[Number | list[Number]] = Field(
        description="Mean loss of the first 0, 1, ..., n learners; a list for each structure of "
        "reboosted trees."
    )
    edges: list[Number | list[Number]] = Field(
        description="Edge of every weak learner; a list for each structure of reboosted trees."
    )
    calibration_error: Number = Field(
        description="Mean gap between probabilities and what happened, over the bins below; null "
        "where there are no two classes."
    )
    reliability: list[Bin] = Field(
        description="Of two classes: events by their probability, in the bins that hold some."
    )
    intervals: list[Coverage] = Field(
        description="Of a regression: share of labels inside, by level; empty for classes."
    )
    latent: dict[str, list[Number | list[Number]]] | None = Field(
        description="Of rule latent: how the spaces correlate, and how much each one says."
    )


class Importance(BaseModel):
    """How much one feature or label lag matters by and large."""

    name: str
    kind: str = Field(description="feature or label lag")
    share: float = Field(description="Of the variance that all cuts of the trees explain.")
    recent_label_part: Number = Field(
        description="Of a category's share: what comes by the mean label of its values of late."
    )


class ImportanceReport(BaseModel):
    """What matters to the model that answers now, in falling order."""

    version: int = Field(description="Of the snapshot; it only grows.")
    events_learned: int
    snapshot_time: str
    importance: list[Importance]


class LearnerReport(BaseModel):
    """What is known of the learner."""

    state: str = Field(description="unknown, running, restarting or stopped")
    seconds_since_sign: Number = Field(description="Since its last sign of life, one a second.")
    exit_code: int | None = Field(description="How it ended, when it did.")
    reason: str = Field(description="Why, in a sentence.")


class Readiness(BaseModel):
    """Whether predictions are answered, and how fresh they are."""

    status: str = "ready"
    version: int
    stale: bool
    reason: str = Field(description="Why newer snapshots are not found; empty if they would be.")
    learner: LearnerReport


def report_model(served: Served) -> ModelReport:
    """Describe what is served."""
    snapshot, stamp = served.snapshot, served.stamp
    model, seen = snapshot.model, snapshot.baselines
    measures = (seen.mean_loss, seen.mean_error, seen.window_loss, seen.window_error)
    losses = [
        Losses(**dict(zip(Losses.model_fields, numbers(row), strict=True)))
        for row in zip(*measures, strict=True)
    ]
    return ModelReport(
        name=stamp.name,
        version=stamp.version,
        events_learned=stamp.events_learned,
        snapshot_time=stamp.snapshot_time,
        cold_start=stamp.cold_start,
        stale=stamp.stale,
        task=model.task,
        labels=list(model.labels.classes),
        specification=model.spec,
        features=dict(model.encoder.kinds),
        inferred=model.encoder.schema.inferred,
        offsets=snapshot.header["offsets"],
        progressive=dict(zip(PREDICTORS, losses, strict=True)),
        prefix_losses=nested(model.booster.progress.prefix_losses),
        edges=nested(model.booster.progress.edges),
        calibration_error=numbers([seen.reliability.error])[0],
        reliability=[
            Bin(weight=weight, said=said / weight, happened=happened / weight)
            for weight, said, happened in zip(*seen.reliability, strict=True)
            if weight > 0.0
        ],
        intervals=[] if model.intervals is None else coverages(model.intervals.coverage),
        latent={name: nested(shown) for name, shown in diagnostics(model.booster.rule).items()}
        or None,
    )


def coverages(shares: Vec) -> list[Coverage]:
    """Pair the tracked levels with the shares of labels inside, (8,)."""
    pairs = zip(LEVELS, numbers(shares), strict=True)
    return [Coverage(level=level, coverage=share) for level, share in pairs]


def report_importance(served: Served) -> ImportanceReport:
    """Tell what matters to the model that is served, or why that cannot be told."""
    model, stamp = served.snapshot.model, served.stamp
    if not model.explicable:
        raise RequestError([("#", REFUSAL)])
    return ImportanceReport(
        version=stamp.version,
        events_learned=stamp.events_learned,
        snapshot_time=stamp.snapshot_time,
        importance=[Importance(**share._asdict()) for share in model.importance()],
    )


def report_learner(learner: Learner) -> LearnerReport:
    """Describe the learner; one that gives signs outdoes what an old status says of it."""
    if learner.beats and learner.state != "restarting":
        learner = Learner("running", learner.age)
    return LearnerReport(
        state=learner.state,
        seconds_since_sign=learner.age,
        exit_code=learner.exit_code,
        reason=learner.reason,
    )


def nested(values: Mat) -> list[Number | list[Number]]:
    """List a vector as numbers, a matrix as its rows."""
    return [numbers(row) for row in values] if values.ndim == 2 else list(numbers(values))


def numbers(values: Iterable[float]) -> list[float | None]:
    """List numbers as JSON has them: what is not finite is null."""
    return [float(value) if math.isfinite(value) else None for value in values]
