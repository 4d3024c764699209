"""Follows the newest snapshot and the learner's signs of life: what requests are answered from."""

import asyncio
import logging
import threading
import time
from typing import NamedTuple

from kaboost.models.features.onehot import Table
from kaboost.models.features.rows import tabulate
from kaboost.service.config.settings import Kafka, Settings
from kaboost.service.events.decoder import Decoder
from kaboost.service.http.newest_version import Versions
from kaboost.service.http.predict import Door, Stamp
from kaboost.service.storage import snapshots
from kaboost.service.storage.snapshots import Snapshot

EVERY = 0.1  # seconds between two looks
PATIENCE = 3.0  # seconds of looks that fail before answers are stale
ALIVE = 3.0  # the learner gives a sign every second: one so recent outdoes what a status says

log = logging.getLogger(__name__)


class Learner(NamedTuple):
    """What is known of the learner from outside."""

    state: str = "unknown"
    age: float | None = None  # seconds since its last sign of life
    exit_code: int | None = None
    reason: str = ""

    @property
    def stopped(self) -> bool:
        """Whether it is down and nobody starts it again."""
        return self.state == "stopped" and not self.beats

    @property
    def beats(self) -> bool:
        """Whether it gave a sign just now."""
        return self.age is not None and self.age <= ALIVE


class Served(NamedTuple):
    """One version and all it takes to answer from it; a request reads it once."""

    snapshot: Snapshot
    door: Door
    stamp: Stamp


class Follower:
    """Holds what is served; it is swapped between two requests, never under one."""

    nothing = "no snapshot is loaded yet"  # while there is nothing to answer from

    def __init__(self, settings: Settings, versions: Versions | None = None) -> None:
        self.served: Served | None = None
        self.learner = Learner()
        self.trouble = ""  # why nothing newer is found, once that has lasted
        self.awaited = awaited(settings.kafka)
        self._versions = versions or Versions()
        self._missed = 0  # a version of another worker's that was looked for in vain
        self._looking = threading.Lock()
        self._failing_since: float | None = None
        self._settings = settings
        self._directory = settings.snapshots.directory
        self._unusable: set[int] = set()

    async def follow(self) -> None:
        """Look for news until cancelled; files are read and kernels warmed off the loop."""
        while True:
            await asyncio.to_thread(self._attempt)
            await asyncio.sleep(EVERY)

    def current(self) -> Served | None:
        """Give what to answer from: no older than what another worker has answered from.

        Each worker looks by itself: a caller of two would see the version step back, or one of
        them, begun a moment ago, say that there is none.
        """
        served, newest = self.served, self._versions.newest
        above = served.snapshot.version if served else 0
        if newest > max(above, self._missed):
            self._attempt()
            served = self.served
            if served is None or newest > served.snapshot.version:
                self._missed = newest
        return served

    def look(self) -> tuple[Served | None, Learner]:
        """Find what to serve from now on, and how the learner is."""
        with self._looking:
            served, self.learner = self.served, self._find_learner()
            above = served.snapshot.version if served else 0
            found = snapshots.newest(self._directory, above, self._unusable)
            if found:
                served = self._adopt(found) or served
            if served:
                self._versions.announce(served.snapshot.version)
                served = served._replace(stamp=self._stamp(served.snapshot, self.learner))
            self.served = served
            return served, self.learner

    def _attempt(self) -> None:
        try:
            self.look()
        except Exception as err:  # the door for the folder: whatever stands there, we go on
            self._fail(err)
        else:
            if self._failing_since is not None:
                self._failing_since, self.trouble = None, ""
                log.info("snapshots followed again")

    def _fail(self, err: Exception) -> None:
        """Log the first failure of a row; one that lasts makes answers stale."""
        now = time.monotonic()
        if self._failing_since is None:
            self._failing_since = now
            log.error("snapshots not followed", exc_info=err)
        if now - self._failing_since >= PATIENCE:
            self.trouble = f"newer snapshots cannot be looked for: {err!r}; the log says where"
            with self._looking:
                if self.served:
                    stamp = self._stamp(self.served.snapshot, self.learner)
                    self.served = self.served._replace(stamp=stamp)

    def _find_learner(self) -> Learner:
        age = snapshots.learner_age(self._directory)
        status = snapshots.read_status(self._directory)
        return Learner(age=age) if status is None else Learner(status.state, age, *status[1:])

    def _adopt(self, found: Snapshot) -> Served | None:
        """Make a snapshot ready to answer: its first prediction is not a caller's."""
        try:
            served = Served(found, self._door(found), self._stamp(found, self.learner))
            found.model.predictions(found.model.predict(empty(found, rows=1)))
            if self.served is None and found.model.explicable:
                found.model.explain(empty(found, rows=1))
        except Exception:  # the door for files: whatever one does to us, we serve the one before
            self._unusable.add(found.version)
            log.exception("snapshot not served", extra={"version": found.version})
            return None
        # The first is news; after it a version a second would bury everything else.
        level = logging.INFO if self.served is None else logging.DEBUG
        log.log(level, "snapshot served", extra={"version": found.version})
        return served

    def _door(self, found: Snapshot) -> Door:
        """Take the door there is, unless another schema came with a new model."""
        model, old = found.model, self.served
        if old and found.header["model"] == old.snapshot.header["model"]:
            return old.door
        decoder = Decoder(model.encoder.schema, model.labels, self._settings.features.unknown)
        return Door(decoder, model.labels, self._settings.api.max_rows)

    def _stamp(self, snapshot: Snapshot, learner: Learner) -> Stamp:
        limit = self._settings.api.stale_after_seconds
        silent = learner.age is None or learner.age > limit
        header = snapshot.header
        return Stamp(
            name=header["name"],
            version=snapshot.version,
            events_learned=header["events_learned"],
            snapshot_time=header["created"],
            cold_start=header["cold_start"],
            stale=learner.stopped or silent or bool(self.trouble),
        )


def awaited(kafka: Kafka) -> str:
    """Say what a learner must have done before it has anything to publish."""
    topics = f"topic {kafka.topic} and the one for dead letters"
    return f"reached the broker at {kafka.bootstrap_servers} and found {topics}"


def empty(snapshot: Snapshot, rows: int) -> Table:
    """Make rows of nothing but missing values."""
    return tabulate(snapshot.model.encoder.kinds, [{}] * rows)
