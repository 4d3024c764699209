"""Annotations: what happened to a learner, and after how many events; they mark its charts.

The last of each kind are kept, in the checkpoint's header.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from kaboost.models.reboosted.alarms import alarms
from kaboost.service.metrics import LearnerMetrics

DRIFT, LEVEL_SHIFT = "drift", "level shift"
CHECKPOINT, RESTART, ROLLBACK, FALLBACK, RECOVERY, PROMOTION = (
    "checkpoint",
    "restart",
    "rollback",
    "fallback",
    "recovery",
    "promotion",
)
KEPT = 50  # of each kind
KEPT_CHECKPOINTS = 10

Annotation = tuple[str, int, str, str]  # kind, events learned, wall-clock time, text


class Annotations:
    """The annotations of one learner; one thread calls.

    Parameters
    ----------
    known
        Those of the checkpoint, as `state` returned them.
    booster
        That of the model: what it noticed before is known.
    metrics
        Count drifts, rollbacks and promotions.
    """

    def __init__(
        self, known: Sequence[Sequence[Any]], booster: Any, metrics: LearnerMetrics
    ) -> None:
        self._metrics = metrics
        for noticed in (DRIFT, LEVEL_SHIFT):
            metrics.drifts.labels(noticed.replace(" ", "_"))  # at 0, so that an increase is seen
        self._all: list[Annotation] = [(str(k), int(e), str(at), str(t)) for k, e, at, t in known]
        self._seen = alarms(booster)

    def add(self, kind: str, events: int, text: str = "") -> None:
        """Add one, and forget the oldest of its kind."""
        now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        self._all.append((kind, events, now, text))
        if kind in (DRIFT, LEVEL_SHIFT):
            self._metrics.drifts.labels(kind.replace(" ", "_")).inc()
        elif kind == ROLLBACK:
            self._metrics.rollbacks.inc()
        elif kind == PROMOTION:
            self._metrics.promotions.inc()
        kept = KEPT_CHECKPOINTS if kind == CHECKPOINT else KEPT
        of_kind = [each for each in self._all if each[0] == kind]
        if len(of_kind) > kept:
            self._all.remove(of_kind[0])

    def add_restart(self, events: int) -> None:
        """Add the start of a learner, unless it is the first one."""
        if events:
            self.add(RESTART, events)

    def add_fallback(self, falls: bool, events: int, reason: str) -> None:
        """Add that an earlier model is served from now on, or the current one again."""
        self.add(FALLBACK if falls else RECOVERY, events, reason)

    def follow(self, booster: Any) -> None:
        """Add the drifts and level shifts that a model has noticed since the last call."""
        now = alarms(booster)
        if now == self._seen:
            return
        before, self._seen = self._seen, now
        if now.drift > before.drift:
            self.add(DRIFT, now.drift, "the recent loss rose: trees are rebuilt")
        if now.level_shift > before.level_shift:
            self.add(LEVEL_SHIFT, now.level_shift, "all labels moved by the same")

    def before(self, events: int) -> list[Annotation]:
        """Return those up to a number of events, for a model that goes back to it."""
        return [each for each in self._all if each[1] <= events]

    def moved(self, by: int) -> list[Annotation]:
        """Return those of a model that has learned so many events more, or fewer, of the same."""
        moved = [(kind, events + by, at, text) for kind, events, at, text in self._all]
        return [each for each in moved if each[1] >= 0]

    def state(self) -> list[Annotation]:
        """Return all, the oldest first."""
        return list(self._all)
