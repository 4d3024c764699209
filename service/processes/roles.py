"""The composition: settings become parts, and parts running processes; nothing else builds them."""

import gc
import itertools
import logging
import math
import os
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import FrameType

import uvicorn
from fastapi import FastAPI
from prometheus_client import CollectorRegistry, multiprocess

from kaboost.service.config.settings import Api, Settings
from kaboost.service.errors import ConfigError, Exit, KaboostError
from kaboost.service.http import routes as api
from kaboost.service.http.follower import Follower
from kaboost.service.http.newest_version import Versions, shared
from kaboost.service.learner import run as learner
from kaboost.service.learner.startup import RestoreFromCheckpoint, StartupFactory
from kaboost.service.metrics import api_metrics
from kaboost.service.processes.settings_pipe import handed
from kaboost.service.processes.supervisor import FOR_GOOD, TICK, Report, Role, backoff, supervise
from kaboost.service.river.follower import RiverFollower
from kaboost.service.river.shared_model import SharedModel
from kaboost.service.river.startup import ReplayFromTopic
from kaboost.service.storage.snapshots import FolderSnapshotStore

BACKLOG = 2048
NICE = (
    10  # of the learner: in a backlog a caller's p99 is waiting for a core, and learning can wait
)
METRICS_FOLDER = "PROMETHEUS_MULTIPROC_DIR"  # the metrics library reads it when it is imported
SWITCH = 0.001  # seconds that learning may keep the interpreter from a thread that answers
KEEP_ALIVE = 75  # seconds; longer than callers' pools keep a connection, so that they close first
AGAIN = "started again, after: "  # what a status begins with: the same may end it once more

log = logging.getLogger(__name__)


class Told:
    """What signals have said so far."""

    def __init__(self) -> None:
        self.stop = threading.Event()
        self._interrupted = False

    def hear(self, number: int, _: FrameType | None) -> None:
        """Take one signal."""
        self._interrupted |= number == signal.SIGINT
        self.stop.set()

    def code(self, code: int = Exit.DONE) -> int:
        """Give the exit code of a run that ended with `code`."""
        return Exit.INTERRUPTED if self._interrupted and code == Exit.DONE else code


def run_learner(settings: Settings, cold_start: bool = False, restarts: int = 0) -> int:
    """Learn until told to stop, and leave word of the end for the API processes."""
    refuse_live(settings, "kaboost learner")
    os.nice(NICE)  # before any thread starts: they inherit it
    with signals() as told:
        return told.code(learn(settings, told, cold_start, restarts))


def run_live(
    settings: Settings, door: socket.socket, cold_start: bool = False, restarts: int = 0
) -> int:
    """Learn and answer from one living model in one process, until told to stop.

    What ends the learning is no reason to forget the model: it answers on, stale. Where a new
    attempt may help, a second model is rebuilt beside it and takes its place.
    """
    sys.setswitchinterval(SWITCH)
    shared_model = SharedModel()
    startup = partial(ReplayFromTopic, shared=shared_model)
    with signals() as told, answering(settings, door, shared_model):
        for deaths in itertools.count(1):
            try:
                return told.code(learn(settings, told, cold_start, restarts + deaths - 1, startup))
            except KaboostError as err:
                final = err.exit_code in FOR_GOOD
                if shared_model.snapshot is None and not final:
                    raise
                shared_model.problem = f"learning ended: {err}"
                log.error("learning ended", extra={"reason": str(err), "final": final})
            wait(told, math.inf if final else backoff(deaths))
            if told.stop.is_set():
                return told.code()
    raise AssertionError("counting has no end")


def learn(
    settings: Settings,
    told: Told,
    cold_start: bool,
    restarts: int,
    startup: StartupFactory = RestoreFromCheckpoint,
) -> int:
    """Learn until told to stop, and leave word of the end for whoever answers."""
    collect_seldom()
    directory = settings.snapshots.directory
    leave_word(directory, "running", reason=before(directory) if restarts else "")
    try:
        code = learner.run(
            settings, cold_start=cold_start, stop=told.stop, restarts=restarts, startup=startup
        )
    except KaboostError as err:
        leave_word(directory, "stopped", err.exit_code, str(err))
        raise
    leave_word(directory, "stopped", code, "was told to stop")
    return code


def before(directory: Path) -> str:
    """Return why the learner before this one ended, where the supervisor started this one again."""
    said = FolderSnapshotStore(directory).read_status()
    return said.reason if said and said.reason.startswith(AGAIN) else ""


def collect_seldom() -> None:
    """Look for garbage of cycles seldom: a batch makes thousands of tuples and no cycle, and to
    look through them every 700 takes a quarter of the learner's time.
    """
    gc.set_threshold(100_000)


def run_api(settings: Settings) -> int:
    """Answer requests until told to stop; a worker, were it the only one, is brought back."""
    refuse_live(settings, "kaboost api")
    with signals() as told, listening(settings.api) as door, prepared(settings) as parent:
        return told.code(supervise(parent.workers(door), told.stop, parent.hear))


def run_serve(settings: Settings, cold_start: bool = False) -> int:
    """Learn and answer, in processes of their own that are brought back when they die."""
    if settings.is_live and settings.api.workers > 1:
        raise ConfigError(
            f"api.workers = {settings.api.workers}: a River model is served by the one process "
            "that learns it; leave it at 1"
        )
    with signals() as told, listening(settings.api) as door, prepared(settings) as parent:
        if settings.is_live:
            roles = [parent.live(cold_start, door)]
        else:
            roles = [parent.learner(cold_start), *parent.workers(door, learner_address(settings))]
        return told.code(supervise(roles, told.stop, parent.hear))


def run_worker(
    settings: Settings, door: socket.socket, versions: Versions, learner_metrics: str | None
) -> int:
    """Answer requests in this process until told to stop; those in flight are finished."""
    server = create_server(settings, create_api(settings, versions, learner_metrics))
    # What is loaded by now stays: to look through it for garbage holds all requests up for 50 ms.
    gc.freeze()
    # uvicorn passes a signal on once it has drained; here it then only says how we ended.
    with signals() as told:
        server.run(sockets=[door])
        return told.code()


@contextmanager
def answering(settings: Settings, door: socket.socket, shared_model: SharedModel) -> Iterator[None]:
    """Answer requests from a thread of its own; at the end those in flight are finished."""
    app = create_api(
        settings, None, learner_address(settings), RiverFollower(settings, shared_model)
    )
    server = create_server(settings, app)
    thread = threading.Thread(target=server.run, args=([door],), name="api", daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.should_exit = True
        thread.join()


def create_server(settings: Settings, app: FastAPI) -> uvicorn.Server:
    """Make the HTTP server of an application."""
    config = uvicorn.Config(
        app,
        http="httptools",
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=KEEP_ALIVE,
        timeout_graceful_shutdown=int(settings.api.timeout_seconds) + 1,
    )
    return uvicorn.Server(config)


def create_api(
    settings: Settings,
    versions: Versions | None = None,
    learner_metrics: str | None = None,
    follower: Follower | None = None,
) -> FastAPI:
    """Build the HTTP application and the parts it answers from."""
    registry = CollectorRegistry()
    metrics = api_metrics(registry)
    follower = follower or Follower(settings, versions)
    return api.build(api.Parts(settings, follower, metrics, registry, learner_metrics))


class Parent:
    """Knows how to start every role, and whom to tell what became of it."""

    def __init__(self, settings: Settings, descriptor: int, versions: int, metrics: Path) -> None:
        self._settings = settings
        self._descriptor = descriptor
        self._versions = versions
        self._metrics = metrics

    def learner(self, cold_start: bool) -> Role:
        """Describe the learner."""
        cold = ["--cold-start"] if cold_start else []  # it heeds that at its first start only

        def command(restarts: int) -> list[str]:
            return self._command("learner", "--restarts", str(restarts), *cold)

        return Role("learner", command, environment(), (self._descriptor,), FOR_GOOD)

    def live(self, cold_start: bool, door: socket.socket) -> Role:
        """Describe the one process that learns a living model and answers from it."""
        own = ["--socket", str(door.fileno()), *(["--cold-start"] if cold_start else [])]

        def command(restarts: int) -> list[str]:
            return self._command("live", "--restarts", str(restarts), *own)

        return Role("learner", command, environment(), (self._descriptor, door.fileno()), FOR_GOOD)

    def workers(self, door: socket.socket, learner_metrics: str | None = None) -> list[Role]:
        """Describe the API workers: all of them accept from one listening socket."""
        merged = [] if learner_metrics is None else ["--learner-metrics", learner_metrics]
        common = ["--socket", str(door.fileno()), "--versions", str(self._versions), *merged]
        env = environment() | {METRICS_FOLDER: str(self._metrics)}
        fds = (self._descriptor, door.fileno(), self._versions)

        def worker(number: int) -> Role:
            command = self._command("api", "--slot", str(number), *common)
            return Role(f"api-{number}", lambda _: command, env, fds)

        return list(map(worker, range(self._settings.api.workers)))

    def hear(self, report: Report) -> None:
        """Log what happened to a process; the learner's fate is for the API to tell as well."""
        log.log(
            logging.INFO if report.state == "running" else logging.ERROR,
            f"process {report.state}",
            extra={"role": report.role, "pid": report.pid, "reason": report.reason},
        )
        if report.role == "learner":
            self._pass_on(report)
        elif report.exit_code is not None:
            multiprocess.mark_process_dead(report.pid, str(self._metrics))  # type: ignore[no-untyped-call]

    def _pass_on(self, report: Report) -> None:
        directory = self._settings.snapshots.directory
        reason, said = report.reason, FolderSnapshotStore(directory).read_status()
        if report.exit_code is not None:  # it ended; its own word says more than its code
            if said and said.exit_code == report.exit_code:
                reason = f"{said.reason} ({report.reason})"
        elif said and said.state == "restarting":
            reason = AGAIN + said.reason
        leave_word(directory, report.state, report.exit_code, reason)

    def _command(self, role: str, *arguments: str) -> list[str]:
        # -P: a folder named kaboost in the working directory is not the package.
        python = [sys.executable, "-P", "-m", "kaboost.service.processes.child"]
        return [*python, role, "--settings", str(self._descriptor), *arguments]


@contextmanager
def prepared(settings: Settings) -> Iterator[Parent]:
    """Make what all children share: settings, versions, and a folder that their metrics meet in."""
    with (
        handed(settings) as descriptor,
        shared(settings.api.workers) as versions,
        tempfile.TemporaryDirectory(prefix="kaboost-metrics-") as folder,
    ):
        yield Parent(settings, descriptor, versions, Path(folder))


@contextmanager
def signals() -> Iterator[Told]:
    """Let SIGTERM and SIGINT ask for the end instead of bringing it."""
    told = Told()
    before = {each: signal.signal(each, told.hear) for each in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield told
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def listening(wanted: Api) -> Iterator[socket.socket]:
    """Take the port before anything is started: what cannot be had is said at once."""
    family = socket.AF_INET6 if ":" in wanted.host else socket.AF_INET
    try:
        door = socket.create_server((wanted.host, wanted.port), family=family, backlog=BACKLOG)
    except OSError as err:
        raise ConfigError(
            f"api.host = {wanted.host}, api.port = {wanted.port}: {err.strerror}; "
            "free it or set another"
        ) from err
    with door:
        log.info("listening", extra={"host": wanted.host, "port": door.getsockname()[1]})
        yield door


def refuse_live(settings: Settings, command: str) -> None:
    """Refuse half a service to a model that lives in the process that learns it."""
    if settings.is_live:
        raise ConfigError(
            f"model.river = {(settings.model or {})['river']}: {command} has no use for it, as it "
            "is learned and served by one process and has no snapshots: run kaboost serve"
        )


def wait(told: Told, seconds: float) -> None:
    """Wait so long, or until told to stop.

    Not stop.wait: a signal's handler that sets the event could meet its lock taken.
    """
    until = time.monotonic() + seconds
    while time.monotonic() < until and not told.stop.is_set():
        time.sleep(TICK)


def learner_address(settings: Settings) -> str:
    """Say where the learner's own metrics are found from this machine."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(settings.metrics.host, settings.metrics.host)
    bracketed = f"[{host}]" if ":" in host else host
    return f"http://{bracketed}:{settings.metrics.port}/metrics"


def environment() -> dict[str, str]:
    """Return the environment of a child: this one's, without the folder of metrics."""
    return {name: value for name, value in os.environ.items() if name != METRICS_FOLDER}


def leave_word(directory: Path, state: str, exit_code: int | None = None, reason: str = "") -> None:
    """Tell the API processes about the learner; a full disk is no reason to stop anything else."""
    try:
        FolderSnapshotStore(directory).write_status(state, exit_code, reason)
    except (OSError, KaboostError) as err:
        log.error("status not written", extra={"reason": str(err)})
