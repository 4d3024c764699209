"""The loss guard: while the model is much worse than a baseline, the last good one is served."""

import logging
import math
from typing import Any, NamedTuple

from kaboost.models.evaluation.baselines import PREDICTORS, ProgressiveValidation
from kaboost.service.config.guard import Guard
from kaboost.service.config.settings import Settings
from kaboost.service.errors import NotWritten
from kaboost.service.storage.good_snapshot import GoodSnapshot
from kaboost.service.storage.snapshots import Snapshot
from kaboost.service.storage.state import State
from kaboost.service.storage.stores import SnapshotStore

FALLBACK = "fallback"  # key of a snapshot's header: which version it has the model of

log = logging.getLogger(__name__)


class Fallback(NamedTuple):
    """The model that is served instead of the current one."""

    snapshot: Snapshot

    @property
    def version(self) -> int:
        """The version under which it was published first."""
        known = self.snapshot.header.get(FALLBACK)
        return int(known) if known else self.snapshot.version

    def header(self) -> dict[str, Any]:
        """Return what the header of its next publication has of it, not of the current model."""
        keys = ("created", "events_learned", "offsets", "cold_start")
        return {**{key: self.snapshot.header[key] for key in keys}, FALLBACK: self.version}

    def state(self, now: State) -> State:
        """Return what is published: its model, with the losses of now where they fit."""
        model, seen = self.snapshot.model, now.validation
        same = len(seen.counts) == len(self.snapshot.validation.counts)
        return State(model, seen if same else self.snapshot.validation, now.offsets)


class LossGuard:
    """Follow the recent losses of one trainer; one thread calls.

    Parameters
    ----------
    guard
        Margin and number of events.
    store
        Where the last good snapshot is.
    newest
        The newest snapshot, which shows whether an earlier learner has fallen back.
    run
        That of the learner: snapshots of the one before a cold start are no models of it.
    """

    def __init__(
        self, guard: Guard, store: GoodSnapshot, newest: Snapshot | None, run: str
    ) -> None:
        self._margin, self._events = guard.margin or 0.0, guard.events
        self._run = run
        self._store = store
        self._next_good: int | None = None  # events that it has learned
        self._worse = False
        self._since: int | None = None  # events at the first observation of this kind in a row
        self.fallback: Fallback | None = None
        self.reason = ""
        store.drop_candidate()
        if newest is not None and newest.header.get(FALLBACK) and self._is_own(newest):
            self.fallback = Fallback(newest)
            self.reason = f"answers are of version {self.fallback.version}, as before the restart"

    def observe(self, validation: ProgressiveValidation, events: int) -> bool:
        """Take the losses after so many events; return whether another model is to be served."""
        loss, name, baseline = _recent(validation)
        worse = loss > baseline * (1.0 + self._margin)
        if self._since is None or worse != self._worse or events < self._since:
            self._worse, self._since = worse, events
        if worse:
            self._forget_next_good()
        if events - self._since < self._events or worse == (self.fallback is not None):
            return False
        if not worse:
            self.fallback, self.reason = None, ""
            return True
        good = self._store.load()
        if good is None or not self._is_own(good):
            return False  # the model was never good for long enough
        self.fallback = Fallback(good)
        self.reason = (
            f"answers are of version {self.fallback.version}: the recent loss {loss:.4g} is worse "
            f"than that of {name}, {baseline:.4g}, by more than guard.margin"
        )
        return True

    def published(self, version: int, events: int) -> None:
        """Take a version of the current model that was published: it may prove good."""
        if self.fallback is not None or self._worse or self._since is None:
            return
        if self._next_good is not None and events < self._next_good:
            self._forget_next_good()  # a rollback
        try:
            if self._next_good is None:
                self._store.offer(version)
                self._next_good = events
            elif events - self._next_good >= self._events:
                self._store.promote()
                self._next_good = None
        except NotWritten as err:
            log.error("last good snapshot not kept", extra={"reason": str(err)})

    def reset(self) -> None:
        """Serve the current model: somebody has replaced it."""
        self.fallback, self.reason, self._since, self._worse = None, "", None, False
        self._forget_next_good()

    def _is_own(self, snapshot: Snapshot) -> bool:
        return snapshot.header.get("run") == self._run

    def _forget_next_good(self) -> None:
        if self._next_good is not None:
            self._store.drop_candidate()
            self._next_good = None


def make_guard(settings: Settings, store: SnapshotStore, run: str) -> LossGuard | None:
    """Make the guard of a learner's run; None where the settings want none."""
    if settings.guard.margin is None:
        return None
    good = GoodSnapshot(settings.snapshots.directory)
    return LossGuard(settings.guard, good, store.newest(), run)


def _recent(validation: ProgressiveValidation) -> tuple[float, str, float]:
    """Return the recent loss of the model, and the better baseline with its own."""
    model, *baselines = validation.window_loss.tolist()
    known = [pair for pair in zip(baselines, PREDICTORS[1:], strict=True) if pair[0] == pair[0]]
    baseline, name = min(known, default=(math.inf, ""))
    return model, name, baseline
