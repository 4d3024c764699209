"""The reports of `GET /model`, `GET /model/importance` and `GET /healthz/ready`."""

import math
from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from kaboost.models.evaluation.baselines import PREDICTORS
from kaboost.models.evaluation.intervals import LEVELS
from kaboost.models.explain.interface import REFUSAL
from kaboost.models.types import Mat, Vec
from kaboost.models.verbs import diagnostics
from kaboost.service.errors import RequestError
from kaboost.service.http.follower import LearnerStatus, Served
from kaboost.service.storage.candidate_state import CANDIDATES, CHAMPION, MODEL
from kaboost.service.storage.late_figures import LateFigures

Number = float | None  # null where nothing was observed yet


class Losses(BaseModel):
    """Progressive validation of one predictor: each event is predicted before it is learned."""

    loss: Number = Field(
        description="Mean over all events: log-loss in nats, or half the squared error."
    )
    error: Number = Field(description="Share of wrong classes, or mean absolute difference.")
    recent_loss: Number = Field(description="The loss of about the last thousand events.")
    recent_error: Number = Field(description="The error of about the last thousand events.")


class Bin(BaseModel):
    """Events whose predicted probability is in one of 15 equal bins; decayed by .9999 an event."""

    weight: float = Field(description="Number of events, weighted by importance.")
    mean_predicted: float = Field(description="Their mean predicted probability.")
    observed_fraction: float = Field(description="The fraction of positive events among them.")


class Coverage(BaseModel):
    """The share of recent labels inside the intervals of one level."""

    level: float = Field(description="The nominal coverage.")
    coverage: Number = Field(
        description="Over about the last thousand events, weighted by importance."
    )


class LearnerReport(BaseModel):
    """What the API knows about the learner."""

    state: str = Field(
        description="unknown, running, paused, stalled, waiting, standby, restarting or stopped"
    )
    pid: int | None = Field(description="The process id of the learner whose state it is.")
    seconds_since_sign: Number = Field(description="Since its last heartbeat, one a second.")
    exit_code: int | None = Field(description="Of its end, if it has ended.")
    reason: str = Field(description="Why it is in this state.")
    rejected_ratio: float = Field(
        description="Share of rejected records among the last 1,000 that it has read."
    )
    problem: str = Field(description="Why it learns nothing; empty if it can learn.")
    compiling: str = Field(description="Step, steps and seconds left; empty if nothing compiles.")
    leader: str = Field(description="Which process leads; empty where learners do not take turns.")
    leader_epoch: int = Field(description="Of its leadership; 0 where they never did.")


class LateLabels(BaseModel):
    """Labels that come later; counts are over all restarts."""

    waiting: int = Field(description="Events whose features wait for their label.")
    early: int = Field(description="Labels that wait for their features.")
    held: int = Field(description="Labels among the joined that are learned later.")
    joined: int = Field(description="Labels that found the features that waited for them.")
    expired: int = Field(description="Events whose features waited longer than labels.wait.")
    unmatched: int = Field(description="Labels that were rejected: their features did not come.")
    corrected: int = Field(description="Labels that replaced one already learned.")
    mean_delay_seconds: Number = Field(
        description="From an event to its label by their times, the mean of all joined."
    )
    recent_delay_seconds: Number = Field(description="The mean of about the last thousand joined.")


class CandidateReport(BaseModel):
    """A candidate, and its loss against that of the champion, on the same events."""

    name: str = Field(description="Of candidates; `model` is the model of the section model.")
    state: str = Field(
        description="cold: it has learned too little to be compared; compared; better: by "
        "promotion.margin with promotion.confidence at the last decision; failed: it learns no more"
    )
    reason: str = Field(description="Why it has failed; the log has the whole message.")
    events_learned: int
    loss: Number = Field(description="Progressive loss over all its events.")
    recent_loss: Number = Field(description="Over about the last thousand events.")
    champion_recent_loss: Number = Field(description="The champion's on the same events.")
    compared_events: int = Field(description="Events of this round of comparison.")
    improvement: Number = Field(
        description="How much lower its loss is in this round, as a part of the champion's; "
        "negative where it is higher, null for few events."
    )
    improvement_low: Number = Field(description="Of the interval at promotion.confidence.")
    improvement_high: Number


class ModelReport(BaseModel):
    """The model that is served now."""

    model_config = ConfigDict(protected_namespaces=())

    name: str
    version: int = Field(description="Of the snapshot; it only grows within an epoch.")
    epoch: int = Field(
        description="When versions began, in seconds since 1970. They begin again only after "
        "all snapshots and checkpoints were lost."
    )
    events_learned: int
    snapshot_time: str
    cold_start: bool = Field(description="Whether nothing was learned yet.")
    stale: bool = Field(description="Whether the learner is silent, stopped or paused.")
    fallback: bool = Field(
        description="Whether it is the last good model: the current one is worse than a baseline."
    )
    task: str
    labels: list[bool | int | float | str] = Field(description="Empty for regression.")
    specification: dict[str, Any] = Field(
        description="Rule, bank, loss and seed, with all defaults."
    )
    features: dict[str, str] = Field(description="Every feature and its kind.")
    inferred: list[str] = Field(
        description="Features whose kinds were inferred from their first values, in order."
    )
    offsets: dict[str, int] = Field(description="The next offset of every partition.")
    progressive: dict[str, Losses] = Field(description="The model and its two baselines.")
    prefix_losses: list[Number | list[Number]] = Field(
        description="Mean loss of the first 0, 1, ..., n learners; a list for each structure of "
        "reboosted trees."
    )
    edges: list[Number | list[Number]] = Field(
        description="Edge of every weak learner; a list for each structure of reboosted trees."
    )
    calibration_error: Number = Field(
        description="Mean gap between predicted probability and observed fraction over the bins "
        "below; null unless there are two classes."
    )
    reliability: list[Bin] = Field(
        description="For two classes: the non-empty bins of the reliability diagram."
    )
    intervals: list[Coverage] = Field(
        description="For a regression: share of labels inside, by level; empty for classes."
    )
    latent: dict[str, list[Number | list[Number]]] | None = Field(
        description="For rule latent: correlations of the spaces, and their weights."
    )
    late_labels: LateLabels | None = Field(
        description="Of the learner now, not at the snapshot; null without labels.topic."
    )
    learner: LearnerReport = Field(description="The learner now, not at the snapshot.")
    champion: str = Field(description="Name of the model that is served: `model` or a candidate.")
    candidates: list[CandidateReport] = Field(
        description="Models that learn the same events, as of the snapshot."
    )


class Importance(BaseModel):
    """The importance of one feature or label lag."""

    name: str
    kind: str = Field(description="feature or label lag")
    share: float = Field(description="Of the variance of all contributions over recent events.")
    recent_label_part: Number = Field(
        description="Of a category's share: the part that splits on its target encoding contribute."
    )


class ImportanceReport(BaseModel):
    """The importances of the served model, in falling order."""

    version: int = Field(description="Of the snapshot; it only grows.")
    events_learned: int
    snapshot_time: str
    importance: list[Importance]


class WrittenRecord(BaseModel):
    """Where a record is."""

    topic: str
    partition: int
    offset: int


class Accepted(BaseModel):
    """The records of a request, which the broker has confirmed."""

    records: list[WrittenRecord]


class Readiness(BaseModel):
    """Whether predictions are served, and how fresh they are."""

    status: str = "ready"
    version: int
    stale: bool
    reason: str = Field(
        description="Why no newer model is served: snapshots cannot be read, learning is paused, "
        "records are rejected, or kernels compile; else empty."
    )
    access: str = Field(
        default="", description="Why keys of tokens are not up to date; else empty."
    )
    learner: LearnerReport


def report_model(served: Served, learner: LearnerStatus) -> ModelReport:
    """Describe the served model, and the learner of the next one."""
    snapshot, stamp = served.snapshot, served.stamp
    model, scores = snapshot.model, snapshot.validation
    measures = (scores.mean_loss, scores.mean_error, scores.window_loss, scores.window_error)
    losses = [
        Losses(**dict(zip(Losses.model_fields, numbers(row), strict=True)))
        for row in zip(*measures, strict=True)
    ]
    progress, state = model.booster.progress, diagnostics(model.booster.rule)
    return ModelReport(
        name=stamp.name,
        version=stamp.version,
        epoch=snapshot.numbering.epoch,
        events_learned=stamp.events_learned,
        snapshot_time=stamp.snapshot_time,
        cold_start=stamp.cold_start,
        stale=stamp.stale,
        fallback=stamp.fallback,
        task=model.task,
        labels=list(model.labels.classes),
        specification=model.spec,
        features=dict(model.encoder.kinds),
        inferred=model.encoder.schema.inferred,
        offsets=snapshot.header["offsets"],
        progressive=dict(zip(PREDICTORS, losses, strict=True)),
        prefix_losses=nested(progress.prefix_losses),
        edges=nested(progress.edges),
        calibration_error=numbers([scores.reliability.error])[0],
        reliability=[
            Bin(
                weight=weight,
                mean_predicted=predicted / weight,
                observed_fraction=observed / weight,
            )
            for weight, predicted, observed in zip(*scores.reliability, strict=True)
            if weight > 0.0
        ],
        intervals=[] if model.intervals is None else coverages(model.intervals.coverage),
        latent={name: nested(values) for name, values in state.items()} or None,
        late_labels=report_late_labels(learner.condition.late_labels),
        learner=report_learner(learner),
        champion=snapshot.header.get(CHAMPION, MODEL),
        candidates=report_candidates(snapshot.header),
    )


def report_candidates(figures: Mapping[str, Any]) -> list[CandidateReport]:
    """Describe the candidates in the header of a snapshot, or in the figures of a learner."""
    return [CandidateReport(**each) for each in figures.get(CANDIDATES, ())]


def report_late_labels(figures: LateFigures | None) -> LateLabels | None:
    """Describe labels that come later; delays are null before the first."""
    if figures is None:
        return None
    counts = figures._asdict()
    mean, recent = counts.pop("mean_delay"), counts.pop("recent_delay")
    if not figures.joined:
        mean = recent = None
    return LateLabels(**counts, mean_delay_seconds=mean, recent_delay_seconds=recent)


def coverages(shares: Vec) -> list[Coverage]:
    """Pair the tracked levels with the shares of labels inside, (8,)."""
    pairs = zip(LEVELS, numbers(shares), strict=True)
    return [Coverage(level=level, coverage=share) for level, share in pairs]


def report_importance(served: Served) -> ImportanceReport:
    """List the importances of the served model, or raise why it has none."""
    model, stamp = served.snapshot.model, served.stamp
    if not model.explicable:
        raise RequestError([("#", REFUSAL)])
    return ImportanceReport(
        version=stamp.version,
        events_learned=stamp.events_learned,
        snapshot_time=stamp.snapshot_time,
        importance=[Importance(**one._asdict()) for one in model.importance()],
    )


def report_learner(learner: LearnerStatus) -> LearnerReport:
    """Describe the learner; a recent heartbeat overrides an old status file, or one of another."""
    if learner.is_alive and (learner.state != "restarting" or learner.is_another):
        stalled = learner.condition.stalled
        paused = learner.condition.paused
        state = "paused" if paused else "stalled" if stalled else "running"
        waits = f"process {learner.pid} waits: {learner.reason}"
        reasons = [paused, stalled, waits if learner.state == "waiting" else ""]
        pid = learner.heartbeat_pid or learner.pid
        reason = "; ".join(filter(None, reasons))
        learner = learner._replace(state=state, exit_code=None, reason=reason, pid=pid)
    condition = learner.condition
    return LearnerReport(
        state=learner.state,
        pid=learner.pid,
        seconds_since_sign=learner.age,
        exit_code=learner.exit_code,
        reason=learner.reason,
        rejected_ratio=condition.rejected_ratio,
        problem=condition.problem,
        compiling=condition.compiling if learner.is_alive else "",
        leader=condition.leader if learner.is_alive else "",
        leader_epoch=condition.leader_epoch if learner.is_alive else 0,
    )


def nested(values: Mat) -> list[Number | list[Number]]:
    """List a vector as numbers, a matrix as its rows."""
    return [numbers(row) for row in values] if values.ndim == 2 else list(numbers(values))


def numbers(values: Iterable[float]) -> list[float | None]:
    """List numbers for JSON: null where they are not finite."""
    return [float(value) if math.isfinite(value) else None for value in values]
