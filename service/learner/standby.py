"""Learners that take turns: stand by until elected, lead, and stand by again after a loss."""

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from prometheus_client import CollectorRegistry

from kaboost.models.types import ModelError
from kaboost.service.config.models import make_model
from kaboost.service.config.settings import Settings
from kaboost.service.errors import CheckpointError, ConfigError, Superseded
from kaboost.service.kafka.election import Election
from kaboost.service.learner import run as learner
from kaboost.service.learner.parts import decoder_of
from kaboost.service.learner.takeover import Report, no_report
from kaboost.service.metrics import standby_metrics
from kaboost.service.metrics_server import metrics_server
from kaboost.service.storage.led_store import LedCheckpointStore
from kaboost.service.storage.stores import led_store

POLL_SECONDS = 0.05
REPORT_SECONDS = 1.0
REASON = "another learner leads; this one follows its checkpoints"

log = logging.getLogger(__name__)


def run(
    settings: Settings, *, stop: threading.Event, restarts: int = 0, report: Report = no_report
) -> int:
    """Learn while elected, until asked to stop.

    1. Join the election.
    2. Stand by: copy the newest checkpoint, and compile.
    3. Once elected, claim the next leader epoch, and learn from the newest checkpoint on.
    4. When the election or the epoch is lost, what is not written is given up: back to 2.
    5. When asked to stop, write a last checkpoint and snapshot, then leave the election.
    """
    settings = with_led_store(settings)
    warm = Warm(settings)
    with Election(settings.kafka, settings.standby, stop) as election:
        while True:
            with _standing_by(settings):
                if not _wait(settings, election, warm, stop, report):
                    return 0
            term = election.begin_term()
            try:
                code = learner.run(
                    settings, cold_start=False, stop=term, restarts=restarts, report=report
                )
            except Superseded as err:
                log.warning("stepped down", extra={"reason": str(err)})
            else:
                if stop.is_set():
                    return code
                log.warning("stepped down", extra={"reason": "the leadership was lost"})


def with_led_store(settings: Settings) -> Settings:
    """Return settings whose checkpoints have a URL; refuse what cannot change its place."""
    require_movable(settings)
    checkpoints = settings.checkpoints
    if isinstance(checkpoints.directory, str):
        return settings
    url = f"file://{checkpoints.directory.resolve()}"
    checkpoints = checkpoints.model_copy(update={"directory": url})
    return settings.model_copy(update={"checkpoints": checkpoints})


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
        self._store.clear()
        self._is_compiled = False
        self._next = 0.0
        self._problem = ""

    def follow(self) -> None:
        """Copy a newer checkpoint from time to time; a failure is logged once and tried again."""
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + self._settings.standby.follow_seconds
        try:
            self._store.follow()
            if not self._is_compiled:
                self._compile()
        except CheckpointError as err:
            if self._problem != str(err):
                log.warning("checkpoints are not followed", extra={"reason": str(err)})
            self._problem = str(err)
        else:
            self._problem = ""

    def _compile(self) -> None:
        """Let a copy of the model learn nothing, which compiles all that learning needs."""
        checkpoint, _ = self._store.restore()
        with suppress(ModelError):  # the start of the leader reports it
            model = checkpoint.state.model if checkpoint else make_model(self._settings)
            decoded = decoder_of(model, self._settings).decode([])
            model.learn(decoded.table, decoded.y, decoded.w)
            model.warm_growth()
        self._is_compiled = True
        log.info("standby ready", extra={"checkpoint": checkpoint is not None})


def _wait(
    settings: Settings, election: Election, warm: Warm, stop: threading.Event, report: Report
) -> bool:
    """Wait until elected; return false if asked to stop before."""
    reported = 0.0
    log.info("standing by", extra={"topic": election.topic})
    while not stop.is_set():
        if election.leads:
            return True
        warm.follow()
        if time.monotonic() - reported >= REPORT_SECONDS:
            reported = time.monotonic()
            report("standby", REASON)
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
