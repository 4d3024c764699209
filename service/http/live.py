"""The live state of the service, its history and its last records: what the page shows."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from fastapi import FastAPI, Query, Response
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException
from starlette.requests import Request

from kaboost.models.evaluation.baselines import PREDICTORS
from kaboost.service.config.access import is_loopback
from kaboost.service.config.settings import Settings
from kaboost.service.http import openapi
from kaboost.service.http.follower import Follower, LearnerStatus, Served
from kaboost.service.http.headings import HEADINGS, Level, states
from kaboost.service.http.loss_rise import find_rise
from kaboost.service.http.quality import quality
from kaboost.service.http.reports import (
    CandidateReport,
    LateLabels,
    LearnerReport,
    Losses,
    Number,
    report_candidates,
    report_late_labels,
    report_learner,
    report_model,
)
from kaboost.service.http.situation import Situation
from kaboost.service.http.stream import Broadcast
from kaboost.service.storage.candidate_state import CHAMPION, MODEL
from kaboost.service.storage.live import FIGURES, RECORDS, LiveFiles

MAX_POINTS = 20_480  # as many as a history has
OTHER_NAME = (
    "records are shown to requests to 127.0.0.1 or localhost only: open the page by that address, "
    "or set api.show_records: true"
)
DRIFT = "drift"  # kind of an annotation


class Rejection(BaseModel):
    """Why some of the last records were rejected."""

    code: str = Field(description="Of the dead letters.")
    records: int = Field(description="How many of the last records.")
    recent_records: int = Field(description="How many the last records are, at most 1,000.")
    reason: str = Field(
        default="",
        description="Of the last one, without private values; empty where records are not shown, "
        "and in the stream.",
    )


class StateReport(BaseModel):
    """One thing that is so now."""

    state: str = Field(description="One of " + ", ".join(each.state for each in HEADINGS))
    level: Level = Field(description="bad where somebody must act.")
    reason: str = Field(description="Why it is so, if there is more to it.")
    remedy: str = Field(description="What to do.")


class StatusReport(BaseModel):
    """The state of the whole service, in words and figures."""

    model_config = ConfigDict(protected_namespaces=())

    time: float = Field(description="Of this report, in seconds since 1970.")
    state: str = Field(description="The heading: the first of `states`.")
    level: Level = Field(description="Of the heading: bad where somebody must act.")
    reason: str = Field(description="Of the heading: why it is so, if there is more to it.")
    remedy: str = Field(description="Of the heading: what to do.")
    states: list[StateReport] = Field(description="All that is so now, the worst first.")
    quality: str = Field(description="The model against the better baseline, and the trend.")
    name: str
    task: str
    version: int | None = Field(description="Of the served snapshot; null before the first.")
    events_learned: int = Field(description="By the learner.")
    events_per_second: float = Field(description="Learned in the last ten seconds.")
    lag_records: int | None = Field(description="Records that wait; null where it is not known.")
    snapshot_age_seconds: Number = Field(description="Of the served snapshot.")
    cold_start: bool
    stale: bool
    fallback: bool
    progressive: dict[str, Losses] = Field(description="The model and its two baselines.")
    rejections: list[Rejection] = Field(description="The commonest reason first.")
    rejected_ratio: float = Field(description="Share of rejected ones among the last 1,000.")
    late_labels: LateLabels | None
    champion: str = Field(description="Name of the model that learns and is served.")
    candidates: list[CandidateReport] = Field(description="Models that learn the same events.")
    learner: LearnerReport
    history_events: int = Field(description="Of the last point of the history.")
    steering: bool = Field(description="Whether the page may send commands, with the admin key.")


class Series(BaseModel):
    """Losses of the model and the baselines at the points."""

    model: list[Number]
    prior: list[Number]
    last_label: list[Number]


class Annotation(BaseModel):
    """Something that happened to the learner."""

    kind: str = Field(
        description="drift, level shift, restart, checkpoint, rollback, promotion, fallback, "
        "recovery"
    )
    event: int = Field(description="Events learned by then.")
    time: str
    text: str

    @classmethod
    def of(cls, values: Sequence[Any]) -> "Annotation":
        """Return the annotation of these values, in their order in a file."""
        return cls(**dict(zip(cls.model_fields, values, strict=True)))


class HistoryReport(BaseModel):
    """The losses over the whole life of the model."""

    event: list[int] = Field(description="Events learned at each point.")
    time: list[float] = Field(description="Latest event time, in seconds since 1970.")
    loss: Series = Field(description="Mean over all events so far.")
    recent_loss: Series = Field(description="Over about the last thousand events.")
    annotations: list[Annotation]


class Live:
    """Read the files of the learner and describe the service; all workers report the same."""

    def __init__(self, settings: Settings, follower: Follower) -> None:
        self._settings = settings
        self._follower = follower
        self._files = LiveFiles(settings.snapshots.directory)

    def status(self, *, with_reasons: bool = False) -> StatusReport:
        """Describe the service now; reasons of rejections quote what records hold."""
        follower, learner = self._follower, self._follower.learner
        figures, points = self._files.read(FIGURES), self._files.read_history()
        served, report = follower.current(), report_learner(learner)
        stamp = served.stamp if served else None
        progressive = figures.get("progressive") or _progressive(served, learner)
        events = max(int(figures.get("events_learned", 0)), stamp.events_learned if stamp else 0)
        reported = _reported(figures, learner)
        situation = Situation(
            learner=learner,
            state=report.state,
            reason=follower.reason,
            learns_nothing=follower.learns_nothing,
            version=stamp.version if stamp else None,
            stale=bool(stamp and stamp.stale),
            fallback=bool(stamp and stamp.fallback),
            events_learned=events,
            events_per_second=float(reported.get("events_per_second", 0.0)),
            dead_letters=self._settings.kafka.dlq,
            symptoms=reported.get("symptoms", {}),
            rise=find_rise(points, _drifts(figures), time.time()),
            figures_pid=figures.get("pid"),
        )
        compared = figures or (served.snapshot.header if served else {})
        found, task = states(situation), self._settings.task.kind
        return StatusReport(
            time=time.time(),
            **found[0]._asdict(),
            states=[StateReport(**each._asdict()) for each in found],
            quality=quality(task, progressive, events, points) if progressive else "",
            name=self._settings.name,
            task=task,
            version=stamp.version if stamp else None,
            events_learned=events,
            events_per_second=situation.events_per_second,
            lag_records=reported.get("lag_records"),
            snapshot_age_seconds=_age(stamp.snapshot_time) if stamp else None,
            cold_start=bool(stamp and stamp.cold_start),
            stale=situation.stale,
            fallback=situation.fallback,
            progressive={name: Losses(**of) for name, of in progressive.items()},
            rejections=_rejections(figures, with_reasons=with_reasons),
            rejected_ratio=report.rejected_ratio,
            late_labels=report_late_labels(learner.condition.late_labels),
            champion=compared.get(CHAMPION, MODEL),
            candidates=report_candidates(compared),
            learner=report,
            history_events=int(points[-1, 0]) if len(points) else 0,
            steering=self._settings.admin.page,
        )

    def history(self, points: int) -> HistoryReport:
        """Return at most so many points of the history, evenly spaced, with the last one."""
        table = self._files.read_history()
        step = max(1, -(-len(table) // points))
        columns = [column.tolist() for column in table[::-1][::step][::-1].T]
        total, recent = columns[2:5], columns[5:8]
        annotations = self._files.read(FIGURES).get("annotations", ())
        return HistoryReport(
            event=[int(event) for event in columns[0]],
            time=columns[1],
            loss=Series(**_named(total)),
            recent_loss=Series(**_named(recent)),
            annotations=[Annotation.of(each) for each in annotations],
        )

    def records(self) -> dict[str, Any]:
        """Return the last events and dead letters, and what was seen of the features."""
        found = self._files.read(RECORDS)
        shown = self.shows_records  # the learner's settings may be others
        empty: dict[str, Any] = {
            "shown": shown,
            "events": [],
            "dead_letters": [],
            "missing": {},
            "seen": {},
        }
        return empty | (found if shown else {"missing": found.get("missing", {})})

    @property
    def shows_records(self) -> bool:
        """Whether the settings of this API show records."""
        return self._settings.api.shows_records

    def refuses(self, request: Request) -> bool:
        """Return whether a request may come from a page whose name was made to lead here."""
        return self._settings.api.show_records is None and not is_loopback(
            request.url.hostname or ""
        )


def add_live_routes(app: FastAPI, live: Live, broadcast: Broadcast) -> None:
    """Add the routes that the page reads."""

    @app.get("/status")
    async def status(request: Request) -> StatusReport:
        """Describe the state of the service in words and figures."""
        with_reasons = live.shows_records and not live.refuses(request)
        return await asyncio.to_thread(live.status, with_reasons=with_reasons)

    @app.get("/model/history")
    async def history(
        points: int = Query(1_000, ge=2, le=MAX_POINTS, description="How many at most."),
    ) -> HistoryReport:
        """List the losses of model and baselines over the whole life of the model."""
        return await asyncio.to_thread(live.history, points)

    @app.get("/model/records")
    async def records(request: Request) -> dict[str, Any]:
        """List the last events and dead letters, without private values."""
        if live.shows_records and live.refuses(request):
            raise HTTPException(403, OTHER_NAME)
        return await asyncio.to_thread(live.records)

    @app.get("/stream", response_class=Response, responses=openapi.STREAM)
    async def stream() -> Response:
        """Send the status once a second as server-sent events."""
        return broadcast.subscribe()


def _reported(figures: Mapping[str, Any], learner: LearnerStatus) -> Mapping[str, Any]:
    """Return the figures of a learner that lives; none of an earlier process."""
    is_current = figures.get("pid") in (None, learner.pid)
    return figures if learner.is_alive and is_current else {}


def _progressive(served: Served | None, learner: LearnerStatus) -> dict[str, Any]:
    """Return the losses of a snapshot, where the learner has written none yet."""
    if served is None:
        return {}
    return {k: v.model_dump() for k, v in report_model(served, learner).progressive.items()}


def _rejections(figures: Mapping[str, Any], *, with_reasons: bool) -> list[Rejection]:
    found = [Rejection(**each) for each in figures.get("rejections", ())]
    return found if with_reasons else [each.model_copy(update={"reason": ""}) for each in found]


def _drifts(figures: Mapping[str, Any]) -> dict[int, float]:
    """Return the events of drift alarms, with their times in seconds since 1970."""
    found = [Annotation.of(each) for each in figures.get("annotations", ())]
    return {
        each.event: datetime.fromisoformat(each.time).timestamp()
        for each in found
        if each.kind == DRIFT
    }


def _named(columns: list[list[float]]) -> dict[str, list[float | None]]:
    finite = [[value if value - value == 0.0 else None for value in of] for of in columns]
    return dict(zip(PREDICTORS, finite, strict=True))


def _age(created: str) -> float | None:
    try:
        return round(max(0.0, time.time() - datetime.fromisoformat(created).timestamp()), 1)
    except ValueError:
        return None
