"""The state of a service in words: what it does, how good it is, and whether somebody must act."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

from kaboost.service.http.follower import LearnerStatus

Level = Literal["good", "warning", "bad"]

FEW_EVENTS = 100  # below which losses say little
TREND_POINTS = 20  # of the history, in two halves that are compared
TREND_CHANGE = 0.02  # of the ratio to a baseline, below which it is steady
MODEL, PRIOR, LAST_LABEL = range(3)
BASELINES = {
    "regression": ("always predicting the average", "repeating the last label"),
    "classes": ("always predicting the usual shares", "repeating the last label"),
}


class Verdict(NamedTuple):
    """One state, how bad it is, and why."""

    state: str
    level: Level
    reason: str = ""


class Situation(NamedTuple):
    """What a verdict is about."""

    learner: LearnerStatus
    state: str  # of the learner, as it is reported
    reason: str  # why no newer model is served
    learns_nothing: bool
    is_served: bool
    stale: bool = False
    fallback: bool = False
    events_learned: int = 0
    events_per_second: float = 0.0


def judge(now: Situation) -> Verdict:
    """Return the first state that applies, the worst first."""
    condition, reason = now.learner.condition, now.reason
    compiling = condition.compiling if now.learner.is_alive else ""
    if now.learns_nothing:
        return Verdict("nothing can be learned", "bad", reason)
    if now.state in ("stopped", "restarting"):
        return Verdict(f"learner {now.state}", "bad", now.learner.reason)
    if condition.problem:
        return Verdict("records are rejected", "bad", reason)
    if condition.paused:
        return Verdict("paused", "warning", condition.paused)
    if now.state == "stalled":
        return Verdict("stalled", "bad", condition.stalled)
    if compiling:
        return Verdict("compiling", "warning", compiling)
    if not now.is_served:
        return Verdict("no model yet", "warning", reason)
    if now.fallback:
        return Verdict("falling back", "bad", condition.fallback)
    if now.stale:
        silent = "the learner gives no sign of life" if not now.learner.is_alive else ""
        return Verdict("stale", "bad", reason or silent)
    if not now.events_learned:
        return Verdict("cold", "warning", "no event was learned yet")
    if not now.events_per_second:
        return Verdict("waiting for events", "good", reason)
    return Verdict("learning", "good", reason)


def quality(
    task: str, progressive: Mapping[str, Any], events: int, points: Sequence[Sequence[float]]
) -> str:
    """Return how good the model is against the better baseline, and where it is going.

    Parameters
    ----------
    task
        regression, binary or multiclass.
    progressive
        Losses of model and baselines, as of `GET /model`.
    events
        That were learned.
    points
        The last ones of the history: event, time, three mean losses, three recent ones.

    Examples
    --------
    >>> losses = {"model": 0.7, "prior": 1.0, "last_label": 1.4}
    >>> progressive = {name: {"recent_loss": loss} for name, loss in losses.items()}
    >>> quality("regression", progressive, 500, [])
    '30 % better than always predicting the average'
    """
    if events < FEW_EVENTS:
        return f"too few events to judge: {events:,} of {FEW_EVENTS}"
    losses = [progressive.get(name, {}).get("recent_loss") for name in ("prior", "last_label")]
    model = progressive.get("model", {}).get("recent_loss")
    known = [(loss, k) for k, loss in enumerate(losses) if loss is not None]
    if model is None or not known:
        return ""
    baseline, which = min(known)
    words = BASELINES["regression" if task == "regression" else "classes"][which]
    if baseline <= 0.0:
        return f"the loss of {words} is 0: nothing is left to learn"
    share = round(100 * abs(1.0 - model / baseline))
    if not share:
        compared = f"as good as {words}"
    else:
        compared = f"{share:,} % {'better' if model < baseline else 'worse'} than {words}"
    return "; ".join(filter(None, [compared, trend(points, which)]))


def trend(points: Sequence[Sequence[float]], which: int) -> str:
    """Return whether the recent loss falls, relative to that of a baseline."""
    ratios = [
        point[5] / point[6 + which]
        for point in points[-TREND_POINTS:]
        if point[6 + which] > 0.0 and math.isfinite(point[5])
    ]
    if len(ratios) < TREND_POINTS:
        return ""
    half = TREND_POINTS // 2
    before, after = sum(ratios[:half]), sum(ratios[half:])
    if after < before * (1.0 - TREND_CHANGE):
        return "getting better"
    return "getting worse" if after > before * (1.0 + TREND_CHANGE) else "steady"
