"""Learners that take turns: stand by until elected, lead, and stand by again after a loss."""

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from prometheus_client import CollectorRegistry

from kaboost.models.types import ModelError
from kaboost.service.config.models import make_model
from kaboost.service.config.settings import Settings
from kaboost.service.errors import (
    BrokerError,
    CheckpointError,
    ConfigError,
    FolderBusy,
    NotWritten,
    Superseded,
)
from kaboost.service.kafka.election import Election, create_topic, topic_of
from kaboost.service.learner import run as learner
from kaboost.service.learner.parts import decoder_of
from kaboost.service.learner.takeover import Report, no_report
from kaboost.service.metrics import standby_metrics
from kaboost.service.metrics_server import metrics_server
from kaboost.service.storage.led_store import LedCheckpointStore
from kaboost.service.storage.stores import led_store

POLL_SECONDS = 0.05
REPORT_SECONDS = 1.0
PAUSE_SECONDS = 2.0  # before a learner that could not lead joins the election again
REASON = "not elected; this learner follows the checkpoints of the leader"

log = logging.getLogger(__name__)


def run(
    settings: Settings, *, stop: threading.Event, restarts: int = 0, report: Report = no_report
) -> int:
    """Learn while elected, until asked to stop.

    1. Join the election.
    2. Stand by: copy the newest checkpoint, and compile.
    3. Once elected, claim the next leader epoch, and learn from the newest checkpoint on.
    4. When the election is lost, write a last checkpoint and snapshot, as far as store and readers
       take them from it: back to 2.
    5. When the epoch is lost, or the store is away, leave the election, so that another may lead,
       and join it again: back to 1.
    6. When asked to stop, write a last checkpoint and snapshot, then leave the election.
    """
    require_movable(settings)
    create_topic(settings.kafka, topic_of(settings.kafka, settings.standby))
    warm = Warm(settings)

    def lead(term: threading.Event) -> int:
        return learner.run(settings, cold_start=False, stop=term, restarts=restarts, report=report)

    while True:
        with Election(settings.kafka, settings.standby, stop) as election:
            code = _take_turns(settings, election, warm, lead, stop, report)
        if code is not None:
            return code
        _pause(settings, stop, report)


def _take_turns(
    settings: Settings,
    election: Election,
    warm: "Warm",
    lead: Callable[[threading.Event], int],
    stop: threading.Event,
    report: Report,
) -> int | None:
    """Stand by and lead in turn; return the exit code, or None where the election is to be left."""
    while True:
        with _standing_by(settings):
            if not _wait(settings, election, warm, stop, report):
                return 0
        reason = "the leadership was lost"
        try:
            code = lead(election.begin_term())
            if stop.is_set():
                return code
        except Superseded as err:
            log.warning("stepped down", extra={"reason": str(err)})
            return 0 if stop.is_set() else None
        except NotWritten as err:  # the store is away, perhaps for this learner alone
            if stop.is_set():
                raise
            log.error("stepped down", extra={"reason": str(err)})
            return None
        except BrokerError as err:
            if stop.is_set() or election.leads:
                raise  # the broker is there, and lacks what learning needs
            reason = f"the leadership was lost: {err}"
        log.warning("stepped down", extra={"reason": reason})


def _pause(settings: Settings, stop: threading.Event, report: Report) -> None:
    """Wait so that another is elected first."""
    until = time.monotonic() + PAUSE_SECONDS
    with _standing_by(settings):
        while time.monotonic() < until and not stop.is_set():
            report("standby", REASON)
            time.sleep(POLL_SECONDS)


def require_movable(settings: Settings) -> None:
    """Raise ConfigError where a standby could not take over what this learner has."""
    if settings.labels.topic is not None:
        raise ConfigError(
            f"labels.topic = {settings.labels.topic}: the features that wait for labels are on the "
            "disk of one learner, so no standby can take them over; leave out --standby"
        )
    if not settings.snapshots.publish:
        raise ConfigError(
            "snapshots.publish is empty: readers would not see a new leader's snapshots; name a "
            "place, such as kafka:TOPIC, and let them read it with kaboost api --from"
        )


class Warm:
    """What a standby has ready: the newest checkpoint in its folder, and compiled kernels."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._store: LedCheckpointStore = led_store(settings.checkpoints)
        self.is_clear = False  # what an earlier process has left in the folder is removed
        self._is_compiled = False
        self._next = 0.0
        self._problem = ""

    def follow(self) -> None:
        """Copy a newer checkpoint from time to time; a failure is logged once and tried again."""
        now = time.monotonic()
        if now < self._next and self.is_clear:
            return
        self._next = now + self._settings.standby.follow_seconds
        try:
            if not self.is_clear:
                self._store.clear()
            self.is_clear = True
            self._store.follow()
            if not self._is_compiled:
                self._compile()
        except (CheckpointError, FolderBusy) as err:  # busy: a process before this one is ending
            if self._problem != str(err):
                log.warning("checkpoints are not followed", extra={"reason": str(err)})
            self._problem = str(err)
        else:
            self._problem = ""

    def _compile(self) -> None:
        """Let a copy of the model learn nothing, which compiles all that learning needs."""
        checkpoint, _ = self._store.restore()
        self._is_compiled = True  # tried once: the start of the leader reports what is wrong
        try:
            model = checkpoint.state.model if checkpoint else make_model(self._settings)
            decoded = decoder_of(model, self._settings).decode([])
            model.learn(decoded.table, decoded.y, decoded.w)
            model.warm_growth()
        except ModelError as err:
            log.error("standby cannot learn this model", extra={"reason": str(err)})
            return
        log.info("standby ready", extra={"checkpoint": checkpoint is not None})


def _wait(
    settings: Settings, election: Election, warm: Warm, stop: threading.Event, report: Report
) -> bool:
    """Wait until elected; return false if asked to stop before."""
    reported = 0.0
    log.info("standing by", extra={"topic": election.topic})
    while not stop.is_set():
        if election.leads and warm.is_clear:
            return True
        warm.follow()
        if time.monotonic() - reported >= REPORT_SECONDS:
            reported = time.monotonic()
            problem = f"; {election.problem}" if election.problem else ""
            report("standby", f"{REASON}{problem}")
        time.sleep(POLL_SECONDS)  # no stop.wait: see ShutdownSignal.wait
    return False


@contextmanager
def _standing_by(settings: Settings) -> Iterator[None]:
    """Serve the metrics of a learner that does not lead."""
    registry = CollectorRegistry()
    standby_metrics(registry)
    at, keys = settings.metrics, ("metrics.port", "metrics.host")
    with metrics_server(at.host, at.port, registry, keys):
        yield
