"""The composition: build the parts from the settings and run them; nothing else builds them."""

import gc
import itertools
import logging
import math
import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from kaboost.service.access.authenticator import check_access
from kaboost.service.config.settings import Settings
from kaboost.service.errors import ConfigError, KaboostError
from kaboost.service.http.newest_version import WorkerVersions
from kaboost.service.learner import run as learner
from kaboost.service.learner import standby
from kaboost.service.learner.startup import RestoreFromCheckpoint, StartupFactory
from kaboost.service.processes.admin_server import serve_commands
from kaboost.service.processes.api_server import create_api, create_server
from kaboost.service.processes.children import shared_resources
from kaboost.service.processes.draining_server import Draining
from kaboost.service.processes.ports import (
    is_serving,
    learner_metrics_url,
    open_listener,
    reserve_metrics_port,
)
from kaboost.service.processes.readers import local_snapshots, refuse_source
from kaboost.service.processes.signals import ShutdownSignal, handle_signals
from kaboost.service.processes.status import is_of_another, previous_exit_reason, write_status
from kaboost.service.processes.supervisor import (
    DRAIN_SECONDS,
    FINAL_EXIT_CODES,
    backoff,
    supervise,
)
from kaboost.service.river.follower import RiverFollower
from kaboost.service.river.shared_model import SharedModel
from kaboost.service.river.startup import ReplayFromTopic
from kaboost.service.storage.stores import checkpoint_store, snapshot_store

LEARNER_NICENESS = 10  # in a backlog requests and learning compete for cores: requests go first
GRACE_SECONDS = 5.0  # for a learner to end after it has drained
PORT_SECONDS = 1.0  # between two attempts at a port
RUNNING_ATTEMPTS = 3  # at a port of a service that answers: one that ends notices it in less
SWITCH_SECONDS = 0.001  # that learning may hold the interpreter while a request waits

log = logging.getLogger(__name__)


def run_learner(settings: Settings, cold_start: bool = False, restarts: int = 0) -> int:
    """Learn until a signal, and write the reason of the end for the API processes."""
    refuse_river(settings, "kaboost learner")
    refuse_source(settings, "kaboost learner")
    if settings.standby.enabled:
        standby.require_movable(settings)
    if settings.standby.enabled and cold_start:
        raise ConfigError(
            "--cold-start with --standby would begin a new model at every turn: begin it with "
            "kaboost learner --cold-start, end that with SIGTERM, then start all with --standby"
        )
    os.nice(LEARNER_NICENESS)  # before any thread starts: threads inherit it
    with handle_signals() as shutdown, serve_commands(settings):
        return shutdown.exit_code(learn(settings, shutdown, cold_start, restarts))


def run_live(
    settings: Settings,
    listener: socket.socket,
    versions: WorkerVersions,
    cold_start: bool = False,
    restarts: int = 0,
) -> int:
    """Learn and serve a River model in one process, until a signal.

    After an error in learning the last state is still served, as stale. If a retry may help, a
    second model is rebuilt meanwhile and replaces it.
    """
    sys.setswitchinterval(SWITCH_SECONDS)
    shared = SharedModel()
    startup = partial(ReplayFromTopic, shared=shared)
    with (
        handle_signals() as shutdown,
        serve_in_thread(settings, listener, shared, versions, shutdown),
    ):
        for attempt in itertools.count(1):
            try:
                code = learn(settings, shutdown, cold_start, restarts + attempt - 1, startup)
                return shutdown.exit_code(code)
            except KaboostError as err:
                final = err.exit_code in FINAL_EXIT_CODES
                if shared.snapshot is None and not final:
                    raise
                shared.problem = f"learning ended: {err}"
                log.error("learning ended", extra={"reason": str(err), "final": final})
            shutdown.wait(math.inf if final else backoff(attempt))
            if shutdown.stop.is_set():
                return shutdown.exit_code()
    raise AssertionError("counting has no end")


def learn(
    settings: Settings,
    shutdown: ShutdownSignal,
    cold_start: bool,
    restarts: int,
    startup: StartupFactory = RestoreFromCheckpoint,
) -> int:
    """Run the learner's loop, and write its status at the start and at the end.

    At the end only if it is the status of this process: another may wait for it, or work by now.
    """
    collect_garbage_rarely()
    snapshots = snapshot_store(settings.snapshots)
    previous = previous_exit_reason(snapshots) if restarts else ""

    def report(state: str, reason: str) -> None:
        write_status(snapshots, state, reason=reason or previous)

    try:
        if settings.standby.enabled:
            code = standby.run(settings, stop=shutdown.stop, restarts=restarts, report=report)
        else:
            code = learner.run(
                settings,
                cold_start=cold_start,
                stop=shutdown.stop,
                restarts=restarts,
                startup=startup,
                report=report,
            )
    except KaboostError as err:
        if not is_of_another(snapshots):
            write_status(snapshots, "stopped", err.exit_code, str(err))
        raise
    if not is_of_another(snapshots):
        write_status(snapshots, "stopped", code, "was stopped by a signal")
    return code


def collect_garbage_rarely() -> None:
    """Search for reference cycles rarely: a batch makes thousands of tuples and no cycle, and
    scanning them every 700 takes a quarter of the learner's time.
    """
    gc.set_threshold(100_000)


def run_api(settings: Settings) -> int:
    """Serve requests until a signal; a worker that ends is restarted, also a single one."""
    refuse_river(settings, "kaboost api")
    check_access(settings)
    with (
        handle_signals() as shutdown,
        open_listener(settings.api) as listener,
        local_snapshots(settings) as local,
        shared_resources(local) as factory,
    ):
        roles = factory.workers(listener)
        code = supervise(roles, shutdown.stop, factory.on_report, listener.close)
        return shutdown.exit_code(code)


def run_serve(settings: Settings, cold_start: bool = False) -> int:
    """Learn and serve in supervised processes."""
    refuse_source(settings, "kaboost serve")
    if settings.standby.enabled:
        raise ConfigError(
            "standby.enabled: the processes of kaboost serve share one folder; run kaboost learner "
            "--standby on each machine, and kaboost api --from"
        )
    if settings.is_live and settings.api.workers > 1:
        raise ConfigError(
            f"api.workers = {settings.api.workers}: a River model is served by the one process "
            "that learns it; leave it at 1"
        )
    check_access(settings)
    with (
        handle_signals() as shutdown,
        open_listener(settings.api, wait := wait_for_predecessor(settings, shutdown)) as listener,
        reserve_metrics_port(settings, wait) as bound,
        serve_commands(settings, wait),
        shared_resources(bound) as factory,
    ):
        if bound.is_live:
            roles = [factory.live(cold_start, listener)]
        else:
            workers = factory.workers(listener, learner_metrics_url(bound))
            roles = [factory.learner(cold_start), *workers]
        code = supervise(roles, shutdown.stop, factory.on_report, listener.close)
        return shutdown.exit_code(code)


def wait_for_predecessor(settings: Settings, shutdown: ShutdownSignal) -> Callable[[], bool]:
    """Return what waits a little for the ports of a service whose supervisor was killed.

    Its processes drain, and its learner leaves the folder last. True while it has not. A service
    that still answers after some attempts is not ending: its ports are not waited for.
    """
    store = checkpoint_store(settings.checkpoints)
    until = time.monotonic() + DRAIN_SECONDS + GRACE_SECONDS
    seen, logged = itertools.count(1), ""
    # Over mutual TLS it does not show that it ends: it gets the time that it takes to.
    hidden = settings.api.drain_seconds if settings.api.tls.client_ca else 0.0
    attempts = RUNNING_ATTEMPTS + math.ceil(hidden / PORT_SECONDS)

    def wait() -> bool:
        nonlocal logged
        holder = None if time.monotonic() > until or shutdown.stop.is_set() else store.holder()
        if holder is None:
            return False
        runs = is_serving(settings.api)
        reason = f"{holder} is running" if runs else f"{holder} has not ended yet"
        if reason != logged:
            logged = reason
            log.warning("waiting for a port", extra={"reason": reason})
        if runs and next(seen) == attempts:
            return False
        shutdown.wait(PORT_SECONDS)
        return True

    return wait


def run_worker(
    settings: Settings,
    listener: socket.socket,
    versions: WorkerVersions,
    learner_metrics: str | None,
) -> int:
    """Serve requests in this process until a signal; those in flight are finished."""
    draining = Draining()
    app = create_api(settings, versions, learner_metrics, is_draining=draining)
    server = create_server(settings, app, draining)
    # What is loaded by now stays: scanning it for reference cycles would stop requests for 50 ms.
    gc.freeze()
    # uvicorn raises a signal again once it has drained; here it then only sets the exit code.
    with handle_signals() as shutdown:
        server.is_asked_to_end = shutdown.stop.is_set
        server.run(sockets=[listener])
        return shutdown.exit_code()


@contextmanager
def serve_in_thread(
    settings: Settings,
    listener: socket.socket,
    shared: SharedModel,
    versions: WorkerVersions,
    shutdown: ShutdownSignal,
) -> Iterator[None]:
    """Serve requests from a thread; at the end those in flight are finished."""
    draining = Draining()
    app = create_api(
        settings,
        versions,
        learner_metrics_url(settings),
        RiverFollower(settings, shared),
        is_draining=lambda: draining() or shutdown.stop.is_set(),
    )
    server = create_server(settings, app, draining)
    thread = threading.Thread(target=server.run, args=([listener],), name="api", daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.should_exit = True
        thread.join()


def refuse_river(settings: Settings, command: str) -> None:
    """Refuse commands for separate processes with a River model, which needs one process."""
    if settings.is_live:
        raise ConfigError(
            f"model.river = {(settings.model or {})['river']}: {command} does not support it, as "
            "a River model is learned and served by one process and has no snapshots: run kaboost "
            "serve"
        )
