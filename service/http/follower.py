"""Follow the newest snapshot and the learner's heartbeat: what requests are served from."""

import asyncio
import logging
import threading
import time
from typing import NamedTuple

from kaboost.models.features.onehot import Table
from kaboost.models.features.rows import tabulate
from kaboost.models.kernels.compile_progress import (
    SERVING,
    CompileProgress,
    observe_compilation,
)
from kaboost.service.config.settings import Settings
from kaboost.service.events.json import JsonDecoder
from kaboost.service.http.newest_version import WorkerVersions, order
from kaboost.service.http.predict import PredictCodec, Stamp
from kaboost.service.storage.heartbeat import HeartbeatAge
from kaboost.service.storage.snapshots import Condition, Numbering, Snapshot, Status
from kaboost.service.storage.stores import snapshot_store

POLL_SECONDS = 0.1
FIRST_LOOK_SECONDS = 3.0  # that requests wait for the first look into the folder
FAILING_SECONDS = 3.0  # of failed polls before predictions count as stale
ALIVE_SECONDS = 3.0  # the learner beats every second: a recent heartbeat overrides its status file

log = logging.getLogger(__name__)


class LearnerStatus(NamedTuple):
    """What other processes know about the learner."""

    state: str = "unknown"
    age: float | None = None  # seconds since its heartbeat was seen to move
    exit_code: int | None = None
    reason: str = ""
    condition: Condition = Condition()
    pid: int | None = None  # of the learner whose state it is
    heartbeat_pid: int | None = None  # of the learner that gave the last heartbeat
    state_age: float = 0.0  # seconds since this process has seen the state and its pid change

    @property
    def is_another(self) -> bool:
        """Whether the last heartbeat is that of another process than the state."""
        return None not in (self.pid, self.heartbeat_pid) and self.pid != self.heartbeat_pid

    @property
    def stopped(self) -> bool:
        """Whether it is down and will not be restarted."""
        return self.state == "stopped" and not self.is_alive

    @property
    def is_alive(self) -> bool:
        """Whether its last heartbeat is recent."""
        return self.age is not None and self.age <= ALIVE_SECONDS


class Served(NamedTuple):
    """One snapshot version and what is needed to serve it; a request reads it once."""

    snapshot: Snapshot
    codec: PredictCodec
    stamp: Stamp


class Follower:
    """Hold the served snapshot; it is swapped between requests, never during one."""

    no_model_message = "no snapshot is loaded yet"

    def __init__(self, settings: Settings, versions: WorkerVersions | None = None) -> None:
        self.served: Served | None = None
        self.learner = LearnerStatus()
        self.problem = ""  # why no newer snapshot can be read, after FAILING_SECONDS
        self.source_problem = ""  # why none comes from where this reader has its snapshots
        self.waiting_for = learner_prerequisites(settings)
        self._versions = versions or WorkerVersions()
        self._missed = (
            0  # order of the newest version of another worker that could not be read here
        )
        self._lock = threading.Lock()
        self._catching_up: asyncio.Future[None] | None = None
        self._looks_until = time.monotonic() + FIRST_LOOK_SECONDS
        self._has_looked = False
        self._failing_since: float | None = None
        self._settings = settings
        self._snapshots = snapshot_store(settings.snapshots)
        self._heartbeat_age = HeartbeatAge(self._snapshots.last_heartbeat)
        self._status: Status | None = None
        self._status_since = time.monotonic()
        self._unusable: set[int] = set()
        self._compilation: CompileProgress | None = None  # of the first prediction here

    async def follow(self) -> None:
        """Poll until cancelled; files are read and kernels warmed in a thread."""
        while True:
            await asyncio.to_thread(self._poll)
            await asyncio.sleep(POLL_SECONDS)

    def current(self) -> Served | None:
        """Return what to serve from; it reads no file."""
        return self.served

    @property
    def reason(self) -> str:
        """Why no newer model is served, or will be; empty if one is, or will be soon."""
        condition = self.learner.condition
        compiling = condition.compiling
        compilation = self._compilation  # read once: another thread ends it
        own = compilation.describe() if compilation else ""
        if not own and compiling and self.learner.is_alive:
            own = f"the learner is {compiling}"
        stalled = condition.stalled if self.learner.is_alive else ""
        reasons = [
            self.problem,
            self.source_problem,
            condition.paused,
            condition.fallback,
            stalled,
            condition.problem,
            own,
        ]
        return "; ".join(filter(None, reasons))

    @property
    def learns_nothing(self) -> bool:
        """Whether the records are rejected, and nothing good that was learned before is served.

        What has learned from no label, but only from features that expired, is not good.
        """
        served, late = self.current(), self.learner.condition.late_labels
        learned = served is not None and served.stamp.events_learned > 0
        is_good = learned and (late is None or late.joined > 0)
        return self._is_failing(self.learner) and not is_good

    async def catch_up(self) -> None:
        """Read, in a thread, a version that another worker already serves.

        Workers poll independently: without this a client of two workers could see the version
        decrease, or a worker that has just started report that there is no model.
        """
        await self._first_look()
        while self._is_behind():
            if self._catching_up is None or self._catching_up.done():
                self._catching_up = asyncio.ensure_future(asyncio.to_thread(self._read_announced))
            await asyncio.shield(self._catching_up)  # shared: one client's end cancels no other's

    def refresh(self) -> tuple[Served | None, LearnerStatus]:
        """Read the newest snapshot and the learner's status."""
        with self._lock:
            served, self.learner = self.served, self._read_status()
            self.source_problem = self._snapshots.source_problem()
            epoch, version = served.snapshot.numbering if served else Numbering()
            newer = self._snapshots.newest(version, self._unusable, epoch)
            if newer:
                served = self._adopt(newer) or served
            if served:
                self._versions.announce(order(*served.snapshot.numbering))
                served = served._replace(stamp=self._stamp(served.snapshot, self.learner))
            self.served = served
            return served, self.learner

    async def _first_look(self) -> None:
        """Wait until the folder was read once: a service that has just been started again has a
        model, and would refuse the requests that come before.
        """
        while not (self.served or self._has_looked) and time.monotonic() < self._looks_until:
            await asyncio.sleep(POLL_SECONDS / 5.0)

    def _is_behind(self) -> bool:
        served = order(*self.served.snapshot.numbering) if self.served else 0
        return self._versions.newest > max(served, self._missed)

    def _read_announced(self) -> None:
        newest = self._versions.newest
        self._poll()
        if self.served is None or newest > order(*self.served.snapshot.numbering):
            self._missed = newest

    def _poll(self) -> None:
        try:
            self.refresh()
        except Exception as err:  # boundary: no content of the folder may stop serving
            self._record_failure(err)
        else:
            if self._failing_since is not None:
                self._failing_since, self.problem = None, ""
                log.info("snapshots followed again")
        self._has_looked = True

    def _record_failure(self, err: Exception) -> None:
        """Log the first failure in a row; failing for longer makes predictions stale."""
        now = time.monotonic()
        if self._failing_since is None:
            self._failing_since = now
            log.error("snapshots not followed", exc_info=err)
        if now - self._failing_since >= FAILING_SECONDS:
            self.problem = f"newer snapshots cannot be read: {err!r}; the log has the traceback"
            with self._lock:
                if self.served:
                    stamp = self._stamp(self.served.snapshot, self.learner)
                    self.served = self.served._replace(stamp=stamp)

    def _read_status(self) -> LearnerStatus:
        age = self._heartbeat_age.seconds()
        status, now = self._snapshots.read_status(), time.monotonic()
        if status != self._status:
            self._status, self._status_since = status, now
        learner = LearnerStatus(
            age=age,
            condition=self._snapshots.read_condition(),
            heartbeat_pid=self._snapshots.heartbeat_pid(),
        )
        if status is None:
            return learner
        return learner._replace(**status._asdict(), state_age=now - self._status_since)

    def _adopt(self, snapshot: Snapshot) -> Served | None:
        """Prepare a snapshot for serving; a first prediction compiles before a client asks."""
        try:
            served = Served(snapshot, self._codec(snapshot), self._stamp(snapshot, self.learner))
            self._warm(snapshot)
        except Exception:  # boundary: an unusable file must not stop serving the one before
            self._unusable.add(snapshot.version)
            log.exception("snapshot not served", extra={"version": snapshot.version})
            return None
        if self.served and self.served.snapshot.numbering.epoch != snapshot.numbering.epoch:
            self._unusable.clear()  # versions of another epoch
            fields = {"version": snapshot.version, "before": self.served.snapshot.version}
            log.warning("all files of the learner were lost: versions begin again", extra=fields)
        # Only the first is worth a line: with a version a second all others would bury the log.
        level = logging.INFO if self.served is None else logging.DEBUG
        log.log(level, "snapshot served", extra={"version": snapshot.version})
        return served

    def _warm(self, snapshot: Snapshot) -> None:
        """Predict once, and the first time explain once."""
        model, rows = snapshot.model, missing_rows(snapshot, rows=1)
        if self.served is not None:
            model.predictions(model.predict(rows))
            return
        with observe_compilation(SERVING, model.spec, time.monotonic) as self._compilation:
            model.predictions(model.predict(rows))
            if model.explicable:
                model.explain(rows)
        self._compilation = None

    def _codec(self, snapshot: Snapshot) -> PredictCodec:
        """Keep the codec unless the new snapshot has another schema."""
        model, previous = snapshot.model, self.served
        if previous and snapshot.header["model"] == previous.snapshot.header["model"]:
            open_kinds = previous.snapshot.model.encoder.schema.open
            if open_kinds == model.encoder.schema.open:
                return previous.codec
        unknown, limit = self._settings.features.unknown, self._settings.api.max_rows
        decoder = JsonDecoder(model.encoder.schema, model.labels, unknown)
        return PredictCodec(decoder, model.labels, limit, ignore_keys=unknown == "ignore")

    def _stamp(self, snapshot: Snapshot, learner: LearnerStatus) -> Stamp:
        limit = self._settings.api.stale_after_seconds
        silent = learner.age is None or learner.age > limit
        condition = learner.condition
        problem = self.problem or self.source_problem
        stalled = bool(problem or condition.stalled or condition.paused)
        header = snapshot.header
        return Stamp(
            name=header["name"],
            version=snapshot.version,
            events_learned=header["events_learned"],
            snapshot_time=header["created"],
            cold_start=header["cold_start"],
            stale=learner.stopped or silent or stalled or self._is_failing(learner),
            fallback=bool(header.get("fallback")),
        )

    def _is_failing(self, learner: LearnerStatus) -> bool:
        return learner.condition.is_failing(self._settings.api.max_rejected_ratio)


def learner_prerequisites(settings: Settings) -> str:
    """Describe what a learner must have done before it can publish."""
    kafka, labels = settings.kafka, settings.labels.topic
    others = f", topic {labels}" if labels else ""
    topics = f"topic {kafka.topic}{others} and the one for dead letters"
    return f"reached the broker at {kafka.bootstrap_servers} and found {topics}"


def missing_rows(snapshot: Snapshot, rows: int) -> Table:
    """Make rows in which every value is missing."""
    return tabulate(snapshot.model.encoder.kinds, [{}] * rows)
